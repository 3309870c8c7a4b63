//! `analyze`: an extension's records from a file, of an interface and of an attached ring, and a
//! hostile one next to a recorder, which records everything all the same.

mod slow;

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::{need_root, project_root};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let mut command = Command::new("env");
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

/// Frames of TCP to two ports, of which three begin a connection.
fn tcp_frames() -> [Vec<u8>; 5] {
    [(443, 2), (80, 2), (443, 0x12), (443, 0xc2), (80, 0x10)].map(|(port, flags): (u16, u8)| {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 40];
        frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.resize(60, 0);
        frame
    })
}

/// The example that is an object, compiled.
fn syns_object(folder: &Path) -> PathBuf {
    let object = folder.join("syns.o");
    let source = syns().with_file_name("syns.bpf.c");
    run_clean("clang", &["-O2", "-g", "-target", "bpf", "-c", arg(&source), "-o", arg(&object)]);
    object
}

/// Fields of the records, without the name of an object's table, and the account.
fn found(outcome: &Outcome) -> (Vec<String>, Value) {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let mut lines = outcome.json_lines();
    let account = lines.last().unwrap()["account"].clone();
    assert_eq!(account["balances"], true, "{account}");
    let fields = lines.iter_mut().filter_map(|line| line.get_mut("fields"));
    let fields = fields.map(|fields| {
        fields.as_object_mut().unwrap().remove("table");
        fields.to_string()
    });
    (fields.collect(), account)
}

#[test]
fn records_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("syns.pcap");
    write_pcap(&capture, tcp_frames().iter().map(Vec::as_slice));
    let module = syns();
    let args = ["analyze", "--extension", arg(&module), "-r", arg(&capture), "--json"];
    let outcome = run_ringside(&args);
    let (fields, account) = found(&outcome);
    assert_eq!(fields, [r#"{"port":80,"syns":1}"#, r#"{"port":443,"syns":2}"#]);
    assert_eq!(
        (&account["packets"]["analyzed"], &account["counters"]["syns"]),
        (&5.into(), &3.into())
    );
    let missing = run_ringside(&["analyze", "--extension", arg(&capture), "-r", arg(&capture)]);
    assert_eq!(missing.code(), Some(2));
    assert!(missing.stderr.contains("neither a WebAssembly module"), "{}", missing.stderr);
}

#[test]
fn a_module_and_an_object_find_the_same_live_attached_and_in_the_recording() {
    if !need_root("a_module_and_an_object_find_the_same_live_attached") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let (recording, socket) = (folder.path().join("recording"), folder.path().join("share"));
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket), "-w", arg(&recording)]);
    let extensions = [syns(), syns_object(folder.path())];
    let analyze = |extension: &Path, input: &[&str]| {
        let mut command = Command::new(ringside());
        command.args(["analyze", "--extension", arg(extension), "--json", "--no-control"]);
        command.args(input);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        running
    };
    let attached = extensions.each_ref().map(|one| analyze(one, &["--attach", arg(&socket)]));
    let copy = folder.path().join("copy");
    let receiver = network.receiver();
    let live = ["--netns", receiver, "-i", "rx0", "-Q", "in", "-w", arg(&copy)];
    // Next to its recorder the worker is a user without rights, and the kernel runs the object.
    let recorded = analyze(&extensions[1], &live);
    network.replay(&tcp_frames());
    let sent = network.received();
    let recorded = recorded.stop();
    capture.stop().checked_ledger(sent);
    let attached = attached.map(Running::finish);
    let stored = extensions.each_ref().map(|one| {
        let args = ["analyze", "--extension", arg(one), "-r", arg(&recording), "--json"];
        run_ringside(&args)
    });
    for outcome in stored.iter().chain(&attached).chain([&recorded]) {
        let (fields, account) = found(outcome);
        assert_eq!(fields, [r#"{"port":80,"syns":1}"#, r#"{"port":443,"syns":2}"#]);
        assert_eq!(account["packets"]["analyzed"], sent, "{account}");
    }
}

#[test]
fn a_hostile_object_is_refused_or_stopped() {
    if !need_root("a_hostile_object_is_refused_or_stopped") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("aborts.o");
    let source = folder.path().join("aborts.bpf.c");
    let write = |body: &str| {
        let head = syns().with_file_name("ringside_bpf.h");
        let text = format!(
            "#include \"{}\"\nSEC(\"xdp\") int ringside_packet(struct xdp_md *ctx) {{ {body} }}",
            head.display()
        );
        std::fs::write(&source, text).unwrap();
        let target = ["-O2", "-g", "-target", "bpf", "-c"];
        run_clean("clang", &[&target[..], &[arg(&source), "-o", arg(&object)]].concat());
    };
    write("return XDP_ABORTED;");
    let (outcome, recorded) = run_live(&object, folder.path());
    assert_eq!((outcome.code(), recorded), (Some(1), PACKETS as u64), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the extension aborts is stopped"), "{}", outcome.stderr);
    write("for (;;) asm volatile(\"\"); return XDP_PASS;");
    let capture = folder.path().join("tcp.pcap");
    write_pcap(&capture, tcp_frames().iter().map(Vec::as_slice));
    let refused = run_ringside(&["analyze", "--extension", arg(&object), "-r", arg(&capture)]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("the kernel does not load it"), "{}", refused.stderr);
}

/// What libbpf does not come to an end with is tried elsewhere, within limits.
#[test]
fn an_object_over_which_libbpf_would_sit_for_ever_is_refused() {
    if !need_root("an_object_over_which_libbpf_would_sit_for_ever_is_refused") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("slow.o");
    std::fs::write(&object, slow::object()).unwrap();
    let capture = folder.path().join("tcp.pcap");
    write_pcap(&capture, tcp_frames().iter().map(Vec::as_slice));
    let refused = run_ringside(&["analyze", "--extension", arg(&object), "-r", arg(&capture)]);
    assert_eq!(refused.code(), Some(2));
    let limits = "libbpf and the kernel have 5 seconds of one CPU and 512 MiB";
    assert!(refused.stderr.contains(limits), "{}", refused.stderr);
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
