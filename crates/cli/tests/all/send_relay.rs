//! `ringside send --relay`: frames of up to 9,000 bytes come out of an interface of 1,500 as the
//! kernel's own segmentation makes them, and every frame is accounted for.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_lab::LabConfig;
use ringside_netdev as netdev;
use ringside_segment::{Checksum, Cut, Position, Segmenter, Settings, Template};
use ringside_sys::packet_gso::{Gso, GsoKind, GsoTx, PartialChecksum, VnetHeader};
use ringside_testkit::stacks::{Header, Stack, Wanted};
use ringside_testkit::{Random, need_root, need_tool};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Longest frame that goes in; out come packets of 1,500 bytes.
const FRAME_BYTES_MAX: usize = 9014;
/// Packets to be cut: enough that each kind of header comes in each place.
const PACKETS: usize = 400;
/// Packets on their way at once through the kernel, whose queue takes 1,000 frames.
const ON_THEIR_WAY_MAX: usize = 100;
const PATIENT: [&str; 4] = ["--kernel-ring-size", "64MiB", "--ring-size", "128MiB"];

/// A network whose ends hand over what they are given: without a NAPI, as their MTU may be large.
fn network(mtu: u32) -> Network {
    Network::with(LabConfig { mtu, xdp_pass: false, ..LabConfig::default() })
}

/// What is relayed: from `rx0` of the one to `tx0` of the other.
struct Way {
    from: Network,
    to: Network,
}

impl Way {
    fn up() -> Way {
        Way { from: network(9000), to: network(1500) }
    }

    /// Starts the relay; it listens.
    fn relay(&self, args: &[&str]) -> Running {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(ringside()).args(["send", "--json"]);
        command.args(["--netns", self.to.sender(), "-i", "tx0"]);
        command.args(["--relay-netns", self.from.receiver(), "--relay", "rx0"]).args(args);
        let running = Running::start(command);
        running.wait_for_stderr("listening on rx0, sending on tx0");
        running
    }

    /// Relays `frames` and gives what arrives, and the outcome.
    fn relayed(&self, file: &Path, frames: &[Vec<u8>], args: &[&str]) -> (Vec<Vec<u8>>, Outcome) {
        let capture = self.to.capture(&[&["-i", "rx0", "-w", arg(file)], &PATIENT[..]].concat());
        let count = frames.len().to_string();
        let relay = self.relay(&[&["-c", &count], args].concat());
        self.from.replay(frames);
        let outcome = relay.finish();
        let accepted = number(&account(&outcome), "accepted");
        wait_until("the far end's frames", || self.to.received() >= accepted);
        capture.stop().checked_ledger(accepted);
        (stored(file), outcome)
    }
}

fn stored(file: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for_each_frame(&[file.to_owned()], |frame, _| frames.push(frame.bytes.to_vec()));
    frames
}

fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_else(|| panic!("no {name} in {object}"))
}

/// The sending account, which must balance, as the receiving one must.
fn account(outcome: &Outcome) -> Value {
    let ledger = outcome.ledger();
    check_ledger(&ledger, ledger.received.unwrap());
    let sent = outcome.json_lines()[0]["sent"].clone();
    let sum = |of: &Value| of.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let (not_relayed, refused): (u64, u64) = (sum(&sent["not_relayed"]), sum(&sent["refused"]));
    let (whole, segments) = (number(&sent, "whole"), number(&sent, "segments"));
    assert_eq!(number(&sent, "received"), whole + number(&sent, "cut") + not_relayed, "{sent}");
    let not_offered = number(&sent, "not_offered");
    assert_eq!(whole + segments, number(&sent, "offered") + not_offered, "{sent}");
    assert_eq!(number(&sent, "offered"), number(&sent, "accepted") + refused, "{sent}");
    assert_eq!(ledger.taken, number(&sent, "received"), "{sent}");
    sent
}

/// A packet that is too long, and the kernel's order to cut it.
struct Case {
    stack: Stack,
    payload: Vec<u8>,
    header: Vec<u8>,
    order: VnetHeader,
    frame_count: usize,
}

impl Case {
    fn random(random: &mut Random) -> Case {
        let is_tcp = random.below(4) > 0;
        let wanted = Wanted {
            is_tcp: Some(is_tcp),
            is_fragmentable: !is_tcp,
            is_summed: true,
            tunnels_max: 0,
        };
        let stack = loop {
            let stack = Stack::random(random, wanted);
            let is_usable = match &stack.0[stack.0.len() - 2] {
                // The kernel makes up ids of fragments; tshark knows no source routes of type 2.
                Header::Ipv6 { extensions, .. } => {
                    is_tcp && extensions.iter().all(|(kind, _)| *kind != 43)
                }
                _ => true,
            };
            if is_usable {
                break stack;
            }
        };
        let template = Template::parse(&stack.uncut(&[])).unwrap();
        let link_bytes = 14 + 4 * (stack.0.len() - 3);
        // Packet sockets allow one tag of 802.1Q beyond the MTU.
        let beyond = if stack.uncut(&[])[12..14] == [0x81, 0] { 4 } else { 0 };
        let mtu_bytes = 1500 + link_bytes.min(14 + beyond) - link_bytes;
        let cut = if is_tcp { Cut::Segments } else { Cut::Fragments { id: 0 } };
        let settings = Settings { cut, ..Settings::mtu(mtu_bytes) };
        let segmenter = Segmenter::new(&template, settings).unwrap();
        let longest = FRAME_BYTES_MAX - stack.header_bytes();
        let bytes = [longest, 1501 + random.below(longest - 1500)][random.below(2)];
        let plan = segmenter.plan(Position::default(), bytes).unwrap();
        let uncut = plan.uncut().unwrap();
        let mut header = vec![0; uncut.header_bytes()];
        let left = uncut.write_header(&mut header, Checksum::Offload).unwrap().offload.unwrap();
        let (kind, has_cwr) = match (stack.0.last().unwrap(), &stack.0[stack.0.len() - 2]) {
            (Header::Tcp { flags, .. }, Header::Ipv6 { .. }) => (GsoKind::TcpV6, flags & 0x80 > 0),
            (Header::Tcp { flags, .. }, _) => (GsoKind::TcpV4, flags & 0x80 > 0),
            _ => (GsoKind::UdpFragments, false),
        };
        let (size, header_bytes) = (plan.mss_bytes() as u16, header.len() as u16);
        let checksum = Some(PartialChecksum { start: left.start, offset: left.offset });
        let order = VnetHeader { checksum, gso: Some(Gso { kind, size, header_bytes, has_cwr }) };
        let frame_count = plan.frame_count();
        Case { stack, payload: random.bytes(bytes), header, order, frame_count }
    }

    fn frame(&self) -> Vec<u8> {
        self.stack.uncut(&self.payload)
    }
}

/// The frames that the kernel makes of the same packets.
fn cut_by_the_kernel(cases: &[Case], file: &Path) -> Vec<Vec<u8>> {
    let network = network(9000);
    let namespace = network.sender();
    run_clean(
        "ip",
        &["netns", "exec", namespace, "ethtool", "-K", "tx0", "tx-udp-segmentation", "off"],
    );
    let capture = network.capture(&[&["-i", "rx0", "-w", arg(file)], &PATIENT[..]].concat());
    let sender = inside(namespace, || {
        GsoTx::open(netdev::by_name("tx0").unwrap().unwrap().ifindex, false).unwrap()
    });
    let mut sent = 0;
    for some in cases.chunks(ON_THEIR_WAY_MAX) {
        for case in some {
            sender.send(case.order, &[&case.header, &case.payload]).unwrap();
            sent += case.frame_count as u64;
        }
        wait_until("the kernel's frames", || network.received() >= sent);
    }
    capture.stop().checked_ledger(sent);
    stored(file)
}

/// tshark's word on every checksum of a file: 1 is right. Gives how many of IPv4, TCP and UDP.
fn right_checksums(file: &Path) -> [usize; 3] {
    let kinds =
        ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "tcp.checksum"];
    let mut args = vec!["-n", "-r", arg(file), "-T", "fields", "-E", "separator=;"];
    for option in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"] {
        args.extend(["-o", Box::leak(format!("{option}:TRUE").into_boxed_str())]);
    }
    kinds.iter().for_each(|kind| args.extend(["-e", kind]));
    let mut right = [0; 3];
    for (index, line) in run_clean("tshark", &args).lines().enumerate() {
        let words: Vec<&str> = line.split(';').collect();
        let is_right =
            |at| if at == 1 { is_right_tcp(words[1], words[3]) } else { words[at] == "1" };
        for (at, count) in right.iter_mut().enumerate() {
            assert!(words[at].is_empty() || is_right(at), "frame {}: {line}", index + 1);
            *count += usize::from(is_right(at));
        }
    }
    right
}

#[test]
fn long_frames_come_out_as_the_kernel_cuts_them() {
    let test = "long_frames_come_out_as_the_kernel_cuts_them";
    if !need_root(test) || !need_tool(test, "ethtool") || !need_tool(test, "tshark") {
        return;
    }
    let (way, folder, random) = (Way::up(), Folder::new(), &mut Random::new(31));
    let cases: Vec<Case> = (0..PACKETS).map(|_| Case::random(random)).collect();
    let frames: Vec<Vec<u8>> = cases.iter().map(Case::frame).collect();
    let theirs = cut_by_the_kernel(&cases, &folder.path("kernel.pcapng"));
    for sink in ["af-packet", "af-xdp"] {
        let file = folder.path(&format!("{sink}.pcapng"));
        let (ours, outcome) = way.relayed(&file, &frames, &["--sink", sink]);
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        assert_eq!(number(&account(&outcome), "cut"), PACKETS as u64);
        assert_eq!(ours.len(), theirs.len());
        let stacks =
            cases.iter().flat_map(|case| std::iter::repeat_n(&case.stack, case.frame_count));
        for (index, ((ours, theirs), stack)) in ours.iter().zip(&theirs).zip(stacks).enumerate() {
            assert!(ours == theirs, "frame {index} of {stack:?}:\n{ours:02x?}\n{theirs:02x?}");
        }
        let right = right_checksums(&file);
        assert!(right.iter().all(|&count| count > 50), "IPv4, TCP, UDP: {right:?}");
        eprintln!("{sink}: {} frames; checksums of IPv4, TCP, UDP: {right:?}", ours.len());
    }
}

#[test]
fn what_fits_goes_as_it_is_and_what_cannot_be_cut_is_counted() {
    let test = "what_fits_goes_as_it_is_and_what_cannot_be_cut_is_counted";
    if !need_root(test) {
        return;
    }
    let (way, folder, random) = (Way::up(), Folder::new(), &mut Random::new(37));
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    let ip = Header::Ipv4 { id: 9, dont_fragment: true, addresses, options: vec![] };
    let udp = Header::Udp { ports: [1, 2], has_checksum: true };
    let stack = Stack(vec![Header::Ethernet, ip, udp]);
    let mut frames: Vec<Vec<u8>> =
        [60, 600, 1514].map(|bytes| stack.uncut(&random.bytes(bytes - 42))).to_vec();
    let mut tagged = frames[2].clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    frames.push(tagged);
    let fitting = frames.clone();
    frames.push(stack.uncut(&random.bytes(1473)));
    frames.push([&[2; 12][..], &[0x88, 0xb5], &random.bytes(2000)[..]].concat());
    let (ours, outcome) = way.relayed(&folder.path("a.pcapng"), &frames, &[]);
    assert_eq!(ours, fitting);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    let sent = account(&outcome);
    assert_eq!(sent["not_relayed"], serde_json::json!({ "dont_fragment": 1, "protocol": 1 }));
    // A smaller MTU than the interface's.
    let (ours, outcome) = way.relayed(&folder.path("b.pcapng"), &frames, &["--mtu", "600"]);
    assert_eq!((ours.len(), outcome.code()), (2, Some(1)), "{outcome:?}");
    assert_eq!(account(&outcome)["not_relayed"]["dont_fragment"], 3);
}

#[test]
fn a_relay_ends_by_time_or_signal_with_both_accounts() {
    if !need_root("a_relay_ends_by_time_or_signal_with_both_accounts") {
        return;
    }
    let way = Way::up();
    let outcome = way.relay(&["--for", "100ms"]).finish();
    assert_eq!((outcome.code(), &account(&outcome)["ended"]), (Some(0), &"time".into()));
    let relay = way.relay(&[]);
    way.from.replay(&vec![vec![0; 60]; 10]);
    wait_until("the far end's frames", || way.to.received() >= 10);
    relay.signal(Signal::INT);
    let outcome = relay.finish();
    let sent = account(&outcome);
    assert_eq!((outcome.code(), &sent["ended"]), (Some(0), &"stopped".into()), "{outcome:?}");
    assert_eq!((number(&sent, "received"), number(&sent, "accepted")), (10, 10), "{sent}");
    // For people.
    let (to, from) = (way.to.sender(), way.from.receiver());
    let ends = ["--netns", to, "-i", "tx0", "--relay-netns", from, "--relay", "rx0"];
    let outcome = run_ringside(&[&["send"], &ends[..], &["--for", "50ms"]].concat());
    for part in ["received", "the ledger balances", "whole", "accepted", "taken by tx0"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
}

#[test]
fn a_relay_that_would_receive_its_own_frames_or_cannot_be_is_refused() {
    let test = "a_relay_that_would_receive_its_own_frames_or_cannot_be_is_refused";
    if !need_root(test) || !need_tool(test, "ip") {
        return;
    }
    let way = Way::up();
    let (to, from) = (way.to.sender(), way.from.receiver());
    run_clean("ip", &["-n", to, "link", "add", "ve0", "type", "veth", "peer", "name", "ve1"]);
    ["ve0", "ve1"].iter().for_each(|name| {
        run_clean("ip", &["-n", to, "link", "set", name, "up"]);
    });
    let ends = |args: &[&'static str]| [&["send", "--netns", to, "-i", "tx0"], args].concat();
    for (args, said) in [
        (ends(&["--relay", "tx0"]), "name two interfaces"),
        (vec!["send", "--netns", to, "-i", "ve0", "--relay", "ve1"], "ends of one link"),
        (ends(&["--relay", "rx9"]), "no interface rx9"),
        (ends(&["--relay", "ve0", "--mtu", "1501"]), "packets of 68 to 1500 bytes"),
        (ends(&["--relay", "ve0", "--mtu", "67"]), "packets of 68 to 1500 bytes"),
        (ends(&["--relay", "ve0", "-r", "x.pcap"]), "cannot be used with"),
        (ends(&["--relay", "ve0", "--rate", "1Mpps"]), "cannot be used with"),
        (ends(&["--relay", "ve0", "--sink", "tin"]), "there is no sink tin"),
        (ends(&["--mtu", "1400", "-c", "1"]), "--relay"),
    ] {
        let outcome = run_ringside(&args);
        assert_eq!(outcome.code(), Some(2), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
    }
    // The same name elsewhere is another interface.
    let args = ["--netns", to, "-i", "tx0", "--relay-netns", from, "--relay", "rx0"];
    let outcome = run_ringside(&[&["send"], &args[..], &["--for", "20ms"]].concat());
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
}
