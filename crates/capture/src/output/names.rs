//! Names of merged files: as they were given, with a number, or by the time at which they begin.
//!
//! A name with `%` is a pattern of strftime(3), in local time as tcpdump takes it; `%%` is a
//! percent sign. Only the last part of the path is one.

use jiff::tz::TimeZone;
use ringside_core::Shown;
use ringside_store::Packing;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long after its file a name is remembered, so that none is used twice when clocks go back or
/// an order begins a new file while the name is the same. It may come again later: `cap-%H.pcap`
/// goes round in a day.
const REMEMBERED_SECONDS: u64 = 3 * 3600;

/// Names that are remembered at most: one for each second of that time. Only of a clock that jumps
/// about could there be more.
const REMEMBERED_MAX: usize = REMEMBERED_SECONDS as usize;

/// What tells the files of a run apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Which file, from 0.
    pub(crate) number: u64,
    /// When it began, in seconds since 1970, if the name is a pattern.
    pub(crate) seconds: u64,
    /// The number is part of a name that is a pattern.
    pub(crate) is_numbered: bool,
}

/// The names of a run.
pub(super) struct Names {
    path: PathBuf,
    rotates: bool,
    is_cut_by_size: bool,
    zone: TimeZone,
    /// Names without a number, with the time at which each was last in use. The last is that of the
    /// present file.
    recent: VecDeque<(u64, PathBuf)>,
}

impl Names {
    pub(super) fn new(path: PathBuf, rotates: bool, is_cut_by_size: bool) -> Names {
        let (zone, recent) = (TimeZone::system(), VecDeque::new());
        Names { path, rotates, is_cut_by_size, zone, recent }
    }

    /// The name of file `number`, which begins at `now` in seconds since 1970.
    pub(super) fn next(&mut self, number: u64, now: u64) -> (Named, PathBuf) {
        if !is_pattern(&self.path) {
            let named = Named { number, ..Named::default() };
            return (named, name_in(&self.path, self.rotates, named, &self.zone));
        }
        let mut named = Named { number, seconds: now, is_numbered: self.is_cut_by_size };
        let mut name = name_in(&self.path, self.rotates, named, &self.zone);
        // A name with its number is the only one.
        if !named.is_numbered && !self.is_first_use(&name, now) {
            named.is_numbered = true;
            name = name_in(&self.path, self.rotates, named, &self.zone);
        }
        (named, name)
    }

    /// Notes that a file of this name, with or without a number, begins at `now`. False if one was
    /// written not long ago.
    fn is_first_use(&mut self, name: &Path, now: u64) -> bool {
        // The present file is written until now.
        if let Some((used_at, _)) = self.recent.back_mut() {
            *used_at = now;
        }
        let is_old = |(used_at, _): &(u64, _)| used_at.abs_diff(now) > REMEMBERED_SECONDS;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        let before = self.recent.iter().position(|(_, used)| used.as_os_str() == name.as_os_str());
        if let Some(index) = before {
            self.recent.remove(index);
        } else if self.recent.len() == REMEMBERED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((now, name.to_owned()));
        before.is_none()
    }
}

/// The name of a file of a run; `rotates` if the run began with the order to number its files.
pub(crate) fn name_of(path: &Path, rotates: bool, named: Named) -> PathBuf {
    name_in(path, rotates, named, &TimeZone::system())
}

fn name_in(path: &Path, rotates: bool, named: Named, zone: &TimeZone) -> PathBuf {
    if is_pattern(path) {
        // A pattern was checked before the run began.
        let name = expand(path, named.seconds, zone).unwrap_or_else(|_| path.to_owned());
        return if named.is_numbered { numbered(&name, named.number) } else { name };
    }
    // A later file of a run that does not rotate is begun by an order, and must not be written over
    // the first.
    if rotates || named.number > 0 { numbered(path, named.number) } else { path.to_owned() }
}

/// `name-000007.pcapng`, `name-000007.pcap.gz`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let outer = path.extension().filter(|_| Packing::of_path(path).is_some());
    let inner = if outer.is_some() { path.with_extension("") } else { path.to_owned() };
    let mut name = inner.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:06}"));
    for ending in inner.extension().into_iter().chain(outer) {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// True if the last part of `path` is a pattern of times.
pub fn is_pattern(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains('%'))
}

/// Checks a pattern for files of which a new one begins after each `interval`, if there is one;
/// `now` is in seconds since 1970.
///
/// # Errors
/// It is no pattern of strftime(3), has times and no interval, or gives two files one name; with
/// what to write instead.
pub fn check_pattern(path: &Path, interval: Option<Duration>, now: u64) -> Result<(), String> {
    let (shown, zone) = (path.shown(), TimeZone::system());
    let wrong = |error| format!("{shown}: no pattern of times: {error}; `%%` is a percent sign");
    let first = expand(path, now, &zone).map_err(wrong)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let has_times = name.is_none_or(|name| name.replace("%%", "").contains('%'));
    match interval {
        None if has_times => Err(format!(
            "{shown} is a pattern of times, for files of which each begins after some time: add \
             -G, as -G 60, or write `%%` for a percent sign"
        )),
        Some(interval) if has_times => {
            let next =
                expand(path, now.saturating_add(interval.as_secs()), &zone).map_err(wrong)?;
            (next != first).then_some(()).ok_or_else(|| {
                format!(
                    "{shown} gives files {} s apart the same name, {}: name smaller units, as \
                     %Y%m%d-%H%M%S, or write a larger -G",
                    interval.as_secs(),
                    first.shown()
                )
            })
        }
        _ => Ok(()),
    }
}

fn expand(path: &Path, seconds: u64, zone: &TimeZone) -> Result<PathBuf, String> {
    let pattern = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let instant = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let name = jiff::fmt::strtime::format(pattern, &instant.to_zoned(zone.clone()));
    let name = name.map_err(|error| error.to_string())?;
    if name.contains('/') {
        return Err(format!("it gives {name}, and a name of a file has no slash"));
    }
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn name(path: &str, rotates: bool, number: u64) -> String {
        let named = Named { number, ..Named::default() };
        name_in(Path::new(path), rotates, named, &TimeZone::UTC).display().to_string()
    }

    #[test]
    fn files_are_numbered_when_there_are_several() {
        assert_eq!(name("/data/two.pcapng", false, 0), "/data/two.pcapng");
        assert_eq!(name("/data/two.pcapng", false, 3), "/data/two-000003.pcapng");
        assert_eq!(name("/data/two.pcapng", true, 7), "/data/two-000007.pcapng");
        assert_eq!(name("x", true, 0), "x-000000");
        assert_eq!(name("a.b/x.pcap.gz", true, 1), "a.b/x-000001.pcap.gz");
        assert_eq!(name("x.zst", true, 1), "x-000001.zst");
    }

    #[test]
    fn a_name_of_times_is_used_once_in_some_hours_and_then_again() {
        let mut names = Names::new("d%S/cap-%H.pcap".into(), true, false);
        names.zone = TimeZone::UTC;
        let mut next = |number, now| names.next(number, now).1.display().to_string();
        assert_eq!(next(0, 0), "d%S/cap-00.pcap");
        assert_eq!(next(1, 3_600), "d%S/cap-01.pcap");
        assert_eq!(next(2, 3_601), "d%S/cap-01-000002.pcap");
        assert_eq!(next(3, 86_400), "d%S/cap-00.pcap");
        let mut days = Names::new("%Y%m%d.pcap".into(), true, false);
        days.zone = TimeZone::UTC;
        let mut next =
            |number, hours: u64| days.next(number, hours * 3_600).1.display().to_string();
        assert_eq!(next(0, 0), "19700101.pcap");
        assert_eq!(next(1, 4), "19700101-000001.pcap", "an order; the first is not written over");
        assert_eq!(next(2, 8), "19700101-000002.pcap");
        assert_eq!(next(3, 24), "19700102.pcap");
        let mut cut = Names::new("%Y.pcapng.zst".into(), true, true);
        assert_eq!(cut.next(5, 86_400 * 200).1, Path::new("1970-000005.pcapng.zst"));
    }

    #[test]
    fn many_orders_within_a_second_give_each_file_its_own_name_and_cost_no_memory() {
        let mut names = Names::new("cap-%H.pcap".into(), true, false);
        let count = 2 * REMEMBERED_MAX as u64;
        let made: HashSet<_> = (0..count).map(|number| names.next(number, 7).1).collect();
        assert_eq!((made.len() as u64, names.recent.len()), (count, 1));
        // Of a clock that jumps about, each time has its name.
        let mut names = Names::new("%s.pcap".into(), true, false);
        for number in 0..count {
            names.next(number, number * 7_919 % count);
        }
        assert!(names.recent.len() <= REMEMBERED_MAX, "{}", names.recent.len());
    }

    #[test]
    fn patterns_are_checked() {
        let check = |path: &str, seconds: u64| {
            let interval = (seconds > 0).then(|| Duration::from_secs(seconds));
            check_pattern(Path::new(path), interval, 1_700_000_000)
        };
        assert_eq!(check("cap-%Y%m%d-%H%M%S.pcapng", 60), Ok(()));
        assert_eq!(check("cap-%H.pcapng", 3_600), Ok(()), "goes round in a day");
        assert_eq!(check("100%%.pcapng", 0), Ok(()));
        assert_eq!(check("d%S/100%%.pcapng", 0), Ok(()), "no pattern in a directory's name");
        for (path, seconds, said) in [
            ("cap-%H%M.pcapng", 0, "add -G"),
            ("cap-%H.pcapng", 60, "gives files 60 s apart the same name, cap-"),
            ("100%.pcapng", 60, "no pattern of times"),
            ("%D.pcapng", 86_400, "has no slash"),
        ] {
            let error = check(path, seconds).unwrap_err();
            assert!(error.contains(said), "{path}: {error}");
        }
    }
}
