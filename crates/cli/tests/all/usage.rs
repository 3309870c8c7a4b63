//! How the program is used, and misused: help, options, input and output of `read`. No root.

use crate::common::*;
use ringside_testkit::{by_run, need_tool};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ETHERNET: u32 = 1;
const RAW_IP: u32 = 101;

/// A pcap file with stamps of nanoseconds: `packets` are (seconds, nanoseconds, bytes).
fn pcap(link_type: u32, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, link_type] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (seconds, nanoseconds, bytes) in packets {
        let length = bytes.len() as u32;
        for value in [*seconds, *nanoseconds, length, length] {
            file.extend_from_slice(&value.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    }
    file
}

/// A UDP packet without payload, from `port` to 53.
fn ip_packet(port: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend_from_slice(&port.to_be_bytes());
    packet.extend_from_slice(&[0, 53, 0, 8, 0, 0]);
    packet
}

fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend(ip_packet(port));
    frame
}

/// A folder with the files that these tests read.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        let two = [(1, 500_000_000, frame(1000)), (3, 0, frame(1001))];
        files.add("two.pcap", &pcap(ETHERNET, &two));
        files.add("between.pcap", &pcap(ETHERNET, &[(2, 7, frame(1002))]));
        files.add("raw.pcap", &pcap(RAW_IP, &[(2, 0, ip_packet(1003))]));
        let many: Vec<_> = (0..50_000).map(|n| (n, 0, frame(n as u16))).collect();
        files.add("many.pcap", &pcap(ETHERNET, &many));
        files.add("none.pcap", &pcap(ETHERNET, &[]));
        files.add("empty", b"");
        files.add("text", b"Not a capture, but some words.\n".repeat(9).as_slice());
        std::fs::create_dir(files.path("directory")).unwrap();
        files
    }

    fn add(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `ringside read ARGS` in the folder of the files.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ringside());
        command.arg("read").args(args).current_dir(self.folder.path());
        command
    }

    fn read(&self, args: &[&str]) -> Outcome {
        Running::start(self.command(args)).finish()
    }

    /// As [`Files::read`], which must end well and say nothing but its output.
    fn lines(&self, args: &[&str]) -> Vec<String> {
        let outcome = self.read(args);
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(0), ""), "{args:?}");
        outcome.text().lines().map(String::from).collect()
    }

    /// A refusal: status 2, nothing on standard output, all of `said` in the message.
    fn refused(&self, args: &[&str], said: &[&str]) {
        refused(&self.read(args), said);
    }
}

fn refused(outcome: &Outcome, said: &[&str]) {
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
    assert!(outcome.stdout.is_empty(), "{outcome:?}");
    for text in said {
        assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn every_subcommand_has_help_with_examples() {
    let main = run_ringside(&["--help"]);
    assert_eq!(main.code(), Some(0));
    let listed = main.text();
    let commands = listed.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for name in ["capture", "read", "lab", "demo", "backends"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let mut pages = vec![vec![]];
    pages.extend(names.iter().filter(|name| **name != "help").map(|name| vec![*name]));
    for page in pages {
        for flag in ["--help", "-h"] {
            let outcome = run_ringside(&[&page[..], &[flag]].concat());
            assert_eq!(outcome.code(), Some(0), "{page:?}");
            let text = outcome.text();
            assert!(text.contains("Examples:") && text.contains("Usage:"), "{page:?}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{page:?}");
        }
    }
    for name in ["up", "down", "status", "send"] {
        assert_eq!(run_ringside(&["lab", name, "--help"]).code(), Some(0), "{name}");
    }
    let version = run_ringside(&["--version"]);
    assert_eq!(version.text(), format!("ringside {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_wrong_option_is_refused_with_what_is_right() {
    let cases: [(&[&str], &[&str]); 27] = [
        (&[], &["Usage: ringside", "Examples:"]),
        (&["capure"], &["unrecognized subcommand", "capture"]),
        (&["capture"], &["--interface <IF>", "--help"]),
        (&["capture", "-i", "lo", "--bogus"], &["--bogus", "--help"]),
        (&["capture", "-i", "lo", "--queues", "0"], &["--queues", "1..=256"]),
        (&["capture", "-i", "lo", "--queues", "257"], &["1..=256"]),
        (&["capture", "-i", "lo", "-s", "262145"], &["--snaplen", "0..=262144"]),
        (&["capture", "-i", "lo", "--backend", "pfring"], &["af-packet", "dpdk", "auto"]),
        (&["capture", "-i", "lo", "--for", "soon"], &["10s"]),
        (&["capture", "-i", "lo", "--for", "0"], &["longer than 0"]),
        (&["capture", "-i", "lo", "-c", "0"], &["--packets"]),
        (&["capture", "-i", "lo", "--count", "--print"], &["--count", "--print"]),
        (&["capture", "-i", "lo", "--count", "-w", "x"], &["--count", "--write"]),
        (&["capture", "-i", "lo", "-w", "-", "--print"], &["standard output", "leave out --print"]),
        (&["capture", "-i", "lo", "-Q", "out"], &["--direction", "inout"]),
        (&["capture", "-i", "lo", "-w", "x", "-W", "5"], &["-W", "--limit-bytes"]),
        (&["capture", "-i", "lo", "-w", "x", "-b", "files:5"], &["--limit-bytes"]),
        (&["capture", "-i", "lo", "-a", "filesize:5"], &["--limit-bytes", "-c N"]),
        (&["capture", "-i", "lo", "-F", "/nowhere"], &["--filter-file", "No such file"]),
        (&["capture", "-i", "lo", "-f", "udp", "tcp"], &["-f <FILTER>"]),
        (&["capture", "-i", "lo", "-C", "1"], &["--write"]),
        (&["capture", "-i", "lo", "-C", "0", "-w", "x"], &["size 0"]),
        (&["capture", "-i", "lo", "--ring-size", "much"], &["64MiB"]),
        (&["capture", "-i", "lo", "-w", "-", "--json"], &["standard output", "leave out --json"]),
        (&["capture", "-i", "lo", "-w", "-", "-C", "1"], &["-C and -G need files"]),
        (&["read"], &["--read"]),
        (&["lab"], &["up", "down", "status", "send"]),
    ];
    for (args, said) in cases {
        refused(&run_ringside(args), said);
    }
}

#[test]
fn a_size_of_the_ring_in_the_environment_is_read_like_the_option() {
    let run = |value: &str| {
        let mut command = Command::new(ringside());
        command.args(["capture", "-i", "lo", "-w", "-", "--for", "1ms"]);
        command.env("RINGSIDE_RING_SIZE", value);
        Running::start(command).finish()
    };
    refused(&run("much"), &["RINGSIDE_RING_SIZE is 'much'", "64MiB"]);
    refused(&run("1KiB"), &["RINGSIDE_RING_SIZE is '1KiB'", "at least"]);
}

/// All options with all modes: `send/mode/tests.rs`. Here is what a user sees of it.
#[test]
fn an_option_of_another_mode_of_send_is_refused_with_both_names_and_the_fix() {
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--stream", "1MB", "--flows", "3"], &["'--flows <N>'", "--stream", "leave one"]),
        (&["--stream", "1MB", "--template", "a.pcap"], &["--template", "--stream"]),
        (&["-r", "a.pcap", "--size", "64"], &["--size", "'--read <FILE|DIR|->'", "leave one"]),
        (&["-r", "a.pcap", "--rate", "1Gbps", "--link-speed", "9Gbps"], &["--link-speed"]),
        (&["-r", "a.pcap", "--stream", "1MB"], &["--read", "'--stream <FILE|SIZE|->'"]),
        (&["--relay", "eth2", "--engine", "live"], &["--engine", "'--relay <INTERFACE>'"]),
        (&["-c", "1", "--to", "10.0.0.2:9"], &["--to", "give '--read", "or '--stream", "too"]),
        (&["-c", "1", "udp"], &["'[FILTER]...'", "generated frames", "give '--read"]),
    ];
    for (args, said) in cases {
        let outcome = run_ringside(&[&["send", "-i", "lo"], args].concat());
        refused(&outcome, &[said, &["Usage: ringside send [OPTIONS]", "try '--help'"]].concat());
    }
}

#[test]
fn input_that_cannot_be_read_is_named_with_the_reason() {
    let files = Files::new();
    files.refused(&["-r", "missing"], &["cannot open missing", "No such file"]);
    files.refused(&["-r", "empty"], &["empty", "is empty"]);
    files.refused(&["-r", "text"], &["text", "neither pcap nor pcapng"]);
    files.refused(&["-r", "directory"], &["directory", "no file of a recording", "-w DIR"]);
    files.refused(&["-r", "two.pcap", "-r", "missing"], &["cannot open missing"]);
    files.refused(&["-r", "two.pcap", "hosst 1"], &["hosst 1", "pcap-filter(7)"]);
    // A file without packets is a capture in which nothing was found.
    assert_eq!(files.read(&["-r", "none.pcap"]).code(), Some(1));
}

#[test]
fn packed_files_are_named_with_what_unpacks_them() {
    let files = Files::new();
    for (magic, format, program) in [
        (&b"\xfd7zXZ\x00"[..], "xz", "xzcat FILE"),
        (b"BZh9", "bzip2", "bzcat FILE"),
        (b"\x04\x22\x4d\x18", "lz4", "lz4cat FILE"),
        (b"PK\x03\x04", "zip", "unzip -p FILE"),
    ] {
        files.add("packed", &[magic, &[0; 40]].concat());
        files.refused(&["-r", "packed"], &["packed: is compressed", format, program]);
    }
}

#[test]
fn compressed_captures_are_read_and_a_cut_one_says_so() {
    let files = Files::new();
    for name in ["packed.pcap.gz", "packed.pcapng.zst"] {
        assert_eq!(files.read(&["-r", "two.pcap", "-w", name]).code(), Some(0));
        assert_eq!(ports(&files.lines(&["-r", name])), ["1000", "1001"]);
        let whole = std::fs::read(files.path(name)).unwrap();
        files.add(&format!("cut-{name}"), &whole[..whole.len() - 2]);
    }
    let outcome = files.read(&["-r", "cut-packed.pcap.gz"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("cut short where"), "{}", outcome.stderr);
    assert_eq!(outcome.stdout.iter().filter(|&&byte| byte == b'\n').count(), 2);
    // zstd gives whole blocks, and this file is one.
    files.refused(&["-r", "cut-packed.pcapng.zst"], &["ends early"]);
}

#[test]
fn words_after_the_input_are_more_inputs_then_the_filter() {
    let files = Files::new();
    for inputs in [&["-r", "two.pcap", "between.pcap"][..], &["between.pcap", "-r", "two.pcap"]] {
        assert_eq!(ports(&files.lines(inputs)), ["1000", "1002", "1001"]);
        for filter in [&["src", "port", "1002"][..], &["--", "src", "port", "1002"]] {
            assert_eq!(ports(&files.lines(&[inputs, filter].concat())), ["1002"]);
        }
    }
    let args = ["-r", "two.pcap", "-n", "between.pcap", "-tt", "udp", "and", "port", "1000"];
    assert_eq!(ports(&files.lines(&args)), ["1000"]);
    // A word of the filter language is one, whatever files there are; behind `--` so is all.
    files.add("udp", &pcap(ETHERNET, &[(9, 0, frame(9))]));
    assert_eq!(files.lines(&["-r", "two.pcap", "udp"]).len(), 2);
    assert_eq!(files.lines(&["-r", "two.pcap", "./udp"]).len(), 3);
    files.refused(&["-r", "two.pcap", "--", "between.pcap"], &["filter 'between.pcap'"]);
    files.refused(&["-r", "two.pcap", "mising.pcap"], &["cannot open mising.pcap"]);
    let copy = ["-r", "two.pcap", "between.pcap", "-w", "between.pcap"];
    files.refused(&copy, &["read and written at once"]);
}

#[test]
fn a_filter_that_is_too_long_is_said_to_be() {
    let files = Files::new();
    let hosts: Vec<String> =
        (0..6000).map(|n| format!("host 10.{}.{}.1", n / 256, n % 256)).collect();
    let filter = hosts.join(" or ");
    let bytes = format!("{} bytes", filter.len());
    files.refused(
        &["-r", "two.pcap", &filter],
        &["too long", &bytes, "MiB of memory", "net 10.0.0.0/8"],
    );
}

#[test]
fn standard_input_is_read_like_a_file() {
    let files = Files::new();
    let expected = files.read(&["-r", "many.pcap", "-n"]).stdout;
    let give = |bytes: &[u8], args: &[&str]| {
        let mut command = files.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // The reader may end before it has read everything.
            scope.spawn(move || drop(input.write_all(bytes)));
            child.wait_with_output().unwrap()
        })
    };
    let bytes = std::fs::read(files.path("many.pcap")).unwrap();
    let output = give(&bytes, &["-r", "-", "-n"]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), expected));
    let output = give(&bytes, &["-r", "-", "-n", "-c", "3"]);
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 4);
    for (bytes, text) in [(&b""[..], "is empty"), (b"some words, no capture\n", "neither")] {
        let output = give(bytes, &["-r", "-"]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(text), "{said}");
    }
}

#[test]
fn an_output_that_is_closed_early_is_no_error() {
    let files = Files::new();
    for args in [&["-r", "many.pcap"][..], &["-r", "many.pcap", "-w", "-"]] {
        let mut command = files.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = Vec::new();
        out.read_until(b'\n', &mut first).unwrap();
        drop(out);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_told_with_the_cause() {
    let files = Files::new();
    files.refused(&["-r", "two.pcap", "-w", "no/copy"], &["cannot create no/copy", "No such file"]);
    files.refused(&["-r", "two.pcap", "-w", "directory"], &["directory", "Is a directory"]);
    for args in [&["-r", "many.pcap"][..], &["-r", "many.pcap", "-w", "-"]] {
        let mut command = files.command(args);
        command.stdout(std::fs::File::create("/dev/full").unwrap());
        let outcome = Running::start_directed(command).finish();
        refused(&outcome, &["No space left on device"]);
    }
}

#[test]
fn the_input_is_never_overwritten() {
    let files = Files::new();
    let before = std::fs::read(files.path("many.pcap")).unwrap();
    let (soft, hard) = (files.path("soft.pcap"), files.path("hard.pcap"));
    std::os::unix::fs::symlink(files.path("many.pcap"), &soft).unwrap();
    std::fs::hard_link(files.path("many.pcap"), &hard).unwrap();
    for output in ["many.pcap", "directory/../many.pcap", "soft.pcap", "hard.pcap"] {
        let args = ["-r", "two.pcap", "-r", "many.pcap", "-w", output];
        files.refused(&args, &["read and written at once", "name another file"]);
    }
    assert!(std::fs::read(files.path("many.pcap")).unwrap() == before);
    // Also as standard input, as standard output, and as what a directory's file is elsewhere.
    let mut command = files.command(&["-r", "-", "-w", "hard.pcap"]);
    command.stdin(std::fs::File::open(files.path("many.pcap")).unwrap()).stdout(Stdio::piped());
    refused(&Running::start_directed(command).finish(), &["hard.pcap", "read and written at once"]);
    for output in ["-", "/dev/stdout"] {
        let mut command = files.command(&["-r", "many.pcap", "-w", output]);
        let append = std::fs::OpenOptions::new().append(true).open(&hard).unwrap();
        command.stdout(append);
        let outcome = Running::start_directed(command).finish();
        refused(&outcome, &["standard output", "name another file"]);
    }
    assert!(std::fs::read(files.path("many.pcap")).unwrap() == before);
}

#[test]
fn a_copy_goes_through_links_and_into_what_is_no_file() {
    let files = Files::new();
    files.add("old.pcap", b"something else");
    std::os::unix::fs::symlink("old.pcap", files.path("link.pcap")).unwrap();
    files.lines(&["-r", "two.pcap", "-w", "link.pcap"]);
    assert!(files.path("link.pcap").is_symlink());
    assert_eq!(files.lines(&["-r", "old.pcap"]).len(), 2);
    std::os::unix::fs::symlink("/dev/null", files.path("null.pcap")).unwrap();
    files.lines(&["-r", "two.pcap", "-w", "null.pcap"]);
    assert!(std::fs::read(files.path("null.pcap")).unwrap().is_empty());
    files.lines(&["-r", "two.pcap", "-w", "new.CAP"]);
    let new = std::fs::read(files.path("new.CAP")).unwrap();
    assert_eq!(new[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "the name says pcap");
    let mode = std::fs::metadata(files.path("new.CAP")).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}");
}

#[test]
fn a_truncated_file_gives_all_whole_packets_and_status_1() {
    let files = Files::new();
    let whole = pcap(ETHERNET, &[(1, 0, frame(1)), (2, 0, frame(2))]);
    files.add("torn.pcap", &whole[..whole.len() - 1]);
    let outcome = files.read(&["-r", "torn.pcap"]);
    assert_eq!((outcome.code(), outcome.text().lines().count()), (Some(1), 1), "{outcome:?}");
    assert!(outcome.stderr.contains("torn.pcap: cut short at byte 82"), "{}", outcome.stderr);
    // Also among others, as JSON, and as a copy, which is whole.
    let outcome = files.read(&["-r", "torn.pcap", "-r", "two.pcap", "--json"]);
    assert_eq!((outcome.code(), outcome.json_lines().len()), (Some(1), 3), "{outcome:?}");
    assert_eq!(files.read(&["-r", "torn.pcap", "-w", "copy.pcap"]).code(), Some(1));
    assert_eq!(files.lines(&["-r", "copy.pcap"]).len(), 1);
}

#[test]
fn a_copy_that_fails_also_tells_what_was_wrong_with_the_input() {
    let files = Files::new();
    let torn = pcap(ETHERNET, &[(1, 0, frame(1)), (2, 0, frame(2))]);
    files.add("torn.pcap", &torn[..torn.len() - 1]);
    let inputs = ["-r", "torn.pcap", "-r", "raw.pcap"];
    let late = pcap(RAW_IP, &[(9, 0, ip_packet(9))]);
    files.add("raw.pcap", &late);
    let outcome = files.read(&[&inputs[..], &["-w", "mixed.pcap"]].concat());
    refused(&outcome, &["torn.pcap: cut short at byte 82", "one link type", "holds the 1 packet"]);
    // Damage is the error itself, and is said once.
    let mut damaged = torn.clone();
    damaged[82 + 8..82 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    files.add("damaged.pcap", &damaged);
    let outcome = files.read(&["-r", "damaged.pcap", "-w", "copy.pcapng"]);
    refused(&outcome, &["copy.pcapng holds the 1 packet", "the 1 frames before it were read"]);
    assert_eq!(outcome.stderr.matches("damaged at byte 82").count(), 1, "{}", outcome.stderr);
}

#[test]
fn counts_filters_and_statuses() {
    let files = Files::new();
    assert_eq!(files.lines(&["-r", "many.pcap", "-c", "7"]).len(), 7);
    assert_eq!(files.lines(&["-r", "two.pcap", "src", "port", "1001"]).len(), 1);
    assert_eq!(files.lines(&["-r", "two.pcap", "-c", "1", "src port 1001"]).len(), 1);
    // Options may follow the filter.
    assert_eq!(files.lines(&["-r", "many.pcap", "-n", "udp", "-c", "2", "-tt"]).len(), 2);
    let mixed = ["-r", "two.pcap", "src", "port", "-n", "1001", "--json"];
    assert!(files.lines(&mixed)[0].starts_with('{'));
    let nothing = files.read(&["-r", "two.pcap", "tcp"]);
    assert_eq!((nothing.code(), nothing.stdout.len()), (Some(1), 0), "{nothing:?}");
    let nothing = files.read(&["-r", "two.pcap", "-w", "nothing.pcapng", "tcp"]);
    assert_eq!(nothing.code(), Some(1), "{nothing:?}");
    // What was copied is a capture all the same, and can be read.
    assert_eq!(files.read(&["-r", "nothing.pcapng"]).code(), Some(1));
}

#[test]
fn json_lines_are_objects_with_the_facts() {
    let files = Files::new();
    let outcome = files.read(&["-r", "two.pcap", "-r", "raw.pcap", "--json"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let packets = outcome.json_lines();
    let facts = |key: &str| packets.iter().map(|packet| packet[key].clone()).collect::<Vec<_>>();
    assert_eq!(facts("number"), [1, 2, 3]);
    assert_eq!(facts("time"), ["1.500000000", "2.000000000", "3.000000000"]);
    assert_eq!(facts("src_port"), [1000, 1003, 1001]);
    assert_eq!(facts("interface"), [0, 1, 0]);
    assert_eq!(facts("wire_bytes"), [42, 28, 42]);
}

#[test]
fn two_inputs_are_merged_by_time() {
    let files = Files::new();
    let inputs = ["-r", "two.pcap", "-r", "between.pcap"];
    assert_eq!(ports(&files.lines(&inputs)), ["1000", "1002", "1001"]);
    let turned = ["-r", "between.pcap", "-r", "two.pcap"];
    assert_eq!(ports(&files.lines(&turned)), ["1000", "1002", "1001"]);
    files.lines(&[&inputs[..], &["-w", "both.pcapng"]].concat());
    assert_eq!(ports(&files.lines(&["-r", "both.pcapng"])), ["1000", "1002", "1001"]);
}

/// Source ports of printed packets.
fn ports(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split(" > ").next().unwrap().rsplit('.').next().unwrap()).collect()
}

#[test]
fn several_link_types_need_pcapng() {
    let files = Files::new();
    let inputs = ["-r", "two.pcap", "-r", "raw.pcap"];
    let args = [&inputs[..], &["-w", "mixed.pcap"]].concat();
    // The message also says what the file now holds.
    files.refused(
        &args,
        &["one link type", ".pcapng", "mixed.pcap holds the 1 packet before this error"],
    );
    assert_eq!(files.lines(&["-r", "mixed.pcap"]).len(), 1);
    files.lines(&[&inputs[..], &["-w", "mixed.pcapng"]].concat());
    assert_eq!(files.lines(&["-r", "mixed.pcapng"]).len(), 3);
}

#[test]
fn times_in_every_style() {
    let files = Files::new();
    for (option, first, second) in [
        ("-n", "00:00:01.500000000 IP", "00:00:03.000000000 IP"),
        ("-t", "IP", "IP"),
        ("-tt", "1.500000000 IP", "3.000000000 IP"),
        ("-ttt", " 00:00:00.000000000 IP", " 00:00:01.500000000 IP"),
        ("-tttt", "1970-01-01 00:00:01.500000000 IP", "1970-01-01 00:00:03.000000000 IP"),
        ("-ttttt", " 00:00:00.000000000 IP", " 00:00:01.500000000 IP"),
    ] {
        let lines = files.lines(&["-r", "two.pcap", option]);
        assert!(lines[0].starts_with(first), "{option}: {}", lines[0]);
        assert!(lines[1].starts_with(second), "{option}: {}", lines[1]);
    }
}

#[test]
fn copies_and_streams_hold_what_tshark_finds_in_the_original() {
    const NAME: &str = "copies_and_streams";
    if !need_tool(NAME, "tshark") {
        return;
    }
    let files = Files::new();
    let many = files.path("many.pcap");
    let expected = fields(&tshark(&many, None));
    assert_eq!(expected.len(), 50_000);
    for format in by_run(vec!["pcapng"], vec!["pcapng", "pcap"]) {
        let read =
            Running::start(files.command(&["-r", "many.pcap", "-w", "-", "--format", format]));
        let outcome = read.finish();
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(0), ""));
        assert!(fields(&tshark(Path::new("-"), Some(outcome.stdout))) == expected, "{format}");
        let copy = format!("copy.{format}");
        files.lines(&["-r", "many.pcap", "-w", &copy]);
        assert!(fields(&tshark(&files.path(&copy), None)) == expected, "{format}");
    }
}

/// Time, lengths and a field of the content of every packet.
fn tshark(path: &Path, input: Option<Vec<u8>>) -> String {
    let mut command = Command::new("tshark");
    command.args(["-r", arg(path), "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]);
    command.args(["-e", "frame.cap_len", "-e", "udp.srcport"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(&input.unwrap_or_default()).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn fields(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}
