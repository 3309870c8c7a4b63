//! How much memory there is for us.

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// Where control groups of version 2 are; those of version 1 for memory lie below, in `memory`.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that we can have without ending other programs, or being ended: the least of what the
/// machine has (MemAvailable of proc(5)) and what the limit of each control group around us leaves
/// (cgroup-v2.rst and cgroup-v1/memory.rst of the kernel). `None` if nothing says.
pub fn available_bytes() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = [&VERSION_2, &VERSION_1].into_iter().flat_map(|version| version.left(&own));
    machine.into_iter().chain(groups).min()
}

/// How a version of control groups bounds memory.
struct Version {
    /// Where they are, below [`CGROUPS`].
    root: &'static str,
    /// True for our line of /proc/self/cgroup: number, controllers.
    is_ours: fn(number: &str, controllers: &str) -> bool,
    limit: &'static str,
    used: &'static str,
    /// What of it the kernel takes back before it ends a program, by its line in `memory.stat`.
    given_back: &'static str,
}

const VERSION_2: Version = Version {
    root: "",
    is_ours: |number, _| number == "0",
    limit: "memory.max",
    used: "memory.current",
    given_back: "inactive_file ",
};

const VERSION_1: Version = Version {
    root: "memory",
    is_ours: |_, controllers| controllers.split(',').any(|one| one == "memory"),
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    given_back: "total_inactive_file ",
};

impl Version {
    /// What the limits of all groups around us leave, by the text of /proc/self/cgroup.
    fn left(&self, own: &str) -> Vec<u64> {
        let root = Path::new(CGROUPS).join(self.root);
        self.groups(own).iter().filter_map(|group| self.left_by(&root.join(group))).collect()
    }

    /// The control group that /proc/self/cgroup names, and those around it. In a container the own
    /// one may be outside of what is seen (`/../x`); then the root that is seen is the container's.
    fn groups(&self, own: &str) -> Vec<PathBuf> {
        let path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let is_ours = (self.is_ours)(fields.next()?, fields.next()?);
            fields.next().filter(|_| is_ours)?.strip_prefix('/')
        });
        let is_below =
            |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let path = path.map(Path::new).filter(is_below).unwrap_or(Path::new(""));
        path.ancestors().map(Path::to_owned).collect()
    }

    /// What the limit of a control group leaves; `None` without one.
    fn left_by(&self, group: &Path) -> Option<u64> {
        let text = |file| read_to_string(group.join(file)).ok();
        let number = |file| text(file)?.trim().parse::<u64>().ok();
        let limit = number(self.limit)?;
        let stat = text("memory.stat").unwrap_or_default();
        let given_back = stat.lines().find_map(|line| line.strip_prefix(self.given_back));
        let given_back = given_back.and_then(|text| text.parse().ok()).unwrap_or(0);
        let used = number(self.used).unwrap_or(0).saturating_sub(given_back);
        Some(limit.saturating_sub(used))
    }
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
    fn the_groups_around_us_are_those_of_each_version() {
        let own = "9:name=systemd:/x\n4:cpu,memory:/old/a\n3:memoryless:/y\n0::/a/b.service\n";
        let paths = |version: &Version, own| -> Vec<String> {
            let groups = version.groups(own).into_iter();
            groups.map(|path| path.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(paths(&VERSION_2, own), ["a/b.service", "a", ""]);
        assert_eq!(paths(&VERSION_1, own), ["old/a", "old", ""]);
        assert_eq!(paths(&VERSION_1, "torn\n1:memory\n"), [""]);
        assert_eq!(paths(&VERSION_2, ""), [""]);
    }

    #[test]
    fn a_limit_around_us_counts() {
        for version in [VERSION_2, VERSION_1] {
            let group = tempfile::tempdir().unwrap();
            let left = || version.left_by(group.path());
            let write = |file: &str, text: &str| {
                std::fs::write(group.path().join(file), text).unwrap();
            };
            assert_eq!(left(), None);
            write(version.limit, "max\n");
            assert_eq!(left(), None);
            write(version.limit, "1000\n");
            assert_eq!(left(), Some(1000));
            write(version.used, "900\n");
            assert_eq!(left(), Some(100));
            // Files that were not used for long give way.
            write("memory.stat", &format!("cache 1\n{}300\n", version.given_back));
            assert_eq!(left(), Some(400));
            write(version.used, "1400\n");
            assert_eq!(left(), Some(0));
        }
    }

    #[test]
    fn a_damaged_text_is_no_number_and_leads_to_no_other_place() {
        let meminfo = "MemTotal:       24000 kB\nMemAvailable:   23000 kB\n";
        let most = "MemAvailable: 18446744073709551615 kB\n";
        let seeds = [meminfo, most, "0::/a/b.service\n", "4:memory:/../../etc\n", "0:://tmp/x\n"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("proc-memory", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            assert!(available(&text).is_none_or(|bytes| bytes % 1024 == 0));
            for version in [&VERSION_2, &VERSION_1] {
                let groups = version.groups(&text);
                let is_below = |part| matches!(part, Component::Normal(_));
                assert!(groups.iter().all(|path| path.components().all(is_below)), "{text}");
            }
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
