//! A recording that keeps to its limits under load, as its users run it. `RINGSIDE_SOAK_SECONDS`
//! says how long the soak takes; `make soak` runs half an hour.

use crate::common::*;
use ringside_store::recording::read_header;
use ringside_testkit::{Random, by_run, need_root, number};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// Length of the soak in a short and in a long run: the limit is passed some times.
const SOAK_SECONDS: [u64; 2] = [4, 1_800];
const SOAK_LIMIT_BYTES: u64 = 2_000_000_000;

/// What a directory holds of recordings at a moment at which none is created or deleted.
struct Look {
    /// Sizes, or what is allocated if that is more.
    bytes: u64,
    /// Serial numbers; true for files that say that they are finished.
    files: BTreeMap<u64, bool>,
}

fn look(directory: &Path) -> Option<Look> {
    let lock = File::open(directory.join(".ringside.lock")).ok()?;
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let mut look = Look { bytes: 0, files: BTreeMap::new() };
    let mut inodes = HashSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // A file that is being renamed has vanished under its old name.
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let path_text = path.to_string_lossy();
        let is_recorded = path_text.contains("-lane") && !path_text.contains(".index");
        if !is_recorded || !inodes.insert(metadata.ino()) {
            continue;
        }
        look.bytes += metadata.len().max(metadata.blocks() * 512);
        if let Ok(Some(header)) = read_header(&path) {
            look.files.insert(header.serial, header.bytes_max <= metadata.len());
        }
    }
    Some(look)
}

/// What was seen of a directory in which a recording keeps to its limit.
#[derive(Debug, Default)]
struct Watched {
    looks: u64,
    /// Finished files that went.
    gone: usize,
    /// The most bytes that were seen.
    bytes_max: u64,
}

/// Looks at random moments until `done`; the limit holds, and what is finished goes in order.
fn watch(directory: &Path, limit: u64, done: impl Fn(&Watched) -> bool) -> Watched {
    let mut random = Random::new(1);
    let mut before = BTreeMap::new();
    let mut watched = Watched::default();
    while !done(&watched) {
        std::thread::sleep(Duration::from_micros(200 + random.below(8_000) as u64));
        let Some(Look { bytes, files }) = look(directory) else { continue };
        assert!(bytes <= limit, "{bytes} of {limit} bytes");
        watched.looks += 1;
        watched.bytes_max = watched.bytes_max.max(bytes);
        let finished = || before.iter().filter(|&(_, &is_finished)| is_finished);
        let kept = finished().find(|&(serial, _)| files.contains_key(serial));
        for (serial, _) in finished().filter(|&(serial, _)| !files.contains_key(serial)) {
            watched.gone += 1;
            assert!(kept.is_none_or(|(kept, _)| kept > serial), "file {serial} went too early");
        }
        before = files;
    }
    watched
}

/// What is not of the recording, and must be there afterwards.
fn foreign(directory: &Path) -> HashMap<&'static str, Vec<u8>> {
    let files = [
        ("notes.txt", b"mine".to_vec()),
        ("incident.pcapng", vec![7; 3 << 20]),
        ("20200101T000000Z-rx0-lane0-000000.pcapng", b"not what it is called".to_vec()),
    ];
    for (name, content) in &files {
        std::fs::write(directory.join(name), content).unwrap();
    }
    HashMap::from(files)
}

/// Sends much more than the limit to two lanes while the directory is watched.
fn record_within_the_limit(folder: &TempDir, args: &[&str], limit: u64) -> (usize, String) {
    let network = Network::up();
    let foreign = foreign(folder.path());
    let all = [&["-i", "rx0", "--queues", "2", "-w", arg(folder.path())], args].concat();
    let running = network.capture(&all);
    let shape = Shape::new(Sizes::fixed(1_514).unwrap(), 64).unwrap();
    let (report, watched) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| network.send(SenderKind::Live, &shape, 400_000, Some(100_000)));
        let watched = watch(folder.path(), limit, |_| sender.is_finished());
        (sender.join().unwrap(), watched)
    });
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(report.handed);
    let last = look(folder.path()).unwrap();
    assert!(last.bytes <= limit, "{} of {limit} bytes", last.bytes);
    assert!(last.files.values().all(|&is_finished| is_finished), "{:?}", last.files);
    let mut kept = 0;
    for_each_frame(&[folder.path().to_owned()], |_, _| kept += 1);
    assert!(kept > 0 && kept < ledger.consumers[0].delivered, "{kept} frames are left");
    for (name, content) in foreign {
        assert!(std::fs::read(folder.path().join(name)).unwrap() == content, "{name}");
    }
    (watched.gone, outcome.stderr)
}

#[test]
fn the_limit_is_never_passed_under_load_and_the_oldest_go_first() {
    if !need_root("the_limit_is_never_passed") {
        return;
    }
    // On a disk files are deleted, in memory they are used again.
    for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
        let limit = ["--limit-bytes", "64MiB"];
        let (gone, said) = record_within_the_limit(&folder.unwrap(), &limit, 64 * MIB);
        assert!(gone > 20, "{gone} files went: {said}");
    }
}

#[test]
fn the_least_limit_does_and_one_byte_less_is_refused_with_its_value() {
    if !need_root("the_least_limit_does") {
        return;
    }
    // Two lanes, two files each: a header page, a ring block, a page for the mark of a repair.
    let least = 4 * (MIB + 2 * 4096);
    let folder = tempfile::tempdir().unwrap();
    let limit = ["--limit-bytes", &least.to_string()];
    let (gone, said) = record_within_the_limit(&folder, &limit, least);
    assert!(gone > 20, "{gone} files went: {said}");
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "--queues", "2", "-w", arg(folder.path())]);
    command.args(["--limit-bytes", &(least - 1).to_string()]);
    let refused = Running::start(command).finish();
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains(&least.to_string()), "{}", refused.stderr);
    assert!(files_in(folder.path()).is_empty());
}

#[test]
fn two_recorders_share_a_directory_and_the_smaller_limit_holds() {
    if !need_root("two_recorders_share_a_directory") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let start =
        |limit| network.capture(&["-i", "rx0", "-w", arg(folder.path()), "--limit-bytes", limit]);
    let recorders = [start("48MiB"), start("500MiB")];
    let shape = Shape::new(Sizes::fixed(1_514).unwrap(), 64).unwrap();
    let (report, watched) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| network.send(SenderKind::Live, &shape, 200_000, Some(50_000)));
        let watched = watch(folder.path(), 48 * MIB, |_| sender.is_finished());
        (sender.join().unwrap(), watched)
    });
    for recorder in recorders {
        recorder.stop().checked_ledger(report.handed);
    }
    assert!(watched.gone > 5, "{watched:?}");
    let last = look(folder.path()).unwrap();
    assert!(last.bytes <= 48 * MIB && last.files.len() > 2, "{} bytes", last.bytes);
}

#[test]
fn a_soak_at_full_rate_stays_within_its_limit() {
    if !need_root("a_soak_at_full_rate") {
        return;
    }
    let [short, long] = SOAK_SECONDS;
    let seconds = number("RINGSIDE_SOAK_SECONDS").unwrap_or_else(|| by_run(short, long));
    let network = Network::up();
    // Of the disk that the build is on: /tmp may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path()), "--limit-bytes", "2GB"]);
    let mut sender = std::process::Command::new(ringside());
    sender.args(["lab", "send", "--name", network.name(), "--cpus", "0", "--size", "1514"]);
    // A slow machine takes longer until the limit was reached some times.
    let length = Duration::from_secs(seconds);
    let longest = format!("{}s", (length + WAIT_MAX).as_secs());
    sender.args(["--flows", "1000", "--json", "--for", &longest]);
    let sender = Running::start(sender);
    let start = Instant::now();
    let watched = watch(folder.path(), SOAK_LIMIT_BYTES, |watched| {
        start.elapsed() >= length && watched.gone > 10 || start.elapsed() >= length + WAIT_MAX
    });
    let sent = sender.stop().json_lines();
    let handed = sent.last().unwrap()["sent"]["handed"].as_u64().unwrap();
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(handed);
    let last = look(folder.path()).unwrap();
    assert!(last.bytes <= SOAK_LIMIT_BYTES, "{} bytes", last.bytes);
    assert!(watched.bytes_max > SOAK_LIMIT_BYTES / 2 && watched.gone > 10, "{watched:?}");
    let delivered = ledger.consumers[0].delivered;
    println!(
        "{seconds} s: {handed} frames of 1,514 bytes, {delivered} recorded, lost {:?} {:?}; \
         {watched:?}",
        ledger.dropped, ledger.consumers[0].missed
    );
}
