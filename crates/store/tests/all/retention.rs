//! Two real recorders in one directory, killed again and again: the limit is never passed, no
//! serial number is given twice, and the oldest go first.

use ringside_core::{LaneId, Timestamp};
use ringside_store::dir::Dir;
use ringside_store::recording::{FileHeader, RunLock, SeriesFile, file_name, read_header};
use ringside_store::retention::{Directory, Policy, spare_name};
use ringside_sys::clock::{Clocks, boot_id};
use ringside_testkit::Random;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the directory and the run: then this program is a recorder.
const RECORDER: &str = "RINGSIDE_TEST_RECORDER";
const LIMIT: u64 = 2 << 20;
const FILE_BYTES: u64 = 128 << 10;
/// Recorders that are killed.
const KILLS: u64 = 60;
/// Longest run of the test; it takes a few seconds.
const TIME_MAX: Duration = Duration::from_secs(120);

/// No test of its own: the recorder that the other test starts and kills.
#[test]
fn recorder() {
    let Ok(what) = std::env::var(RECORDER) else { return };
    let (run, directory) = what.split_once('=').unwrap();
    let place = Dir::open(Path::new(directory)).unwrap();
    let _lock = RunLock::create(&place, run).unwrap();
    let policy = Policy { limit_bytes: Some(LIMIT), ..Policy::default() };
    let mut retention = Directory::open(&place, run, policy).unwrap();
    let boot_id = boot_id().unwrap();
    let mut random = Random::new(u64::from(std::process::id()));
    for sequence in 0.. {
        let name = file_name(Timestamp(0), run, LaneId(0), sequence);
        let now = Clocks::now(boot_id);
        let reservation = retention.reserve(&spare_name(&name), FILE_BYTES, now).unwrap();
        let header = FileHeader {
            run: run.to_owned(),
            sequence,
            serial: reservation.serial(),
            bytes_max: FILE_BYTES,
            created: now.wall,
            created_boot_ns: now.boot_ns,
            boot_id,
            ..FileHeader::default()
        };
        let mut file = SeriesFile::create(place.entry(spare_name(&name)), &header, &[]).unwrap();
        drop(reservation);
        if random.below(2) == 0 {
            fallocate(file.file(), FallocateFlags::KEEP_SIZE, 0, FILE_BYTES).unwrap();
        }
        file.rename(&place.entry(&name)).unwrap();
        let mut size = 4096;
        while size < FILE_BYTES && random.below(20) > 0 {
            size = (size + 4096 * random.below(8) as u64).min(FILE_BYTES);
            file.file().set_len(size).unwrap();
        }
        file.set_finished(size).unwrap();
        file.cut(size).unwrap();
    }
}

fn start(directory: &Path, number: u64) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "retention::recorder", "--nocapture"]);
    command.env(RECORDER, format!("run{number}={}", directory.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

struct Seen {
    bytes: u64,
    is_finished: bool,
}

/// All files of recordings by serial, at a moment at which none is created or deleted.
fn look(directory: &Path, lock: &File) -> BTreeMap<u64, Seen> {
    flock(lock, FlockOperation::LockExclusive).unwrap();
    let mut seen = BTreeMap::new();
    let mut inodes = HashSet::new();
    let mut beginnings = 0;
    // A file that is being renamed may be missed: the sum is then a lower bound.
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let (Ok(metadata), Ok(header)) = (std::fs::metadata(&path), read_header(&path)) else {
            continue;
        };
        let bytes = metadata.len().max(metadata.blocks() * 512);
        if !path.to_string_lossy().contains("-lane0-") || !inodes.insert(metadata.ino()) {
            continue;
        }
        let Some(header) = header else {
            beginnings += bytes;
            continue;
        };
        let is_finished = header.bytes_max <= metadata.len();
        let before = seen.insert(header.serial, Seen { bytes, is_finished });
        assert!(before.is_none(), "serial {} was given twice", header.serial);
    }
    flock(lock, FlockOperation::Unlock).unwrap();
    let bytes: u64 = seen.values().map(|file| file.bytes).sum();
    assert!(bytes + beginnings <= LIMIT, "{bytes} and {beginnings} of {LIMIT} bytes");
    seen
}

#[test]
fn two_recorders_that_are_killed_at_any_moment_keep_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("foreign"), b"mine").unwrap();
    let lock = folder.path().join(".ringside.lock");
    let mut random = Random::new(1);
    let mut recorders = [start(folder.path(), 0), start(folder.path(), 1)];
    let begin = Instant::now();
    let mut before = BTreeMap::new();
    let (mut kills, mut looks, mut gone) = (0, 0, 0);
    while kills < KILLS && begin.elapsed() < TIME_MAX {
        std::thread::sleep(Duration::from_millis(random.below(12) as u64));
        let Ok(lock) = File::open(&lock) else { continue };
        let seen = look(folder.path(), &lock);
        looks += 1;
        let finished = || before.iter().filter(|(_, file): &(_, &Seen)| file.is_finished);
        let deleted = finished().filter(|(serial, _)| !seen.contains_key(serial));
        let kept = finished().find(|(serial, _)| seen.contains_key(serial));
        for (serial, _) in deleted {
            gone += 1;
            assert!(kept.is_none_or(|(kept, _)| kept > serial), "{serial} went too early");
        }
        before = seen;
        for recorder in &mut recorders {
            assert!(recorder.try_wait().unwrap().is_none(), "a recorder ended by itself");
            if random.below(8) == 0 {
                kills += 1;
                recorder.kill().unwrap();
                recorder.wait().unwrap();
                *recorder = start(folder.path(), kills + 1);
            }
        }
    }
    for mut recorder in recorders {
        recorder.kill().unwrap();
        recorder.wait().unwrap();
    }
    eprintln!("{kills} kills, {looks} looks, {gone} finished files seen to go");
    assert!(kills == KILLS && gone > 100, "{kills} kills, {gone} files gone");
    assert_eq!(std::fs::read(folder.path().join("foreign")).unwrap(), b"mine");
}
