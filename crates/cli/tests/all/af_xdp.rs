//! Frames from inside the driver, by AF_XDP and by a program's own copy: what was sent is in the
//! files, once, in order, byte by byte, the ledger agrees with the driver's own counters, and the
//! host keeps what is not captured.

mod crashes;
mod driver;

use crate::common::overload::{LOAD, Overload};
use crate::common::verifier::{SIZES, Verifier, shape};
use crate::common::*;
use driver::DriverCounts;
use ringside_core::{Cause, Ledger};
use ringside_lab::{LabConfig, RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_testkit::{by_run, need_root, need_tool};
use ringside_transmit::{Report, SenderKind};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;

/// Frames of an exactness run: each lane's part of the capture ring turns over at least twice.
fn frames() -> u64 {
    by_run(60_000, 2_000_000)
}

/// Frames a second, also where another program uses the machine.
const RATE: u64 = 150_000;

/// Ways to take frames inside a driver.
const BACKENDS: [&str; 2] = ["af-xdp", "xdp-ring"];

/// A backend with rings that ride out stalls of a busy machine: nothing may be lost.
fn patient(backend: &str) -> [&str; 8] {
    patient_by(backend, by_run("16MiB", "512MiB"))
}

/// The same with a capture ring of this size.
fn patient_by<'a>(backend: &'a str, ring: &'a str) -> [&'a str; 8] {
    let kernel = by_run("64MiB", "256MiB");
    ["-i", "rx0", "--backend", backend, "--kernel-ring-size", kernel, "--ring-size", ring]
}

fn nothing_lost(ledger: &Ledger, sent: &Report) {
    assert_eq!((ledger.taken, ledger.passed, ledger.lost()), (sent.handed, 0, 0), "{ledger:#?}");
}

#[test]
fn numbered_frames_of_one_queue() {
    numbered_frames("af_xdp_numbered_frames_of_one_queue", 1);
}

#[test]
fn numbered_frames_of_two_queues() {
    numbered_frames("af_xdp_numbered_frames_of_two_queues", 2);
}

#[test]
fn numbered_frames_of_four_queues() {
    numbered_frames("af_xdp_numbered_frames_of_four_queues", 4);
}

fn numbered_frames(test: &str, queues: u16) {
    if need_root(test) {
        BACKENDS.into_iter().for_each(|backend| numbered_frames_by(backend, queues));
    }
}

fn numbered_frames_by(backend: &str, queues: u16) {
    let network = Network::with(LabConfig { queues, ..LabConfig::default() });
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    let running = network.capture(&[&patient(backend)[..], &["-w", arg(&recording)]].concat());
    let said = running.stderr_so_far();
    let is_bound = said.contains("af-xdp, native, copy with multi-buffer");
    assert!(is_bound == (backend == "af-xdp"), "{said}");
    let shape = shape(&SIZES, 1000);
    let (before, counts) = (network.received(), DriverCounts::read(&network));
    // Live frames come from one CPU and to one queue.
    let kind = if queues == 1 { SenderKind::Live } else { SenderKind::Packet };
    let sent = network.send(kind, &shape, frames(), Some(RATE));
    let received = network.received() - before;
    let ledger = running.stop().checked_ledger(received);
    assert_eq!(sent.handed, received, "{sent:?}");
    DriverCounts::read(&network).since(&counts).agree_with(backend, &ledger);
    nothing_lost(&ledger, &sent);
    assert_eq!(ledger.lanes.len(), usize::from(queues));
    for lane in &ledger.lanes {
        assert!(lane.taken >= frames() / 20, "{ledger:#?}");
        assert_eq!(lane.inversions, 0, "{ledger:#?}");
    }

    let mut recorded = Verifier::new(&shape, frames());
    assert_eq!(recorded.note_directory(&recording), usize::from(queues));
    let report = recorded.report(&sent.streams);
    assert_eq!(report.missing, frames() - sent.handed, "{report:?}");
    assert_eq!((report.duplicates, report.lane_reordered, report.flow_reordered), (0, 0, 0));
    assert_eq!(recorded.frames, sent.handed);
}

#[test]
fn jumbo_frames_are_whole() {
    if !need_root("af_xdp_jumbo_frames_are_whole") {
        return;
    }
    BACKENDS.into_iter().for_each(jumbo_frames_by);
}

fn jumbo_frames_by(backend: &str) {
    let count = by_run(10_000, 100_000);
    let network = Network::with(LabConfig { queues: 2, mtu: 9000, ..LabConfig::default() });
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    // The short run's frames have 53 MB: however long the disk is busy, the ring has room for them.
    let patient = patient_by(backend, by_run("128MiB", "512MiB"));
    let running = network.capture(&[&patient[..], &["-w", arg(&recording)]].concat());
    let shape = shape(&[60, 1514, 3839, 3840, 3841, 4096, 7680, 7681, 9000, 9014], 100);
    let (before, counts) = (network.received(), DriverCounts::read(&network));
    let sent = network.send(SenderKind::Packet, &shape, count, Some(RATE / 5));
    let received = network.received() - before;
    let ledger = running.stop().checked_ledger(received);
    assert_eq!(sent.handed, received, "{sent:?}");
    DriverCounts::read(&network).since(&counts).agree_with(backend, &ledger);
    nothing_lost(&ledger, &sent);
    let mut recorded = Verifier::new(&shape, count);
    recorded.note_directory(&recording);
    let report = recorded.report(&sent.streams);
    assert_eq!((report.missing, report.duplicates), (count - sent.handed, 0), "{report:?}");
    assert_eq!((report.lane_reordered, report.flow_reordered), (0, 0), "{report:?}");
    assert_eq!(recorded.frames, sent.handed);
}

/// Three loads as fast as the sender goes into little memory; during the second the program stands
/// still, so that frames are lost on every machine.
#[test]
fn at_full_load_every_lost_frame_has_a_cause() {
    if !need_root("af_xdp_at_full_load_every_lost_frame_has_a_cause") {
        return;
    }
    for (backend, cause) in [("af-xdp", Cause::FillRingEmpty), ("xdp-ring", Cause::KernelRingFull)]
    {
        full_load(backend, cause);
    }
}

fn full_load(backend: &str, cause: Cause) {
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = directory.path().join("recording");
    let running = network.capture(&[
        "-i",
        "rx0",
        "--backend",
        backend,
        "-w",
        arg(&recording),
        "--kernel-ring-size",
        "512KiB",
        "--ring-size",
        "4MiB",
    ]);
    let counts = DriverCounts::read(&network);
    let load = Overload::send(&network, &running);
    let ledger = running.stop().checked_ledger(load.received);
    DriverCounts::read(&network).since(&counts).agree_with(backend, &ledger);
    let starved = ledger.dropped[&cause];
    assert!(starved >= LOAD / 2, "a program that stands still takes nothing: {ledger:#?}");
    assert_eq!(ledger.passed, 0);
    load.check(&recording, ledger.consumers[0].delivered);
}

/// The host's own interface is left to it, one that it does not use is captured in the driver; both
/// is said, with the reason, where auto or -v was asked for.
#[test]
fn auto_leaves_an_interface_that_the_host_uses() {
    if !need_root("auto_leaves_an_interface_that_the_host_uses") {
        return;
    }
    for (addresses, expected, reason) in [
        (true, "rx0 (af-packet, 1 lane)", "rx0: af-packet, not af-xdp: the host uses it"),
        (false, "rx0 (af-xdp, 1 lane)", "rx0: af-xdp, because the host does not use"),
    ] {
        let network = Network::with(LabConfig { addresses, ..LabConfig::default() });
        let running = network.capture(&["-i", "rx0", "--backend", "auto"]);
        let said = running.stderr_so_far();
        assert!(said.contains(expected) && said.contains(reason), "{said}");
        let shape = shape(&SIZES, 10);
        let before = network.received();
        let sent = network.send(SenderKind::Live, &shape, 1000, Some(10_000));
        let received = network.received() - before;
        assert_eq!((sent.handed, received), (1000, 1000));
        assert_eq!(running.stop().checked_ledger(1000).taken, 1000);
    }
    // What only packet sockets can do is not taken away by the choice.
    let network = Network::with(LabConfig { addresses: false, ..LabConfig::default() });
    // A choice that cannot be had is no error: the queue is another's.
    let first = network.capture(&["-i", "rx0", "--backend", "af-xdp"]);
    let second = network.capture(&["-i", "rx0"]);
    let said = second.stderr_so_far();
    assert!(said.contains("rx0: af-packet, not af-xdp") && said.contains("queue 0"), "{said}");
    assert!(said.contains("rx0 (af-packet, 1 lane)"), "{said}");
    assert_eq!(second.stop().code(), Some(0));
    assert_eq!(first.stop().code(), Some(0));
    for (args, reason) in [
        (&["--direction", "both"][..], "it sees received frames only"),
        (&["--queues", "2"], "2 lanes are asked for, and it has 1 receive queue"),
    ] {
        let running = network.capture(&[&["-i", "rx0", "-v"], args].concat());
        let said = running.stderr_so_far();
        assert!(said.contains("rx0: af-packet, not af-xdp") && said.contains(reason), "{said}");
        assert_eq!(running.stop().code(), Some(0));
    }
}

#[test]
fn what_the_backend_cannot_do_is_refused_with_the_fix() {
    if !need_root("what_the_backend_cannot_do") {
        return;
    }
    let network = Network::up();
    for (args, text) in [
        (&["--direction", "both"][..], "leave out --direction inout"),
        (&["--queues", "2"], "number of lanes (receive queues) is 2, allowed is 1 to 1"),
        (&["--kernel-ring-size", "64KiB"], "memory of a lane"),
    ] {
        let mut command = network.capture_command();
        command.args(["-i", "rx0", "--backend", "af-xdp"]).args(args);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(text), "{args:?}: {}", outcome.stderr);
    }
    for (args, text) in [
        (&["--direction", "both"][..], "leave out --direction inout"),
        (&["--queues", "2"], "number of lanes (receive queues) is 2, allowed is 1 to 1"),
        (&["--kernel-ring-size", "64KiB"], "memory of a lane"),
        (&["--threads", "2"], "use --backend af-xdp"),
        (&["--wait", "poll"], "use --wait sleep or spin"),
        (&["--hardware-time"], "use --backend af-xdp"),
    ] {
        let mut command = network.capture_command();
        command.args(["-i", "rx0", "--backend", "xdp-ring"]).args(args);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(text), "{args:?}: {}", outcome.stderr);
    }
    // A second capture of the same queue reports which socket holds it, and the first goes on.
    let first = network.capture(&["-i", "rx0", "--backend", "af-xdp"]);
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "--backend", "af-xdp"]);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("another AF_XDP socket has it"), "{}", outcome.stderr);
    let before = network.received();
    let sent = network.send(SenderKind::Live, &shape(&SIZES, 10), 1000, Some(10_000));
    let received = network.received() - before;
    assert_eq!(sent.handed, received);
    assert_eq!(first.stop().checked_ledger(received).taken, received);
}

/// The host's own session goes on through an interface of which UDP is taken.
#[test]
fn a_tcp_session_goes_on_while_udp_is_taken() {
    if !need_root("a_tcp_session_goes_on") || !need_tool("a_tcp_session_goes_on", "tshark") {
        return;
    }
    BACKENDS.into_iter().for_each(tcp_session_next_to_it);
}

fn tcp_session_next_to_it(backend: &str) {
    const DATAGRAMS: u32 = 2_000;
    const ECHOES: u32 = 500;
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let file = directory.path().join("udp.pcapng");
    let capture = ["-i", "rx0", "--backend", backend, "-w", arg(&file), "udp"];
    let (ready, address) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // The receiving host: an echo, and a socket that must not see the datagrams.
        let receiver = network.receiver();
        let host = scope.spawn(move || {
            inside(receiver, || {
                let listener = TcpListener::bind((RECEIVER_ADDRESS, 0)).unwrap();
                let datagrams = UdpSocket::bind((RECEIVER_ADDRESS, 0)).unwrap();
                datagrams.set_nonblocking(true).unwrap();
                let addresses = [listener.local_addr(), datagrams.local_addr()];
                ready.send(addresses.map(Result::unwrap)).unwrap();
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = [0; 1000];
                while stream.read_exact(&mut buffer).is_ok() {
                    stream.write_all(&buffer).unwrap();
                }
                datagrams.recv(&mut [0; 100]).unwrap_err().kind()
            })
        });
        let [tcp, udp] = address.recv().unwrap();
        let (ledger, seen) = inside(network.sender(), || {
            let mut session = TcpStream::connect(tcp).unwrap();
            session.set_read_timeout(Some(WAIT_MAX)).unwrap();
            let mut echo = |number: u32| {
                let sent = [number as u8; 1000];
                let mut back = [0; 1000];
                session.write_all(&sent).unwrap();
                session.read_exact(&mut back).unwrap();
                assert_eq!(sent, back);
            };
            echo(0);
            let running = network.capture(&capture);
            let counts = DriverCounts::read(&network);
            let socket = UdpSocket::bind((SENDER_ADDRESS, 0)).unwrap();
            for number in 0..DATAGRAMS {
                socket.send_to(&number.to_be_bytes(), udp).unwrap();
                if number % (DATAGRAMS / ECHOES) == 0 {
                    echo(number);
                }
            }
            let outcome = running.stop();
            let ledger = outcome.checked_ledger(outcome.ledger().received.unwrap());
            (ledger, DriverCounts::read(&network).since(&counts))
        });
        // Taken while it lasted; the session's frames passed.
        assert_eq!((ledger.taken, ledger.lost()), (u64::from(DATAGRAMS), 0), "{ledger:#?}");
        assert!(ledger.passed >= u64::from(ECHOES), "{ledger:#?}");
        assert!(seen.seen >= ledger.received.unwrap(), "{seen:?} {ledger:#?}");
        assert_eq!(host.join().unwrap(), std::io::ErrorKind::WouldBlock, "the host saw a datagram");
    });
    assert_eq!(datagrams_in(&file), DATAGRAMS as usize);
}

/// No more than is kept of a frame is copied, and its length on the wire is known all the same.
#[test]
fn what_a_snapshot_length_cuts_keeps_its_length() {
    const TEST: &str = "what_a_snapshot_length_cuts_keeps_its_length";
    if !need_root(TEST) || !need_tool(TEST, "tshark") {
        return;
    }
    for backend in BACKENDS {
        let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
        let file = directory.path().join("cut.pcapng");
        let capture = ["-i", "rx0", "--backend", backend, "-s", "100", "-w", arg(&file)];
        let running = network.capture(&capture);
        let before = network.received();
        let sent =
            network.send(SenderKind::Live, &shape(&[60, 99, 100, 101, 1514], 10), 1000, None);
        let received = network.received() - before;
        assert_eq!((sent.handed, running.stop().checked_ledger(received).taken), (1000, 1000));
        let fields = ["-T", "fields", "-e", "frame.len", "-e", "frame.cap_len"];
        let text = run_clean("tshark", &[&["-r", arg(&file)], &fields[..]].concat());
        let seen: BTreeSet<&str> = text.lines().collect();
        let expected = ["60\t60", "99\t99", "100\t100", "101\t100", "1514\t100"];
        assert_eq!((text.lines().count(), seen), (1000, expected.into()), "{backend}");
    }
}

fn datagrams_in(file: &Path) -> usize {
    let fields = ["-Y", "udp", "-T", "fields", "-e", "frame.number"];
    run_clean("tshark", &[&["-r", arg(file)], &fields[..]].concat()).lines().count()
}
