//! `ringside extcap`, as Wireshark's programs call it.

use crate::common::user::{as_nobody, public_folder};
use crate::common::*;
use crate::faults::support::count;
use ringside_testkit::{capture_files, need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::path::{Path, PathBuf};
use std::process::Command;

/// tshark as an ordinary user in the receiver's namespace, who finds this program among its
/// interfaces.
struct Wireshark<'n> {
    network: &'n Network,
    folder: tempfile::TempDir,
}

impl Wireshark<'_> {
    fn new(network: &Network) -> Wireshark<'_> {
        let (folder, program) = public_folder();
        std::fs::rename(program, folder.path().join("ringside-extcap")).unwrap();
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        std::os::unix::fs::chown(&out, Some(65534), Some(65534)).unwrap();
        Wireshark { network, folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out/out.pcapng")
    }

    /// What goes to the receiver and comes from it is captured with `capabilities`.
    fn start(&self, capabilities: &str, args: &[&str]) -> Running {
        let mut command = as_nobody(self.network.receiver(), capabilities);
        command.arg("env").arg(format!("WIRESHARK_EXTCAP_DIR={}", self.folder.path().display()));
        command.arg(format!("HOME={}", self.folder.path().join("out").display()));
        command.arg("tshark").args(args);
        Running::start(command)
    }
}

/// Both files hold the same frames.
fn assert_same_frames(one: &Path, other: &Path) {
    let frames = |path: &Path| {
        let mut all = Vec::new();
        for_each_frame(&[path.to_owned()], |frame, _| {
            all.push((frame.meta.timestamp, frame.bytes.to_vec()));
        });
        all
    };
    let expected = frames(other);
    assert!(!expected.is_empty());
    assert_eq!(frames(one), expected);
}

#[test]
fn tshark_lists_the_origins_and_reads_a_recording_by_a_filter() {
    let test = "tshark_lists_the_origins_and_reads_a_recording_by_a_filter";
    if !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    let network = Network::up();
    let wireshark = Wireshark::new(&network);
    let listed = wireshark.start("-all", &["-D"]).finish();
    for name in ["ringside-live", "ringside-share", "ringside-recording"] {
        assert!(listed.text().contains(name), "{} {}", listed.text(), listed.stderr);
    }
    let Some(file) = capture_files(test).into_iter().find(|file| arg(file).contains("/mixed/"))
    else {
        return;
    };
    let recording = wireshark.folder.path().join("recording.pcap");
    std::fs::copy(file, &recording).unwrap();
    let expected = wireshark.folder.path().join("expected.pcapng");
    let read = ["read", "-r", arg(&recording), "-w", arg(&expected), "udp"];
    assert_eq!(run_ringside(&read).code(), Some(0));
    let preference = format!("extcap.ringside_recording.recording:{}", recording.display());
    let out = wireshark.out();
    let args = ["-i", "ringside-recording", "-o", &preference, "-f", "udp", "-w", arg(&out)];
    let outcome = wireshark.start("-all", &args).finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert_same_frames(&out, &expected);
}

#[test]
fn tshark_captures_from_an_interface_of_this_machine() {
    let test = "tshark_captures_from_an_interface_of_this_machine";
    if !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    const FRAMES: u64 = 500;
    let network = Network::up();
    let wireshark = Wireshark::new(&network);
    let out = wireshark.out();
    let options = ["extcap.ringside_live.interface:rx0", "extcap.ringside_live.backend:af-packet"];
    let count = FRAMES.to_string();
    let args = ["-i", "ringside-live", "-o", options[0], "-o", options[1], "-f", "udp", "-c"];
    let running = wireshark.start("+net_raw", &[&args[..], &[&count, "-w", arg(&out)]].concat());
    let shape = Shape::new(Sizes::fixed(300).unwrap(), 4).unwrap();
    // tshark says nothing of what it starts; it ends with as many packets as it wants.
    wait_until("the end of tshark", || {
        network.send(SenderKind::Packet, &shape, FRAMES / 5, None);
        running.is_over()
    });
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let mut frames = 0;
    for_each_frame(&[out], |frame, _| {
        assert_eq!(frame.bytes.len(), 300);
        frames += 1;
    });
    assert_eq!(frames, FRAMES);
}

#[test]
fn a_ring_that_is_shared_gives_what_it_holds_of_the_past() {
    if !need_root("a_ring_that_is_shared_gives_what_it_holds_of_the_past") {
        return;
    }
    const FRAMES: u64 = 300;
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let [socket, pipe] = ["share", "pipe"].map(|name| folder.path().join(name));
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket)]);
    let shape = Shape::new(Sizes::fixed(200).unwrap(), 4).unwrap();
    network.send(SenderKind::Packet, &shape, FRAMES, None);
    capture.wait_for_stdout(&format!("\"taken\":{FRAMES}"));
    assert_eq!(run("mkfifo", &[arg(&pipe)]).code(), Some(0));
    let mut command = Command::new(ringside());
    command.args(["extcap", "--capture", "--extcap-interface", "ringside-share"]);
    command.args(["--fifo", arg(&pipe), "--socket", arg(&socket), "--past", "1000s"]);
    let extcap = Running::start(command);
    // The end of the capture is that of the pipe, once everything has gone into it.
    let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    extcap.wait_for_stderr("listening on");
    capture.stop().checked_ledger(FRAMES);
    let file = folder.path().join("all.pcapng");
    std::fs::write(&file, reader.join().unwrap()).unwrap();
    assert_eq!(extcap.finish().code(), Some(0));
    assert_eq!(count(&[file]), FRAMES);
}

#[test]
fn a_filter_is_checked_before_anything_is_captured() {
    let check = |filter: &str| {
        let call = ["extcap", "--extcap-interface", "ringside-live", "--extcap-capture-filter"];
        let outcome = run_ringside(&[&call[..], &[filter]].concat());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.text()
    };
    assert_eq!(check("udp port 53"), "");
    assert!(check("upd port 53").contains("syntax error"), "{}", check("upd port 53"));
    let asked = run_ringside(&["extcap"]);
    assert_eq!(asked.code(), Some(2));
    assert!(asked.stderr.contains("tshark -G folders"), "{}", asked.stderr);
}
