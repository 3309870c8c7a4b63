//! kill -9 at full load: the ledger is closed, and the interface works as before.
//!
//! `RINGSIDE_KILLS` says how many.

use super::driver::DriverCounts;
use crate::common::chaos::{full_rate, kill, kills, random};
use crate::common::*;
use ringside_core::ledger::total;
use ringside_core::{Cause, Ledger};
use ringside_ebpf::attached_program;
use ringside_lab::{LabConfig, RECEIVER_ADDRESS};
use ringside_netdev::{self as netdev, NapiSettings};
use ringside_testkit::{need_root, skip};
use ringside_transmit::Stamp;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;

use std::time::Duration;

/// Kills of each kind unless the environment says otherwise: what a run of all tests can afford.
const KILLS: [u64; 2] = [2, 30];
/// Latest kill after the capture listens.
const KILL_AFTER_MAX_US: usize = 250_000;
/// The sender that fills all queues.
const PACKETS: [&str; 4] = ["--sender", "packet", "--flows", "1000"];

/// A network whose receiving end has the lab's own root, which stays, or none, so that the capture
/// attaches one by a link.
fn network(queues: u16, has_root: bool) -> Network {
    let network = Network::with(LabConfig { queues, ..LabConfig::default() });
    if !has_root {
        let off = ["-n", network.receiver(), "link", "set", "rx0", "xdp", "off"];
        run_clean("ip", &off);
    }
    network
}

fn capture<'a>(backend: &'a str, directory: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["-i", "rx0", "--backend", backend, "-w", arg(directory), "--no-control"];
    let memory = ["--kernel-ring-size", "1MiB", "--ring-size", "16MiB"];
    [&args[..], &memory, more].concat()
}

/// The frames in a directory; each stream's in order within a lane, for losses leave gaps but turn
/// nothing round.
fn frames_in_order(directory: &Path) -> u64 {
    let mut frames = 0;
    let (series, _) = ringside_store::recording::series_of(&[directory.to_owned()]).unwrap();
    for series in series {
        let mut last = BTreeMap::new();
        let paths: Vec<_> = series.files.iter().map(|file| file.path.clone()).collect();
        let notices = for_each_frame(&paths, |frame, _| {
            let stamp = Stamp::read(frame.bytes).unwrap();
            let before = last.insert(stamp.stream, stamp.sequence);
            assert!(before.is_none_or(|before| before < stamp.sequence), "{before:?} {stamp:?}");
            frames += 1;
        });
        assert!(notices.is_empty(), "{notices:?}");
    }
    frames
}

/// The ledger that the keeper closed: nothing is unknown.
fn closed_by_keeper(outcome: &Outcome, directory: &Path) -> Ledger {
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert_eq!(outcome.json_lines().last().unwrap()["closed_by"], "keeper", "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("not known"), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    assert!(ledger.received.is_some() && ledger.in_flight == Some(0), "{ledger:#?}");
    let recorder = &ledger.consumers[0];
    assert_eq!((recorder.delivered, total(&recorder.missed)), (ledger.taken, 0), "{ledger:#?}");
    assert_eq!(frames_in_order(directory), recorder.delivered, "{ledger:#?}");
    ledger
}

/// The program on the interface, if any.
fn program(network: &Network) -> Option<u32> {
    inside(network.receiver(), || {
        let device = netdev::by_name("rx0").unwrap().unwrap();
        attached_program(device.ifindex).unwrap()
    })
}

/// The host behind the interface gets what is sent to it and answers, and nothing takes its frames.
fn host_works(network: &Network) {
    let before = DriverCounts::read(network);
    let (ready, address) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = network.receiver();
        scope.spawn(move || {
            inside(receiver, || {
                let socket = UdpSocket::bind((RECEIVER_ADDRESS, 0)).unwrap();
                socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
                ready.send(socket.local_addr().unwrap()).unwrap();
                let mut buffer = [0; 100];
                let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
                socket.send_to(&buffer[..bytes], from).unwrap();
            });
        });
        let address = address.recv().unwrap();
        inside(network.sender(), || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut buffer = [0; 100];
            wait_until("an answer of the host", || {
                // The sender's load may have filled the way there.
                let _ = socket.send_to(b"there?", address);
                socket.recv(&mut buffer).is_ok_and(|bytes| &buffer[..bytes] == b"there?")
            });
        });
    });
    let since = DriverCounts::read(network).since(&before);
    assert_eq!(since.redirected, 0, "a capture's program is still there: {since:?}");
}

#[test]
fn a_worker_killed_at_full_load_leaves_an_exact_ledger_and_a_working_interface() {
    if !need_root("af_xdp_a_worker_killed_at_full_load") {
        return;
    }
    let mut random = random();
    let (mut frames, mut died_with) = (0, 0);
    for (backend, queues, has_root) in
        [("af-xdp", 1, true), ("af-xdp", 2, false), ("xdp-ring", 2, true), ("xdp-ring", 1, false)]
    {
        let network = network(queues, has_root);
        let (sender, standing) = (full_rate(&network, &PACKETS), program(&network));
        for round in 0..kills(KILLS) {
            let folder = tempfile::tempdir().unwrap();
            let more: &[&str] = if round % 3 == 1 { &["--queues", "1"] } else { &[] };
            let running = network.capture(&capture(backend, folder.path(), more));
            std::thread::sleep(Duration::from_micros(random.below(KILL_AFTER_MAX_US) as u64));
            running.signal_worker(Signal::KILL);
            let ledger = closed_by_keeper(&running.finish(), folder.path());
            // Frames of a queue without a lane passed.
            assert!(more.is_empty() || queues == 1 || ledger.passed > 0, "{ledger:#?}");
            assert!(!more.is_empty() || ledger.passed == 0, "{ledger:#?}");
            frames += ledger.taken;
            died_with += ledger.dropped.get(&Cause::WorkerDied).copied().unwrap_or_default();
            assert_eq!(program(&network), standing, "what was there before, and nothing else");
            host_works(&network);
        }
        assert_eq!(sender.stop().code(), Some(0));
    }
    println!("{frames} frames committed, all in the files; {died_with} were still the kernel's");
}

#[test]
fn what_both_leave_behind_the_kernel_takes_away_and_the_next_start_works() {
    if !need_root("af_xdp_what_both_leave_behind") {
        return;
    }
    let mut random = random();
    for (backend, has_root) in
        [("af-xdp", true), ("af-xdp", false), ("xdp-ring", true), ("xdp-ring", false)]
    {
        let network = network(1, has_root);
        let (sender, standing) = (full_rate(&network, &PACKETS), program(&network));
        for round in 0..kills(KILLS) {
            let folder = tempfile::tempdir().unwrap();
            let alone: &[&str] = if round % 3 == 1 { &["--no-keeper"] } else { &[] };
            let running = network.capture(&capture(backend, folder.path(), alone));
            std::thread::sleep(Duration::from_micros(random.below(KILL_AFTER_MAX_US) as u64));
            let (keeper, worker) = (running.pid(), running.worker_pid());
            let order = if round % 2 == 0 { [keeper, worker] } else { [worker, keeper] };
            // The keeper may have seen its worker's end and be finishing; then it dies at that.
            order.into_iter().filter(|pid| *pid != 0).for_each(kill);
            running.finish();
            wait_until("the worker's end", || !Path::new(&format!("/proc/{worker}")).exists());

            // What the kernel does once the last descriptor is gone takes it a moment.
            wait_until("the program's end", || program(&network) == standing);
            host_works(&network);
            let next = network.capture(&capture(backend, folder.path(), &["-c", "1"]));
            let outcome = next.finish();
            assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
            assert_eq!(outcome.ledger().balance(), Ok(()));
            assert_eq!(program(&network), standing);
        }
        assert_eq!(sender.stop().code(), Some(0));
    }
}

#[test]
fn no_way_of_capturing_changes_that() {
    if !need_root("af_xdp_no_way_of_capturing_changes_that") {
        return;
    }
    let network = network(1, true);
    let sender = full_rate(&network, &PACKETS);
    let cases: [&[&str]; 6] = [
        &["udp"],
        &["tcp"],
        &["--threads", "2"],
        &["--threads", "2", "udp"],
        &["--user", "nobody"],
        &["--wait", "busy-poll"],
    ];
    for more in cases {
        let folder = tempfile::tempdir().unwrap();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).unwrap();
        let recording = folder.path().join("recording");
        let running = network.capture(&capture("af-xdp", &recording, more));
        let before = network.received();
        wait_until("frames", || network.received() > before + 20_000);
        // A worker that is not scheduled has taken none of them yet.
        wait_until("a frame in the files", || more.contains(&"tcp") || holds_frames(&recording));
        running.signal_worker(Signal::KILL);
        let ledger = closed_by_keeper(&running.finish(), &recording);
        match more.contains(&"tcp") {
            true => assert_eq!(ledger.received, Some(ledger.passed), "{ledger:#?}"),
            false => assert!(ledger.taken > 0 && ledger.passed == 0, "{ledger:#?}"),
        }
        host_works(&network);
    }
    assert_eq!(sender.stop().code(), Some(0));
}

fn holds_frames(recording: &Path) -> bool {
    let mut holds = false;
    for_each_frame(&[recording.to_owned()], |_, _| holds = true);
    holds
}

/// How the receiving end's NAPIs are set.
fn napi_settings(network: &Network) -> Vec<Option<NapiSettings>> {
    inside(network.receiver(), || {
        let device = netdev::by_name("rx0").unwrap().unwrap();
        netdev::napis(device.ifindex).unwrap().into_iter().map(|napi| napi.settings).collect()
    })
}

#[test]
fn the_settings_of_busy_polling_are_put_back_whoever_dies() {
    const TEST: &str = "the_settings_of_busy_polling_are_put_back";
    if !need_root(TEST) {
        return;
    }
    let network = network(1, true);
    let before = napi_settings(&network);
    if before.iter().flatten().next().is_none() {
        return skip(TEST, "the kernel does not tell how a veth's NAPI is set");
    }
    for both in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let running = network.capture(&capture("af-xdp", folder.path(), &["--wait", "busy-poll"]));
        assert_ne!(napi_settings(&network), before, "{}", running.stderr_so_far());
        if both {
            running.signal(Signal::STOP);
            running.signal_worker(Signal::KILL);
            running.signal(Signal::KILL);
            running.finish();
            assert_eq!(run_ringside(&["repair", "--knobs"]).code(), Some(0));
        } else {
            running.signal_worker(Signal::KILL);
            closed_by_keeper(&running.finish(), folder.path());
        }
        assert_eq!(napi_settings(&network), before, "both died: {both}");
    }
}
