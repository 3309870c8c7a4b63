//! Captures on the receiving end of a veth pair: what is counted, steered and passed, to the frame.

use crate::common::{captures, expressions, program};
use crate::pair::{Pair, ifindex, inside, ip, send};
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_ebpf::capture::{
    CaptureConfig, CaptureHandles, CaptureLeftBehind, CaptureProgram, Metadata, Mode, QueueCounters,
};
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_ebpf::{Error, Verdict, XdpProgram, attached_program};
use ringside_filter::Prepared;
use ringside_sys::packet_tx::PacketTx;
use ringside_testkit::{by_run, need_root};
use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use rustix::time::{DynamicClockId, clock_gettime_dynamic};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

fn open(pair: &Pair, metadata: Metadata) -> Result<CaptureProgram, Error> {
    open_with(pair, metadata, None)
}

fn open_with(
    pair: &Pair,
    metadata: Metadata,
    filter: Option<&ClassicProgram>,
) -> Result<CaptureProgram, Error> {
    let config = CaptureConfig {
        interface: "end",
        ifindex: ifindex(&pair.receiver),
        queues: 1,
        metadata,
        filter,
        link_type: LinkType::ETHERNET,
        generic_allowed: false,
    };
    inside(&pair.receiver, || CaptureProgram::open(&config))
}

fn program_there(pair: &Pair) -> Option<u32> {
    let ifindex = ifindex(&pair.receiver);
    inside(&pair.receiver, || attached_program(ifindex).unwrap())
}

/// A witness among the host's sockets: it sees what is passed.
fn witness(pair: &Pair) -> (SocketFilter, OwnedFd) {
    let filter = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
    let socket = pair.sockets(1).remove(0);
    filter.attach(&socket).unwrap();
    (filter, socket)
}

fn passed(count: u64) -> QueueCounters {
    QueueCounters { seen: count, passed: count, ..QueueCounters::default() }
}

/// A socket that is bound to queue 0 and has no memory for frames: it takes what is steered and
/// counts it as dropped.
struct Sink {
    socket: OwnedFd,
    _memory: Vec<u8>,
}

impl Sink {
    fn new(pair: &Pair) -> Sink {
        const PAGE_BYTES: usize = 4096;
        let socket = xdp_socket(pair);
        let memory = vec![0u8; 17 * PAGE_BYTES];
        let register = XdpUmemReg {
            addr: (memory.as_ptr() as usize).next_multiple_of(PAGE_BYTES) as u64,
            len: 16 * PAGE_BYTES as u64,
            chunk_size: PAGE_BYTES as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, register).unwrap();
        sockopt::set_xdp_umem_fill_ring_size(&socket, 64).unwrap();
        sockopt::set_xdp_umem_completion_ring_size(&socket, 64).unwrap();
        sockopt::set_xdp_rx_ring_size(&socket, 64).unwrap();
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_SG;
        let address = SocketAddrXdp::new(flags, ifindex(&pair.receiver), 0);
        inside(&pair.receiver, || bind(&socket, &address));
        Sink { socket, _memory: memory }
    }

    fn taken(&self) -> u64 {
        sockopt::xdp_statistics(&self.socket).unwrap().rx_fill_ring_empty_descs.unwrap()
    }
}

/// Binds; the kernel frees the queue of a socket some time after its last descriptor was closed.
fn bind(socket: &OwnedFd, address: &SocketAddrXdp) {
    let start = Instant::now();
    loop {
        match rustix::net::bind(socket, address) {
            Err(Errno::BUSY) if start.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result.unwrap(),
        }
    }
}

fn xdp_socket(pair: &Pair) -> OwnedFd {
    let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
    inside(&pair.receiver, || socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap())
}

#[test]
fn without_a_socket_every_frame_passes_and_is_counted_between_start_and_stop() {
    if !need_root("capture without sockets") {
        return;
    }
    let pair = Pair::new("xpass");
    let mut capture = open(&pair, Metadata::Stamp).unwrap();
    assert_eq!(capture.mode(), Mode::Native, "{:?}", capture.notes());
    let (filter, _socket) = witness(&pair);
    let transmitter = pair.transmitter();
    let frames = vec![&[2u8; 60][..]; 1_000];
    send(&transmitter, &frames, &filter);
    assert_eq!(capture.counters(0).unwrap(), QueueCounters::default(), "not started");
    for round in 1..=3 {
        capture.start().unwrap();
        capture.start().unwrap();
        send(&transmitter, &frames, &filter);
        send(&transmitter, &[&[2; 9_000], &[2; 60_000]], &filter);
        capture.stop().unwrap();
        capture.stop().unwrap();
        assert_eq!(capture.counters(0).unwrap(), passed(round * 1_002));
        send(&transmitter, &frames, &filter);
        assert_eq!(capture.counters(0).unwrap(), passed(round * 1_002), "stopped");
    }
    assert_eq!(capture.counters_at(1).unwrap(), QueueCounters::default());
    assert!(matches!(capture.counters(1), Err(Error::Queue { queue: 1, queues: 1 })));
    drop(capture);
    assert_eq!(program_there(&pair), None, "the root went with its last process");
}

#[test]
fn frames_of_a_queue_with_a_socket_are_steered_with_the_time_in_front() {
    if !need_root("capture metadata") {
        return;
    }
    let pair = Pair::new("xmeta");
    let frame: Vec<u8> = (0..200).collect();
    for metadata in [Metadata::None, Metadata::Stamp] {
        let capture = open(&pair, metadata).unwrap();
        let run = capture.test_run(&frame).unwrap();
        assert_eq!((run.verdict, &run.frame), (Verdict::Pass, &frame), "no socket, no metadata");
        let socket = xdp_socket(&pair);
        capture.set_socket(0, socket.as_fd()).unwrap();
        let before = tai_ns();
        let run = capture.test_run(&frame).unwrap();
        let after = tai_ns();
        assert_eq!(run.verdict, Verdict::Redirect);
        let (front, rest) = run.frame.split_at(metadata.bytes() as usize);
        assert_eq!(rest, frame);
        if let Ok(stamp) = <[u8; 8]>::try_from(front) {
            let stamp = u64::from_ne_bytes(stamp);
            assert!((before..=after).contains(&stamp), "{before} {stamp} {after}");
        }
        let counters = capture.counters(0).unwrap();
        assert_eq!(
            counters,
            QueueCounters { seen: 2, passed: 1, steered: 1, ..QueueCounters::default() }
        );
        capture.clear_socket(0).unwrap();
        capture.clear_socket(0).unwrap();
        assert_eq!(capture.test_run(&frame).unwrap().verdict, Verdict::Pass);
        // A closed socket leaves the map by itself, some time after its last descriptor is closed.
        capture.set_socket(0, socket.as_fd()).unwrap();
        drop(socket);
        let closed = Instant::now();
        while capture.test_run(&frame).unwrap().verdict != Verdict::Pass {
            assert!(closed.elapsed() < Duration::from_secs(10), "it stays in the map");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(capture.set_socket(1, pair.sockets(1)[0].as_fd()).is_err(), "no such queue");
        assert!(capture.set_socket(0, pair.sockets(1)[0].as_fd()).is_err(), "no AF_XDP");
    }
}

fn tai_ns() -> u64 {
    let now = clock_gettime_dynamic(DynamicClockId::Tai).unwrap();
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn two_captures_share_an_interface_and_a_third_is_refused() {
    if !need_root("captures that share") {
        return;
    }
    let pair = Pair::new("xshare");
    let mut first = open(&pair, Metadata::None).unwrap();
    let root = program_there(&pair);
    let mut second = open(&pair, Metadata::Stamp).unwrap();
    assert_eq!(program_there(&pair), root, "one root");
    let refused = open(&pair, Metadata::None).unwrap_err();
    assert!(matches!(refused, Error::NoPlace { places: 2, .. }), "{refused}");
    let (filter, _socket) = witness(&pair);
    let transmitter = pair.transmitter();
    let frames = vec![&[2u8; 60][..]; 100];
    first.start().unwrap();
    second.start().unwrap();
    send(&transmitter, &frames, &filter);
    first.stop().unwrap();
    assert_eq!(first.counters(0).unwrap(), passed(100));
    drop(first);
    assert_eq!(program_there(&pair), root, "the other still needs it");
    send(&transmitter, &frames, &filter);
    // The place is free again, and in front.
    let mut third = open(&pair, Metadata::None).unwrap();
    third.start().unwrap();
    send(&transmitter, &frames, &filter);
    second.stop().unwrap();
    third.stop().unwrap();
    assert_eq!(second.counters(0).unwrap(), passed(300));
    assert_eq!(third.counters(0).unwrap(), passed(100));
    drop((second, third));
    assert_eq!(program_there(&pair), None);
}

#[test]
fn what_is_left_behind_is_finished_from_descriptors_alone() {
    if !need_root("captures left behind") {
        return;
    }
    let pair = Pair::new("xleft");
    let mut capture = open(&pair, Metadata::None).unwrap();
    capture.start().unwrap();
    let handles = capture.handles().unwrap();
    let (filter, _socket) = witness(&pair);
    let transmitter = pair.transmitter();
    let frames = vec![&[2u8; 60][..]; 100];
    send(&transmitter, &frames, &filter);
    let descriptors = handles.descriptors().map(|fd| fd.try_clone_to_owned().unwrap());
    drop(handles);
    let left = CaptureLeftBehind::new(CaptureHandles::from_descriptors(descriptors)).unwrap();
    left.stop().unwrap();
    send(&transmitter, &frames, &filter);
    assert_eq!(left.counters_at(0).unwrap(), passed(100));
    // It stops only what is its own: the place may be another's by now.
    drop(capture);
    assert!(program_there(&pair).is_some(), "what was left holds the root");
    let mut next = open(&pair, Metadata::None).unwrap();
    next.start().unwrap();
    left.stop().unwrap();
    send(&transmitter, &frames, &filter);
    next.stop().unwrap();
    assert_eq!(next.counters(0).unwrap(), passed(100));
    assert_eq!(left.counters_at(0).unwrap(), passed(100));
    drop((left, next));
    assert_eq!(program_there(&pair), None);
}

#[test]
fn another_program_is_named_and_left_alone() {
    if !need_root("foreign programs") {
        return;
    }
    let pair = Pair::new("xother");
    let there = inside(&pair.receiver, || {
        XdpProgram::pass().unwrap().attach(ifindex(&pair.receiver)).unwrap().keep();
        attached_program(ifindex(&pair.receiver)).unwrap()
    });
    let error = open(&pair, Metadata::None).unwrap_err();
    assert!(matches!(&error, Error::Foreign { program, .. } if program == "xdp_pass"), "{error}");
    assert_eq!(program_there(&pair), there);
    ip(&["-n", &pair.receiver, "link", "set", "end", "xdp", "off"]);
    open(&pair, Metadata::None).unwrap();
    // A driver without XDP.
    let config = CaptureConfig {
        interface: "lo",
        ifindex: 1,
        queues: 1,
        metadata: Metadata::None,
        filter: None,
        link_type: LinkType::ETHERNET,
        generic_allowed: true,
    };
    let generic = inside(&pair.receiver, || CaptureProgram::open(&config)).unwrap();
    assert_eq!((generic.mode(), generic.notes().len()), (Mode::Generic, 1));
    drop(generic);
    let full = CaptureConfig { metadata: Metadata::Full, ..config };
    let generic = inside(&pair.receiver, || CaptureProgram::open(&full)).unwrap();
    assert_eq!((generic.mode(), generic.metadata()), (Mode::Generic, Metadata::Stamp));
    assert_eq!(generic.notes().len(), 2, "{:?}", generic.notes());
    let native_only = CaptureConfig { generic_allowed: false, ..config };
    let refused = || inside(&pair.receiver, || CaptureProgram::open(&native_only)).unwrap_err();
    let error = refused();
    assert!(error.to_string().contains("a root is there in the generic path"), "{error}");
    drop(generic);
    let error = refused();
    assert!(matches!(&error, Error::Attach { refused, .. } if refused.len() == 1), "{error}");
}

#[test]
fn what_a_filter_accepts_is_steered_and_the_rest_passes() {
    let test = "capture filters";
    if !need_root(test) {
        return;
    }
    let files: Vec<_> =
        captures(test).into_iter().filter(|f| f.link_type == LinkType::ETHERNET).collect();
    let pair = Pair::new("xfilter");
    let transmitter = pair.transmitter();
    // The interface takes none that is longer or has no header.
    let reaches = |bytes: &&[u8]| (14..=65_535).contains(&bytes.len());
    let all = files.iter().flat_map(|file| file.frames.iter().map(|frame| &frame.bytes[..]));
    let frames: Vec<&[u8]> = all.filter(reaches).collect();
    let (mut steered, mut rejected) = (0, 0);
    for text in expressions::all().into_iter().step_by(by_run(30, 9)) {
        let Some(classic) = program(text, LinkType::ETHERNET, true) else { continue };
        let reference = Prepared::new(&classic).unwrap();
        let mut capture = open_with(&pair, Metadata::Stamp, Some(&classic)).unwrap();
        let sink = Sink::new(&pair);
        capture.set_socket(0, sink.socket.as_fd()).unwrap();
        capture.start().unwrap();
        let accepts = |bytes: &&[u8]| reference.accepts(bytes, bytes.len() as u32);
        let (taken, passed): (Vec<&[u8]>, Vec<&[u8]>) = frames.iter().copied().partition(accepts);
        for part in [taken.chunks(64), passed.chunks(64)] {
            part.for_each(|batch| send_counted(&transmitter, batch, &capture));
        }
        capture.stop().unwrap();
        let counters = capture.counters(0).unwrap();
        let expected = QueueCounters {
            seen: frames.len() as u64,
            passed: passed.len() as u64,
            steered: taken.len() as u64,
            ..QueueCounters::default()
        };
        assert_eq!(counters, expected, "{text}");
        assert_eq!(sink.taken(), counters.steered, "{text}: the socket's own count");
        steered += counters.steered;
        rejected += counters.passed;
    }
    eprintln!("{steered} steered, {rejected} passed");
    assert!(
        files.is_empty() || (steered > by_run(3_000, 10_000) && rejected > by_run(30_000, 100_000))
    );
}

#[test]
fn what_is_left_behind_with_a_filter_goes_on_counting_what_passes() {
    if !need_root("filtered captures left behind") {
        return;
    }
    let pair = Pair::new("xleftf");
    let classic = program("ether[0] = 2", LinkType::ETHERNET, true).unwrap();
    let mut capture = open_with(&pair, Metadata::Stamp, Some(&classic)).unwrap();
    let sink = Sink::new(&pair);
    capture.set_socket(0, sink.socket.as_fd()).unwrap();
    capture.start().unwrap();
    let transmitter = pair.transmitter();
    let (taken, passed) = ([&[2u8; 60][..]; 10], [&[4u8; 60][..]; 20]);
    send_counted(&transmitter, &taken, &capture);
    send_counted(&transmitter, &passed, &capture);
    let handles = capture.handles().unwrap();
    let descriptors = handles.descriptors().map(|fd| fd.try_clone_to_owned().unwrap());
    let left = CaptureLeftBehind::new(CaptureHandles::from_descriptors(descriptors)).unwrap();
    // As when the process dies, but for the leaf, which a process that dies does not take out.
    drop(sink);
    let (filter, _socket) = witness(&pair);
    send(&transmitter, &taken, &filter);
    send(&transmitter, &passed, &filter);
    left.stop().unwrap();
    send(&transmitter, &passed, &filter);
    let expected = QueueCounters { seen: 60, passed: 50, steered: 10, ..QueueCounters::default() };
    assert_eq!(left.counters_at(0).unwrap(), expected);
}

/// Sends a batch and waits until the capture has seen it.
fn send_counted(transmitter: &PacketTx, batch: &[&[u8]], capture: &CaptureProgram) {
    let seen = capture.counters(0).unwrap().seen + batch.len() as u64;
    let mut rest = batch;
    while !rest.is_empty() {
        rest = &rest[transmitter.send_batch(rest).unwrap()..];
    }
    let start = Instant::now();
    while capture.counters(0).unwrap().seen < seen {
        assert!(start.elapsed() < Duration::from_secs(20), "frames were lost on the way");
        std::thread::yield_now();
    }
}
