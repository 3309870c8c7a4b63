//! All analyzers at once, of a file, on one core: flows, HTTP, calls with unannounced RTP, DNS,
//! TLS and QUIC, each with its log as JSON, next to tshark (every dissector, one number a message)
//! and, where it is installed, Suricata (no rules, its logs).
//!
//! `cargo bench -p ringside-bench --bench everything [-- FILE]` prints a table. The file, without
//! one the tests' mixed capture, is repeated with later stamps until it has enough packets; all
//! programs are bound to the last CPU and read it from memory, in turn.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_calls::CallsObserver;
use ringside_core::LaneId;
use ringside_dns::DnsObserver;
use ringside_flow::{FlowObserver, FlowTable, LineFormat, Lines, Names};
use ringside_http::HttpObserver;
use ringside_inspect::{Observer, Pump};
use ringside_logs::{Log, Logged, RecordFormat, RecordLines, RecordSink};
use ringside_testkit::capture_dir;
use ringside_tls::TlsObserver;
use std::io::{BufWriter, Write, sink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
/// Packets of the file that is read.
const PACKETS: u64 = 400_000;
/// Between two repetitions: longer than any analyzer waits for a flow.
const PAUSE_NS: u64 = 3_600_000_000_000;

/// What is measured: a name, and the analyzers of one run.
type Case = (&'static str, fn() -> Vec<Box<dyn Observer>>);

const CASES: [Case; 7] = [
    ("read and dissected", Vec::new),
    ("flows", || vec![flows()]),
    ("http", || vec![http()]),
    ("calls", || vec![calls()]),
    ("dns", || vec![dns()]),
    ("tls", || vec![tls()]),
    ("everything", || vec![flows(), http(), calls(), dns(), tls()]),
];

/// A log of lines in JSON, which are made and thrown away.
fn log<R: Logged + 'static>() -> Vec<(String, Box<dyn RecordSink<R>>)> {
    let lines = RecordLines::new(RecordFormat::Json, Names::Ringside, |_| String::new());
    vec![("log".into(), Box::new(Log::to_stream(sink(), Box::new(lines))))]
}

fn flows() -> Box<dyn Observer> {
    let lines = Lines::new(sink(), LineFormat::Json, Names::Ringside);
    Box::new(FlowObserver::new(FlowTable::new(Default::default()).unwrap(), vec![Box::new(lines)]))
}

fn http() -> Box<dyn Observer> {
    Box::new(HttpObserver::new(Default::default(), log()))
}

fn calls() -> Box<dyn Observer> {
    let options = ringside_calls::Options { finds_unannounced: true, ..Default::default() };
    Box::new(CallsObserver::new(options, log()))
}

fn dns() -> Box<dyn Observer> {
    Box::new(DnsObserver::new(Default::default(), log()))
}

fn tls() -> Box<dyn Observer> {
    Box::new(TlsObserver::new(Default::default(), log()))
}

/// Writes the packets of a capture of Ethernet, again and again, each time later.
fn repeated(path: &Path, to: &Path) -> (u64, u64) {
    let mut packets: Vec<(u64, u32, Vec<u8>)> = Vec::new();
    let mut source = ringside_store::open(&[path.to_owned()]).unwrap();
    source.start().unwrap();
    while !source.is_finished() {
        let Some(batch) = source.next_batch(Duration::ZERO).unwrap() else { continue };
        let kept = |frame: ringside_core::Frame<'_>| {
            (frame.meta.timestamp.0, frame.meta.wire_bytes, frame.bytes.to_vec())
        };
        packets.extend(batch.iter().map(kept));
    }
    let first = packets.iter().map(|packet| packet.0).min().unwrap();
    let span_ns = packets.iter().map(|packet| packet.0).max().unwrap() - first + PAUSE_NS;
    let mut file = BufWriter::new(std::fs::File::create(to).unwrap());
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 1 << 18, 1] {
        file.write_all(&word.to_le_bytes()).unwrap();
    }
    let rounds = PACKETS.div_ceil(packets.len() as u64);
    for round in 0..rounds {
        for (stamp, wire_bytes, bytes) in &packets {
            let at = stamp + round * span_ns;
            let times = [at / 1_000_000_000, at % 1_000_000_000].map(|part| part as u32);
            for word in [times[0], times[1], bytes.len() as u32, *wire_bytes] {
                file.write_all(&word.to_le_bytes()).unwrap();
            }
            file.write_all(bytes).unwrap();
        }
    }
    file.flush().unwrap();
    let bytes: u64 = packets.iter().map(|packet| packet.2.len() as u64).sum();
    (rounds * packets.len() as u64, rounds * bytes)
}

fn ours(path: &Path, observers: Vec<Box<dyn Observer>>, packets: u64) -> Duration {
    let start = Instant::now();
    let mut source = ringside_store::open(&[path.to_owned()]).unwrap();
    let report = Pump::new(observers).run(&mut *source, LaneId(0), &|| false);
    assert_eq!(report.seen.frames, packets);
    start.elapsed()
}

fn other(command: &mut Command) -> Option<Duration> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| start.elapsed())
}

fn tshark(path: &Path) -> Option<Duration> {
    let messages = "http or sip or rtp or dns or tls or quic";
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", messages, "-T", "fields", "-e", "frame.number", "-r"]).arg(path);
    other(&mut command)
}

fn suricata(path: &Path, folder: &Path) -> Option<Duration> {
    let mut command = Command::new("suricata");
    command.args(["--runmode", "single", "-S", "/dev/null", "-k", "none", "-l"]).arg(folder);
    other(command.arg("-r").arg(path))
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// The most memory that this process has had, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

fn bind_to_last_cpu() {
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let mut set = rustix::thread::CpuSet::new();
    set.set(last);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

fn main() {
    bind_to_last_cpu();
    let asked = std::env::args().nth(1).filter(|arg| !arg.starts_with('-')).map(PathBuf::from);
    let mixed = || capture_dir().expect("the tests' captures").join("mixed/ndpi-merged-16.pcap");
    let path = asked.unwrap_or_else(mixed);
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = folder.path().join("mixed.pcap");
    let (packets, bytes) = repeated(&path, &file);
    println!("{packets} packets of {} bytes, {ROUNDS} rounds, medians", bytes / packets);
    let mut times = vec![Vec::new(); CASES.len() + 2];
    for _ in 0..ROUNDS {
        for (at, (_, observers)) in CASES.iter().enumerate() {
            times[at].push(ours(&file, observers(), packets));
        }
        times[CASES.len()].extend(tshark(&file));
        times[CASES.len() + 1].extend(suricata(&file, folder.path()));
    }
    println!("what                  packets/s  ns/packet");
    let names = CASES.iter().map(|case| case.0).chain(["tshark", "suricata"]);
    for (name, times) in names.zip(times) {
        let Some(time) = median(times) else {
            println!("{name:20}  not installed");
            continue;
        };
        let ns = time.as_nanos() as f64 / packets as f64;
        println!("{name:20}  {:9.0}  {ns:9.0}", 1e9 / ns);
    }
    println!("memory of ringside, at most: {} MiB", peak_mib());
}
