//! Captures behind a root that is bound to its device: what the driver knows of a frame stands in
//! front of it, and filters see tags that were taken out.

use crate::pair::{Pair, ifindex, inside, send};
use libbpf_rs::{TC_EGRESS, TcHookBuilder};
use ringside_core::LinkType;
use ringside_core::bpf::EbpfInstruction;
use ringside_ebpf::abi::{METADATA_HASH, METADATA_VLAN, XdpMetadata};
use ringside_ebpf::capture::{CaptureConfig, CaptureProgram, Metadata, Mode, QueueCounters};
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_ebpf::{Error, Verdict};
use ringside_filter::{Compiler, compile};
use ringside_sys::bpf::{FdArray, PerCpuArray, Program, ProgramType, test_run_xdp};
use ringside_sys::packet_tx::PacketTx;
use ringside_testkit::need_root;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

fn open(pair: &Pair, metadata: Metadata, filter: Option<&str>) -> Result<CaptureProgram, Error> {
    let here = Compiler::InProcess { optimise: true };
    let filter = filter.map(|text| compile(text, LinkType::ETHERNET, 0, &here).unwrap().program);
    let config = CaptureConfig {
        interface: "end",
        ifindex: ifindex(&pair.receiver),
        queues: 1,
        metadata,
        filter: filter.as_ref(),
        link_type: LinkType::ETHERNET,
        generic_allowed: false,
    };
    inside(&pair.receiver, || CaptureProgram::open(&config))
}

/// A pair whose sending end puts a tag into the metadata of some frames, as a VLAN interface does.
struct Tagged {
    pair: Pair,
    transmitter: PacketTx,
    witness: SocketFilter,
    _socket: OwnedFd,
}

impl Tagged {
    fn new(name: &str) -> Tagged {
        let pair = Pair::new(name);
        let ifindex = ifindex(&pair.sender);
        let transmitter = inside(&pair.sender, || {
            let tagger = tagger();
            let mut hook = TcHookBuilder::new(tagger.as_fd())
                .ifindex(ifindex as i32)
                .handle(1)
                .priority(1)
                .hook(TC_EGRESS);
            hook.create().unwrap().attach().unwrap();
            PacketTx::open(ifindex, false).unwrap()
        });
        let witness = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
        let socket = pair.sockets(1).remove(0);
        witness.attach(&socket).unwrap();
        Tagged { pair, transmitter, witness, _socket: socket }
    }
}

/// Last byte of the source address of frames that get a tag.
const MARK: u8 = 3;

/// Puts the tag 5 into the metadata of frames that bear the mark.
fn tagger() -> Program {
    let i = |code, dst, src, offset, imm| EbpfInstruction { code, dst, src, offset, imm };
    let code = [
        i(0xbf, 6, 1, 0, 0),
        i(0x30, 0, 0, 0, 11), // r0 = byte 11 of the frame
        i(0x55, 0, 0, 4, i32::from(MARK)),
        i(0xbf, 1, 6, 0, 0),
        i(0xb4, 2, 0, 0, i32::from(0x8100u16.to_be())),
        i(0xb4, 3, 0, 0, 5),
        i(0x85, 0, 0, 0, 18), // bpf_skb_vlan_push
        i(0xb4, 0, 0, 0, 0),  // TC_ACT_OK
        i(0x95, 0, 0, 0, 0),
    ];
    Program::load(ProgramType::SchedCls, "rs_tagger", &code).unwrap()
}

/// Addresses, a type without a protocol, and a countable body.
fn frame(length: usize, is_tagged: bool) -> Vec<u8> {
    let mut bytes = [&[2; 12][..], &[0x88, 0xb5]].concat();
    bytes.extend((bytes.len()..length).map(|at| at as u8));
    if is_tagged {
        bytes[11] = MARK;
    }
    bytes
}

/// A leaf that keeps the last frame's metadata in a map and drops the frame.
fn keep_metadata(map: &PerCpuArray) -> Program {
    let i = |code, dst, src, offset, imm| EbpfInstruction { code, dst, src, offset, imm };
    let code = [
        i(0x61, 2, 1, 8, 0),  // r2 = metadata
        i(0x61, 3, 1, 0, 0),  // r3 = frame
        i(0xbf, 4, 2, 0, 0),  // r4 = r2 + 24
        i(0x07, 4, 0, 0, 24), //
        i(0x5d, 4, 3, 16, 0), // if r4 != r3, or as the verifier wants it:
        i(0x2d, 4, 3, 15, 0), // if r4 > r3 goto the end
        i(0x79, 6, 2, 0, 0),  // r6, r7, r8 = the metadata
        i(0x79, 7, 2, 8, 0),
        i(0x79, 8, 2, 16, 0),
        i(0x62, 10, 0, -4, 0), // key 0
        i(0x18, 1, 1, 0, map.as_fd().as_raw_fd()),
        i(0, 0, 0, 0, 0),
        i(0xbf, 2, 10, 0, 0),
        i(0x07, 2, 0, 0, -4),
        i(0x85, 0, 0, 0, 1),
        i(0x15, 0, 0, 5, 0), // if there is no value goto the end
        i(0x7b, 0, 6, 0, 0),
        i(0x7b, 0, 7, 8, 0),
        i(0x7b, 0, 8, 16, 0),
        i(0xb7, 1, 0, 0, 1),
        i(0xdb, 0, 1, 24, 0), // count
        i(0xb4, 0, 0, 0, 1),  // XDP_DROP
        i(0x95, 0, 0, 0, 0),
    ];
    Program::load(ProgramType::Xdp, "rs_keep", &code).unwrap()
}

#[test]
fn the_driver_tells_of_hash_and_tag() {
    if !need_root("metadata of a driver") {
        return;
    }
    let net = Tagged::new("mroot");
    let capture = open(&net.pair, Metadata::Full, None).unwrap();
    assert_eq!((capture.metadata(), capture.mode()), (Metadata::Full, Mode::Native));
    assert!(capture.notes().is_empty(), "{:?}", capture.notes());
    let map = PerCpuArray::create("rs_keep", 4).unwrap();
    let leaf = keep_metadata(&map);
    let handles = capture.handles().unwrap();
    let leaves = FdArray::from_fd(handles.descriptors()[2].try_clone_to_owned().unwrap()).unwrap();
    leaves.set(0, leaf.as_fd()).unwrap();
    // All on one CPU: what is kept is summed over them.
    ringside_sys::thread::pin_to_cpu(ringside_sys::thread::allowed_cpus().unwrap()[0]).unwrap();
    for (count, tag) in (1..).zip([None, Some(5)]) {
        net.transmitter.send_batch(&[&frame(60, tag.is_some())]).unwrap();
        let start = std::time::Instant::now();
        let kept = loop {
            let kept = map.sums().unwrap();
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "no frame came");
            if kept[3] == count {
                break kept;
            }
        };
        let bytes: Vec<u8> = kept[..3].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let metadata = XdpMetadata::from_bytes(&bytes.try_into().unwrap());
        assert_eq!(metadata.stamp, 0, "the time is the capture's to give");
        assert_eq!(metadata.flags & METADATA_HASH, METADATA_HASH, "{metadata:?}");
        assert_ne!(metadata.hash, 0);
        let vlan = (metadata.flags & METADATA_VLAN != 0)
            .then_some((metadata.vlan_tpid, metadata.vlan_tci & 0xfff));
        assert_eq!(vlan, tag.map(|id| (0x8100, id)));
    }
}

#[test]
fn a_filter_sees_the_tag_that_was_taken_out() {
    if !need_root("filters on metadata") {
        return;
    }
    let net = Tagged::new("mtag");
    // Of the plain frame and the tagged one: which are accepted.
    let cases = [
        ("vlan", [false, true]),
        ("vlan 5", [false, true]),
        ("vlan 6", [false, false]),
        ("not vlan", [true, false]),
        ("len = 60", [true, false]),
        ("len = 64", [false, true]),
        ("ether[12:4] = 0x81000005", [false, true]),
        ("ether[16:2] = 0x88b5", [false, true]),
        ("ether[12:2] = 0x88b5", [true, false]),
        ("ether[59] = 59", [true, false]),
        ("ether[63] = 59", [false, true]),
        ("ether[0] = 2", [true, true]),
    ];
    for (text, accepted) in cases {
        let mut capture = open(&net.pair, Metadata::Full, Some(text)).unwrap();
        let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
        let sink = inside(&net.pair.receiver, || {
            socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
        });
        capture.set_socket(0, sink.as_fd()).unwrap();
        capture.start().unwrap();
        let mut expected = QueueCounters::default();
        for (is_tagged, is_accepted) in [false, true].into_iter().zip(accepted) {
            net.transmitter.send_batch(&[&frame(60, is_tagged)]).unwrap();
            expected.seen += 1;
            expected.steered += u64::from(is_accepted);
            expected.passed += u64::from(!is_accepted);
            let start = std::time::Instant::now();
            while capture.counters(0).unwrap().seen < expected.seen {
                assert!(start.elapsed() < std::time::Duration::from_secs(20), "no frame came");
            }
        }
        capture.stop().unwrap();
        assert_eq!(capture.counters(0).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_passes_is_as_it_came_and_who_shares_gets_metadata() {
    if !need_root("metadata of shared roots") {
        return;
    }
    let net = Tagged::new("mshare");
    let mut first = open(&net.pair, Metadata::Full, Some("vlan 7")).unwrap();
    // The other's root gives more than was asked for.
    let mut second = open(&net.pair, Metadata::None, None).unwrap();
    assert_eq!(second.metadata(), Metadata::Full);
    first.start().unwrap();
    second.start().unwrap();
    let tagged = SocketFilter::load(
        &compile("vlan 5", LinkType::ETHERNET, 0, &Compiler::InProcess { optimise: true })
            .unwrap()
            .program,
        LinkType::ETHERNET,
        0,
    )
    .unwrap();
    let socket = net.pair.sockets(1).remove(0);
    tagged.attach(&socket).unwrap();
    for is_tagged in [false, true] {
        send(&net.transmitter, &[&frame(60, is_tagged)[..]; 50], &net.witness);
    }
    assert_eq!(tagged.counters().unwrap().accepted, 50, "the host still sees the tag");
    for capture in [&mut first, &mut second] {
        capture.stop().unwrap();
        let counters = capture.counters(0).unwrap();
        assert_eq!(
            counters,
            QueueCounters { seen: 100, passed: 100, steered: 0, ..QueueCounters::default() }
        );
    }
    drop((first, second));
    // And the other way round: a plain root is not replaced.
    let plain = open(&net.pair, Metadata::None, None).unwrap();
    let third = open(&net.pair, Metadata::Full, None).unwrap();
    assert_eq!(third.metadata(), Metadata::Stamp);
    assert_eq!(third.notes().len(), 1, "{:?}", third.notes());
    drop(plain);
}

#[test]
fn the_leaf_fills_in_the_time_and_gives_the_metadata_back() {
    if !need_root("metadata in the leaf") {
        return;
    }
    let net = Tagged::new("mleaf");
    let capture = open(&net.pair, Metadata::Full, None).unwrap();
    let body = frame(100, false);
    let run = |metadata: &[u8]| {
        let mut output = vec![0; 1_024];
        let (run, length) = test_run_xdp(capture.entry(), metadata, &body, 1, &mut output).unwrap();
        output.truncate(length);
        (run.return_value, output)
    };
    let known = XdpMetadata { flags: METADATA_HASH, hash: 7, ..XdpMetadata::default() };
    let stamped = XdpMetadata { stamp: 123, ..known };
    assert_eq!(run(&known.to_bytes()), (2, body.clone()), "passed without metadata");
    let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    capture.set_socket(0, socket.as_fd()).unwrap();
    let (verdict, output) = run(&stamped.to_bytes());
    assert_eq!((verdict, &output[..24], &output[24..]), (4, &stamped.to_bytes()[..], &body[..]));
    let (verdict, output) = run(&known.to_bytes());
    let front = XdpMetadata::from_bytes(output[..24].try_into().unwrap());
    assert_eq!((verdict, &output[24..]), (4, &body[..]));
    assert!(front.stamp > 0);
    assert_eq!(XdpMetadata { stamp: 0, ..front }, known);
    // Where the driver made no room the frame must not reach a socket.
    assert_eq!(capture.test_run(&body).unwrap().verdict, Verdict::Pass);
    let counters = capture.counters(0).unwrap();
    assert_eq!(
        counters,
        QueueCounters { seen: 4, passed: 2, steered: 2, unmarked: 1, ..QueueCounters::default() }
    );
}
