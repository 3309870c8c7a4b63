//! kill -9.

use super::support::*;
use crate::common::*;
use ringside_testkit::{need_root, need_tool};
use rustix::process::Signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the header page of a recording's file says of what follows (docs/formats/recording.md).
struct Header {
    header_bytes: usize,
    block_bytes: usize,
    blocks_complete: usize,
}

fn header(path: &Path) -> Header {
    const KIND: [u8; 4] = 0x8052_5348_u32.to_le_bytes();
    let bytes = std::fs::read(path).unwrap();
    let magic = b"RINGSIDE";
    let at = bytes.windows(8).position(|window| window == magic).unwrap();
    assert_eq!(bytes[at - 8..at - 4], KIND);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let complete = u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap());
    Header {
        header_bytes: word(at + 12),
        block_bytes: word(at + 16),
        blocks_complete: complete as usize,
    }
}

/// The first `bytes` bytes of a file, as a file of its own.
fn prefix(path: &Path, bytes: usize, copy: &Path) {
    let whole = std::fs::read(path).unwrap();
    assert!(whole.len() >= bytes, "{} < {bytes}", whole.len());
    std::fs::write(copy, &whole[..bytes]).unwrap();
}

#[test]
fn a_killed_recording_keeps_every_complete_block() {
    if !need_root("a_killed_recording") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory)]);
    assert_eq!(promiscuity(&network), 1);
    let mut sender = Command::new(ringside());
    sender.args(["lab", "send", "--name", network.name(), "--size", "512"]);
    sender.args(["--rate", "20000", "--for", "60s"]);
    let sender = Running::start(sender);
    let file = files_in(&directory).remove(0);
    wait_until("three blocks", || header(&file).blocks_complete >= 3);
    running.signal_worker(Signal::KILL);
    assert_eq!(running.finish().code(), Some(2));
    assert_eq!(sender.stop().code(), Some(0));
    assert_eq!(promiscuity(&network), 0);

    // Up to the last complete ring block: no complaint, no frame missing.
    let Header { header_bytes, block_bytes, blocks_complete } = header(&file);
    let whole = folder.path().join("whole.pcapng");
    prefix(&file, header_bytes + blocks_complete * block_bytes, &whole);
    let in_blocks = contiguous_frames(&whole);
    assert!(in_blocks > 0);
    assert_eq!(packets_by_wireshark(&whole), in_blocks);

    // As it was left: everything that our reader gives, tshark gives too.
    let left = contiguous_frames(&file);
    assert!(left >= in_blocks);
    let fields = ["-T", "fields", "-e", "frame.number"];
    let tshark = run("tshark", &[&["-r", arg(&file)], &fields[..]].concat());
    assert_eq!(tshark.text().lines().count() as u64, left, "{}", tshark.stderr);

    // The next recording into the same directory stands next to it.
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory)]);
    let report = send(&network, 512, 10);
    running.stop().checked_ledger(report.handed);
    assert_eq!(files_in(&directory).len(), 2);
    assert_eq!(count(&[directory]), left + 10);
}

#[test]
fn a_torn_file_gives_every_whole_frame_and_the_tear_is_told() {
    if !need_root("a_torn_file") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let [directory, pcapng, pcap] =
        ["recording", "merged.pcapng", "merged.pcap"].map(|name| folder.path().join(name));
    let outputs = [&directory, &pcapng, &pcap];
    let runs = outputs.map(|output| network.capture(&["-i", "rx0", "-w", arg(output)]));
    let report = send(&network, 400, 1_000);
    for (running, output) in runs.into_iter().zip(outputs) {
        running.stop().checked_ledger(report.handed);
        let file = if output.is_dir() { files_in(output).remove(0) } else { output.clone() };
        let torn = folder.path().join("torn");
        // In the middle of some frame: the rest of the file is longer than its last block.
        let bytes = std::fs::metadata(&file).unwrap().len() as usize;
        prefix(&file, bytes / 2 / 4 * 4 + 2, &torn);
        let outcome = run_ringside(&["read", "-n", "-r", arg(&torn)]);
        assert!(outcome.stderr.contains("torn"), "{}", outcome.stderr);
        let read = outcome.text().lines().count();
        let tshark = run("tshark", &["-r", arg(&torn), "-T", "fields", "-e", "frame.number"]);
        assert!(tshark.stderr.contains("cut short"), "{}", tshark.stderr);
        assert_eq!(read, tshark.text().lines().count(), "{}", output.display());
        assert!((400..600).contains(&read), "{read}");
    }
}

/// Set for the process that is killed while it holds a network.
const HOLDER: &str = "RINGSIDE_TEST_HOLDS_A_NETWORK";

#[test]
fn what_a_killed_process_left_of_a_lab_is_cleaned_at_the_next_start() {
    const NAME: &str =
        "faults::kill::what_a_killed_process_left_of_a_lab_is_cleaned_at_the_next_start";
    if !need_root("what_a_killed_process_left") {
        return;
    }
    if std::env::var_os(HOLDER).is_some() {
        let network = Network::up();
        let mut out = std::io::stderr();
        writeln!(out, "holds={}=", network.name()).unwrap();
        std::thread::sleep(WAIT_MAX);
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture"]).env(HOLDER, "1");
    let holder = Running::start(command);
    holder.wait_for_stderr("=\n");
    let said = holder.stderr_so_far();
    let name = said.split('=').nth(1).unwrap();
    let status = || -> Vec<serde_json::Value> {
        let lines = run_ringside(&["lab", "status", "--json"]).json_lines();
        lines.into_iter().filter(|line| line["lab"]["config"]["name"] == name).collect()
    };
    assert_eq!(status()[0]["lab"]["leftover"], false);
    let namespaces =
        ["a", "b"].map(|end| PathBuf::from(format!("/run/netns/ringside-{name}-{end}")));
    assert!(namespaces.iter().all(|path| path.exists()));
    holder.signal(Signal::KILL);
    holder.finish();
    // Another start may have cleaned it by now.
    assert!(status().iter().all(|line| line["lab"]["leftover"] == true));
    let other = format!("e2e{}-next", std::process::id());
    let up = run_ringside(&["lab", "up", "--name", &other]);
    assert_eq!(up.code(), Some(0), "{}", up.stderr);
    let left = status();
    let remains = namespaces.iter().any(|path| path.exists());
    let down = run_ringside(&["lab", "down", "--name", &other]);
    assert_eq!(down.code(), Some(0), "{}", down.stderr);
    assert!(left.is_empty() && !remains, "{left:?}");
}

#[test]
fn a_killed_demo_takes_its_programs_with_it() {
    const NAME: &str = "a_killed_demo";
    let tools = ["curl", "dig", "dnsmasq", "ping", "python3"];
    if !need_root(NAME) || !tools.iter().all(|tool| need_tool(NAME, tool)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(ringside());
    command.args(["demo", "-w", arg(&folder.path().join("demo"))]);
    // Its output goes to a file: what it starts could hold a pipe open.
    let said = std::fs::File::create(folder.path().join("said")).unwrap();
    command.stdout(Stdio::null()).stderr(said);
    let mut demo = Helper(command.spawn().unwrap());
    let programs = || run("ip", &["netns", "pids", "ringside-demo-b"]).text();
    let of_server = |text: &str| -> Vec<PathBuf> {
        let process = |pid: &str| PathBuf::from(format!("/proc/{pid}"));
        let is_server = |path: &PathBuf| {
            let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            ["python3", "dnsmasq"].contains(&name.trim())
        };
        text.lines().map(process).filter(is_server).collect()
    };
    let mut servers = Vec::new();
    wait_until("the demo's servers", || {
        let ended = demo.0.try_wait().unwrap();
        let said = || std::fs::read_to_string(folder.path().join("said")).unwrap();
        assert!(ended.is_none(), "it ended before: {}", said());
        servers = of_server(&programs());
        servers.len() == 2
    });
    demo.0.kill().unwrap();
    demo.finish();
    let left = || servers.iter().filter(|path| path.exists()).count();
    wait_until("the end of the demo's servers", || left() == 0);
    // The capture too, which first writes what it has.
    wait_until("the end of the demo's capture", || programs().is_empty());
    // Another start may have cleaned what a dead process left.
    let down = run_ringside(&["lab", "down", "--name", "demo"]);
    let is_gone = down.stderr.contains("there is no test network demo");
    assert!(down.code() == Some(0) || is_gone, "{}", down.stderr);
}
