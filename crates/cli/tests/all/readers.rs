//! Readers of a running capture: `--share`, `attach`, and the trigger that looks back.

use crate::common::*;
use ringside_client::{Attachment, ReadOptions};
use ringside_core::Ledger;
use ringside_core::ledger::total;
use ringside_testkit::{Random, need_root};
use ringside_transmit::{SenderKind, SequenceCheck, SequenceReport, Shape, Sizes};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// As many as the issue of a shared ring is about; half of them are stopped and killed.
const READERS: usize = 32;
const FRAMES: u64 = 200_000;
/// What the recorder holds alone with both cores busy otherwise.
const RATE: u64 = 40_000;

fn shape(bytes: u16) -> Shape {
    Shape::new(Sizes::fixed(bytes).unwrap(), 100).unwrap()
}

fn attach(socket: &Path, args: &[&str]) -> Running {
    let running = begin_to_attach(socket, args);
    running.wait_for_stderr("listening on");
    running
}

fn begin_to_attach(socket: &Path, args: &[&str]) -> Running {
    let mut command = Command::new(ringside());
    command.args(["attach", arg(socket), "--json", "--no-control"]).args(args);
    Running::start(command)
}

/// Which numbers a file holds.
fn numbers(path: &Path, sent: u64) -> SequenceReport {
    let mut check = SequenceCheck::new(sent);
    for_each_frame(&[path.to_owned()], |frame, _| check.note(0, frame.bytes));
    check.report(&[sent])
}

#[test]
fn thirty_two_readers_half_of_them_stopped_and_killed_cost_the_recorder_nothing() {
    if !need_root("thirty_two_readers") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share");
    let recording = folder.path().join("recording");
    // A ring of a second and a half at this rate: a reader that stops for longer must miss frames.
    let share = ["--share", arg(&socket), "--ring-size", "16MiB", "--kernel-ring-size", "128MiB"];
    let capture = network.capture(&[&["-i", "rx0", "-w", arg(&recording)], &share[..]].concat());

    let files: Vec<PathBuf> =
        (0..READERS).map(|index| folder.path().join(format!("{index}.pcapng"))).collect();
    // All begin at once: a reader yields to others, and one after the other would begin late on a
    // machine that has something else to do. Small rings, which are soon there.
    let begin = |file: &PathBuf| {
        let own = ["-w", arg(file), "--no-keeper", "--ring-size", "8MiB"];
        Some(begin_to_attach(&socket, &own))
    };
    let mut readers: Vec<Option<Running>> = files.iter().map(begin).collect();
    readers.iter().flatten().for_each(|reader| reader.wait_for_stderr("listening on"));
    let report = std::thread::scope(|scope| {
        let shape = shape(200);
        let network = &network;
        let sender =
            scope.spawn(move || network.send(SenderKind::Live, &shape, FRAMES, Some(RATE)));
        disturb(&mut readers);
        sender.join().unwrap()
    });
    wait_until("the capture to have all", || network.received() >= FRAMES);
    std::thread::sleep(Duration::from_millis(500));
    let ledger = capture.stop().checked_ledger(report.handed);
    assert_eq!((ledger.taken, ledger.lost()), (FRAMES, 0), "{ledger:?}");

    let mut missed_some = 0;
    for (file, reader) in files.iter().zip(readers) {
        let Some(reader) = reader else { continue };
        // The end of the capture ends its readers.
        let outcome = reader.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let ledger = outcome.ledger();
        check_survivor(&ledger, &numbers(file, FRAMES));
        missed_some += usize::from(total(&ledger.dropped) > 0);
    }
    assert!(missed_some > 0, "a reader that was stopped for seconds misses frames");
}

/// Everything that was sent after it attached is delivered or missed, to the frame.
fn check_survivor(ledger: &Ledger, report: &SequenceReport) {
    assert_eq!(ledger.balance(), Ok(()));
    assert_eq!(ledger.received, Some(FRAMES), "{ledger:?}");
    let delivered = ledger.consumers[0].delivered;
    assert_eq!((report.distinct, report.duplicates), (delivered, 0), "{ledger:?}");
    assert_eq!(report.missing, total(&ledger.dropped), "{ledger:?}");
    assert_eq!(report.lane_reordered, 0);
}

/// Half of the readers are killed at random moments; four of the others are stopped for longer than
/// the ring lasts.
fn disturb(readers: &mut [Option<Running>]) {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for round in 0..READERS / 2 {
        std::thread::sleep(Duration::from_millis(150 + random.below(100) as u64));
        if let Some(victim) = readers[2 * round].take() {
            if round % 2 == 0 {
                victim.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(20));
            }
            victim.signal(Signal::KILL);
            assert_eq!(victim.finish().code(), None);
        }
        if (1..=4).contains(&round) {
            readers[2 * round + 1].as_ref().unwrap().signal(Signal::STOP);
        }
    }
    for reader in readers.iter().flatten() {
        reader.signal(Signal::CONT);
    }
}

#[test]
fn a_reader_cannot_write_the_ring_nor_take_it_away() {
    if !need_root("a_reader_cannot_write") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share");
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket)]);
    let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let deadline = Instant::now() + Duration::from_secs(100);
    let line = ringside_sys::fdpass::LineReceiver::new(1 << 20).receive(&stream, deadline);
    let line = line.unwrap().unwrap();
    let memory = &line.fds[0];
    let writes = rustix::io::pwrite(memory, b"overwritten", 4096).unwrap_err();
    // Where huge pages are free the memory is of them, and such a file has no write call at all.
    assert!([rustix::io::Errno::PERM, rustix::io::Errno::INVAL].contains(&writes), "{writes}");
    assert_eq!(rustix::fs::ftruncate(memory, 0), Err(rustix::io::Errno::PERM));
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert!(rustix::fs::fallocate(memory, punch, 0, 4096).is_err());
    // Reopened for writing by its name, the seals still hold; sys tries the writable mapping.
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(memory));
    if let Ok(file) = std::fs::OpenOptions::new().write(true).open(name) {
        assert!(rustix::io::pwrite(&file, b"overwritten", 4096).is_err());
    }
    assert_eq!(network.send(SenderKind::Live, &shape(100), 1000, Some(10_000)).handed, 1000);
    let ledger = capture.stop().checked_ledger(1000);
    assert_eq!(ledger.lost(), 0);
}

#[test]
fn a_flight_recorder_gives_the_past_and_a_filter_is_the_readers_own() {
    if !need_root("a_flight_recorder") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share");
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket)]);
    network.send(SenderKind::Live, &shape(300), 5_000, Some(20_000));
    wait_until("the frames to be in memory", || {
        let attachment = Attachment::connect(&socket).unwrap();
        let from = Some(ringside_core::Timestamp(0));
        let options = ReadOptions { from, ..ReadOptions::default() };
        let mut reader = ringside_client::Reader::new(&attachment, &options);
        while reader.next_frame(Duration::ZERO).is_some() {}
        reader.delivered() == 5_000
    });
    let all = folder.path().join("all.pcapng");
    let outcome = attach(&socket, &["--from", "-60s", "-w", arg(&all), "-c", "5000"]).finish();
    assert_eq!(outcome.ledger().received, Some(5_000), "{}", outcome.stderr);
    assert_eq!(numbers(&all, 5_000).distinct, 5_000);

    let none = folder.path().join("none.pcapng");
    let filtered =
        attach(&socket, &["--from=-60s", "-w", arg(&none), "--for", "1s", "tcp port 1"]).finish();
    let ledger = filtered.ledger();
    assert_eq!((ledger.received, ledger.filtered, ledger.taken), (Some(5_000), Some(5_000), 0));

    // Without a file the packets are printed, as `capture --json` prints them.
    let printed = attach(&socket, &["--from", "-60s", "-c", "100"]).finish();
    assert_eq!(printed.ledger().taken, 100, "{}", printed.stderr);
    let lines = printed.json_lines();
    let packets = lines.iter().filter(|line| line["wire_bytes"].is_u64());
    assert_eq!((packets.count(), lines.len()), (100, 101), "{:?}", lines.first());

    let now = attach(&socket, &["-w", arg(&folder.path().join("now.pcapng")), "--for", "1s"]);
    assert_eq!(now.finish().ledger().received, Some(0));
    assert_eq!(capture.stop().checked_ledger(5_000).lost(), 0);
    assert!(!socket.exists(), "its name goes with it, also where only its keeper may remove it");

    let gone = run_ringside(&["attach", arg(&socket)]);
    assert_eq!(gone.code(), Some(2));
    assert!(gone.stderr.contains("--share"), "{}", gone.stderr);
}

#[test]
fn only_what_surrounds_a_hit_is_written() {
    if !need_root("only_what_surrounds_a_hit") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let around = ["--on", "ether[12:2] = 0x88b5", "--before", "500ms", "--after", "300ms"];
    let capture = network.capture(&[&["-i", "rx0", "-w", arg(&recording)], &around[..]].concat());
    let (before, after) = (shape(400), shape(401));
    network.send(SenderKind::Packet, &before, 2_000, Some(2_000));
    let hit = [&[0xff; 6][..], &[2; 6], &[0x88, 0xb5], &[0; 46]].concat();
    network.replay(&[hit]);
    network.send(SenderKind::Packet, &after, 2_000, Some(2_000));
    let ledger = capture.stop().checked_ledger(4_001);
    assert_eq!(ledger.lost(), 0);
    let recorder = &ledger.consumers[0];
    let mut stamps = Vec::new();
    let mut hit_at = None;
    for_each_frame(&files_in(&recording), |frame, _| {
        stamps.push(frame.meta.timestamp.0);
        if frame.bytes[12..14] == [0x88, 0xb5] {
            hit_at = Some(frame.meta.timestamp.0);
        }
    });
    let hit_at = hit_at.expect("the hit is written");
    assert_eq!(stamps.len() as u64, recorder.delivered);
    assert_eq!(recorder.delivered + total(&recorder.missed), 4_001);
    assert!(
        stamps.iter().all(|&stamp| (hit_at - 500_000_000..=hit_at + 300_000_000).contains(&stamp))
    );
    // Half a second before and a third after at 2,000 a second, less the pause between the loads.
    assert!((300..=1_700).contains(&stamps.len()), "{}", stamps.len());
    assert!(stamps[0] < hit_at && stamps[stamps.len() - 1] > hit_at);
}
