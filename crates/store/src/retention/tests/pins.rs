//! What is pinned is kept, whatever the limits, and what is said then.

use super::super::pins::{PINS_NAME, Pins};
use super::super::{Pin, PinnedFile, Policy, RetentionError, add_pin, remove_pins, spare_name};
use super::disk::{limited, name_of, names, now, open, put};
use crate::StoreError;
use crate::dir::Dir;
use crate::recording::RunLock;
use ringside_core::{LaneId, Timestamp};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const KIB: u64 = 1 << 10;

fn pin_of(id: u64, numbers: &[u64]) -> Pin {
    let file = |&number: &u64| PinnedFile { name: name_of(number), lane: LaneId(0) };
    let files = numbers.iter().map(file).collect();
    Pin { id, note: "why".into(), created: Timestamp(7), files, ..Pin::default() }
}

fn pinned_names(folder: &Path) -> BTreeSet<String> {
    names(folder).into_iter().filter(|name| !name.starts_with('.')).collect()
}

/// A directory of `count` files of 64 KiB, oldest first.
fn folder_of(count: u64) -> (tempfile::TempDir, Dir) {
    let folder = tempfile::tempdir().unwrap();
    (0..count)
        .for_each(|number| drop(put(folder.path(), "old", number, number + 1, 64 * KIB, 64 * KIB)));
    let dir = Dir::open(folder.path()).unwrap();
    (folder, dir)
}

#[test]
fn what_is_pinned_stays_and_younger_ones_go_instead() {
    let (folder, dir) = folder_of(10);
    let pinned = add_pin(&dir, pin_of(1, &[0, 3, 77])).unwrap();
    assert_eq!((pinned.pin.files.len(), pinned.bytes), (2, 128 * KIB));
    assert_eq!(pinned.gone, [name_of(77)], "it is not there");
    add_pin(&dir, pin_of(2, &[3])).unwrap();
    let mut directory = open(folder.path(), "new", limited(10 * 64 * KIB));
    let reservation = directory.reserve(&spare_name(&name_of(50)), 192 * KIB, now()).unwrap();
    let deleted: Vec<_> = reservation.deleted().iter().map(|file| file.serial).collect();
    drop(reservation);
    assert_eq!(deleted, [2, 3, 5], "the oldest that may go");
    let summary = directory.summary();
    assert_eq!((summary.pinned_files, summary.pinned_bytes), (2, 128 * KIB));
    // File 3 is still kept by the other pin.
    assert_eq!(remove_pins(&dir, &[1, 9].into()).unwrap(), [pinned.pin]);
    directory.reserve(&spare_name(&name_of(50)), 4 * 64 * KIB, now()).unwrap();
    assert!(!folder.path().join(name_of(0)).exists() && folder.path().join(name_of(3)).exists());
    assert_eq!(Pins::read(&dir).unwrap().next_id(), 3, "no number is given twice");
}

#[test]
fn two_that_chose_one_number_get_two() {
    let (_folder, dir) = folder_of(2);
    let ids = [0, 1].map(|number| add_pin(&dir, pin_of(1, &[number])).unwrap().pin.id);
    assert_eq!(ids, [1, 2]);
    assert_eq!(Pins::read(&dir).unwrap().next_id(), 3);
}

#[test]
fn an_age_does_not_touch_what_is_pinned() {
    let (folder, dir) = folder_of(4);
    add_pin(&dir, pin_of(1, &[1])).unwrap();
    let policy = Policy { limit_age: Some(Duration::from_secs(1)), ..Policy::default() };
    let mut directory = open(folder.path(), "new", policy);
    let mut later = now();
    later.boot_ns += 1 << 40;
    directory.sweep(later).unwrap();
    assert_eq!(pinned_names(folder.path()), [name_of(1)].into());
}

#[test]
fn pins_that_leave_no_room_are_said_and_kept() {
    let (folder, dir) = folder_of(4);
    add_pin(&dir, pin_of(1, &[0, 1, 2])).unwrap();
    let mut directory = open(folder.path(), "new", limited(4 * 64 * KIB));
    directory.reserve(&spare_name(&name_of(50)), 64 * KIB, now()).unwrap();
    assert_eq!(pinned_names(folder.path()), (0..3).map(name_of).collect());
    let error = directory.reserve(&spare_name(&name_of(50)), 128 * KIB, now()).unwrap_err();
    let held = matches!(error, StoreError::Retention(RetentionError::LimitHeld { .. }));
    assert!(held && error.to_string().contains("pinned: 3 files, 196608 bytes"), "{error}");
    assert_eq!(pinned_names(folder.path()), (0..3).map(name_of).collect());
}

#[test]
fn a_budget_is_the_strictest_of_recorders_that_live() {
    let (folder, dir) = folder_of(8);
    let lock = RunLock::create(&dir, "live").unwrap();
    let mut directory = open(folder.path(), "live", limited(10 * 64 * KIB));
    directory.sweep(now()).unwrap();
    let error = add_pin(&dir, pin_of(1, &[0, 1, 2, 3, 4, 5])).unwrap_err();
    let full = matches!(error, StoreError::Retention(RetentionError::PinsFull { .. }));
    assert!(full && error.to_string().contains("--pin-bytes"), "{error}");
    assert!(Pins::read(&dir).unwrap().pins().is_empty(), "nothing was noted");
    let pinned = add_pin(&dir, pin_of(1, &[0, 1, 2, 3, 4])).unwrap();
    assert_eq!(pinned.budget, Some(5 * 64 * KIB), "half of the limit");
    drop(directory);
    lock.remove().unwrap();
    assert_eq!(add_pin(&dir, pin_of(2, &[5, 6])).unwrap().budget, None, "no recorder runs");
}

#[test]
fn what_cannot_be_read_keeps_everything() {
    let (folder, dir) = folder_of(4);
    std::fs::write(folder.path().join(PINS_NAME), "{").unwrap();
    let mut directory = open(folder.path(), "new", limited(5 * 64 * KIB));
    directory.reserve(&spare_name(&name_of(50)), 64 * KIB, now()).unwrap();
    assert!(directory.summary().overdue.as_ref().is_some_and(|why| why.contains("cannot be read")));
    let error = directory.reserve(&spare_name(&name_of(50)), 128 * KIB, now()).unwrap_err();
    assert!(error.to_string().contains("nothing is deleted"), "{error}");
    assert_eq!(pinned_names(folder.path()), (0..4).map(name_of).collect());
    assert!(add_pin(&dir, pin_of(1, &[0])).is_err(), "it is not written over");
    std::fs::write(folder.path().join(PINS_NAME), r#"{"version":2,"next_id":1,"pins":[]}"#)
        .unwrap();
    assert!(Pins::read(&dir).unwrap_err().to_string().contains("version 2"));
    std::fs::remove_file(folder.path().join(PINS_NAME)).unwrap();
    directory.reserve(&spare_name(&name_of(50)), 128 * KIB, now()).unwrap();
}

#[test]
fn hostile_pins_are_refused_or_are_pins() {
    let (folder, dir) = folder_of(1);
    add_pin(&dir, pin_of(1, &[0])).unwrap();
    let seeds = [std::fs::read(folder.path().join(PINS_NAME)).unwrap(), b"[]".to_vec()];
    ringside_testkit::fuzz("pins", 50_000, &seeds, |bytes| {
        let Ok(mut pins) = Pins::decode(bytes) else { return };
        let (next, count) = (pins.next_id(), pins.pins().len());
        if pins.add(pin_of(next, &[1])).is_ok() {
            assert!(pins.next_id() > next && pins.pins().len() == count + 1);
        }
        assert!(pins.names().len() <= bytes.len() + 1);
    });
}
