//! The disk: full, read-only, missing.

use super::support::*;
use crate::common::*;
use ringside_core::Cause;
use ringside_testkit::need_root;

#[test]
fn a_full_disk_ends_the_recording_and_what_is_written_stays_valid() {
    if !need_root("a_full_disk") {
        return;
    }
    let network = Network::up();
    for name in ["recording", "merged.pcapng", "merged.pcap"] {
        let disk = SmallDisk::mount("size=3m");
        let output = disk.path(name);
        let running = disk.capture(&network, &["-i", "rx0", "-w", arg(&output)]);
        send(&network, 512, 20_000);
        let outcome = running.finish();
        let named = format!("cannot write {}", arg(&output));
        for text in ["stopped", "No space left on device", &named, "stays valid"] {
            assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
        }
        let ledger = failed_ledger(&outcome);
        let consumer = &ledger.consumers[0];
        assert!(consumer.missed[&Cause::DiskFull] > 0, "{ledger:#?}");
        assert!(consumer.delivered > 0, "{ledger:#?}");
        let output = disk.outside(&output);
        let files = if output.is_dir() { files_in(&output) } else { vec![output.clone()] };
        assert_eq!(files.len(), 1);
        assert_eq!(packets_by_wireshark(&files[0]), consumer.delivered, "{name}");
        assert_eq!(count(&[output]), consumer.delivered, "{name}");
    }
}

#[test]
fn a_full_disk_at_a_change_of_files_keeps_the_files_before() {
    if !need_root("a_full_disk_at_a_change") {
        return;
    }
    let network = Network::up();
    for (name, limit) in [("recording", "1MiB"), ("merged.pcapng", "400kB")] {
        let disk = SmallDisk::mount("size=3m");
        let output = disk.path(name);
        let args = ["-i", "rx0", "-C", limit, "-w", arg(&output)];
        let running = disk.capture(&network, &args);
        send(&network, 512, 20_000);
        let ledger = failed_ledger(&running.finish());
        assert!(ledger.consumers[0].missed[&Cause::DiskFull] > 0, "{ledger:#?}");
        let outside = disk.outside(&output);
        let directory = if outside.is_dir() { &outside } else { outside.parent().unwrap() };
        let files = files_in(directory);
        assert!(files.len() > 1, "{files:?}");
        let counts =
            files.iter().map(|path| if is_empty(path) { 0 } else { packets_by_wireshark(path) });
        assert_eq!(counts.sum::<u64>(), ledger.consumers[0].delivered, "{name}");
    }
}

fn is_empty(path: &std::path::Path) -> bool {
    std::fs::metadata(path).unwrap().len() == 0
}

#[test]
fn a_copy_that_meets_a_full_disk_is_cut_behind_its_last_packet() {
    if !need_root("a_copy_that_meets_a_full_disk") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory)]);
    let report = send(&network, 1_000, 5_000);
    running.stop().checked_ledger(report.handed);
    let file = files_in(&directory).remove(0);
    let onto_itself = run_ringside(&["read", "-r", arg(&directory), "-w", arg(&file)]);
    assert_eq!(onto_itself.code(), Some(2));
    assert!(onto_itself.stderr.contains("read and written at once"), "{}", onto_itself.stderr);
    assert_eq!(packets_by_wireshark(&file), 5_000);
    for name in ["copy.pcapng", "copy.pcap"] {
        let disk = SmallDisk::mount("size=3m");
        let copy = disk.outside(&disk.path(name));
        let outcome = run_ringside(&["read", "-r", arg(&directory), "-w", arg(&copy)]);
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        let kept = packets_by_wireshark(&copy);
        assert!(kept > 0 && kept < 5_000, "{kept}");
        let kept = format!("{},{:03}", kept / 1_000, kept % 1_000);
        let holds = format!("{} holds the {kept} packets before this error", arg(&copy));
        for text in [holds.as_str(), "No space left on device"] {
            assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
        }
    }
}

#[test]
fn an_output_that_cannot_be_made_is_named_before_anything_is_captured() {
    if !need_root("an_output_that_cannot_be_made") {
        return;
    }
    let network = Network::up();
    let read_only = SmallDisk::mount("size=1m,ro");
    let full = SmallDisk::mount("size=4k");
    std::fs::write(full.outside(&full.path("ballast")), [1; 4096]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = |name: &str| file.path().join(name);
    let cases = [
        (&read_only, read_only.path("recording"), "Read-only file system"),
        (&read_only, read_only.path("merged.pcap"), "Read-only file system"),
        (&full, full.path("recording"), "No space left on device"),
        (&full, below("recording"), "Not a directory"),
        (&full, below("merged.pcapng"), "Not a directory"),
        (&full, full.path("missing/merged.pcapng"), "No such file or directory"),
        (&full, full.path("ballast"), "is a file; name a directory"),
    ];
    for (disk, output, reason) in cases {
        let enter = disk.enter();
        let enter: Vec<&str> = enter.iter().map(String::as_str).collect();
        let args = ["-i", "rx0", "-w", arg(&output)];
        let outcome = Running::start(capture_by(&enter, &network, &args)).finish();
        let said = &outcome.stderr;
        assert_eq!(outcome.code(), Some(2), "{output:?}: {said}");
        assert!(said.contains(arg(&output)), "{output:?}: {said}");
        assert_eq!(said.matches(reason).count(), 1, "{output:?}: {said}");
        assert!(!said.contains("listening on"), "{output:?}: {said}");
    }
    assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 0);
}

#[test]
fn one_frame_on_a_quiet_link_is_in_the_file_while_the_capture_goes_on() {
    if !need_root("one_frame_on_a_quiet_link") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    for name in ["recording", "merged.pcapng", "merged.pcap"] {
        let output = folder.path().join(name);
        let running = network.capture(&["-i", "rx0", "-w", arg(&output)]);
        let file = if output.is_dir() { files_in(&output).remove(0) } else { output };
        send(&network, 100, 1);
        let copy = folder.path().join("copy");
        wait_until("the frame in the file", || {
            std::fs::copy(&file, &copy).unwrap();
            !is_empty(&copy) && packets_by_wireshark(&copy) == 1
        });
        send(&network, 100, 1);
        running.stop().checked_ledger(2);
        assert_eq!(packets_by_wireshark(&file), 2, "{name}");
    }
}
