//! `analyze`: an extension's records from a file and of an interface, and a hostile one next to a
//! recorder, which records everything all the same.

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::{need_root, project_root};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

/// Packets that are sent: more than a hostile extension is shown.
const PACKETS: usize = 150;

fn syns() -> PathBuf {
    project_root().join("crates/extension/guests/syns.wat")
}

/// An extension that does this with each packet.
fn extension(folder: &Path, name: &str, packet: &str) -> PathBuf {
    let path = folder.join(name);
    let text = format!(
        r#"(module
  (import "ringside" "emit" (func $emit (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "{{\"text\":\"hello\"}}")
  (func (export "ringside_abi") (result i32) (i32.const 1))
  (func (export "ringside_buffer") (result i32) (i32.const 0x10000))
  (func (export "ringside_packet") (param i32 i32 i64 i32 i32) {packet}))"#
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs an extension next to a recorder while packets come; what it did, and what was recorded.
fn run_live(module: &Path, folder: &Path) -> (Outcome, u64) {
    let network = Network::up();
    let recording = folder.join("recording");
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["analyze", "--extension", arg(module), "--json", "--no-control"]);
    command.args(["-w", arg(&recording), "--netns", network.receiver(), "-i", "rx0"]);
    command.arg("udp port 6900");
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    inside(network.sender(), || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        for _ in 0..PACKETS {
            socket.send_to(b"payload", (RECEIVER_ADDRESS, 6_900)).unwrap();
        }
    });
    let outcome = running.stop();
    let read = run_ringside(&["read", "-r", arg(&recording), "-n"]);
    (outcome, read.text().lines().count() as u64)
}

#[test]
fn records_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("syns.pcap");
    let syn = |port: u16, flags: u8| {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 40];
        frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame
    };
    let mut file =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for frame in [syn(443, 2), syn(80, 2), syn(443, 0x12), syn(443, 0xc2), syn(80, 0x10)] {
        file.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        file.extend((frame.len() as u32).to_le_bytes().repeat(2));
        file.extend(frame);
    }
    std::fs::write(&capture, file).unwrap();
    let module = syns();
    let args = ["analyze", "--extension", arg(&module), "-r", arg(&capture), "--json"];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let found: Vec<_> = lines.iter().filter(|line| line.get("fields").is_some()).collect();
    let found: Vec<String> = found.iter().map(|line| line["fields"].to_string()).collect();
    assert_eq!(found, [r#"{"port":80,"syns":1}"#, r#"{"port":443,"syns":2}"#]);
    let account = &lines.last().unwrap()["account"];
    assert_eq!(account["balances"], true, "{account}");
    assert_eq!(
        (&account["packets"]["analyzed"], &account["counters"]["syns"]),
        (&5.into(), &3.into())
    );
    let missing = run_ringside(&["analyze", "--extension", arg(&capture), "-r", arg(&capture)]);
    assert_eq!(missing.code(), Some(2));
    assert!(missing.stderr.contains("neither a WebAssembly module"), "{}", missing.stderr);
}

#[test]
fn an_extension_next_to_a_recorder_sees_what_is_recorded() {
    let test = "an_extension_next_to_a_recorder_sees_what_is_recorded";
    if !need_root(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let emit = "(drop (call $emit (i32.const 0) (i32.const 16)))";
    let module = extension(folder.path(), "hello.wat", emit);
    let (outcome, recorded) = run_live(&module, folder.path());
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let found = lines.iter().filter(|line| line["fields"]["text"] == "hello");
    assert!(found.clone().all(|line| line["interface"] == "rx0" && line["extension"] == "hello"));
    assert_eq!((found.count(), recorded), (PACKETS, PACKETS as u64));
}

#[test]
fn a_hostile_extension_is_stopped_and_the_recording_is_whole() {
    let test = "a_hostile_extension_is_stopped_and_the_recording_is_whole";
    if !need_root(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let module = extension(folder.path(), "endless.wat", "(loop $on (br $on))");
    let (outcome, recorded) = run_live(&module, folder.path());
    assert_eq!(outcome.code(), Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the extension endless is stopped"), "{}", outcome.stderr);
    assert_eq!(recorded, PACKETS as u64);
    let lines = outcome.json_lines();
    let account = &lines.last().unwrap()["account"];
    assert_eq!(account["balances"], true, "{account}");
    let packets = &account["packets"];
    let counts = ["analyzed", "after_stop"].map(|name| packets[name].as_u64().unwrap());
    assert_eq!((counts, &packets["faults"]["out_of_fuel"]), ([0, 50], &100.into()), "{account}");
}
