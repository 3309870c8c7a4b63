//! Maps that are used by their descriptors alone, also in a process that did not make them and has
//! no privilege: arrays of counters, of programs, of sockets.

use super::{BpfError, NAME_BYTES, bpf, name_bytes, object_info, owned};
use crate::numa::CPUS_MAX;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
pub(super) const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;

const BPF_MAP_TYPE_PROG_ARRAY: u32 = 3;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;

/// u64 counters in one value of a [`PerCpuArray`]; one cache line.
const COUNTERS_MAX: usize = 8;

/// Start of `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct MapAttributes {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    entries_max: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; NAME_BYTES],
}

/// Start of `struct bpf_map_info`, as long as its first version.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    entries_max: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
}

const _: () = assert!(size_of::<MapInfo>() == 40);

/// Refuses a descriptor of anything but a map of one of `types` with keys of 4 bytes and values of
/// `value_bytes`: the kernel reads and writes as much as the map has, whatever room it is given.
fn check_map(fd: &OwnedFd, types: &[u32], value_bytes: usize) -> Result<(), BpfError> {
    let info = map_info(fd)?;
    let sizes = (info.key_size as usize, info.value_size as usize);
    if !types.contains(&info.map_type) || sizes != (4, value_bytes) {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(BpfError::Io { what: "the descriptor is of another map", source });
    }
    Ok(())
}

fn map_info(fd: &OwnedFd) -> Result<MapInfo, BpfError> {
    // SAFETY: `MapInfo` is made of integers, and its default is all 0.
    unsafe { object_info(fd.as_fd(), "asking what a descriptor of a BPF map is") }
}

/// Start of `union bpf_attr` for BPF_MAP_LOOKUP_ELEM and its like.
#[repr(C)]
pub(super) struct ElementAttributes {
    pub(super) map_fd: u32,
    pub(super) padding: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

const _: () = assert!(size_of::<MapAttributes>() == 44);
const _: () = assert!(size_of::<ElementAttributes>() == 32);

/// Makes a map with keys of 4 bytes.
pub(super) fn create(
    map_type: u32,
    name: &str,
    value_bytes: usize,
    entries: u32,
) -> Result<OwnedFd, BpfError> {
    let mut attributes = MapAttributes {
        map_type,
        key_size: 4,
        value_size: value_bytes as u32,
        entries_max: entries,
        flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        name: name_bytes(name),
    };
    // SAFETY: the layout is that of BPF_MAP_CREATE, which has no addresses; the descriptor that it
    // gives is new.
    unsafe {
        let result = bpf(BPF_MAP_CREATE, &mut attributes);
        owned(result, "creating a BPF map")
    }
}

/// A per-CPU array (BPF_MAP_TYPE_PERCPU_ARRAY) whose values are some u64 counters each.
#[derive(Debug)]
pub struct PerCpuArray {
    fd: OwnedFd,
    counters: usize,
    cpus: usize,
}

impl PerCpuArray {
    /// Creates an array with `counters` (1 to 8) counters in value 0, all zero.
    ///
    /// # Errors
    /// No privilege, or no memory.
    pub fn create(name: &str, counters: usize) -> Result<PerCpuArray, BpfError> {
        PerCpuArray::check(counters)?;
        let cpus = cpus_of_maps()?;
        let fd = create(BPF_MAP_TYPE_PERCPU_ARRAY, name, counters * size_of::<u64>(), 1)?;
        Ok(PerCpuArray { fd, counters, cpus })
    }

    /// An array that was made elsewhere, with `counters` counters in a value, by its descriptor.
    ///
    /// # Errors
    /// It is no such array, there are not 1 to 8 counters, or the number of CPUs cannot be read.
    pub fn from_fd(fd: OwnedFd, counters: usize) -> Result<PerCpuArray, BpfError> {
        PerCpuArray::check(counters)?;
        check_map(&fd, &[BPF_MAP_TYPE_PERCPU_ARRAY], counters * size_of::<u64>())?;
        Ok(PerCpuArray { fd, counters, cpus: cpus_of_maps()? })
    }

    fn check(counters: usize) -> Result<(), BpfError> {
        if counters == 0 || counters > COUNTERS_MAX {
            let what = "counters in a per-CPU array";
            return Err(BpfError::TooLarge { what, value: counters, limit: COUNTERS_MAX });
        }
        Ok(())
    }

    /// The counters of value 0, as [`sums_at`](PerCpuArray::sums_at).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn sums(&self) -> Result<Vec<u64>, BpfError> {
        self.sums_at(0)
    }

    /// The counters of value `key`, summed over the CPUs. Each is exact once the programs that
    /// write it have stopped, and before that some value that it had.
    ///
    /// # Errors
    /// There is no such value, or the kernel's refusal.
    pub fn sums_at(&self, key: u32) -> Result<Vec<u64>, BpfError> {
        let mut values = vec![0u64; self.counters * self.cpus];
        let mut attributes = ElementAttributes {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: &raw const key as u64,
            value: values.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the layout is that of BPF_MAP_LOOKUP_ELEM; `key` has the map's 4 bytes, and
        // `values` has room for the value of every possible CPU, each a multiple of 8 bytes.
        let result = unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes) };
        if result < 0 {
            return Err(BpfError::last("reading a BPF map"));
        }
        let mut sums = vec![0u64; self.counters];
        for cpu in values.chunks_exact(self.counters) {
            for (sum, value) in sums.iter_mut().zip(cpu) {
                *sum = sum.wrapping_add(*value);
            }
        }
        Ok(sums)
    }
}

impl AsFd for PerCpuArray {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An array of descriptors: of programs (BPF_MAP_TYPE_PROG_ARRAY) or of AF_XDP sockets
/// (BPF_MAP_TYPE_XSKMAP). The kernel clears one of programs when its last descriptor is closed.
#[derive(Debug)]
pub struct FdArray {
    fd: OwnedFd,
}

impl FdArray {
    /// An array by its descriptor.
    ///
    /// # Errors
    /// It is none.
    pub fn from_fd(fd: OwnedFd) -> Result<FdArray, BpfError> {
        check_map(&fd, &[BPF_MAP_TYPE_PROG_ARRAY, BPF_MAP_TYPE_XSKMAP], size_of::<u32>())?;
        Ok(FdArray { fd })
    }

    /// Makes an array with room for `entries` programs.
    ///
    /// # Errors
    /// No privilege, or no memory.
    pub fn create_for_programs(name: &str, entries: u32) -> Result<FdArray, BpfError> {
        Ok(FdArray { fd: create(BPF_MAP_TYPE_PROG_ARRAY, name, size_of::<u32>(), entries)? })
    }

    /// Makes an array with room for `entries` AF_XDP sockets.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn create_for_sockets(name: &str, entries: u32) -> Result<FdArray, BpfError> {
        Ok(FdArray { fd: create(BPF_MAP_TYPE_XSKMAP, name, size_of::<u32>(), entries)? })
    }

    /// Puts what `value` refers to at `key`, in place of what was there.
    ///
    /// # Errors
    /// There is no such key, the array does not take it, or no privilege.
    pub fn set(&self, key: u32, value: BorrowedFd<'_>) -> Result<(), BpfError> {
        let mut value = value.as_raw_fd() as u32;
        let result = self.element(BPF_MAP_UPDATE_ELEM, key, Some(&mut value));
        result.map_err(|e| BpfError::of("putting a descriptor into a BPF map", e))
    }

    /// Empties `key`; an empty one stays so.
    ///
    /// # Errors
    /// There is no such key, or no privilege.
    pub fn clear(&self, key: u32) -> Result<(), BpfError> {
        match self.element(BPF_MAP_DELETE_ELEM, key, None) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => {
                Err(BpfError::of("taking a descriptor out of a BPF map", e))
            }
            _ => Ok(()),
        }
    }

    /// The kernel's number of the array.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn id(&self) -> Result<u32, BpfError> {
        Ok(map_info(&self.fd)?.id)
    }

    /// The kernel's number of the program at `key`.
    ///
    /// # Errors
    /// It is no array of programs, there is no such key, or no privilege.
    pub fn program_at(&self, key: u32) -> Result<Option<u32>, BpfError> {
        let mut id = 0;
        match self.element(BPF_MAP_LOOKUP_ELEM, key, Some(&mut id)) {
            Ok(()) => Ok(Some(id)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(BpfError::of("reading an array of programs", e)),
        }
    }

    /// A command without a value wants none.
    fn element(&self, command: libc::c_long, key: u32, value: Option<&mut u32>) -> io::Result<()> {
        let mut attributes = ElementAttributes {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: &raw const key as u64,
            value: value.map_or(0, |value| &raw mut *value as u64),
            flags: 0,
        };
        // SAFETY: the layout is that of the commands for one element; keys and values of the map
        // have 4 bytes each (`check_map` in `from_fd`), and both addresses are valid for as many,
        // `value`, where it is not 0, also for writing.
        let result = unsafe { bpf(command, &mut attributes) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for FdArray {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One more than the highest number of a CPU that the kernel may ever run on: as many values has an
/// array with one for each CPU.
///
/// # Errors
/// The kernel does not say.
pub fn cpu_numbers() -> Result<u32, BpfError> {
    let read = possible_text().and_then(|text| {
        highest_cpu(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
    });
    let highest = read.map_err(|e| BpfError::of("reading the numbers of possible CPUs", e))?;
    Ok(highest + 1)
}

/// The last number of a list, if it is one of a CPU.
pub(super) fn highest_cpu(list: &str) -> Option<u32> {
    let last = list.trim().rsplit([',', '-']).next()?.parse::<u32>().ok();
    last.filter(|&last| (last as usize) < CPUS_MAX)
}

fn possible_text() -> io::Result<String> {
    std::fs::read_to_string("/sys/devices/system/cpu/possible")
}

fn cpus_of_maps() -> Result<usize, BpfError> {
    possible_cpus().map_err(|error| BpfError::of("reading the number of possible CPUs", error))
}

/// CPUs that the kernel has per-CPU memory for: `0-3,8` in sysfs.
fn possible_cpus() -> io::Result<usize> {
    let text = possible_text()?;
    count_cpus(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

pub(super) fn count_cpus(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (1..=CPUS_MAX).contains(&count).then_some(count)
}
