//! Directories of a recording that are moved while it runs, and links that are put in their place.

use crate::common::*;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A limit that is passed many times.
const LIMIT: u64 = 16 << 20;
const FRAMES: u64 = 100_000;

/// A recording into `rec`, in whose place another directory or a link stands from its first files
/// on.
struct Moved {
    network: Network,
    folder: tempfile::TempDir,
    running: Running,
}

impl Moved {
    fn begin(args: &[&str]) -> Moved {
        let network = Network::up();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rec");
        let running = network.capture(&[&["-i", "rx0", "-w", arg(&path)], args].concat());
        Moved { network, folder, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Moves the directory away.
    fn move_away(&self) {
        self.send(1_000);
        std::fs::rename(self.path("rec"), self.path("rec.old")).unwrap();
    }

    fn send(&self, count: u64) -> u64 {
        let shape = Shape::new(Sizes::fixed(1_514).unwrap(), 64).unwrap();
        self.network.send(SenderKind::Live, &shape, count, Some(100_000)).handed
    }
}

/// Bytes of all files in a directory.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Locks of runs in a directory.
fn locks_in(directory: &Path) -> usize {
    let files = files_in(directory);
    files.iter().filter(|path| arg(path).contains("/.ringside-")).count()
}

#[test]
fn a_recording_follows_its_directory_and_keeps_to_its_limit_there() {
    if !need_root("a_recording_follows_its_directory") {
        return;
    }
    let moved = Moved::begin(&["--limit-bytes", "16MiB"]);
    moved.move_away();
    std::fs::create_dir(moved.path("rec")).unwrap();
    let handed = 1_000 + moved.send(FRAMES);
    moved.running.wait_for_stderr("rec was moved to ");
    let (old, new) = (moved.path("rec.old"), moved.path("rec"));
    let outcome = moved.running.stop();
    outcome.checked_ledger(handed);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("rec.old: the recording goes on there"), "{}", outcome.stderr);
    let bytes = bytes_in(&old);
    assert!((LIMIT / 4..=LIMIT).contains(&bytes), "{bytes} bytes");
    assert_eq!(std::fs::read_dir(new).unwrap().count(), 0, "nothing of it lies elsewhere");
    assert_eq!(locks_in(&old), 0);
}

#[test]
fn nothing_is_written_through_a_link_in_the_place_of_a_directory() {
    if !need_root("nothing_is_written_through_a_link") {
        return;
    }
    for is_killed in [false, true] {
        let moved = Moved::begin(&["-b", "filesize:1024"]);
        moved.move_away();
        let private = moved.path("private");
        std::fs::create_dir(&private).unwrap();
        symlink(&private, moved.path("rec")).unwrap();
        let handed = 1_000 + moved.send(FRAMES / 10);
        let old = moved.path("rec.old");
        let outcome = match is_killed {
            false => moved.running.stop(),
            // The keeper finishes in the same directory.
            true => {
                moved.running.signal_worker(Signal::KILL);
                moved.running.finish()
            }
        };
        let ledger = outcome.ledger();
        check_ledger(&ledger, handed);
        assert_eq!(std::fs::read_dir(&private).unwrap().count(), 0, "killed: {is_killed}");
        let mut count = 0;
        for_each_frame(std::slice::from_ref(&old), |_, _| count += 1);
        assert_eq!(count, ledger.consumers[0].delivered, "{}", outcome.stderr);
        assert_eq!(locks_in(&old), 0, "killed: {is_killed}");
    }
}
