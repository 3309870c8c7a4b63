//! What a lock file says that somebody else has written.

use super::super::state::{RECORDERS_MAX, Recorder, SERIAL_MAX, STATE_BYTES, State};
use super::super::{Directory, Policy, Summary, spare_name};
use crate::dir::{Dir, Entry};
use crate::file_name::parts_of_name;
use crate::recording::{FileHeader, SeriesFile, file_name};
use ringside_core::{LaneId, Timestamp};
use ringside_sys::clock::Clocks;
use std::path::Path;

const BOOT: [u8; 16] = [3; 16];
const LOCK: &str = ".ringside.lock";
/// A file that has nothing to do with recordings.
const PRECIOUS: &str = "precious";

fn name_of(number: u64) -> String {
    file_name(Timestamp(1_700_000_000_000_000_000), "eth0", LaneId(0), number)
}

fn json(next_serial: u64, creating: &str) -> Vec<u8> {
    let state = r#"{"version":1,"next_serial":NEXT,"creating":"NAME","recorders":[]}"#;
    state.replace("NEXT", &next_serial.to_string()).replace("NAME", creating).into_bytes()
}

fn seeds() -> Vec<Vec<u8>> {
    let recorder = |number: u64| Recorder {
        run: format!("run-{number}"),
        limit_bytes: Some(u64::MAX - number),
        min_free: Some(number),
        pin_bytes: Some(number),
    };
    let recorders = (0..RECORDERS_MAX as u64).map(recorder).collect();
    let creating = Some(spare_name(&name_of(7)));
    let state = State { creating, recorders, next_serial: 8, ..State::default() };
    vec![
        state.encode().unwrap(),
        json(u64::MAX, &name_of(1)),
        json(u64::MAX - 1, &name_of(1)),
        json(5, PRECIOUS),
        json(5, "../precious"),
        json(5, &format!("../{}", name_of(1))),
        json(5, "."),
        json(5, LOCK),
    ]
}

#[test]
fn what_a_state_says_is_what_one_of_ours_can_say() {
    ringside_testkit::fuzz("retention-state", 100_000, &seeds(), |bytes| {
        let Ok(state) = State::decode(bytes) else { return };
        assert!(state.next_serial <= SERIAL_MAX);
        if let Some(name) = &state.creating {
            assert!(
                parts_of_name(name.trim_start_matches('.').trim_end_matches(".next")).is_some()
            );
        }
        if let Some(page) = state.encode() {
            assert_eq!((page.len(), State::decode(&page)), (STATE_BYTES, Ok(state)));
        }
    });
}

/// Reserves room for two files and drops them.
fn reserve(folder: &Path) -> Vec<u64> {
    let Ok(mut directory) = Directory::open(&Dir::open(folder).unwrap(), "own", Policy::default())
    else {
        return Vec::new();
    };
    let mut serial = |number| {
        let name = spare_name(&name_of(number));
        directory.reserve(&name, 0, Clocks::now(BOOT)).ok().map(|reserved| reserved.serial())
    };
    [serial(100), serial(101)].into_iter().flatten().collect()
}

#[test]
fn no_state_has_a_foreign_file_deleted_or_a_serial_given_twice() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("recordings");
    std::fs::create_dir(&folder).unwrap();
    let foreign =
        [place.path().join(PRECIOUS), place.path().join(name_of(1)), folder.join(PRECIOUS)];
    foreign.iter().for_each(|path| std::fs::write(path, "precious").unwrap());
    let run = "other".to_owned();
    let header = FileHeader { run, sequence: 3, serial: 40, boot_id: BOOT, ..Default::default() };
    SeriesFile::create(Entry::at(&folder.join(name_of(3))).unwrap(), &header, &[]).unwrap();
    ringside_testkit::fuzz("retention-lock", 3_000, &seeds(), |bytes| {
        std::fs::write(folder.join(LOCK), bytes).unwrap();
        let serials = reserve(&folder);
        assert!(serials.iter().all(|&serial| serial > 40) && serials.is_sorted(), "{serials:?}");
        assert!(foreign.iter().chain([&folder.join(name_of(3))]).all(|path| path.exists()));
    });
}

#[test]
fn sizes_beyond_all_measure_add_up_to_the_most_there_is() {
    let most = Summary { deleted_files: u64::MAX, deleted_bytes: u64::MAX, ..Summary::default() };
    let mut sum = Summary { files: u64::MAX, ..most.clone() };
    sum.add(&Summary { files: 1, ..most.clone() });
    assert_eq!(sum, Summary { files: u64::MAX, ..most });
}
