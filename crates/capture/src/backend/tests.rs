//! A wire for the tests of the backends: two ends of a veth pair in a namespace of its own, and a
//! sender on one of them.

mod conformance;

use ringside_core::{OwnedFrame, Source, SourceCounters};
use ringside_netdev::{self as netdev, NetDevice};
use ringside_sys::netns::Namespace;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX};
use ringside_sys::thread;
use ringside_testkit::{WAIT_MAX, wait_until};
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The end that sends.
pub(crate) const TX: &str = "rsafp-tx";
/// The end that is captured.
pub(crate) const RX: &str = "rsafp-rx";

/// Longest wait for frames that must come: only a broken capture reaches it.
pub(crate) const PATIENCE: Duration = WAIT_MAX;

/// The CPUs of this process: tests run on the last, the load on the first.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// Runs `test` on a thread in a fresh namespace with a quiet veth pair, if this is root.
pub(crate) fn on_a_wire(name: &str, test: impl FnOnce(&Wire) + Send + 'static) {
    if !ringside_testkit::need_root(name) {
        return;
    }
    let cpus = CPUS.get_or_init(|| thread::allowed_cpus().unwrap());
    let body = move || {
        // Frames of a sender that changes its CPU may overtake each other before the capture.
        thread::pin_to_cpu(cpus[cpus.len() - 1]).unwrap();
        let wire = Wire::new();
        Namespace::open(&wire.namespace).unwrap().enter().unwrap();
        wait_for_link();
        test(&wire);
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
}

/// Until the kernel has noticed the link it drops what is sent.
fn wait_for_link() {
    wait_until("the link", || [TX, RX].iter().all(|end| device(end).is_noticed()));
}

/// A namespace with the pair; deleted on drop.
pub(crate) struct Wire {
    namespace: String,
}

impl Wire {
    fn new() -> Wire {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("rsafp-{}-{number}", std::process::id());
        run("ip", &["netns", "add", &namespace]);
        let wire = Wire { namespace };
        for family in ["all", "default"] {
            let key = format!("net.ipv6.conf.{family}.disable_ipv6=1");
            wire.inside("sysctl", &["-qw", &key]);
        }
        wire.add_pair("mtu 65535");
        wire
    }

    fn add_pair(&self, properties: &str) {
        self.ip(&format!("link add {TX} {properties} type veth peer name {RX} {properties}"));
        for end in [TX, RX] {
            self.inside("ethtool", &["-K", end, "gro", "off", "tso", "off", "gso", "off"]);
            self.ip(&format!("link set {end} arp off up"));
        }
    }

    /// Makes the pair again, with this MTU and number of queues at each end.
    pub(crate) fn make_pair_again(&self, mtu: u32, queues: u16) {
        self.ip(&format!("link del {TX}"));
        self.add_pair(&format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}"));
        wait_for_link();
    }

    /// `ip` with these words, in the namespace.
    pub(crate) fn ip(&self, words: &str) {
        let mut arguments = vec!["-n", &self.namespace];
        arguments.extend(words.split_whitespace());
        run("ip", &arguments);
    }

    pub(crate) fn inside(&self, tool: &str, arguments: &[&str]) {
        let mut all = vec!["netns", "exec", &self.namespace, tool];
        all.extend(arguments);
        run("ip", &all);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let deleted = Command::new("ip").args(["netns", "del", &self.namespace]).status();
        if !deleted.is_ok_and(|status| status.success()) {
            eprintln!("namespace {} could not be deleted", self.namespace);
        }
    }
}

/// Deletes the namespaces of test processes that were killed.
fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix("rsafp-").and_then(|rest| rest.split('-').next());
        let Some(owner) = owner else { continue };
        if !std::path::Path::new("/proc").join(owner).exists() {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {}: {errors}", arguments.join(" "));
}

pub(crate) fn device(name: &str) -> NetDevice {
    netdev::by_name(name).unwrap().unwrap()
}

/// Sends every frame, in order, on `interface`, and waits until the kernel has handed all of them
/// to the sockets of the far end: on a busy machine its softirq runs later.
pub(crate) fn deliver(interface: &str, frames: &[Vec<u8>]) {
    send(interface, frames);
    wait_until("empty backlogs", || {
        // The twelfth field of each CPU is the length of its backlog (net/core/net-procfs.c). The
        // frame that is handed over right now is waited for by the detaching.
        let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
        let is_empty = |line: &str| {
            let length = line.split_whitespace().nth(11).expect("Linux 5.10 or later");
            u32::from_str_radix(length, 16) == Ok(0)
        };
        text.lines().all(is_empty)
    });
}

/// Sends every frame, in order, on `interface`.
pub(crate) fn send(interface: &str, frames: &[Vec<u8>]) {
    // Past the queueing discipline a frame also goes past the sockets that capture what is sent.
    let sender = PacketTx::open(device(interface).ifindex, false).unwrap();
    send_by(&sender, frames);
}

fn send_by(sender: &PacketTx, frames: &[Vec<u8>]) {
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let start = Instant::now();
    let mut sent = 0;
    while sent < frames.len() {
        match sender.send_batch(&frames[sent..]) {
            Ok(count) => sent += count,
            // The other end's queue is full: its softirq has to run.
            Err(error) if error.raw_os_error() == Some(105) => std::thread::yield_now(),
            Err(error) => panic!("frame {sent} of {} bytes: {error}", frames[sent].len()),
        }
        assert!(start.elapsed() < PATIENCE, "{sent} of {} sent", frames.len());
    }
}

/// A sender on a CPU of its own, at full speed until stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(frames: Vec<Vec<u8>>) -> Load {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (stop.clone(), sent.clone());
        // A thread inherits the namespace.
        let thread = std::thread::spawn(move || {
            thread::pin_to_cpu(CPUS.get().unwrap()[0]).unwrap();
            let sender = PacketTx::open(device(TX).ifindex, true).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while !stopped.load(Ordering::Relaxed) && Instant::now() < deadline {
                for piece in frames.chunks(SEND_FRAMES_MAX) {
                    send_by(&sender, piece);
                    counter.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
            }
        });
        Load { stop, sent, thread: Some(thread) }
    }

    /// Waits until some more frames are out.
    pub(crate) fn run_for(&self, frames: u64) {
        let (from, start) = (self.sent.load(Ordering::Relaxed), Instant::now());
        while self.sent.load(Ordering::Relaxed) < from + frames {
            assert!(start.elapsed() < PATIENCE, "the sender stands still");
            std::thread::yield_now();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the sender failed");
        }
    }
}

/// A frame of `bytes` bytes (at least 14) that carries `number` where there is room.
pub(crate) fn numbered(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend((0..).map(|i: u32| (i.wrapping_mul(31) ^ number) as u8).take(bytes));
    frame.truncate(bytes);
    frame
}

/// The same with tags, as protocol and TCI, outermost first.
pub(crate) fn tagged(number: u32, bytes: usize, tags: &[(u16, u16)]) -> Vec<u8> {
    let mut frame = numbered(number, bytes);
    let words = tags.iter().flat_map(|&(tpid, tci)| [tpid, tci]);
    frame.splice(12..12, words.flat_map(u16::to_be_bytes));
    frame
}

/// IPv4 and UDP from port `flow`, with the number behind the headers.
pub(crate) fn udp(number: u32, flow: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let ip_bytes = (bytes - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(ip_bytes.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend((1024 + flow).to_be_bytes());
    frame.extend([0, 9]);
    frame.extend((ip_bytes - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, 0);
    frame
}

/// The frames of every special form and size, numbered from 0.
pub(crate) fn zoo() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for bytes in (14..60).chain([60, 61, 64, 512, 1514, 2048, 4000, 9000, 65_535, 65_549]) {
        frames.push(numbered(frames.len() as u32, bytes));
    }
    let (q, ad) = (0x8100, 0x88a8);
    for tags in [
        &[(q, 5)][..],
        &[(q, 0)],
        &[(q, 0xffff)],
        &[(ad, 0x2064)],
        &[(ad, 100), (q, 200)],
        &[(q, 1), (q, 2)],
        &[(q, 1), (q, 2), (q, 3)],
    ] {
        for bytes in [18, 60, 1514] {
            frames.push(tagged(frames.len() as u32, bytes, tags));
        }
    }
    frames
}

/// Reads until `count` frames came.
pub(crate) fn take(source: &mut dyn Source, count: usize) -> Vec<OwnedFrame> {
    let (mut frames, start) = (Vec::new(), Instant::now());
    while frames.len() < count {
        if let Some(batch) = source.next_batch(Duration::from_millis(20)).unwrap() {
            frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
        assert!(start.elapsed() < PATIENCE, "{} of {count} frames came", frames.len());
        assert!(!source.is_finished(), "finished after {} of {count} frames", frames.len());
    }
    frames
}

/// Sends piece by piece and reads each before the next, so that no ring can overflow.
pub(crate) fn send_and_take(source: &mut dyn Source, frames: &[Vec<u8>]) -> Vec<OwnedFrame> {
    let mut got = Vec::with_capacity(frames.len());
    for piece in frames.chunks(400) {
        send(TX, piece);
        got.extend(take(source, piece.len()));
    }
    got
}

/// Reads a detached source to its end; returns the number of frames.
pub(crate) fn drain(source: &mut dyn Source) -> u64 {
    let (mut count, start) = (0, Instant::now());
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_millis(20)).unwrap() {
            count += batch.frame_count() as u64;
        }
        assert!(start.elapsed() < PATIENCE, "not drained after {count} frames");
    }
    count
}

/// Reads a detached source to its end.
pub(crate) fn take_rest(source: &mut dyn Source) -> Vec<OwnedFrame> {
    let (mut frames, start) = (Vec::new(), Instant::now());
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_millis(20)).unwrap() {
            frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
        assert!(start.elapsed() < PATIENCE, "not drained after {} frames", frames.len());
    }
    frames
}

/// Drains one whose counters were `at_detach`: as many frames come as were counted to be
/// there, and nothing else is counted any more.
pub(crate) fn drain_counted(source: &mut dyn Source, at_detach: &SourceCounters) -> u64 {
    let count = drain(source);
    let expected = SourceCounters { in_flight: Some(0), ..at_detach.clone() };
    assert_eq!(source.counters(), expected, "nothing is counted after the detach");
    assert_eq!(at_detach.in_flight, Some(count), "what lay in the ring");
    count
}

/// received = lent + filtered + dropped.
pub(crate) fn assert_balanced(counters: &SourceCounters, lent: u64) {
    let (Some(received), Some(filtered)) = (counters.received, counters.filtered) else {
        panic!("not counted: {counters:?}");
    };
    let dropped: u64 = counters.dropped.values().sum();
    assert_eq!(received, lent + filtered + dropped, "{lent} lent, {counters:?}");
}

/// Compares without printing 64 KiB.
pub(crate) fn assert_same_bytes(got: &[OwnedFrame], sent: &[Vec<u8>]) {
    assert_eq!(got.len(), sent.len());
    for (index, (got, sent)) in got.iter().zip(sent).enumerate() {
        let equal = got.bytes == *sent;
        assert!(equal, "frame {index}: {} bytes for {}", got.bytes.len(), sent.len());
        assert_eq!(got.meta.wire_bytes as usize, sent.len(), "frame {index}");
    }
}
