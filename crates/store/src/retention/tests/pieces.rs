//! The pure parts, by tables.

use super::super::age::ages_ns;
use super::super::folder::{Born, name_of_spare};
use super::super::state::{Limits, State};
use super::super::{Policy, RetentionError, Shape, Summary, file_interval, spare_name};
use ringside_core::Timestamp;
use ringside_sys::clock::Clocks;
use std::time::Duration;

const DAY: u64 = 86_400_000_000_000;
const NOW: Clocks = Clocks { wall: Timestamp(20_000 * DAY), boot_ns: 5 * DAY, boot_id: [9; 16] };

/// Created at `wall` days, `boot` days after the boot `id`.
fn born(id: u8, boot: u64, wall: u64) -> Born {
    Born { wall: Timestamp(wall * DAY), boot_ns: boot * DAY, boot_id: [id; 16] }
}

fn ages(files: &[Born]) -> Vec<u64> {
    ages_ns(files, &NOW).into_iter().map(|age| age / DAY).collect()
}

#[test]
fn age_within_a_boot_is_exact_whatever_the_clock_did() {
    assert_eq!(ages(&[born(9, 1, 0), born(9, 2, 40_000), born(9, 5, 7)]), [4, 3, 0]);
    // A header that cannot be right.
    assert_eq!(ages(&[born(9, 77, 20_000)]), [0]);
}

#[test]
fn a_boot_that_began_in_1970_is_dated_by_its_last_file() {
    let files = [born(1, 0, 0), born(1, 1, 1), born(1, 3, 19_990)];
    assert_eq!(ages(&files), [13, 12, 10]);
}

#[test]
fn a_date_in_the_future_is_no_age_and_blocks_no_run_for_ever() {
    assert_eq!(ages(&[born(1, 0, 30_000)]), [0]);
    assert_eq!(ages(&[born(1, 0, 30_000), born(9, 2, 0)]), [3, 3]);
    // What another boot says about its own time proves nothing about others.
    assert_eq!(ages(&[born(1, 0, 19_999), born(2, 0, 0)]), [1, 20_000]);
}

#[test]
fn a_boot_without_a_name_tells_by_each_files_own_date() {
    assert_eq!(ages(&[born(0, 4, 19_990), born(0, 5, 19_998)]), [10, 2]);
    let nameless = Clocks { boot_id: [0; 16], ..NOW };
    assert_eq!(ages_ns(&[born(0, 4, 19_990)], &nameless), [10 * DAY]);
}

fn shape(lanes: usize, directories: usize) -> Shape {
    Shape { lanes, directories, block_bytes: 1 << 20, header_bytes: 4096 }
}

fn limited(limit_bytes: u64) -> Policy {
    Policy { limit_bytes: Some(limit_bytes), ..Policy::default() }
}

#[test]
fn files_have_a_size_that_fits_the_limit() {
    let mib = |count: u64| Some(8192 + (count << 20));
    let size = |lanes, directories, limit, asked| {
        shape(lanes, directories).file_bytes(&limited(limit), asked).unwrap()
    };
    assert_eq!(size(1, 1, 64 << 20, None), mib(3));
    assert_eq!(size(1, 1, 1 << 40, None), mib(1023));
    assert_eq!(size(4, 2, 64 << 30, None), mib(511));
    // The smallest file is what a smaller request gets.
    assert_eq!(size(1, 1, 64 << 20, Some(1)), mib(1));
    assert_eq!(size(1, 1, 64 << 20, Some(32 << 20)), Some(32 << 20));
    let blocks = [0, 1 << 20, (2 << 20) + 8191, (2 << 20) + 8192].map(|b| shape(1, 1).blocks_in(b));
    assert_eq!(blocks, [1, 1, 1, 2]);
    assert_eq!(shape(1, 1).file_bytes(&Policy::default(), None).unwrap(), None);
    assert_eq!(shape(1, 1).file_bytes(&Policy::default(), Some(5 << 30)).unwrap(), Some(5 << 30));
    let by_age = Policy { limit_age: Some(Duration::from_secs(60)), ..Policy::default() };
    assert_eq!(shape(1, 1).file_bytes(&by_age, None).unwrap(), mib(1023));
}

#[test]
fn a_limit_that_is_too_small_is_reported_with_the_least_that_would_do() {
    for (lanes, directories) in [(1, 1), (3, 2)] {
        let shape = shape(lanes, directories);
        let least = 2 * (lanes * directories) as u64 * ((1 << 20) + 8192);
        let error = shape.file_bytes(&limited(least - 1), None).unwrap_err();
        assert!(error.to_string().contains(&least.to_string()), "{error}");
        let size = shape.file_bytes(&limited(least), None).unwrap();
        assert_eq!(size, Some((1 << 20) + 8192));
        let error = shape.file_bytes(&limited(least), Some(2 << 20)).unwrap_err();
        assert!(matches!(error, RetentionError::FilesTooLarge { .. }), "{error}");
    }
    let many = Shape { lanes: usize::MAX, ..shape(1, 1) };
    assert_eq!(many.limit_bytes_min(u64::MAX), u64::MAX);
}

#[test]
fn an_age_makes_files_short_enough_to_go_in_parts() {
    let seconds = |age| file_interval(Duration::from_secs(age)).as_secs();
    assert_eq!((seconds(1), seconds(240), seconds(86_400), seconds(1 << 40)), (1, 10, 3600, 3600));
}

#[test]
fn directories_share_a_limit() {
    let policy = Policy { limit_bytes: Some(100), min_free: Some(7), ..Policy::default() };
    assert_eq!(policy.for_each_of(3), Policy { limit_bytes: Some(33), ..policy });
}

#[test]
fn summaries_of_directories_add_up() {
    let one = Summary { deleted_files: 1, used_bytes: 5, ..Summary::default() };
    let (oldest, overdue) = (Some(Timestamp(3)), Some("stuck".to_owned()));
    let mut sum = Summary { oldest, overdue, ..one.clone() };
    sum.add(&Summary { oldest: Some(Timestamp(2)), files: 7, deleted_bytes: 9, ..one });
    assert_eq!((sum.deleted_files, sum.deleted_bytes, sum.files, sum.used_bytes), (2, 9, 7, 10));
    assert_eq!((sum.oldest, sum.overdue.as_deref()), (Some(Timestamp(2)), Some("stuck")));
}

#[test]
fn names_of_spares() {
    assert_eq!(name_of_spare(&spare_name("a.pcapng")), Some("a.pcapng"));
    for other in ["a.pcapng", ".a.pcapng", "a.pcapng.next", ".ringside.lock"] {
        assert_eq!(name_of_spare(other), None, "{other}");
    }
}

#[test]
fn the_state_fits_its_page_and_survives_what_is_no_state() {
    let name = "20261121T053000Z-eth1-lane0-000000.pcapng";
    let mut state = State { next_serial: 7, creating: Some(name.into()), ..State::default() };
    let (bytes, min_free) = (Some(5), Some(9));
    state.note("a", &Policy { limit_bytes: bytes, ..Policy::default() });
    state.note("b", &Policy { limit_bytes: Some(50), min_free, ..Policy::default() });
    assert_eq!(state.limits(), Limits { bytes, min_free, pin_bytes: Some(2) });
    let page = state.encode().unwrap();
    assert_eq!((page.len(), State::decode(&page)), (4096, Ok(state.clone())));
    state.note("a", &Policy::default());
    assert_eq!(state.limits(), Limits { bytes: Some(50), min_free, pin_bytes: Some(25) });
    for wrong in [&b""[..], b"{", b"[1]", &[0; 4096], &page[..100]] {
        assert_eq!(State::decode(wrong), Ok(State::default()));
    }
    assert_eq!(State::decode(&State { version: 2, ..state.clone() }.encode().unwrap()), Err(2));
    state.creating = Some("x".repeat(5000));
    assert_eq!(state.encode(), None);
}
