//! Names of the files of a recording.

use jiff::tz::TimeZone;
use ringside_core::{LaneId, Timestamp};

/// Characters of an interface name that go into a file name; the kernel's limit is 15.
const INTERFACE_CHARS_MAX: usize = 64;

/// `20261121T053000Z-eth1-lane0-000000.pcapng`: start in UTC, interface, lane, number of the file.
///
/// Sorting by name sorts by time. Characters of the interface other than letters, digits, `.` and
/// `_` become `_`, so that the name is one path component and its parts stay separable.
pub fn file_name(start: Timestamp, interface: &str, lane: LaneId, sequence: u64) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let interface: String = interface
        .chars()
        .take(INTERFACE_CHARS_MAX)
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    let seconds = i64::try_from(start.seconds()).unwrap_or(i64::MAX);
    let start = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let start = start.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    format!("{start}-{interface}-lane{lane}-{sequence:06}.pcapng")
}
