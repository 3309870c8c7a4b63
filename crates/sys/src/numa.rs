//! NUMA: which CPUs and which memory are local to a device.
//!
//! On a machine of one node everything here says that there is nothing to choose.

use crate::SysError;
use rustix::fs::{major, minor, stat};
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel lists NUMA nodes.
const NODES: &str = "/sys/devices/system/node";
/// Devices that a stack of device mappers may have. A loop of names would be a kernel bug, and
/// here it ends.
const STACK_MAX: usize = 8;
/// Highest number of a node, and one (MAX_NUMNODES is 1,024 at most).
const NODES_MAX: usize = 1024;
/// CPUs that a machine may have (CONFIG_NR_CPUS is at most 8,192).
pub(crate) const CPUS_MAX: usize = 8_192;
/// MPOL_DEFAULT and MPOL_PREFERRED of linux/mempolicy.h.
const MPOL_DEFAULT: i32 = 0;
const MPOL_PREFERRED: i32 = 1;

/// A node with its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub id: usize,
    /// Its CPUs, in ascending order; empty for memory alone.
    pub cpus: Vec<usize>,
}

/// The nodes of this machine; empty where the kernel has no NUMA.
pub fn nodes() -> Vec<NumaNode> {
    let online = read_to_string(format!("{NODES}/online")).unwrap_or_default();
    let node = |id| {
        let cpus = read_to_string(format!("{NODES}/node{id}/cpulist")).unwrap_or_default();
        NumaNode { id, cpus: cpu_list(&cpus) }
    };
    cpu_list(&online).into_iter().take(NODES_MAX).map(node).collect()
}

/// The node of the disk that `path` lies on; `None` where there is one node only, or where the file
/// system has no one disk (tmpfs, a network).
pub fn node_of_disk(path: &Path) -> Option<usize> {
    if nodes().len() < 2 {
        return None;
    }
    // What is to be made there will lie where its nearest parent does.
    let device = path.ancestors().find_map(|place| stat(place).ok())?.st_dev;
    let mut place =
        std::fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    for _ in 0..STACK_MAX {
        let below = place.ok()?;
        if let Some(node) = node_of(&below) {
            return Some(node);
        }
        // A device mapper or a RAID sits nowhere itself; its first disk stands for all.
        let slave = read_dir(below.join("slaves")).ok()?.next()?.ok()?.path();
        place = std::fs::canonicalize(slave);
    }
    None
}

/// Has the memory that this thread touches first come from one node, until this is dropped. Threads
/// that it starts meanwhile inherit that.
#[derive(Debug)]
pub struct PreferredNode(());

impl PreferredNode {
    /// Prefers `node`; where it has no free memory, others are taken.
    ///
    /// # Errors
    /// There is no such node, or the kernel has no NUMA.
    pub fn new(node: usize) -> Result<PreferredNode, SysError> {
        let mut mask = [0u64; NODES_MAX / 64];
        let word = mask.get_mut(node / 64);
        *word.ok_or_else(|| {
            let limit = format!("below {NODES_MAX}");
            SysError::Limit { what: "the NUMA node", value: node as u64, limit }
        })? |= 1 << (node % 64);
        set_policy(MPOL_PREFERRED, &mask)
            .map_err(|e| SysError::io(format!("preferring memory of NUMA node {node}"), e))?;
        Ok(PreferredNode(()))
    }
}

impl Drop for PreferredNode {
    fn drop(&mut self) {
        // It was allowed to set one, so it may be taken back.
        let _ = set_policy(MPOL_DEFAULT, &[]);
    }
}

fn set_policy(mode: i32, mask: &[u64]) -> io::Result<()> {
    let pointer = if mask.is_empty() { std::ptr::null() } else { mask.as_ptr() };
    // The kernel uses one bit less than the number it gets (mm/mempolicy.c, get_nodes).
    let bits = if mask.is_empty() { 0 } else { mask.len() * 64 + 1 };
    // SAFETY: set_mempolicy(2) reads `bits` - 1 bits from `pointer`, which is null without any, and
    // changes nothing but where this thread's new memory comes from.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The `numa_node` of a device or of what it hangs on; -1 says that it has none.
pub fn node_of(device: &Path) -> Option<usize> {
    let files = device.ancestors().map(|place: &Path| -> PathBuf { place.join("numa_node") });
    let mut nodes = files.filter_map(|file| read_to_string(file).ok());
    nodes.next()?.trim().parse().ok()
}

/// `0-3,8,10-11` as the kernel writes sets of CPUs and of nodes, which names each once; what is no
/// number of one is left out, and what is more than there can be.
pub fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (last < CPUS_MAX).then_some(first..=last)
    };
    text.trim().split(',').filter_map(range).flatten().take(CPUS_MAX).collect()
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
    fn no_list_makes_more_cpus_than_there_can_be() {
        let seeds = ["0-3,8,10-11\n", "0\n", "7,5-6,x,-,4-", "0-18446744073709551615\n"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("cpu-list", 500_000, &seeds, |bytes| {
            let cpus = cpu_list(&String::from_utf8_lossy(bytes));
            assert!(cpus.len() <= CPUS_MAX && cpus.iter().all(|&cpu| cpu < CPUS_MAX));
            let shown: Vec<String> = cpus.iter().map(usize::to_string).collect();
            assert_eq!(cpu_list(&shown.join(",")), cpus);
        });
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

    #[test]
    fn a_node_that_is_there_can_be_preferred() {
        let Some(node) = nodes().into_iter().find(|node| !node.cpus.is_empty()) else {
            ringside_testkit::skip("a_node_that_is_there", "a kernel without NUMA");
            return;
        };
        drop(PreferredNode::new(node.id).unwrap());
        assert!(PreferredNode::new(NODES_MAX - 1).is_err());
        assert!(PreferredNode::new(NODES_MAX).is_err());
    }
}
