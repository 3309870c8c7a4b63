//! How much memory there is for us.

use std::fs::read_to_string;
use std::path::{Component, Path};

/// Where control groups of version 2 are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that we can have without ending other programs, or being ended: the least of what the
/// machine has (MemAvailable of proc(5)) and what the limit of each control group around us leaves
/// (memory.max of the kernel's cgroup-v2.rst). `None` if nothing says.
pub fn available_bytes() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups(&own).filter_map(|group| left(&Path::new(CGROUPS).join(group)));
    machine.into_iter().chain(groups).min()
}

/// The control group that /proc/self/cgroup names, and those around it. In a container the own one
/// may be outside of what is seen (`/../x`); then the root that is seen is the container's.
fn groups(own: &str) -> impl Iterator<Item = &Path> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).map(Path::new);
    let is_below =
        |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    path.filter(is_below).unwrap_or(Path::new("")).ancestors()
}

/// What the limit of a control group leaves; `None` without one.
fn left(group: &Path) -> Option<u64> {
    let number = |file| read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current").unwrap_or(0)))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_around_us_counts() {
        let paths = |own| groups(own).map(|path| path.to_str().unwrap().to_owned()).collect();
        let found: Vec<String> = paths("1:memory:/old\n0::/a/b.service\n");
        assert_eq!(found, ["a/b.service", "a", ""]);
        assert_eq!(Vec::from_iter(groups("")), [Path::new("")]);
        let group = tempfile::tempdir().unwrap();
        assert_eq!(left(group.path()), None);
        std::fs::write(group.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left(group.path()), None);
        std::fs::write(group.path().join("memory.max"), "1000\n").unwrap();
        assert_eq!(left(group.path()), Some(1000));
        std::fs::write(group.path().join("memory.current"), "1200\n").unwrap();
        assert_eq!(left(group.path()), Some(0));
    }

    #[test]
    fn a_damaged_text_is_no_number_and_leads_to_no_other_place() {
        let meminfo = "MemTotal:       24000 kB\nMemAvailable:   23000 kB\n";
        let most = "MemAvailable: 18446744073709551615 kB\n";
        let seeds = [meminfo, most, "0::/a/b.service\n", "0::/../../etc\n", "0:://tmp/x\n"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("proc-memory", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            assert!(available(&text).is_none_or(|bytes| bytes % 1024 == 0));
            let is_below = |part| matches!(part, Component::Normal(_));
            assert!(groups(&text).flat_map(Path::components).all(is_below), "{text}");
        });
    }

    #[test]
    fn the_right_line_counts() {
        let meminfo = "MemTotal:       24000 kB\nMemFree: 5 kB\nMemAvailable:   23000 kB\n";
        assert_eq!(available(meminfo), Some(23_000 * 1024));
        for wrong in ["", "MemAvailable: many kB\n", "MemAvailable: 18446744073709551615 kB\n"] {
            assert_eq!(available(wrong), None, "{wrong}");
        }
    }
}
