//! Captures by DPDK's drivers without a card, end to end.

use crate::common::folder::{Folder, rule_totals};
use crate::common::verifier::shape;
use crate::common::*;
use ringside_core::Cause;
use ringside_lab::LabConfig;
use ringside_netdev as netdev;
use ringside_testkit::{need_root, skip, wait_until};
use ringside_transmit::{SenderKind, Stamp};
use rustix::process::Signal;
use std::path::Path;

/// Frames of a live run, in ten flows, and how many a second.
const FRAMES: u64 = 20_000;
const FLOWS: u64 = 10;
const RATE: u64 = 20_000;

/// True if this is root, and the plug-in lies next to the binary; else skips `test`.
fn need_dpdk(test: &str) -> bool {
    if !need_root(test) {
        return false;
    }
    let outcome = run_ringside(&["capture", "-i", "dpdk:net_null0", "-c", "1", "--count"]);
    let is_here = outcome.code() == Some(0);
    if !is_here {
        assert!(outcome.stderr.contains("apt-get install"), "{}", outcome.stderr);
        skip(test, outcome.stderr.trim());
    }
    is_here
}

/// Waits until a count of a capture's ledger has come to `frames`.
fn wait_for(socket: &Path, count: &str, frames: u64) {
    wait_until("the frames", || {
        let status = run_ringside(&["status", arg(socket), "--json"]);
        status.json_lines()[0]["status"]["ledger"][count] == frames
    });
}

/// Without the plug-in the error says what to install and where it belongs.
#[test]
fn a_device_without_the_plug_in_is_refused_with_the_fix() {
    let folder = Folder::new();
    let alone = folder.path("ringside");
    std::fs::copy(ringside(), &alone).unwrap();
    let outcome = run(&alone, &["capture", "-i", "dpdk:net_null0", "--count"]);
    assert_eq!(outcome.code(), Some(2));
    for text in ["libringside_dpdk.so", "apt-get install libdpdk-dev", "next to the binary"] {
        assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
    }
}

/// By rules into a recording: of a driver that counts its losses every frame is accounted for.
#[test]
fn a_recording_by_rules_is_exact() {
    if !need_dpdk("a_recording_by_rules_is_exact") {
        return;
    }
    let network = Network::up();
    let folder = Folder::new();
    let rules = folder.add(
        "some.rules",
        "1: src port 1024 => take, cap 60\n2: src port 1025 => drop\n3: src port 1026 => count\n\
         4: src port 1027-1033 => take\ndefault drop\n",
    );
    let recording = folder.path("recording");
    let device = "dpdk:net_pcap0,rx_iface_in=rx0";
    let socket = folder.path("control.sock");
    let args = ["-i", device, "--rules", arg(&rules), "-w", arg(&recording)];
    let args = [&args[..], &["--control", arg(&socket)]].concat();
    let running = network.capture(&args);
    let shape = shape(&[200], FLOWS as u32);
    let sent = network.send(SenderKind::Packet, &shape, FRAMES, Some(RATE));
    assert_eq!(sent.handed, FRAMES, "{sent:?}");
    // libpcap hands on what it held back, a moment later.
    wait_for(&socket, "received", FRAMES);
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(FRAMES);
    // libpcap's ring is small: on a busy machine it loses some, and counts them.
    let flow = FRAMES / FLOWS;
    let (counted, default) = rule_totals(&outcome);
    let of = |id: u64| counted[&id].0;
    assert_eq!((1..=4).map(of).sum::<u64>() + ledger.lost(), FRAMES, "{ledger:#?}");
    assert!((1..=3).all(|id| of(id) <= flow), "{counted:?}");
    // What is only counted is for the default.
    assert_eq!((default.0, ledger.taken), (of(3), of(1) + of(4)));
    assert_eq!(ledger.dropped[&Cause::ByRule], of(2) + of(3));
    let mut frames = 0;
    for_each_frame(&[recording], |frame, interfaces| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        let whole = shape.frame(stamp.stream, stamp.sequence);
        let kept = if stamp.sequence.is_multiple_of(FLOWS) { &whole[..60] } else { &whole[..] };
        assert_eq!((frame.bytes, frame.meta.wire_bytes), (kept, 200));
        assert_eq!(interfaces[frame.meta.interface.0 as usize].name, device);
        frames += 1;
    });
    assert_eq!(frames, ledger.taken);
}

/// Every frame of an interface by drivers whose losses are not counted: received is null, and what
/// is taken is exact. No thread of the worker has a capability meanwhile.
#[test]
fn an_interface_of_the_kernels_is_received_from_without_privileges() {
    if !need_dpdk("an_interface_of_the_kernels") {
        return;
    }
    for device in ["dpdk:net_af_packet0,iface=rx0", "dpdk:net_af_xdp0,iface=rx0", "rx0"] {
        received_from(device);
    }
}

fn received_from(device: &str) {
    // No more than any of the rings holds: none is lost on a busy machine.
    const FRAMES: u64 = 1_500;
    // DPDK's loader of programs joins no other.
    let xdp_pass = !device.contains("net_af_xdp");
    let network = Network::with(LabConfig { xdp_pass, ..LabConfig::default() });
    let folder = Folder::new();
    let (file, socket) = (folder.path("a.pcapng"), folder.path("control.sock"));
    let args = ["-i", device, "--backend", "dpdk", "-w", arg(&file), "--control", arg(&socket)];
    let running = network.capture(&args);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", running.worker_pid())).unwrap();
    let mut names = Vec::new();
    for task in tasks.flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap();
        assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        names.extend(status.lines().next().map(ToOwned::to_owned));
    }
    assert!(names.iter().any(|name| name.contains("eal-intr")), "{names:?}");
    let shape = shape(&[60, 1514], FLOWS as u32);
    let sent = network.send(SenderKind::Packet, &shape, FRAMES, Some(RATE));
    assert_eq!(sent.handed, FRAMES, "{sent:?}");
    wait_for(&socket, "taken", FRAMES);
    let ledger = running.stop().ledger();
    assert_eq!(ledger.balance(), Ok(()));
    assert_eq!((ledger.received, ledger.filtered), (None, Some(0)), "{device}");
    assert_eq!((ledger.taken, ledger.lost()), (FRAMES, 0), "{device}");
    let mut sequences = Vec::new();
    for_each_frame(&[file], |frame, interfaces| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        assert_eq!(frame.bytes, shape.frame(stamp.stream, stamp.sequence));
        let said = &interfaces[frame.meta.interface.0 as usize].description;
        assert!(said.contains("stamped when user space polled"), "{said}");
        sequences.push(stamp.sequence);
    });
    assert!(sequences.into_iter().eq(0..FRAMES), "in order, each once: {device}");
}

/// DPDK's driver of AF_XDP puts its program on the interface by netlink, and may not take it off
/// once the worker has given its rights up: the keeper does so, or the next start.
#[test]
fn the_program_of_a_driver_goes_with_its_run_whichever_process_dies() {
    if !need_dpdk("the_program_of_a_driver_goes_with_its_run") {
        return;
    }
    let network = Network::with(LabConfig { xdp_pass: false, ..LabConfig::default() });
    let programs = || {
        let device = || netdev::by_name("rx0").unwrap().unwrap();
        inside(network.receiver(), || device().xdp_programs.len())
    };
    let start = |args: &[&str]| {
        let running = network.capture(&[&["-i", "dpdk:net_af_xdp0,iface=rx0"], args].concat());
        assert_eq!(programs(), 1);
        running
    };
    for args in [&[][..], &["--no-keeper"]] {
        assert_eq!(start(args).stop().code(), Some(0));
        assert_eq!(programs(), 0, "an ordinary end {args:?}");
    }

    let running = start(&[]);
    running.signal_worker(Signal::KILL);
    assert_eq!(running.finish().code(), Some(2));
    assert_eq!(programs(), 0, "the worker died");

    let running = start(&[]);
    let worker = running.worker_pid();
    // The keeper first, so that it does not see the worker die.
    running.signal(Signal::STOP);
    running.signal_worker(Signal::KILL);
    running.signal(Signal::KILL);
    running.finish();
    wait_until("the worker's end", || !Path::new(&format!("/proc/{worker}")).exists());
    // The next start does it, this one or another test's.
    assert_eq!(run_ringside(&["repair", "--knobs"]).code(), Some(0));
    wait_until("the program to be taken off", || programs() == 0);
}

/// A file as a card would bring it, by a filter and several lanes.
#[test]
fn files_are_received_as_from_a_card() {
    if !need_dpdk("files_are_received_as_from_a_card") {
        return;
    }
    let folder = Folder::new();
    let [first, second] = ["1", "2"].map(|name| {
        let path = folder.path(&format!("{name}.pcap"));
        // Every second one of two hundred is long.
        let frames: Vec<Vec<u8>> =
            (0..200).map(|index| vec![0; if index % 2 == 0 { 150 } else { 60 }]).collect();
        write_pcap(&path, frames.iter().map(Vec::as_slice));
        path
    });
    let device = format!("dpdk:net_pcap0,rx_pcap={},rx_pcap={}", arg(&first), arg(&second));
    let merged = folder.path("merged.pcapng");
    let socket = folder.path("control.sock");
    let args = ["-i", &device, "--queues", "2", "-w", arg(&merged), "--control", arg(&socket)];
    let network = Network::up();
    let running = network.capture(&[&args[..], &["greater 100"]].concat());
    wait_for(&socket, "received", 400);
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(400);
    assert_eq!((ledger.taken, ledger.filtered, ledger.lanes.len()), (200, Some(200), 2));
    assert!(!outcome.stderr.contains("lost"), "a file loses nothing: {}", outcome.stderr);
}

/// What a driver counts of the device is put down to no queue, and this is said.
#[test]
fn losses_of_several_lanes_are_the_devices() {
    if !need_dpdk("losses_of_several_lanes_are_the_devices") {
        return;
    }
    let network = Network::up();
    let folder = Folder::new();
    let socket = folder.path("control.sock");
    // Each of its queues receives every frame, more than which libpcap's rings hold at once.
    let device = "dpdk:net_pcap0,rx_iface_in=rx0,rx_iface_in=rx0";
    let running = network.capture(&["-i", device, "--queues", "2", "--control", arg(&socket)]);
    let sent = network.send(SenderKind::Packet, &shape(&[200], FLOWS as u32), FRAMES, None);
    assert_eq!(sent.handed, FRAMES, "{sent:?}");
    wait_for(&socket, "received", 2 * FRAMES);
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(2 * FRAMES);
    let [first, second] = &ledger.lanes[..] else { panic!("{ledger:#?}") };
    assert_eq!(second.dropped.values().sum::<u64>(), 0, "{ledger:#?}");
    assert_eq!(second.received, Some(second.taken), "{ledger:#?}");
    assert_eq!(first.received, Some(first.taken + ledger.lost()), "{ledger:#?}");
    let said = "net_pcap counts lost frames of the device, not of a queue";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}

/// A capture replayed by DPDK's driver is what another backend then receives.
#[test]
fn a_replay_by_dpdk_is_received_whole() {
    if !need_dpdk("a_replay_by_dpdk_is_received_whole") {
        return;
    }
    let network = Network::up();
    let folder = Folder::new();
    let [sent, received] = ["sent.pcap", "received.pcapng"].map(|name| folder.path(name));
    let frames: Vec<Vec<u8>> = (0..2_000u32)
        .map(|number| [&[2; 12][..], &[0x88, 0xb5], &[number as u8; 200][..100]].concat())
        .collect();
    write_pcap(&sent, frames.iter().map(Vec::as_slice));
    let running = network.capture(&["-i", "rx0", "-Qin", "-w", arg(&received)]);
    let args = ["send", "--netns", network.sender(), "-i", "tx0", "-r", arg(&sent)];
    let outcome = run_ringside(&[&args[..], &["--fast", "--sink", "dpdk", "--json"]].concat());
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let account = &outcome.json_lines()[0]["sent"];
    assert_eq!((&account["accepted"], &account["offered"]), (&2_000.into(), &2_000.into()));
    running.stop().checked_ledger(2_000);
    let mut got = Vec::new();
    for_each_frame(&[received], |frame, _| got.push(frame.bytes.to_vec()));
    assert!(got == frames, "{} frames", got.len());
}
