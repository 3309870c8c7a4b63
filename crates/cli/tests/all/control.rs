//! The control socket of a running capture, through the program's own commands and by hand.

use crate::common::*;
use ringside_core::Ledger;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Frames of one load.
const LOAD: u64 = 5_000;

/// A capture with a control socket at a place of the test's own.
struct Controlled {
    network: Network,
    directory: tempfile::TempDir,
    running: Running,
}

impl Controlled {
    /// `write` is a name in the test's folder, or empty.
    fn start(write: &str) -> Controlled {
        let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
        let [socket, output] = ["control.sock", write].map(|name| directory.path().join(name));
        let mut args = vec!["-i", "rx0", "--control", arg(&socket)];
        if !write.is_empty() {
            args.extend(["-w", arg(&output)]);
        }
        let running = network.capture(&args);
        Controlled { network, directory, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn send(&self) {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
        let sent = self.network.send(SenderKind::Live, &shape, LOAD, Some(50_000));
        assert_eq!(sent.handed, LOAD);
    }

    /// The reply to a command, through `ringside control`.
    fn order(&self, order: &str) -> Value {
        let socket = self.path("control.sock");
        let outcome = run_ringside(&["control", arg(&socket), order, "--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.json_lines().remove(0)
    }

    fn ledger(&self) -> Ledger {
        serde_json::from_value(self.order("ledger")["ledger"].clone()).unwrap()
    }

    fn wait_for_delivered(&self, frames: u64) {
        wait_until("frames in the files", || self.ledger().consumers[0].delivered >= frames);
    }
}

/// Asks by hand.
fn ask(stream: &mut UnixStream, line: &str) -> Value {
    stream.write_all(line.as_bytes()).unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    serde_json::from_str(&reply).unwrap()
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream
}

#[test]
fn a_recording_is_asked_rotated_and_stopped() {
    if !need_root("a_recording_is_asked_rotated_and_stopped") {
        return;
    }
    let controlled = Controlled::start("recording");
    let (socket, recording) = (controlled.path("control.sock"), controlled.path("recording"));
    let metadata = std::fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);

    controlled.send();
    controlled.wait_for_delivered(LOAD);
    let status = controlled.order("status")["status"].clone();
    assert_eq!(status["interfaces"], serde_json::json!(["rx0"]));
    assert_eq!((&status["lanes"], &status["output"]["kind"]), (&1.into(), &"directory".into()));
    assert_eq!(status["output"]["paths"][0], arg(&recording));
    assert_eq!(status["ledger"]["received"], LOAD);
    let (ring, readers) = (&status["ring"], &status["readers"]);
    let held = ring["held_bytes"][0].as_u64().unwrap();
    assert!(held <= ring["lane_bytes"].as_u64().unwrap() && readers.is_null(), "{status}");
    let files = || files_in(&recording).iter().filter(|path| is_capture(path)).count();
    let before = files();
    assert_eq!(controlled.order("rotate"), serde_json::json!({ "version": 1, "ok": true }));
    controlled.send();
    controlled.wait_for_delivered(2 * LOAD);
    wait_until("a second file", || files() > before);

    // Who gave the order to stop hears the end of the run.
    let mut stream = connect(&socket);
    assert_eq!(ask(&mut stream, "{\"version\":1,\"command\":\"stop\"}\n")["ok"], true);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let ledger = controlled.running.finish().checked_ledger(2 * LOAD);
    assert_eq!((ledger.lost(), ledger.consumers[0].delivered), (0, 2 * LOAD));
    assert!(!socket.exists(), "the socket goes with the run");
    let mut frames = 0;
    let notices = for_each_frame(&[recording], |_, _| frames += 1);
    assert_eq!((frames, notices.len()), (2 * LOAD, 0), "{notices:?}");
}

fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "pcapng")
        && !path.file_name().unwrap().to_str().unwrap().starts_with('.')
}

#[test]
fn a_rotated_file_is_followed_by_another_and_kept() {
    if !need_root("a_rotated_file_is_followed_by_another_and_kept") {
        return;
    }
    let controlled = Controlled::start("merged.pcapng");
    controlled.send();
    controlled.wait_for_delivered(LOAD);
    controlled.order("rotate");
    controlled.send();
    controlled.wait_for_delivered(2 * LOAD);
    controlled.order("stop");
    let files = ["merged.pcapng", "merged-000001.pcapng"].map(|name| controlled.path(name));
    controlled.running.finish().checked_ledger(2 * LOAD);
    for file in files {
        let mut frames = 0;
        for_each_frame(&[file], |_, _| frames += 1);
        assert_eq!(frames, LOAD);
    }
}

/// Clients that send nonsense, half lines, a megabyte, and nothing, while frames flow.
#[test]
fn hostile_clients_cost_the_capture_nothing() {
    if !need_root("hostile_clients_cost_the_capture_nothing") {
        return;
    }
    let controlled = Controlled::start("");
    let socket = controlled.path("control.sock");
    let megabyte = vec![b'{'; 1 << 20];
    let mut hostile = Vec::new();
    for number in 0..40 {
        let mut stream = connect(&socket);
        stream.set_nonblocking(true).unwrap();
        // What the other end does not take is not sent.
        let _ = match number % 4 {
            0 => stream.write(&megabyte),
            1 => stream.write(b"\xff\x00{\"version\":1,\"comm"),
            2 => stream.write("{\"version\":1,\"command\":\"status\"}\n".repeat(500).as_bytes()),
            _ => Ok(0),
        };
        hostile.push(stream);
    }
    controlled.send();
    drop(hostile);
    // Clients that say nothing more hold their places, until there is none left.
    let mut places = Vec::new();
    let refused = loop {
        let mut stream = connect(&socket);
        let reply = ask(&mut stream, "{\"version\":1,\"command\":\"status\"}\n");
        if reply["ok"] != true {
            break reply;
        }
        places.push(stream);
        assert!(places.len() <= 16);
    };
    assert!(refused["error"].as_str().unwrap().starts_with("16 clients"), "{refused}");
    drop(places);
    wait_until("a place", || run_ringside(&["status", arg(&socket)]).code() == Some(0));

    let mut stream = connect(&socket);
    let rotate = ask(&mut stream, "{\"version\":1,\"command\":\"rotate\"}\n");
    assert!(rotate["error"].as_str().unwrap().contains("no files"), "{rotate}");
    let wrong = ask(&mut stream, "{\"version\":9,\"command\":\"stop\"}\n");
    assert!(wrong["error"].as_str().unwrap().contains("version 1"), "{wrong}");
    controlled.order("stop");
    let ledger = controlled.running.finish().checked_ledger(LOAD);
    assert_eq!((ledger.taken, ledger.lost()), (LOAD, 0));
}

#[test]
fn by_default_a_capture_is_found_by_its_process_and_a_live_socket_is_never_taken() {
    if !need_root("by_default_a_capture_is_found_by_its_process") {
        return;
    }
    let network = Network::up();
    let running = network.capture(&["-i", "rx0"]);
    // Other captures may run on this machine: ours is that of our network's process.
    let mine = || {
        let outcome = run_ringside(&["status", "--json"]);
        let lines = outcome.json_lines();
        lines.into_iter().find(|line| is_family(line["status"]["pid"].as_u64(), running.pid()))
    };
    wait_until("our capture among those that run", || mine().is_some());
    let line = mine().unwrap();
    let socket = PathBuf::from(line["socket"].as_str().unwrap());
    let pid = &line["status"]["pid"];
    assert_eq!(socket, Path::new(&format!("/run/ringside/capture-{pid}.sock")));
    let table = run_ringside(&["status", arg(&socket)]).text();
    assert!(table.contains("rx0 (af-packet, 1 lane)  counts only"), "{table}");

    let mut second = network.capture_command();
    second.args(["-i", "rx0", "--control", arg(&socket)]);
    let refused = Running::start(second).finish();
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("a running process listens there"), "{}", refused.stderr);
    let without = network.capture(&["-i", "rx0", "--no-control"]);
    let said = without.stop();
    assert_eq!(said.code(), Some(0), "{}", said.stderr);

    assert_eq!(run_ringside(&["control", arg(&socket), "stop"]).code(), Some(0));
    running.finish().checked_ledger(0);
    assert!(!socket.exists());
    let gone = run_ringside(&["status", arg(&socket)]);
    assert_eq!((gone.code(), gone.stderr.as_str()), (Some(1), "no capture runs\n"));
}

/// True if `pid` is the process `parent` or one that it started.
fn is_family(pid: Option<u64>, parent: u32) -> bool {
    let Some(pid) = pid else { return false };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or_default();
    pid == u64::from(parent) || of.trim() == parent.to_string()
}
