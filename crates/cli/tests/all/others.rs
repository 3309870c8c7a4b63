//! Other programs open every kind of file that is written here, without a warning, and count the
//! same frames and bytes; `read` takes every real capture.

use crate::common::*;
use ringside_testkit::{by_run, capture_sample, need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames of most tests, at a rate that no machine loses.
const FRAMES: u64 = 6_000;
const RATE: u64 = 20_000;

const SIZES: [u16; 5] = [60, 61, 130, 590, 1514];

/// Frames, and their bytes on the wire.
type Totals = (u64, u64);

/// A program, and what it says of a file.
type Judge = (&'static str, fn(&Path) -> Totals);

fn may_run(test: &str) -> bool {
    need_root(test) && ["capinfos", "tshark", "tcpdump"].iter().all(|tool| need_tool(test, tool))
}

fn shape() -> Shape {
    Shape::new(Sizes::list(&SIZES).unwrap(), 64).unwrap()
}

/// Sends `count` frames, all of which arrive.
fn send(network: &Network, count: u64) -> Totals {
    send_at(network, count, RATE)
}

/// As [`send`], `rate` frames a second.
fn send_at(network: &Network, count: u64, rate: u64) -> Totals {
    let sent = network.send(SenderKind::Live, &shape(), count, Some(rate));
    assert_eq!(sent.handed, count, "{sent:?}");
    (sent.handed, sent.offered_bytes)
}

fn by_capinfos(path: &Path) -> Totals {
    let said = run_clean("capinfos", &["-M", "-c", "-d", arg(path)]);
    let value = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().filter_map(|word| word.parse().ok()).next_back().unwrap_or(u64::MAX)
    };
    (value("Number of packets"), value("Data size"))
}

fn by_tshark(path: &Path) -> Totals {
    let said = run_clean("tshark", &["-n", "-r", arg(path), "-T", "fields", "-e", "frame.len"]);
    sum(said.lines().map(|line| line.parse().unwrap()))
}

fn by_tcpdump(path: &Path) -> Totals {
    let said = run_clean("tcpdump", &["-n", "-t", "-e", "-r", arg(path)]);
    let length = |line: &str| {
        let (_, rest) = line.split_once(", length ")?;
        rest.split_once(':')?.0.parse().ok()
    };
    sum(said.lines().filter_map(length))
}

fn by_ringside(path: &Path) -> Totals {
    let mut lengths = Vec::new();
    let notices = for_each_frame(&[path.to_owned()], |frame, _| {
        lengths.push(u64::from(frame.meta.wire_bytes));
    });
    assert!(notices.is_empty(), "{notices:?}");
    sum(lengths.into_iter())
}

fn sum(lengths: impl Iterator<Item = u64>) -> Totals {
    lengths.fold((0, 0), |(frames, bytes), length| (frames + 1, bytes + length))
}

/// Every program says the same of a file; gives it. In a short run each file has one judge, in
/// turn.
fn inspect(path: &Path) -> Totals {
    static INSPECTED: AtomicUsize = AtomicUsize::new(0);
    let judges: [Judge; 3] =
        [("capinfos", by_capinfos), ("tshark", by_tshark), ("tcpdump", by_tcpdump)];
    let (totals, turn) = (by_ringside(path), INSPECTED.fetch_add(1, Ordering::Relaxed));
    for (judge, answer) in by_run(&judges[turn % 3..][..1], &judges[..]) {
        assert_eq!(answer(path), totals, "{judge}, {}", path.display());
    }
    totals
}

/// Every program says the same of each file; gives the sum.
fn inspect_all(files: &[PathBuf]) -> Totals {
    files.iter().map(|path| inspect(path)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

#[test]
fn finished_recordings_and_what_read_makes_of_them() {
    if !may_run("finished_recordings_and_what_read_makes_of_them") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let outputs = [path("recording"), path("merged.pcapng"), path("merged.pcap")];
    let start = |out: &PathBuf| network.capture(&["-i", "rx0", "--queues", "2", "-w", arg(out)]);
    let running: Vec<Running> = outputs.iter().map(start).collect();
    let sent = send(&network, FRAMES);
    for running in running {
        assert_eq!(running.stop().checked_ledger(sent.0).lost(), 0);
    }
    let files = files_in(&outputs[0]);
    assert_eq!(files.len(), 2, "one file a lane");
    assert_eq!(inspect_all(&files), sent);
    for file in &outputs[1..] {
        assert_eq!(inspect(file), sent);
    }
    for from in &outputs {
        for name in ["copy.pcapng", "copy.pcap"] {
            let copy = path(name);
            let read = run_ringside(&["read", "-r", arg(from), "-w", arg(&copy)]);
            assert_eq!((read.code(), read.stderr.as_str()), (Some(0), ""));
            assert_eq!(inspect(&copy), sent, "{name} of {}", from.display());
        }
    }
}

/// A recording is read by others while it goes on, and goes on as if it had not been read.
#[test]
fn a_recording_in_progress() {
    if !may_run("a_recording_in_progress") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = directory.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&recording)]);
    let file = files_in(&recording).pop().unwrap();
    assert_eq!(inspect(&file), (0, 0), "before the first frame");
    let mut sent = (0, 0);
    for count in [1, 500, FRAMES] {
        let (frames, bytes) = send(&network, count);
        sent = (sent.0 + frames, sent.1 + bytes);
        wait_until("the frames in the file", || by_ringside(&file) == sent);
        assert_eq!(inspect(&file), sent);
        let copy = directory.path().join("copy.pcapng");
        std::fs::copy(&file, &copy).unwrap();
        assert_eq!(inspect(&copy), sent);
    }
    assert_eq!(running.stop().checked_ledger(sent.0).lost(), 0);
    assert_eq!(files_in(&recording), std::slice::from_ref(&file));
    assert_eq!(inspect(&file), sent);
}

#[test]
fn a_stream_is_read_live_by_tshark() {
    if !may_run("a_stream_is_read_live_by_tshark") {
        return;
    }
    for format in ["pcapng", "pcap"] {
        let network = Network::up();
        let (from, to) = std::io::pipe().unwrap();
        let mut command = network.capture_command();
        command.args(["-i", "rx0", "-w", "-", "--format", format]);
        command.stdin(Stdio::null()).stdout(to);
        let capture = Running::start_directed(command);
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", "-", "-c", "100", "-T", "fields", "-e", "frame.len"]);
        command.stdin(from).stdout(Stdio::piped());
        let tshark = Running::start_directed(command);
        capture.wait_for_stderr("listening on");
        let sent = send(&network, 100);
        // It ends after 100 frames, while the capture goes on.
        let tshark = tshark.finish();
        assert!(tshark.status.success(), "{format}: {tshark:?}");
        assert_eq!(sum(tshark.text().lines().map(|line| line.parse().unwrap())), sent);
        assert!(!capture.stderr_so_far().contains("the ledger"), "{}", capture.stderr_so_far());
        let capture = capture.stop();
        assert!(capture.stderr.contains("the ledger balances\n"), "{}", capture.stderr);
        assert!(!capture.stderr.contains("panicked"), "{}", capture.stderr);
    }
}

#[test]
fn rotated_files_hold_everything_together() {
    if !may_run("rotated_files_hold_everything_together") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let place = |name: &str| directory.path().join(name);
    for name in ["by-size", "by-time", "merged-by-size", "merged-by-time"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    let runs = [
        (place("by-size"), place("by-size"), ["-C", "1500kB"]),
        (place("by-time"), place("by-time"), ["-G", "1"]),
        (place("merged-by-size"), place("merged-by-size").join("x.pcapng"), ["-C", "1500kB"]),
        (place("merged-by-time"), place("merged-by-time").join("x.pcap"), ["-G", "1"]),
    ];
    let start = |(_, out, [flag, value]): &(PathBuf, PathBuf, [&str; 2])| {
        network.capture(&["-i", "rx0", "-w", arg(out), flag, value])
    };
    let running: Vec<Running> = runs.iter().map(start).collect();
    // Longer than two seconds, so that the time changes the file twice.
    let sent = send_at(&network, FRAMES, FRAMES * 2 / 5);
    for (running, (folder, _, rotation)) in running.into_iter().zip(&runs) {
        assert_eq!(running.stop().checked_ledger(sent.0).lost(), 0, "{rotation:?}");
        let files = files_in(folder);
        assert!(files.len() >= 3, "{rotation:?}: {files:?}");
        assert_eq!(inspect_all(&files), sent, "{rotation:?}: {files:?}");
        if rotation[0] == "-C" {
            // A limit at a block's border, at least one block; the header page comes on top.
            let longest = files.iter().map(|file| file.metadata().unwrap().len()).max();
            assert!(longest <= Some(1_500_000 + 4096), "{files:?}: {longest:?}");
        }
        let copy = place("all.pcapng");
        let mut read = vec!["read", "-w", arg(&copy)];
        files.iter().for_each(|file| read.extend(["-r", arg(file)]));
        let read = run_ringside(&read);
        assert_eq!((read.code(), read.stderr.as_str()), (Some(0), ""));
        assert_eq!(inspect(&copy), sent);
    }
    let read = run_ringside(&["read", "-r", arg(&runs[0].0), "-w", arg(&place("series.pcapng"))]);
    assert_eq!(read.code(), Some(0), "{}", read.stderr);
    assert_eq!(inspect(&place("series.pcapng")), sent);
}

/// The kernel takes the outer tag out of a received frame; it is in the files again.
#[test]
fn vlan_tags_are_in_the_files() {
    if !may_run("vlan_tags_are_in_the_files") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let plain = shape().frame(0, 0);
    let tagged = |tags: &[[u8; 4]]| [&plain[..12], tags.as_flattened(), &plain[12..]].concat();
    // Priority 5 of VLAN 7; a service tag; two of a kind; 0 and the highest id.
    let frames = [
        plain.clone(),
        tagged(&[[0x81, 0, 0xa0, 7]]),
        tagged(&[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 200]]),
        tagged(&[[0x81, 0, 0, 3], [0x81, 0, 0, 4]]),
        tagged(&[[0x81, 0, 0, 0]]),
        tagged(&[[0x81, 0, 0x1f, 0xfe]]),
    ];
    let path = |name: &str| directory.path().join(name);
    let outputs = [path("recording"), path("merged.pcapng"), path("merged.pcap")];
    let start = |out: &PathBuf| network.capture(&["-i", "rx0", "-w", arg(out)]);
    let running: Vec<Running> = outputs.iter().map(start).collect();
    network.replay(&frames);
    for running in running {
        running.stop().checked_ledger(frames.len() as u64);
    }
    let files = [files_in(&outputs[0]).pop().unwrap(), outputs[1].clone(), outputs[2].clone()];
    for file in files {
        let fields =
            ["-T", "fields", "-e", "ieee8021ad.id", "-e", "vlan.id", "-e", "vlan.priority"];
        let shown = run_clean("tshark", &[&["-n", "-r", arg(&file)], &fields[..]].concat());
        let rows: Vec<&str> = shown.lines().collect();
        let expected = ["\t\t", "\t7\t5", "100\t200\t0,0", "\t3,4\t0,0", "\t0\t0", "\t4094\t0"];
        let same = |row: &str, wanted: &str| {
            // Which of the two fields shows the priority of a service tag is tshark's business.
            row == wanted || (wanted.starts_with("100") && row.starts_with("100\t200\t"))
        };
        assert_eq!(rows.len(), expected.len(), "{shown}");
        assert!(rows.iter().zip(expected).all(|(row, wanted)| same(row, wanted)), "{shown}");
        let mut next = frames.iter();
        for_each_frame(&[file], |frame, _| assert_eq!(frame.bytes, next.next().unwrap()));
        assert!(next.next().is_none());
    }
}

/// Every real capture, malformed ones among them, in every form of printing.
#[test]
fn read_takes_every_real_capture() {
    let files = capture_sample("read_takes_every_real_capture", 8);
    let mut statuses = BTreeSet::new();
    for file in &files {
        let path = arg(file);
        let mut lines = Vec::new();
        for options in [&["-n"][..], &["-n", "-v", "-e", "-X"], &["--json"]] {
            let outcome = run_ringside(&[&["read", "-r", path], options].concat());
            let (said, code) = (&outcome.stderr, outcome.code());
            assert!(matches!(code, Some(0..=2)), "{path} {options:?}: {code:?}, {said}");
            assert!(!said.contains("panicked"), "{path} {options:?}: {said}");
            assert!(code != Some(2) || !said.is_empty(), "{path} {options:?}: failed in silence");
            statuses.insert(code);
            let text = outcome.text();
            let packets = match options {
                ["--json"] => text.lines().count(),
                _ => outcome.packets(),
            };
            lines.push((code, packets));
            assert_eq!(text.is_empty(), text.lines().count() == 0);
            if options == ["--json"] {
                for (number, line) in (1u64..).zip(outcome.json_lines()) {
                    assert_eq!(line["number"], number, "{path}");
                }
            }
        }
        let (plain, json) = (lines[0], lines[2]);
        assert_eq!(plain, json, "{path}: each packet, in text and as JSON");
    }
    assert!(files.is_empty() || statuses.len() > 1, "all of {} files: {statuses:?}", files.len());
}
