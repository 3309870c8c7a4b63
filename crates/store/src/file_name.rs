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
    let interface: String = interface
        .chars()
        .take(INTERFACE_CHARS_MAX)
        .map(|c| if is_kept(c) { c } else { '_' })
        .collect();
    let seconds = i64::try_from(start.seconds()).unwrap_or(i64::MAX);
    let start = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let start = start.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    format!("{start}-{interface}-lane{lane}-{sequence:06}.pcapng")
}

/// Lane and number that [`file_name`] has put into `name`, or `None` if it did not make it.
pub(crate) fn parts_of_name(name: &str) -> Option<(LaneId, u64)> {
    let (rest, sequence) = name.strip_suffix(".pcapng")?.rsplit_once('-')?;
    let (rest, lane) = rest.rsplit_once("-lane")?;
    let (start, interface) = rest.split_once('-')?;
    let (lane, sequence) = (LaneId(lane.parse().ok()?), sequence.parse().ok()?);
    let (date, time) = start.strip_suffix('Z')?.split_once('T')?;
    let is_number =
        |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let valid = is_number(date, 8)
        && is_number(time, 6)
        && interface.chars().all(is_kept)
        && name.ends_with(&format!("-lane{lane}-{sequence:06}.pcapng"));
    valid.then_some((lane, sequence))
}

/// True for the characters of an interface's name that go into a file's name as they are.
fn is_kept(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::{name_of_spare, spare_name};
    use crate::run_lock::{run_lock_name, run_of_lock};

    #[test]
    fn no_name_leads_out_of_its_directory_and_each_is_made_again_of_its_parts() {
        let seeds = [
            file_name(Timestamp(1_700_000_000_000_000_000), "eth0", LaneId(12), 1_000_000),
            file_name(Timestamp(u64::MAX), "../a-b\u{e9}", LaneId(0), 0),
            spare_name("20261121T053000Z-eth1-lane0-000000.pcapng"),
            "20261121T053000Z-eth1-lane0-18446744073709551616.pcapng".into(),
            "20261121T053000Z-..-lane0-000000.pcapng".into(),
            ".ringside-20261121T053000Z-1.lock".into(),
            ".ringside-../x.lock".into(),
        ];
        let seeds = seeds.map(String::into_bytes);
        ringside_testkit::fuzz("recording-names", 500_000, &seeds, |bytes| {
            let name = &String::from_utf8_lossy(bytes);
            if let Some((lane, sequence)) = parts_of_name(name) {
                assert!(name.ends_with(&format!("-lane{lane}-{sequence:06}.pcapng")));
                assert!(name.is_ascii() && !name.contains('/') && !name.starts_with('.'));
            }
            if let Some(of) = name_of_spare(name) {
                assert_eq!(spare_name(of), **name);
            }
            if let Some(run) = run_of_lock(name) {
                assert_eq!(run_lock_name(run).as_deref(), Some(&**name));
                assert!(!name.contains('/'));
            }
        });
    }
}
