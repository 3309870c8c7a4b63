//! `ringside find` and `ringside index`: the packets of `tcpdump -r … EXPRESSION`, however little
//! is read for them, and whatever became of an index.

mod compressed;
mod dedup;
mod identity;
mod live;
mod pins;
mod recorded;
mod traffic;

use crate::common::folder::Folder;
use crate::common::*;
use ringside_core::{TimeRange, Timestamp};
use ringside_testkit::{Random, by_run, capture_sample, need_tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use traffic::{FRAMES, Packet, START_SECONDS, Traffic, packets_of};

/// `find`, its packets and what it says of itself.
fn find(inputs: &[&Path], args: &[&str]) -> (Vec<Packet>, Value, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("found.pcapng");
    let mut command = Command::new(ringside());
    command.arg("find");
    for input in inputs {
        command.arg("-r").arg(input);
    }
    command.args(["--json", "-w", arg(&file)]).args(args);
    let outcome = Running::start(command).finish();
    let answer = outcome.stderr.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let answer = answer.unwrap_or_else(|| panic!("{args:?}: {outcome:?}"))["find"].clone();
    (packets_of(&file), answer, outcome)
}

/// True if libpcap compiles an expression: it refuses what no packet can be.
fn is_possible(expression: &str) -> bool {
    run("tcpdump", &["-d", "-y", "EN10MB", expression]).status.success()
}

/// What tcpdump takes of a file, as far as it lies in `range`.
fn tcpdump(input: &Path, expression: &str, range: TimeRange) -> Vec<Packet> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("found.pcap");
    let args = ["--nano", "-r", arg(input), "-w", arg(&file), expression];
    let outcome = run("tcpdump", &args);
    assert!(outcome.status.success(), "{outcome:?}");
    packets_of(&file).into_iter().filter(|packet| range.holds(packet.time)).collect()
}

fn number(answer: &Value, path: &[&str]) -> u64 {
    let value = path.iter().fold(answer, |value, name| &value[*name]);
    value.as_u64().unwrap_or_else(|| panic!("{path:?} in {answer}"))
}

fn index(paths: &[&Path]) -> Vec<Value> {
    let paths = paths.iter().map(|path| arg(path));
    let args: Vec<_> = ["index", "--json"].into_iter().chain(paths).collect();
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    outcome.json_lines()
}

/// A span of time of the traffic: often all, else from one moment to a later one.
fn range(random: &mut Random, seconds: u64) -> (TimeRange, Vec<String>) {
    if random.below(3) == 0 {
        return (TimeRange::default(), Vec::new());
    }
    let from = START_SECONDS + random.next_u64() % seconds;
    let to = from + 1 + random.next_u64() % seconds;
    let [start, end] = [from, to].map(|at| Some(Timestamp::from_parts(at, 0)));
    let args = ["--from".into(), from.to_string(), "--to".into(), to.to_string()];
    (TimeRange { from: start, to: end }, args.into())
}

#[test]
fn any_expression_and_range_gives_the_packets_of_tcpdump() {
    if !need_tool("find::any_expression_and_range_gives_the_packets_of_tcpdump", "tcpdump") {
        return;
    }
    let traffic = Traffic::recorded();
    index(&[&traffic.recording, &traffic.file]);
    let mut random = Random::new(ringside_testkit::number("RINGSIDE_SEED").unwrap_or(27));
    let (mut found, mut read, mut stored) = (0, 0, 0);
    for round in 0..by_run(16, 1_000) {
        let mut expression = traffic::expression(&mut random);
        while !is_possible(&expression) {
            expression = traffic::expression(&mut random);
        }
        let (range, mut args) = range(&mut random, traffic::SECONDS);
        args.push(expression.clone());
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let input = [&traffic.recording, &traffic.file][round % 2];
        let (packets, answer, outcome) = find(&[input], &args);
        let expected = tcpdump(&traffic.file, &expression, range);
        assert_eq!(packets.len(), expected.len(), "{args:?}: {outcome:?}");
        assert!(packets == expected, "{args:?}: other packets, or in another order");
        assert_eq!(answer["end"], "complete", "{answer}");
        assert_eq!(outcome.code(), Some(i32::from(packets.is_empty())), "{outcome:?}");
        found += packets.len() as u64;
        read += number(&answer, &["plan", "bytes", "read"]);
        stored += number(&answer, &["plan", "bytes", "total"]);
    }
    assert!(found > 0 && read < stored, "{found} found in {read} of {stored} bytes");
}

#[test]
fn real_captures_give_the_packets_of_tcpdump() {
    if !need_tool("find::real_captures_give_the_packets_of_tcpdump", "tcpdump") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    for path in capture_sample("find::real_captures", 40) {
        let copy = dir.path().join(path.file_name().unwrap());
        std::fs::copy(&path, &copy).unwrap();
        let expressions = ["tcp port 80 or udp port 53", "ip6", "not ip", "vlan", "net 10.0.0.0/8"];
        let expression = expressions[random.below(expressions.len())];
        // What tcpdump cannot read to its end, the tests of reading compare.
        let judge = run("tcpdump", &["-r", arg(&copy), "-w", "/dev/null", expression]);
        if !judge.status.success() || run_ringside(&["index", arg(&copy)]).code() != Some(0) {
            continue;
        }
        let (packets, answer, outcome) = find(&[&copy], &[expression]);
        let expected = tcpdump(&copy, expression, TimeRange::default());
        assert!(packets == expected, "{}: {expression}: {outcome:?}", path.display());
        assert_eq!(number(&answer, &["plan", "files", "without_index"]), 0, "{answer}");
    }
}

#[test]
fn the_plan_says_what_was_passed_by_and_an_index_makes_it_little() {
    let traffic = Traffic::recorded();
    for file in files_in(&traffic.recording) {
        // On a busy machine a recorder leaves some to be indexed later.
        let _ = std::fs::remove_file(ringside_index::path_of(&file));
    }
    let expression = traffic::rare_flow();
    let whole = find(&[&traffic.recording], &[&expression]);
    assert!(!whole.0.is_empty());
    let files = files_in(&traffic.recording).len() as u64;
    assert!(files > 2, "{files} files");
    assert_eq!(number(&whole.1, &["plan", "files", "without_index"]), files);
    let said = index(&[&traffic.recording]);
    let account = &said.last().unwrap()["account"];
    assert_eq!(number(account, &["files_built"]), files);
    assert_eq!(number(account, &["packets"]), FRAMES);
    let share = number(account, &["index_bytes"]) as f64 / number(account, &["bytes"]) as f64;
    assert!(share < 0.01, "{share} of the bytes");

    let (packets, answer, outcome) = find(&[&traffic.recording], &[&expression]);
    assert!(packets == whole.0, "{outcome:?}");
    let plan = |path: &[&str]| number(&answer, &[&["plan"], path].concat());
    assert_eq!((plan(&["files", "total"]), plan(&["files", "without_index"])), (files, 0));
    assert!(plan(&["files", "passed"]) > 0, "{answer}");
    assert!(plan(&["blocks", "read"]) * 4 < plan(&["blocks", "total"]), "{answer}");
    assert!(plan(&["bytes", "read"]) * 2 < plan(&["bytes", "total"]), "{answer}");

    let absent = find(&[&traffic.recording], &["host 203.0.113.77"]);
    assert_eq!((number(&absent.1, &["plan", "blocks", "read"]), absent.0.len()), (0, 0));
    assert_eq!(absent.2.code(), Some(1), "nothing was found");
    let last = find(&[&traffic.recording], &["--last", "2s", &expression]);
    assert!(number(&last.1, &["plan", "blocks", "outside"]) > 0, "{}", last.1);

    let again = index(&[&traffic.recording]);
    assert_eq!(number(again.last().unwrap(), &["account", "files_good"]), files, "none is built");
}

#[test]
fn a_missing_damaged_or_old_index_gives_the_same_answer_and_is_said() {
    let traffic = Traffic::written();
    let expression = traffic::rare_flow();
    index(&[&traffic.file]);
    let index_file = PathBuf::from(format!("{}.index", arg(&traffic.file)));
    let good = std::fs::read(&index_file).unwrap();
    let (expected, answer, _) = find(&[&traffic.file], &[&expression]);
    assert_eq!(number(&answer, &["plan", "files", "without_index"]), 0);

    let is_same = |reason: &str| {
        let (packets, answer, outcome) = find(&[&traffic.file], &[&expression]);
        assert!(packets == expected, "{reason}: {outcome:?}");
        let said = &answer["plan"]["without_index"][0]["reason"];
        assert!(said.as_str().is_some_and(|said| said.contains(reason)), "{reason}: {answer}");
    };
    std::fs::write(&index_file, &good[..good.len() / 2]).unwrap();
    is_same("damaged");
    // The heads of segments and the directory are read by every question.
    for at in [0, 9, 17, 40, good.len() - 3] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&index_file, &bytes).unwrap();
        is_same("damaged");
    }
    std::fs::remove_file(&index_file).unwrap();
    is_same("no index");
    std::fs::write(&index_file, &good).unwrap();
    let file = std::fs::File::options().append(true).open(&traffic.file).unwrap();
    let old = file.metadata().unwrap().modified().unwrap();
    file.set_modified(old + std::time::Duration::from_secs(1)).unwrap();
    is_same("older");
    index(&[&traffic.file]);
    let (packets, answer, _) = find(&[&traffic.file], &[&expression]);
    assert!(packets == expected && number(&answer, &["plan", "files", "without_index"]) == 0);
}

#[test]
fn a_count_is_a_number_and_lines_are_those_of_read() {
    let traffic = Traffic::written();
    index(&[&traffic.file]);
    let expression = traffic::rare_flow();
    let printed = run_ringside(&["find", "-n", "-r", arg(&traffic.file), &expression]);
    let read = run_ringside(&["read", "-n", "-r", arg(&traffic.file), &expression]);
    assert_eq!(printed.stdout, read.stdout, "{printed:?}");
    let counted = run_ringside(&["find", "--count", "-r", arg(&traffic.file), &expression]);
    assert_eq!(counted.text().trim(), read.packets().to_string(), "{counted:?}");
    assert!(counted.stderr.ends_with("complete: all that was recorded was searched\n"));
    let all = run_ringside(&["find", "--count", "--json", "-r", arg(&traffic.file)]);
    assert_eq!(number(&all.json_lines()[0], &["find", "packets"]), FRAMES);
}

#[test]
fn a_program_behind_the_pipe_that_had_enough_ends_it_in_order() {
    let traffic = Traffic::written();
    let script = "\"$0\" find -r \"$1\" -w - | head -c 200 >/dev/null; exit ${PIPESTATUS[0]}";
    let program = ringside();
    let outcome = run("bash", &["-c", script, arg(&program), arg(&traffic.file)]);
    assert_eq!((outcome.code(), &outcome.stderr[..]), (Some(0), ""));
}

#[test]
fn what_is_no_capture_has_no_index_and_the_error_says_so() {
    let dir = Folder::new();
    let text = dir.add("notes.pcap", "no capture");
    let outcome = run_ringside(&["index", arg(&text)]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("is neither pcap nor pcapng"), "{outcome:?}");
    let left = files_in(text.parent().unwrap());
    assert_eq!(left, std::slice::from_ref(&text), "nothing is left");
    let outcome = run_ringside(&["find", "-r", arg(&text), "host", "::1"]);
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
    let traffic = Traffic::written();
    let outcome = run_ringside(&["find", "-r", arg(&traffic.file), "host", "and"]);
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
}
