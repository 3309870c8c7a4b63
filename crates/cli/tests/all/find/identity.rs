//! `find` gives the packets of tcpdump: random triples of a recording or a capture, an expression
//! and a span of time, over whatever became of the recording meanwhile.

use super::index;
use super::traffic::{self, Packet, Traffic, packets_of};
use crate::common::*;
use ringside_core::{TimeRange, Timestamp};
use ringside_testkit::{Random, by_run, capture_sample, need_tool};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Triples of the short run, and of the long one: two thirds over real captures.
const TRIPLES: [usize; 2] = [18, 1_000];
/// Its time is one that tcpdump's copy, a pcap file, has no room for.
const BEYOND_PCAP: &str = "time_2107.pcapng";
/// Stands for the one of 40 real captures that the short run takes.
const REAL_SAMPLE: u64 = 40;
/// Larger captures are left to the long run.
const REAL_BYTES_MAX: [u64; 2] = [2 << 20, 64 << 20];

/// What tcpdump says of files that follow each other in one lane, by expression. `None`: libpcap
/// refuses the expression for them.
struct Judge {
    files: Vec<PathBuf>,
    answers: HashMap<String, Option<Vec<Packet>>>,
}

impl Judge {
    /// Of a capture, or of the files of a directory in the order of their names.
    fn of(input: &Path) -> Judge {
        let files = if input.is_dir() { files_in(input) } else { vec![input.to_owned()] };
        let is_capture =
            |path: &PathBuf| arg(path).contains(".pcap") && !arg(path).ends_with(".index");
        Judge { files: files.into_iter().filter(is_capture).collect(), answers: HashMap::new() }
    }

    fn packets(&mut self, expression: &str) -> Option<&[Packet]> {
        if !self.answers.contains_key(expression) {
            let answers = self.files.iter().map(|file| tcpdump(file, expression));
            let packets = answers.collect::<Option<Vec<_>>>().map(|lists| lists.concat());
            self.answers.insert(expression.to_owned(), packets);
        }
        self.answers[expression].as_deref()
    }
}

/// What tcpdump takes of a file, which a kill may have cut and zstd packed.
fn tcpdump(file: &Path, expression: &str) -> Option<Vec<Packet>> {
    let dir = tempfile::tempdir().unwrap();
    let [plain, found] = ["plain.pcapng", "found.pcap"].map(|name| dir.path().join(name));
    let input = if arg(file).ends_with(".zst") {
        run_clean("zstd", &["-q", "-d", arg(file), "-o", arg(&plain)]);
        plain.as_path()
    } else {
        file
    };
    let outcome = run("tcpdump", &["--nano", "-r", arg(input), "-w", arg(&found), expression]);
    let is_read = outcome.status.success() || outcome.stderr.contains("truncated dump file");
    is_read.then(|| packets_of(&found))
}

/// True if tcpdump reads a capture to its end, with one link type, as `find` is compared with it.
fn is_judged(capture: &Path) -> bool {
    let long = by_run(REAL_BYTES_MAX[0], REAL_BYTES_MAX[1]);
    let is_small = capture.metadata().is_ok_and(|file| file.len() <= long);
    is_small
        && !arg(capture).ends_with(BEYOND_PCAP)
        && run("tcpdump", &["-r", arg(capture), "-w", "/dev/null"]).status.success()
        && !has_more_than_it_says(&std::fs::read(capture).unwrap())
}

/// True for a pcap file that holds more bytes of a frame than its header says that it keeps:
/// libpcap cuts such a frame, and `find` gives what is there.
fn has_more_than_it_says(pcap: &[u8]) -> bool {
    let is_little = pcap.starts_with(&[0xd4, 0xc3]) || pcap.starts_with(&[0x4d, 0x3c]);
    let is_big = pcap.starts_with(&[0xa1, 0xb2]);
    let word = |at: usize| {
        let word = *pcap.get(at..)?.first_chunk()?;
        Some(if is_little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    };
    let (snaplen, mut at) = (word(16).unwrap_or(0), 24);
    while (is_little || is_big)
        && let Some(captured) = word(at + 8)
    {
        if captured > snaplen {
            return true;
        }
        at += 16 + captured as usize;
    }
    false
}

/// An expression that a packet of the capture suggests, or one that asks for whatever there is.
fn suggested(packets: &[Packet], random: &mut Random) -> String {
    let first = suggested_term(packets, random);
    match random.below(4) {
        0 | 1 => first,
        2 => format!("{first} or {}", suggested_term(packets, random)),
        _ => format!("{first} and not ({})", suggested_term(packets, random)),
    }
}

fn suggested_term(packets: &[Packet], random: &mut Random) -> String {
    const OTHERS: [&str; 12] = [
        "tcp",
        "udp",
        "ip6",
        "not ip",
        "arp",
        "vlan",
        "mpls",
        "icmp or icmp6",
        "port 53",
        "portrange 1-1023",
        "net 10.0.0.0/8 or net 192.168.0.0/16",
        "greater 500",
    ];
    let bytes = packets.get(random.below(packets.len().max(1))).map_or(&[][..], |one| &one.bytes);
    let is_ethernet_ip = bytes.len() >= 38 && bytes[12..14] == [8, 0] && bytes[14] == 0x45;
    if !is_ethernet_ip || random.below(3) == 0 {
        return OTHERS[random.below(OTHERS.len())].to_owned();
    }
    let address =
        |at: usize| format!("{}.{}.{}.{}", bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    match random.below(5) {
        0 => format!("host {}", address(26)),
        1 => format!("src host {} and dst host {}", address(26), address(30)),
        2 => format!("net {}.{}.0.0/16", bytes[30], bytes[31]),
        3 => format!("port {port}"),
        _ => format!("ip proto {} and dst {}", bytes[23], address(30)),
    }
}

/// A span between the moments of two packets, or all of the time.
fn span(packets: &[Packet], random: &mut Random) -> (TimeRange, Vec<String>) {
    if packets.is_empty() || random.below(4) == 0 {
        return (TimeRange::default(), Vec::new());
    }
    let mut pick = || packets[random.below(packets.len())].time;
    let (one, other) = (pick(), pick());
    // With both, and never empty: that is refused.
    let (from, to) = (one.min(other), Timestamp(one.max(other).0 + 1));
    let text = |at: Timestamp| format!("{}.{:09}", at.seconds(), at.0 % 1_000_000_000);
    let args = ["--from".into(), text(from), "--to".into(), text(to)];
    (TimeRange { from: Some(from), to: Some(to) }, args.into())
}

/// One triple: the answer is that of the judge. False if libpcap refuses the expression, which
/// `find` then refuses too.
fn is_same(
    judge: &mut Judge,
    input: &Path,
    expression: &str,
    (range, args): (TimeRange, Vec<String>),
) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("found.pcapng");
    let fixed = ["find", "-r", arg(input), "--json", "-w", arg(&file)].map(str::to_owned);
    let all = [&fixed[..], &args[..], &[expression.to_owned()]].concat();
    let outcome = run_ringside(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(packets) = judge.packets(expression) else {
        assert_eq!(outcome.code(), Some(2), "{input:?} {expression}: {outcome:?}");
        return false;
    };
    let expected: Vec<_> = packets.iter().filter(|packet| range.holds(packet.time)).collect();
    assert!(file.exists(), "{input:?} {all:?}: {outcome:?}");
    let found = packets_of(&file);
    assert_eq!(found.len(), expected.len(), "{input:?} {all:?}: {outcome:?}");
    assert!(found.iter().eq(expected), "{input:?} {all:?}: other packets, or another order");
    true
}

/// The recordings of the test, each after something else.
fn recordings(folder: &Path, traffic: &Traffic) -> Vec<PathBuf> {
    let record = |name: &str, args: &[&str]| {
        let to = folder.join(name);
        let fixed = ["capture", "-r", arg(&traffic.file), "-w", arg(&to)];
        let outcome = run_ringside(&[&fixed[..], args].concat());
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        to
    };
    let aged = record("aged", &["-C", "2MiB", "--limit-bytes", "9MiB"]);
    assert!(folder_bytes(&aged) < 10 << 20, "retention has deleted");
    index(&[&aged]);
    let [killed, repaired] = ["killed", "repaired"].map(|name| folder.join(name));
    record_and_kill(traffic, &killed);
    record_and_kill(traffic, &repaired);
    let outcome = run_ringside(&["repair", arg(&repaired)]);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    index(&[&repaired]);
    let mut all = vec![traffic.recording.clone(), aged, killed, repaired];
    if need_tool("find::identity of a compressed recording", "zstd") {
        let compressed = record("compressed", &["-C", "3MiB"]);
        index(&[&compressed]);
        let outcome = run_ringside(&["compress", arg(&compressed)]);
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        all.push(compressed);
    }
    all
}

fn folder_bytes(directory: &Path) -> u64 {
    files_in(directory).iter().map(|path| path.metadata().unwrap().len()).sum()
}

/// Records two thirds of the traffic from a pipe, and kills the recorder while it waits for more.
fn record_and_kill(traffic: &Traffic, to: &Path) {
    let mut command = Command::new(ringside());
    command.args(["capture", "--no-keeper", "-r", "-", "-w", arg(to), "-C", "3MiB"]);
    let (theirs, mut input) = std::io::pipe().unwrap();
    command.stdin(theirs).stdout(Stdio::null());
    let running = Running::start_directed(command);
    let bytes = traffic.stream();
    input.write_all(&bytes[..bytes.len() * 2 / 3]).unwrap();
    let has_most = || to.is_dir() && folder_bytes(to) > bytes.len() as u64 / 2;
    ringside_testkit::wait_until("most is recorded", has_most);
    running.signal(Signal::KILL);
    running.finish();
    drop(input);
}

#[test]
fn random_triples_give_the_packets_of_tcpdump_whatever_became_of_the_recording() {
    let test = "find::identity::random_triples_give_the_packets_of_tcpdump";
    if !need_tool(test, "tcpdump") {
        return;
    }
    let seed = ringside_testkit::number("RINGSIDE_SEED").unwrap_or(27);
    let (mut random, folder) = (Random::new(seed), tempfile::tempdir().unwrap());
    let traffic = Traffic::recorded();
    index(&[&traffic.recording]);
    let mut inputs = recordings(folder.path(), &traffic);
    let made = inputs.len();
    for path in capture_sample(test, REAL_SAMPLE).into_iter().filter(|path| is_judged(path)) {
        let number = inputs.len();
        let copy = folder.path().join(format!("{number}-{}", path.file_name().unwrap().display()));
        std::fs::copy(&path, &copy).unwrap();
        // Every other one has an index.
        if number.is_multiple_of(2) {
            index(&[&copy]);
        }
        inputs.push(copy);
    }
    let mut judges: Vec<_> = inputs.iter().map(|input| Judge::of(input)).collect();
    let (triples, mut same) = (by_run(TRIPLES[0], TRIPLES[1]), 0);
    for round in 0..triples {
        let is_real = round % 3 > 0 && inputs.len() > made;
        let at =
            if is_real { made + random.below(inputs.len() - made) } else { (round / 3) % made };
        let (judge, input) = (&mut judges[at], &inputs[at]);
        let all = judge.packets("").expect("tcpdump reads it").to_vec();
        let expression = match is_real {
            true => suggested(&all, &mut random),
            false => traffic::expression(&mut random),
        };
        let span = span(&all, &mut random);
        same += usize::from(is_same(judge, input, &expression, span));
    }
    assert!(same * 2 > triples, "{same} of {triples} were compared");
}
