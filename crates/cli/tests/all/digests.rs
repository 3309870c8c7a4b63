//! Records in place of frames: they add up to what the rules count, and what cannot be written is
//! reported.

use crate::common::folder::{Folder, Totals, number, rule_totals, totals};
use crate::common::verifier::shape;
use crate::common::*;
use ringside_core::Cause;
use ringside_testkit::{capture_files, capture_sample, need_root, need_tool};
use ringside_transmit::SenderKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

fn add(sum: &mut Totals, more: Totals) {
    *sum = (sum.0 + more.0, sum.1 + more.1);
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sums of records, by what `key` makes of each.
fn sums<K: Ord>(records: &[Value], key: impl Fn(&Value) -> K) -> BTreeMap<K, Totals> {
    let mut sums = BTreeMap::new();
    for record in records {
        add(sums.entry(key(record)).or_default(), totals(record));
    }
    sums
}

/// What a run says of its records.
fn digests(outcome: &Outcome) -> Value {
    let lines = outcome.json_lines();
    lines.iter().find_map(|line| line.get("digests")).unwrap().clone()
}

#[test]
fn records_of_real_captures_add_up_to_what_the_rules_count() {
    let folder = Folder::new();
    let file = folder.add(
        "some.rules",
        "1: tcp port 80 => count\n2: udp => digest\n3: tcp => drop, digest\n4: not ip4 => digest\n\
         default take\n",
    );
    let out = folder.path("digests.jsonl");
    for capture in &capture_sample("records_of_real_captures_add_up_to_what_the_rules_count", 8) {
        let args = ["capture", "-r", arg(capture), "--rules", arg(&file), "--digests", arg(&out)];
        let outcome = run_ringside(&[&args[..], &["--json", "--no-keeper"]].concat());
        let place = capture.display();
        let Some(ledger) = outcome.json_lines().last().map(|_| outcome.ledger()) else { continue };
        assert_eq!(ledger.balance(), Ok(()), "{place}: {ledger:#?}");
        let (rules, records, told) = (rule_totals(&outcome).0, records(&out), digests(&outcome));
        let by_rule = sums(&records, |record| number(record, "rule"));
        for id in [2, 3, 4] {
            let sum = by_rule.get(&id).copied().unwrap_or_default();
            assert_eq!(sum, rules[&id], "rule {id} of {place}");
        }
        let all = by_rule.values().fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        assert_eq!((totals(&told), totals(&told["written"])), (all, all), "{place}");
        assert_eq!(number(&told["written"], "records"), records.len() as u64, "{place}");
        assert_eq!(told["missed"], serde_json::json!({}), "{place}");
        for record in &records {
            assert!(number(record, "first_ns") <= number(record, "last_ns"), "{place}: {record}");
            let ends = ["idle", "active", "full", "over"];
            assert!(ends.iter().any(|end| record["end"] == *end), "{place}: {record}");
        }
        // A digest alone decides nothing: those of rule 3 alone end here.
        let dropped = ledger.dropped.get(&Cause::ByRule).copied().unwrap_or(0);
        assert_eq!(dropped, rules[&3].0, "{place}");
    }
}

/// Read again, a capture gives the same records.
#[test]
fn records_come_from_the_stamps_of_frames_alone() {
    let captures = capture_files("records_come_from_the_stamps_of_frames_alone");
    let folder = Folder::new();
    let file = folder.add("some.rules", "any => digest");
    let (mut several, mut ends) = (0, BTreeMap::new());
    for capture in captures.iter().step_by(7) {
        let read = |name: &str| {
            let out = folder.path(name);
            let args = ["-r", arg(capture), "--rules", arg(&file), "--digests", arg(&out)];
            run_ringside(&[&["capture", "--no-keeper"], &args[..]].concat());
            let mut records: Vec<String> = records(&out).iter().map(Value::to_string).collect();
            records.sort();
            records
        };
        let records = read("once");
        assert_eq!(records, read("twice"), "{}", capture.display());
        several += usize::from(records.len() > 10);
        for record in &records {
            let record: Value = serde_json::from_str(record).unwrap();
            *ends.entry(record["end"].to_string()).or_insert(0) += 1;
        }
    }
    assert!(captures.is_empty() || several > 3 && ends.len() >= 2, "{several}: {ends:?}");
}

/// tshark counts the same frames and bytes of each direction.
#[test]
fn tshark_adds_up_the_same() {
    let test = "tshark_adds_up_the_same";
    let captures = capture_sample(test, 4);
    if captures.is_empty() || !need_tool(test, "tshark") {
        return;
    }
    let folder = Folder::new();
    let (file, out) = (folder.add("some.rules", "ip4 tcp => digest"), folder.path("digests"));
    let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
    let mut compared = 0;
    for capture in captures.iter().filter(|path| arg(path).contains("/http/")) {
        // Tunnels are another matter: tshark tells the inner headers too.
        let filter = "tcp and ip and not ipv6 and not icmp and ip.flags.mf == 0";
        let fields = ["ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "frame.len"];
        let names = fields.iter().flat_map(|field| ["-e", *field]);
        let args = ["-Y", filter, "-o", "tcp.desegment_tcp_streams:false", "-T", "fields"];
        let args: Vec<&str> = args.into_iter().chain(names).chain(["-r"]).collect();
        let lines = judged("tshark", &args, capture);
        let mut expected: BTreeMap<Vec<String>, Totals> = BTreeMap::new();
        for line in lines.lines() {
            let mut values: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let bytes = values.pop().unwrap().parse().unwrap();
            add(expected.entry(values).or_default(), (1, bytes));
        }
        if expected.is_empty() || expected.keys().flatten().any(|value| value.contains(',')) {
            continue;
        }
        let args = ["capture", "-r", arg(capture), "--rules", arg(&file), "--digests", arg(&out)];
        assert_eq!(run_ringside(&args).code(), Some(0), "{}", capture.display());
        let names = ["src", "dst", "src_port", "dst_port"];
        let found = sums(&records(&out), |record| names.map(|name| text(&record[name])).to_vec());
        assert_eq!(found, expected, "{}", capture.display());
        compared += 1;
    }
    assert!(compared > 0, "there is HTTP in these files");
}

const FRAMES: u64 = 50_000;
const FLOWS: u64 = 10;
const FLOW: u64 = FRAMES / FLOWS;
const FRAME_BYTES: u64 = 120;
const PATIENT: [&str; 4] = ["--kernel-ring-size", "256MiB", "--ring-size", "64MiB"];

/// Every frame of a rule is in a record, whatever receives it.
#[test]
fn live_records_are_exact() {
    if !need_root("live_records_are_exact") {
        return;
    }
    let folder = Folder::new();
    let file = folder.add(
        "some.rules",
        "1: src port 1024-1026 => drop, digest\n2: src port 1027 => take, continue\n\
         3: src port 1027-1028 => digest, stop\ndefault drop\n",
    );
    for args in [
        &["--backend", "af-packet"][..],
        &["--backend", "af-packet", "--queues", "2"],
        &["--backend", "xdp-ring"],
        &["--backend", "af-xdp", "--threads", "3"],
    ] {
        let (network, out) = (Network::up(), folder.path("digests"));
        let own = ["-i", "rx0", "--rules", arg(&file), "--digests", arg(&out)];
        let running = network.capture(&[&own[..], &PATIENT, args].concat());
        let shape = shape(&[FRAME_BYTES as u16], FLOWS as u32);
        let sent = network.send(SenderKind::Live, &shape, FRAMES, Some(FRAMES));
        assert_eq!(sent.handed, FRAMES, "{sent:?}");
        let outcome = running.stop();
        let ledger = outcome.checked_ledger(FRAMES);
        let by_rule = ledger.dropped[&Cause::ByRule];
        assert_eq!((ledger.taken, by_rule), (FLOW, FRAMES - FLOW), "{args:?}");
        let records = records(&out);
        let flow = |frames: u64| (frames, frames * FRAME_BYTES);
        let key = |record: &Value| (number(record, "rule"), number(record, "src_port"));
        let expected =
            [(1, 1024), (1, 1025), (1, 1026), (3, 1027), (3, 1028)].map(|key| (key, flow(FLOW)));
        assert_eq!(sums(&records, key), BTreeMap::from(expected), "{args:?}");
        assert!(records.iter().all(|record| record["interface"] == "rx0"));
        let told = digests(&outcome);
        assert_eq!((totals(&told), totals(&told["written"])), (flow(5 * FLOW), flow(5 * FLOW)));
        assert_eq!(told["missed"], serde_json::json!({}));
    }
}

#[test]
fn a_rule_that_digests_may_come_where_records_are_written() {
    if !need_root("a_rule_that_digests_may_come_where_records_are_written") {
        return;
    }
    let folder = Folder::new();
    let (file, out) = (folder.add("some.rules", "default drop"), folder.path("digests"));
    let socket = folder.path("control.sock");
    let own = ["-i", "rx0", "--rules", arg(&file), "--control", arg(&socket)];
    let add = || run_ringside(&["rules", "add", "1: udp => digest", "--at", arg(&socket)]);
    let network = Network::up();
    let running = network.capture(&own);
    let refused = add();
    assert!(refused.code() == Some(2) && refused.stderr.contains("--digests FILE"));
    running.stop();
    let running = network.capture(&[&own[..], &["--digests", arg(&out)]].concat());
    assert_eq!(add().code(), Some(0));
    let shape = shape(&[FRAME_BYTES as u16], 1);
    network.send(SenderKind::Live, &shape, 1_000, Some(10_000));
    wait_until("frames that are digested", || {
        let outcome = run_ringside(&["rules", "stats", "--at", arg(&socket), "--json"]);
        totals(&digests(&outcome)) == (1_000, 1_000 * FRAME_BYTES)
    });
    running.stop();
    assert_eq!(sums(&records(&out), |_| ()), BTreeMap::from([((), (1_000, 1_000 * FRAME_BYTES))]));
}

/// Frames with UDP, each from another address: as many records.
fn many_flows(count: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    for number in 0..count {
        for value in [1u32, 0, 42, 42] {
            file.extend_from_slice(&value.to_le_bytes());
        }
        file.extend([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
        file.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10]);
        file.extend(&number.to_be_bytes()[1..]);
        file.extend([10, 0, 0, 2, 0, 7, 0, 53, 0, 8, 0, 0]);
    }
    file
}

/// More flows than are remembered, and more records than are on their way: all of a file's are
/// written.
#[test]
fn a_file_waits_for_its_records() {
    let folder = Folder::new();
    let (file, capture) = (folder.add("some.rules", "any => digest"), folder.path("many.pcap"));
    let count = 150_000;
    std::fs::write(&capture, many_flows(count)).unwrap();
    let out = folder.path("digests");
    let args = ["capture", "-r", arg(&capture), "--rules", arg(&file), "--digests", arg(&out)];
    let outcome = run_ringside(&[&args[..], &["--json", "--no-keeper"]].concat());
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let (records, told) = (records(&out), digests(&outcome));
    assert_eq!(records.len(), count as usize);
    assert_eq!(number(&told["written"], "records"), u64::from(count));
    let ends = sums(&records, |record| record["end"].to_string());
    assert!(ends["\"full\""].0 >= u64::from(count) - 65_536 && ends.len() == 2, "{ends:?}");
}

/// A full disk and a reader that has gone end the run, and say so.
#[test]
fn what_cannot_be_written_ends_the_run_with_a_word() {
    let folder = Folder::new();
    let (file, capture) = (folder.add("some.rules", "any => digest"), folder.path("many.pcap"));
    let count = 100_000;
    std::fs::write(&capture, many_flows(count)).unwrap();
    let args = ["capture", "-r", arg(&capture), "--rules", arg(&file), "--no-keeper", "--digests"];
    let full = run_ringside(&[&args[..], &["/dev/full", "--json"]].concat());
    assert_eq!(full.code(), Some(2), "{}", full.stderr);
    assert!(full.stderr.contains("digests to /dev/full: No space left"), "{}", full.stderr);
    let told = digests(&full);
    let (written, missed) = (&told["written"], &told["missed"]["disk_full"]);
    assert_eq!(totals(written), (0, 0));
    let sum = told["missed"].as_object().unwrap().values().fold((0, 0), |mut sum, more| {
        add(&mut sum, totals(more));
        sum
    });
    assert_eq!(sum, totals(&told), "{told}");
    assert!(number(missed, "records") > 0, "{told}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(ringside());
    command.args(args).arg("-").stdin(Stdio::null()).stdout(writer);
    let closed = Running::start_directed(command).finish();
    assert_eq!(closed.code(), Some(2), "{}", closed.stderr);
    let said = "digests to standard output: Broken pipe";
    assert!(
        closed.stderr.contains(said) && closed.stderr.contains("pipe_closed"),
        "{}",
        closed.stderr
    );
}

/// A reader that does not read stops no worker for long, and gets whole lines.
#[test]
fn a_reader_that_stands_still_is_given_up() {
    if !need_root("a_reader_that_stands_still_is_given_up") {
        return;
    }
    let folder = Folder::new();
    let file = folder.add("some.rules", "any => digest\ndefault drop");
    let network = Network::up();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "--rules", arg(&file), "--digests", "-"]);
    command.stdin(Stdio::null()).stdout(writer);
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    // As many records as frames, far more than the pipe holds, and fewer than are remembered.
    let frames = 20_000;
    network.send(SenderKind::Live, &shape(&[64], frames as u32), frames, Some(20_000));
    running.signal(rustix::process::Signal::TERM);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("does not read"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("pipe_stalled"), "{}", outcome.stderr);
    drop(reader);
}

#[test]
fn what_cannot_be_is_refused_with_the_fix() {
    let folder = Folder::new();
    let file = folder.add("some.rules", "7: udp => digest");
    let capture = folder.path("one.pcap");
    std::fs::write(&capture, many_flows(1)).unwrap();
    let own = ["-r", arg(&capture), "--rules", arg(&file), "--no-keeper"];
    let directory = folder.path("missing/digests");
    let cases: [(&[&str], &str); 6] = [
        (&[], "rule 7: `digest` hands over records, and this run writes none: start it with"),
        (&["--digests", "-", "--json"], "both want standard output"),
        (&["--digests", "-", "-w", "-"], "both want standard output"),
        (&["--digests", arg(&capture)], "is read and written at once"),
        (&["--digests", "both.pcapng", "-w", "both.pcapng"], "both name both.pcapng"),
        (&["--digests", arg(&directory)], "missing/digests, the file of digests: No such file"),
    ];
    for (args, fix) in cases {
        let outcome = run_ringside(&[&["capture"], &own[..], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        let said = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(fix), "{args:?}: {said}");
    }
    let outcome = run_ringside(&["capture", "-r", arg(&capture), "--digests", "out"]);
    assert!(outcome.code() == Some(2) && outcome.stderr.contains("--rules"), "{}", outcome.stderr);
}
