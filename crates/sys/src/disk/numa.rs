//! Which CPUs sit beside a disk.

use rustix::fs::{major, minor, stat};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Where the kernel lists NUMA nodes.
const NODES: &str = "/sys/devices/system/node";
/// Devices that a stack of device mappers may have. A loop of names would be a kernel bug, and
/// here it ends.
const STACK_MAX: usize = 8;

/// The CPUs of the NUMA node of the disk that `path` lies on; `None` where there is one node only,
/// or where the file system has no one disk (tmpfs, a network).
pub fn cpus_beside(path: &Path) -> Option<Vec<usize>> {
    if cpu_list(&read_to_string(format!("{NODES}/online")).ok()?).len() < 2 {
        return None;
    }
    let device = stat(path).ok()?.st_dev;
    let mut place =
        std::fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    for _ in 0..STACK_MAX {
        let below = place.ok()?;
        if let Some(node) = node_of(&below) {
            let cpus = cpu_list(&read_to_string(format!("{NODES}/node{node}/cpulist")).ok()?);
            return (!cpus.is_empty()).then_some(cpus);
        }
        // A device mapper or a RAID sits nowhere itself; its first disk stands for all.
        let slave = read_dir(below.join("slaves")).ok()?.next()?.ok()?.path();
        place = std::fs::canonicalize(slave);
    }
    None
}

/// The `numa_node` of a device or of what it hangs on; -1 says that it has none.
fn node_of(device: &Path) -> Option<usize> {
    let files = device.ancestors().map(|place: &Path| -> PathBuf { place.join("numa_node") });
    let mut nodes = files.filter_map(|file| read_to_string(file).ok());
    nodes.next()?.trim().parse().ok()
}

/// `0-3,8,10-11` as the kernel writes sets of CPUs and of nodes; what is no number is left out.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpu_list("0\n"), [0]);
        assert_eq!(cpu_list("\n"), [] as [usize; 0]);
    }

    #[test]
    fn a_disk_below_a_device_with_a_node_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("pci/nvme0/nvme0n1");
        std::fs::create_dir_all(&disk).unwrap();
        assert_eq!(node_of(&disk), None);
        std::fs::write(dir.path().join("pci/numa_node"), "1\n").unwrap();
        assert_eq!(node_of(&disk), Some(1));
        std::fs::write(dir.path().join("pci/nvme0/numa_node"), "-1\n").unwrap();
        assert_eq!(node_of(&disk), None);
    }
}
