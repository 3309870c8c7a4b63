//! The kernel cuts the same packets into the same frames: `ringside_segment` against Linux's own
//! segmentation (GSO), byte for byte, and its partial checksums as the kernel finishes them.

use crate::common::{config, tool};
use ringside_core::{InterfaceId, QueueId};
use ringside_lab::{Lab, LabConfig, RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_netdev as netdev;
use ringside_segment::{
    Checksum, Cut, LinearChecksum, Pieces, Position, SegPlan, Segmenter, Settings, Template,
};
use ringside_sys::netns::Namespace;
use ringside_sys::packet::{CaptureDirection, FilterProgram, PacketConfig, PacketRing};
use ringside_sys::packet_gso::{
    DATAGRAMS_MAX, GSO_PARTS_MAX, Gso, GsoKind, GsoTx, PartialChecksum, VnetHeader,
};
use ringside_testkit::stacks::{Header, Stack, Wanted};
use ringside_testkit::{Random, need_root, need_tool};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Frames on their way at once: the kernel's queue between the ends takes 1,000.
const ON_THEIR_WAY_MAX: usize = 700;
/// Frames of one packet; the kernel makes that many datagrams at most.
const FRAMES_MAX: usize = DATAGRAMS_MAX;
const MTU_BYTES: u32 = 9000;
/// Ethernet, IPv6, UDP and VXLAN around a frame; IPv4 has 20 bytes less.
const TUNNEL_BYTES: usize = 70;
/// A bound for a test that would hang; it decides nothing else.
const WAIT: Duration = Duration::from_secs(60);

/// Runs `work` in a network namespace; what it opens stays there.
fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            Namespace::open(namespace).unwrap().enter().unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

fn ifindex(name: &str) -> u32 {
    netdev::by_name(name).unwrap().unwrap().ifindex
}

/// Both ends of a test network: packets go in at one, frames come out at the other.
struct Ends {
    lab: Lab,
    sender: GsoTx,
    receiver: PacketRing,
    received: VecDeque<Vec<u8>>,
}

impl Ends {
    /// `sending` is the interface that takes the packets; `prepare` makes it, if it must.
    fn new(name: &str, sending: &str, prepare: impl FnOnce(&Lab)) -> Ends {
        // Without a NAPI the kernel's own queue is between the ends, which holds a packet's frames.
        let settings = LabConfig { mtu: MTU_BYTES, xdp_pass: false, ..config(name) };
        let lab = Lab::up(&settings).unwrap();
        let namespace = &lab.status().sender_namespace;
        tool(&format!("ip netns exec {namespace} ethtool -K tx0 tx-udp-segmentation off"));
        prepare(&lab);
        let sender = inside(namespace, || GsoTx::open(ifindex(sending), false).unwrap());
        let receiver = inside(&lab.status().receiver_namespace, || {
            let mut ring = PacketRing::open(&PacketConfig {
                ifindex: ifindex("rx0"),
                interface: InterfaceId(0),
                queue: QueueId(0),
                block_bytes: 1 << 20,
                block_count: 32,
                block_timeout_ms: 1,
                fanout: None,
                promiscuous: false,
                direction: CaptureDirection::Inbound,
                hardware_timestamps: false,
                receive_hash: false,
                snaplen_bytes: u32::MAX,
                ethernet: true,
            })
            .unwrap();
            ring.start(FilterProgram::AcceptAll).unwrap();
            ring
        });
        Ends { lab, sender, receiver, received: VecDeque::new() }
    }

    /// Sends the whole plan as one packet, which the kernel cuts.
    fn send(&self, plan: &SegPlan<'_>, pieces: &[&[u8]], stack: &Stack, cut: Cut) {
        let uncut = plan.uncut().unwrap();
        let mut header = vec![0; uncut.header_bytes()];
        let written = uncut.write_header(&mut header, Checksum::Offload).unwrap();
        let left = written.offload.unwrap();
        let (start, offset) = (left.start, left.offset);
        assert_eq!(stack.checksum_place(), (start.into(), offset.into()));
        let is_v6 = stack.0.iter().rev().nth(1).is_some_and(|h| matches!(h, Header::Ipv6 { .. }));
        let (kind, has_cwr) = match (stack.0.last().unwrap(), cut) {
            (Header::Tcp { flags, .. }, _) if is_v6 => (GsoKind::TcpV6, flags & 0x80 != 0),
            (Header::Tcp { flags, .. }, _) => (GsoKind::TcpV4, flags & 0x80 != 0),
            (_, Cut::Segments) => (GsoKind::UdpDatagrams, false),
            (_, Cut::Fragments { .. }) => (GsoKind::UdpFragments, false),
        };
        let size = plan.mss_bytes() as u16;
        let gso = Gso { kind, size, header_bytes: header.len() as u16, has_cwr };
        let gso = (plan.frame_count() > 1).then_some(gso);
        let vnet = VnetHeader { checksum: Some(PartialChecksum { start, offset }), gso };
        let parts: Vec<&[u8]> = [&[&header[..]], pieces].concat();
        let sent = self.sender.send(vnet, &parts);
        assert!(sent.is_ok(), "{sent:?}: {vnet:?} {stack:?} {} bytes", plan.payload_bytes());
    }

    /// The next `count` frames.
    fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let start = Instant::now();
        while self.received.len() < count {
            self.receiver.wait(Duration::from_millis(20)).unwrap();
            self.receiver.fill(None);
            if let Some(batch) = self.receiver.lend() {
                // An end with an IPv6 address reports its groups.
                let ours = batch.iter().filter(|frame| !frame.bytes.starts_with(&[0x33, 0x33]));
                self.received.extend(ours.map(|frame| frame.bytes.to_vec()));
            }
            let (got, namespace) = (self.received.len(), &self.lab.status().receiver_namespace);
            assert!(start.elapsed() < WAIT, "{got} of {count} frames in {namespace}");
        }
        self.received.drain(..count).collect()
    }
}

/// A packet, and how it is cut.
struct Case {
    stack: Stack,
    template: Template,
    payload: Vec<u8>,
    settings: Settings,
}

impl Case {
    fn random(random: &mut Random, tunnel: bool) -> Case {
        let is_fragmented = !tunnel && random.below(5) == 0;
        let is_tcp = is_fragmented.then_some(false);
        let wanted =
            Wanted { is_tcp, is_fragmentable: is_fragmented, is_summed: true, tunnels_max: 0 };
        let mut stack = Stack::random(random, wanted);
        if let Some(Header::Ipv6 { extensions, before_fragment, .. }) =
            stack.0.iter_mut().nth_back(1)
            && is_fragmented
        {
            // Linux counts extension headers as content when it reckons the offsets of fragments
            // (`ipv6_gso_segment`), so that no host could put the packet together.
            extensions.clear();
            *before_fragment = 0;
        }
        if tunnel {
            // With tags the kernel cuts before the tunnel, whose ports then differ.
            stack.0.retain(|header| !matches!(header, Header::Tag { .. }));
        }
        let most = 65_535 - TUNNEL_BYTES - stack.header_bytes();
        let bytes = match random.below(4) {
            0 => random.below(100),
            1 => random.below(most + 1),
            _ => random.below(5000),
        };
        let mss_max = MTU_BYTES as usize - TUNNEL_BYTES - 150;
        let below = [1500, mss_max][random.below(2)];
        let mss = 8 + random.below(below);
        let mut mss = mss.max(bytes.div_ceil(FRAMES_MAX - 1)).min(mss_max);
        let mut cut = Cut::Segments;
        if is_fragmented {
            (cut, mss) = (Cut::Fragments { id: 0 }, mss.next_multiple_of(8));
        }
        let template = Template::parse(&stack.uncut(&[])).unwrap();
        let settings = Settings { cut, mss_bytes: Some(mss), ..Settings::mtu(MTU_BYTES as usize) };
        Case { stack, template, payload: random.bytes(bytes), settings }
    }

    fn segmenter(&self) -> Segmenter {
        Segmenter::new(&self.template, self.settings).unwrap()
    }

    /// Asserts that `theirs` are our frames.
    fn compare(&mut self, theirs: &[Vec<u8>]) {
        if let Cut::Fragments { id } = &mut self.settings.cut
            && theirs.len() > 1
        {
            // The kernel makes up its ids for IPv6; it stands before the UDP header.
            let at = self.template.header().len() - 4;
            *id = u32::from_be_bytes(*theirs[0][at..].first_chunk().unwrap());
        }
        let segmenter = self.segmenter();
        let plan = segmenter.plan(Position::default(), self.payload.len()).unwrap();
        let (whole, mut slot) = ([&self.payload[..]], vec![0; segmenter.frame_bytes_max()]);
        let pieces = Pieces::new(&whole);
        for (index, (segment, theirs)) in plan.segments().zip(theirs).enumerate() {
            let written = segment.write_linear(&mut slot, &pieces, LinearChecksum::Full).unwrap();
            let ours = &mut slot[..written.bytes];
            let (start, offset) = self.stack.checksum_place();
            let start = start + self.template.header().len() - self.stack.header_bytes();
            if plan.frame_count() == 1 && ours[start + offset..][..2] == [0, 0] {
                // skb_checksum_help, which finishes what is not cut, takes all for UDP.
                ours[start + offset..][..2].fill(0xff);
            }
            let what = (&self.stack, self.settings, self.payload.len());
            assert!(ours == theirs, "frame {index} of {what:?}:\n{ours:02x?}\n{theirs:02x?}");
        }
    }
}

/// Has the kernel cut packets, among them `packets_cut` that are more than one frame, and compares;
/// counts those cut of TCP, in datagrams, and in fragments. In a `tunnel` of the kernel its headers
/// are taken from the first frame.
fn compare_many(ends: &mut Ends, packets_cut: usize, tunnel: bool) -> [usize; 3] {
    let random = &mut Random::new(7);
    let (mut waiting, mut on_their_way) = (Vec::<(Case, usize)>::new(), 0);
    let (mut frames, mut several) = (0, [0; 3]);
    while several.iter().sum::<usize>() < packets_cut {
        let case = Case::random(random, tunnel);
        let segmenter = case.segmenter();
        let plan = segmenter.plan(Position::default(), case.payload.len()).unwrap();
        // In as many parts as come, if they are not too many for one call.
        let parts: Vec<&[u8]> = case.payload.chunks(1 + random.below(40_000)).collect();
        let parts = if parts.len() < GSO_PARTS_MAX { parts } else { vec![&case.payload[..]] };
        ends.send(&plan, &parts, &case.stack, case.settings.cut);
        let kind = match case.settings.cut {
            _ if case.template.is_tcp() => 0,
            Cut::Segments => 1,
            Cut::Fragments { .. } => 2,
        };
        let count = plan.frame_count();
        several[kind] += usize::from(count > 1);
        (frames, on_their_way) = (frames + count, on_their_way + count);
        waiting.push((case, count));
        if on_their_way + FRAMES_MAX > ON_THEIR_WAY_MAX {
            for (case, count) in waiting.drain(..) {
                judge(case, &ends.receive(count), tunnel);
            }
            on_their_way = 0;
        }
    }
    for (case, count) in waiting {
        judge(case, &ends.receive(count), tunnel);
    }
    assert!(ends.received.is_empty(), "more frames came than were planned");
    eprintln!("{frames} frames; packets cut: {several:?} of TCP, in datagrams, in fragments");
    several
}

fn judge(mut case: Case, theirs: &[Vec<u8>], tunnel: bool) {
    if tunnel {
        let bytes =
            if theirs[0][12..14] == [0x86, 0xdd] { TUNNEL_BYTES } else { TUNNEL_BYTES - 20 };
        let header = [&theirs[0][..bytes], case.template.header()].concat();
        case.template = Template::parse(&header).unwrap();
    }
    case.compare(theirs);
}

#[test]
fn the_kernel_cuts_ten_thousand_packets_alike() {
    let test = "the_kernel_cuts_ten_thousand_packets_alike";
    if !need_root(test) || !need_tool(test, "ethtool") {
        return;
    }
    let several = compare_many(&mut Ends::new("gso", "tx0", |_| ()), 10_000, false);
    assert!(several.iter().all(|&count| count > 1000), "{several:?}");
}

#[test]
fn the_kernel_cuts_packets_in_its_vxlan_tunnel_alike() {
    let test = "the_kernel_cuts_packets_in_its_vxlan_tunnel_alike";
    if !need_root(test) || !need_tool(test, "ethtool") {
        return;
    }
    // With a checksum of the outer UDP header, and without.
    for (name, is_v6, checksum) in [
        ("vxsum4", false, "udpcsum"),
        ("vxnone4", false, "noudpcsum"),
        ("vxsum6", true, ""),
        ("vxnone6", true, "udp6zerocsumtx"),
    ] {
        let mut ends = Ends::new(name, "vx0", |lab| {
            let namespace = &lab.status().sender_namespace;
            let ip = format!("ip -n {namespace}");
            let mut addresses = [SENDER_ADDRESS, RECEIVER_ADDRESS];
            if is_v6 {
                addresses = ["fd00::1", "fd00::2"];
                inside(namespace, || {
                    std::fs::write("/proc/sys/net/ipv6/conf/tx0/disable_ipv6", "0").unwrap();
                });
                tool(&format!("{ip} address add fd00::1/64 dev tx0 nodad"));
                let link = "lladdr 02:52:53:00:00:02 dev tx0 nud permanent";
                tool(&format!("{ip} neighbour replace fd00::2 {link}"));
            }
            let ends = format!("local {} remote {}", addresses[0], addresses[1]);
            let kind = format!("vxlan id 77 {ends} dstport 4789 dev tx0 nolearning {checksum}");
            tool(&format!("{ip} link add vx0 type {kind}"));
            tool(&format!("{ip} link set vx0 up"));
        });
        let several = compare_many(&mut ends, 2500, true);
        assert!(several[..2].iter().all(|&count| count > 1000), "{several:?}");
    }
}

#[test]
fn past_the_queue_only_the_interface_cuts() {
    let test = "past_the_queue_only_the_interface_cuts";
    if !need_root(test) || !need_tool(test, "ethtool") {
        return;
    }
    let mut ends = Ends::new("bypass", "tx0", |_| ());
    let namespace = ends.lab.status().sender_namespace.clone();
    ends.sender = inside(&namespace, || GsoTx::open(ifindex("tx0"), true).unwrap());
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    let ipv4 = Header::Ipv4 { id: 7, dont_fragment: true, addresses, options: vec![] };
    let tcp = Header::Tcp { ports: [1, 2], sequence: 3, flags: 0x18, options: vec![] };
    let stack = Stack(vec![Header::Ethernet, ipv4, tcp]);
    let template = Template::parse(&stack.uncut(&[])).unwrap();
    let segmenter = Segmenter::new(&template, Settings::mtu(1500)).unwrap();
    let plan = segmenter.plan(Position::default(), 20_000).unwrap();
    let payload = [9; 20_000];
    let uncut = plan.uncut().unwrap();
    let mut expected = vec![0; uncut.frame_bytes()];
    let pieces = [&payload[..]];
    let left = uncut.write_linear(&mut expected, &Pieces::new(&pieces), LinearChecksum::Offload);
    let left = left.unwrap().offload.unwrap();
    let checksum = Some(PartialChecksum { start: left.start, offset: left.offset });
    let (kind, size) = (GsoKind::TcpV4, plan.mss_bytes() as u16);
    let gso = Some(Gso { kind, size, header_bytes: 54, has_cwr: false });
    let header = VnetHeader { checksum, gso };
    let refused = ends.sender.send(header, &[&expected]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOBUFS.raw_os_error()));
    // A veth pair that says that it can cut hands the packet over as it is.
    tool(&format!("ip netns exec {namespace} ethtool -K tx0 tx on sg on tso on gso on"));
    ends.sender.send(header, &[&expected]).unwrap();
    assert!(ends.receive(1) == [expected]);
}
