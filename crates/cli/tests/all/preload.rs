//! Programs that use libpcap, with our library preloaded: they read a ring that is shared, or an
//! interface, as they would read a device of libpcap's.

mod suricata;

use crate::common::user::{as_nobody, public_folder};
use crate::common::*;
use ringside_core::Frame;
use ringside_testkit::{capture_files, need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo puts the library next to these tests; a program that was built before them has its own.
fn library() -> PathBuf {
    let is_built_before = std::env::var_os("RINGSIDE_BIN").is_some();
    let neighbour = if is_built_before { ringside() } else { std::env::current_exe().unwrap() };
    let library = neighbour.with_file_name("libringside_pcap.so");
    assert!(library.exists(), "`cargo build -p ringside-pcap` makes {}", library.display());
    library
}

/// A program in the receiver's namespace, with the library.
fn preloaded(network: &Network, program: impl AsRef<Path>, args: &[&str]) -> Running {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.receiver(), "env"]);
    command.arg(format!("LD_PRELOAD={}", library().display()));
    command.arg(format!("RINGSIDE={}", ringside().display()));
    command.arg(program.as_ref()).args(args);
    Running::start(command)
}

fn shared(socket: &Path) -> String {
    format!("ringside:{}", socket.display())
}

/// Time, bytes and length on the wire of each frame.
fn frames(path: &Path) -> Vec<(u64, Vec<u8>, u32)> {
    let mut all = Vec::new();
    for_each_frame(&[path.to_owned()], |frame: &Frame<'_>, _| {
        all.push((frame.meta.timestamp.0, frame.bytes.to_vec(), frame.meta.wire_bytes));
    });
    all
}

/// Frames of a real capture that an interface takes.
fn real_frames(test: &str) -> Option<Vec<Vec<u8>>> {
    let file = capture_files(test).into_iter().find(|file| arg(file).contains("/mixed/"))?;
    let mut all = Vec::new();
    for_each_frame(&[file], |frame, _| {
        if (60..=1514).contains(&frame.bytes.len()) && all.len() < 2_000 {
            all.push(frame.bytes.to_vec());
        }
    });
    Some(all)
}

#[test]
fn debians_tcpdump_dumpcap_and_tshark_read_a_shared_ring_to_the_byte() {
    let test = "debians_tcpdump_dumpcap_and_tshark_read_a_shared_ring_to_the_byte";
    if !need_root(test) || !need_tool(test, "tcpdump") || !need_tool(test, "tshark") {
        return;
    }
    let Some(sent) = real_frames(test) else { return };
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (socket, recorded) = (place("share"), place("recorded.pcapng"));
    let record = ["-i", "rx0", "--share", arg(&socket), "-w", arg(&recorded)];
    let capture = network.capture(&record);
    let device = shared(&socket);
    let [all, tcp, dumpcap, tshark] =
        ["all.pcap", "tcp.pcap", "dumpcap.pcapng", "tshark.pcapng"].map(place);
    let nano = ["-Z", "root", "--time-stamp-precision=nano", "-i", &device, "-w"];
    let programs = [
        ("tcpdump", [&nano[..], &[arg(&all)]].concat(), "listening on"),
        ("tcpdump", [&nano[..], &[arg(&tcp), "-s", "90", "tcp"]].concat(), "listening on"),
        ("dumpcap", vec!["-i", &device, "-w", arg(&dumpcap)], "File:"),
        ("tshark", vec!["-i", &device, "-w", arg(&tshark), "-f", "udp"], "Capture started"),
    ];
    let running: Vec<Running> = programs
        .iter()
        .map(|(program, args, ready)| {
            let running = preloaded(&network, program, args);
            running.wait_for_stderr(ready);
            running
        })
        .collect();
    network.replay(&sent);
    wait_until("the frames to come", || network.received() >= sent.len() as u64);
    capture.stop().checked_ledger(network.received());
    // The end of the capture is theirs.
    let outcomes: Vec<Outcome> = running.into_iter().map(Running::finish).collect();
    let expected = frames(&recorded);
    assert!(expected.len() >= sent.len());
    assert_eq!(frames(&all), expected, "{}", outcomes[0].stderr);
    assert_eq!(frames(&dumpcap), expected, "{}", outcomes[2].stderr);
    let captured = format!("{} packets captured", expected.len());
    assert!(outcomes[0].stderr.contains(&captured), "{}", outcomes[0].stderr);
    assert!(outcomes[0].stderr.contains("0 packets dropped by kernel"), "{}", outcomes[0].stderr);
    let chosen = |filter: &str| {
        let file = place(&format!("{filter}.pcapng"));
        let read = ["read", "-r", arg(&recorded), "-w", arg(&file), filter];
        assert_eq!(run_ringside(&read).code(), Some(0));
        frames(&file)
    };
    assert_eq!(frames(&tshark), chosen("udp"), "{}", outcomes[3].stderr);
    let mut cut = chosen("tcp");
    assert!(!cut.is_empty());
    cut.iter_mut().for_each(|(_, bytes, _)| bytes.truncate(90));
    assert_eq!(frames(&tcp), cut, "{}", outcomes[1].stderr);
}

#[test]
fn an_interface_is_read_by_a_capture_that_ends_with_the_program() {
    let test = "an_interface_is_read_by_a_capture_that_ends_with_the_program";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    const FRAMES: u64 = 5_000;
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.pcap");
    let args = ["-Z", "root", "-i", "ringside:af-packet:rx0", "-w", arg(&file), "udp"];
    let shape = Shape::new(Sizes::fixed(300).unwrap(), 4).unwrap();
    let tcpdump = preloaded(&network, "tcpdump", &[&args[..], &["-c", "5000"]].concat());
    tcpdump.wait_for_stderr("listening on");
    network.send(SenderKind::Packet, &shape, FRAMES, None);
    let outcome = tcpdump.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("5000 packets received by filter"), "{}", outcome.stderr);
    assert_eq!(frames(&file).len() as u64, FRAMES);

    let tcpdump = preloaded(&network, "tcpdump", &args);
    tcpdump.wait_for_stderr("listening on");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", tcpdump.pid()));
    let child: u32 = children.unwrap().trim().parse().unwrap();
    let command = || std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
    assert!(String::from_utf8_lossy(&command()).contains("until-stdin-closes"));
    tcpdump.signal(Signal::KILL);
    tcpdump.finish();
    // One whose end was not taken note of yet has no command line either.
    wait_until("the end of the capture", || command().is_empty());
}

#[test]
fn what_programs_do_with_libpcap_holds_for_a_ring() {
    let test = "what_programs_do_with_libpcap_holds_for_a_ring";
    if !need_root(test) || !need_tool(test, "gcc") {
        return;
    }
    const FRAMES: u64 = 300;
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("habits");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/preload/habits.c");
    let compile = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", arg(&source), "-o", arg(&program)];
    run_clean("gcc", &[&compile[..], &["-lpcap"]].concat());
    let [socket, recorded] = ["share", "recorded.pcapng"].map(|name| folder.path().join(name));
    let record = ["-i", "rx0", "--share", arg(&socket), "-w", arg(&recorded)];
    let capture = network.capture(&record);
    let running = preloaded(&network, &program, &[&shared(&socket)]);
    running.wait_for_stdout("ready");
    let sizes = Sizes::list(&[100, 200]).unwrap();
    network.send(SenderKind::Packet, &Shape::new(sizes, 1).unwrap(), FRAMES, None);
    let outcome = running.finish();
    capture.stop().checked_ledger(FRAMES);
    let text = outcome.text();
    assert_eq!(outcome.code(), Some(0), "{text}{}", outcome.stderr);
    let lines: Vec<&str> = text.lines().collect();
    let sent = frames(&recorded);
    let (first, others) = sent.split_first().unwrap();
    let large = others.iter().filter(|(_, _, bytes)| *bytes == 200).count();
    assert!((60..FRAMES as usize - 60).contains(&large), "{large} of {}", sent.len());
    let kept = first.2.min(150);
    assert_eq!(lines[1], format!("first {kept} of {}, nanoseconds 1", first.2));
    assert!(lines[2].contains("syntax error"), "{text}");
    assert_eq!(lines[3], "loop 49 frames, 9800 bytes, 7350 kept, 49");
    assert_eq!(lines[4], format!("and {large} frames, {} bytes", 200 * large));
    assert_eq!(lines[5], format!("stats {} 0 0", 1 + large));
}

#[test]
fn what_cannot_be_opened_is_said_in_libpcaps_way() {
    let test = "what_cannot_be_opened_is_said_in_libpcaps_way";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    let network = Network::up();
    let refused = |device: &str| {
        let outcome = preloaded(&network, "tcpdump", &["-i", device, "-c", "1"]).finish();
        assert_eq!(outcome.code(), Some(1), "{device}: {}", outcome.stderr);
        outcome.stderr
    };
    let wrong = refused("ringside:rx0");
    assert!(wrong.contains("No such device") && wrong.contains("ringside:af-packet:eth1"));
    let nowhere = refused("ringside:/nowhere/at/all");
    assert!(nowhere.contains("No such device") && nowhere.contains("cannot connect"), "{nowhere}");
    let interface = refused("ringside:af-packet:none0");
    assert!(interface.contains("no interface none0"), "{interface}");
    let backend = refused("ringside:tin-can:rx0");
    assert!(backend.contains("tin-can"), "{backend}");
    // All other devices are libpcap's.
    let real = refused("none0");
    assert!(real.contains("none0: No such device exists"), "{real}");

    let (folder, _) = public_folder();
    let [socket, copy] = ["share", "library.so"].map(|name| folder.path().join(name));
    std::fs::copy(library(), &copy).unwrap();
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket)]);
    let mut command = as_nobody(network.receiver(), "-all");
    command.arg("env").arg(format!("LD_PRELOAD={}", copy.display()));
    command.args(["tcpdump", "-i", &shared(&socket), "-c", "1"]);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code(), Some(1));
    assert!(outcome.stderr.contains("permission"), "{}", outcome.stderr);
    capture.stop();
}
