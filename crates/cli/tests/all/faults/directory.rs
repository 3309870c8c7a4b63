//! What others do to the directory of a recording while it grows.

use super::support::*;
use crate::common::*;
use ringside_core::{Cause, Consumer};
use ringside_store::block;
use ringside_testkit::need_root;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A recording on a disk, where writes are direct.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = folder.path().join("recording");
    (folder, directory)
}

/// Waits until a run has written all of the first `frames` frames.
fn wait_until_written(directory: &Path, frames: u64) {
    wait_until("the frames in the files", || count(&[directory.to_owned()]) == frames);
}

/// What became of the frames of a run that ended with status 2, `received` of them.
fn consumer(outcome: &Outcome, received: u64) -> Consumer {
    let ledger = failed_ledger(outcome);
    assert_eq!(ledger.received, Some(received));
    ledger.consumers[0].clone()
}

#[test]
fn a_directory_that_is_removed_is_named_and_ends_the_recording() {
    if !need_root("a_directory_that_is_removed") {
        return;
    }
    let network = Network::up();
    for limit in [&[][..], &["-C", "2MiB"]] {
        let (_folder, directory) = folder();
        let args = [&["-i", "rx0", "-w", arg(&directory)], limit].concat();
        let running = network.capture(&args);
        send(&network, 1_514, 5_000);
        wait_until_written(&directory, 5_000);
        // The recorder replaces a file that is gone: that one may be there before the directory is.
        wait_until("the directory gone", || {
            let _ = std::fs::remove_dir_all(&directory);
            !directory.exists()
        });
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        for text in ["was deleted by another program", "recording stopped", arg(&directory)] {
            assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
        }
        let consumer = consumer(&outcome, 5_000);
        assert_eq!(consumer.delivered, 5_000, "{consumer:?}: all were in the files");
        assert!(!directory.exists());
    }
}

#[test]
fn a_file_that_is_deleted_is_told_and_another_takes_its_place() {
    if !need_root("a_file_that_is_deleted") {
        return;
    }
    let network = Network::up();
    for limit in [&[][..], &["-C", "64MiB"]] {
        let (_folder, directory) = folder();
        let args = [&["-i", "rx0", "-w", arg(&directory)], limit].concat();
        let running = network.capture(&args);
        let mut sent = send(&network, 1_514, 5_000).handed;
        wait_until_written(&directory, sent);
        std::fs::remove_file(&files_in(&directory)[0]).unwrap();
        running.wait_for_stderr("was deleted by another program");
        sent += send(&network, 300, 3_000).handed;
        let outcome = running.stop();
        let consumer = consumer(&outcome, sent);
        // Complete blocks are gone; the one that was begun is in the new file, from its start.
        assert_eq!((consumer.delivered, consumer.missed.len()), (sent, 0));
        let file = files_in(&directory).pop().unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let first = bytes.chunks(4096).find_map(block::block_header).unwrap();
        let gone = first.first_frame.0;
        assert!(gone > 3_000 && gone < 5_000, "{first:?}");
        assert_eq!(packets_by_wireshark(&file), sent - gone);
        assert_eq!(count(&[directory]), sent - gone);
        let lost = format!("{} ring blocks are lost", first.number);
        assert!(outcome.stderr.contains(&lost), "{lost}: {}", outcome.stderr);
    }
}

#[test]
fn a_quiet_recording_loses_nothing_with_a_deleted_file() {
    if !need_root("a_quiet_recording_loses_nothing") {
        return;
    }
    let network = Network::up();
    let (_folder, directory) = folder();
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory)]);
    send(&network, 100, 3);
    wait_until_written(&directory, 3);
    std::fs::remove_file(&files_in(&directory)[0]).unwrap();
    running.wait_for_stderr("was deleted by another program");
    send(&network, 100, 3);
    wait_until_written(&directory, 6);
    let outcome = running.stop();
    assert_eq!(consumer(&outcome, 6).delivered, 6);
    assert_eq!(packets_by_wireshark(&files_in(&directory)[0]), 6);
}

#[test]
fn a_directory_that_may_not_be_written_any_more_is_named_at_the_next_file() {
    if !need_root("a_directory_that_may_not_be_written_any_more") {
        return;
    }
    let network = Network::up();
    let (_folder, directory) = folder();
    let running = network.capture(&["-i", "rx0", "-C", "4MiB", "-w", arg(&directory)]);
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    let sent = send(&network, 1_514, 30_000).handed;
    let outcome = running.finish();
    for text in ["recording stopped", "cannot create", "Permission denied", "stays valid"] {
        assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
    }
    let ledger = failed_ledger(&outcome);
    assert!(ledger.received.is_some_and(|received| received <= sent), "{ledger:#?}");
    let consumer = &ledger.consumers[0];
    assert!(consumer.missed[&Cause::WriteFailed] > 0, "{ledger:#?}");
    let files = files_in(&directory);
    assert_eq!(
        files.iter().map(|file| packets_by_wireshark(file)).sum::<u64>(),
        consumer.delivered
    );
    assert_eq!(contiguous_frames(&directory), consumer.delivered);
}
