//! bpf(2), as far as socket filters need it: load a program, count in a per-CPU array, run a
//! program on given bytes, attach to a socket.
//!
//! Layouts as in linux/bpf.h and linux/filter.h. The programs are made at run time from filter
//! expressions, so there is no object file that libbpf could load.

mod attach;

pub use attach::{attach_classic, attach_socket_filter};

use ringside_core::bpf::EbpfInstruction;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use thiserror::Error;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;

/// Longest name of a program or map, with the closing zero (BPF_OBJ_NAME_LEN).
const NAME_BYTES: usize = 16;

/// Room for the verifier's log of a refused program. Its end, which has the reason, is kept.
const LOG_BYTES: usize = 1 << 20;

/// Part of the log that goes into an error: the last lines.
const LOG_SHOWN_BYTES: usize = 600;

/// u64 counters in one value of a [`PerCpuArray`]; one cache line.
const COUNTERS_MAX: usize = 8;

/// CPUs that a machine may have (CONFIG_NR_CPUS is at most 8,192).
const CPUS_MAX: usize = 8_192;

/// Programs run on longer data than a jumbo frame only in tests.
const TEST_DATA_BYTES_MAX: usize = 1 << 20;

/// Why the kernel refused.
#[derive(Debug, Error)]
pub enum BpfError {
    /// Missing privilege.
    #[error(
        "{what}: not permitted; run as root, or give the program CAP_BPF, CAP_PERFMON and \
         CAP_NET_ADMIN (setcap cap_bpf,cap_perfmon,cap_net_admin+ep)"
    )]
    NotPermitted {
        /// What was tried.
        what: &'static str,
    },
    /// The verifier refused the program.
    #[error("the kernel refused the program {name}: {source}; verifier: {log}")]
    Verifier {
        /// Name of the program.
        name: String,
        /// The system's reason.
        source: io::Error,
        /// End of the verifier's log.
        log: String,
    },
    /// Another refusal.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A value that the call cannot carry.
    #[error("{what}: {value}, the limit is {limit}")]
    TooLarge {
        /// Which value.
        what: &'static str,
        /// How large.
        value: usize,
        /// The limit.
        limit: usize,
    },
}

impl BpfError {
    fn last(what: &'static str) -> BpfError {
        BpfError::of(what, io::Error::last_os_error())
    }

    fn of(what: &'static str, source: io::Error) -> BpfError {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => BpfError::NotPermitted { what },
            _ => BpfError::Io { what, source },
        }
    }
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInstruction {
    code: u8,
    /// Destination in the low four bits, source in the high four.
    registers: u8,
    offset: i16,
    imm: i32,
}

/// Start of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
}

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

/// Start of `union bpf_attr` for BPF_MAP_LOOKUP_ELEM.
#[repr(C)]
struct LookupAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Start of `union bpf_attr` for BPF_PROG_TEST_RUN.
#[repr(C)]
struct TestRunAttributes {
    program_fd: u32,
    return_value: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

const _: () = assert!(size_of::<RawInstruction>() == 8);
const _: () = assert!(size_of::<LoadAttributes>() == 64);
const _: () = assert!(size_of::<MapAttributes>() == 44);
const _: () = assert!(size_of::<LookupAttributes>() == 32);
const _: () = assert!(size_of::<TestRunAttributes>() == 80);

/// Calls bpf(2).
///
/// # Safety
/// `attributes` must be laid out as the kernel expects for `command`, and every address in it must
/// be valid for what the command reads and writes there, until the call returns.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> libc::c_long {
    // SAFETY: the pointer and size describe `attributes`, which is exclusively borrowed; the
    // caller answers for the addresses in it.
    unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) }
}

/// Takes a descriptor that the kernel returned.
///
/// # Safety
/// A non-negative `result` must be a descriptor that nothing else owns.
unsafe fn owned(result: libc::c_long, what: &'static str) -> Result<OwnedFd, BpfError> {
    match i32::try_from(result) {
        // SAFETY: the caller says that the descriptor is ours alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(BpfError::last(what)),
    }
}

fn name_bytes(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.bytes().filter(allowed)) {
        *to = from;
    }
    bytes
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramType {
    /// On the frames that a socket receives (BPF_PROG_TYPE_SOCKET_FILTER).
    SocketFilter = 1,
    /// As a tc classifier (BPF_PROG_TYPE_SCHED_CLS); [`Program::test_run`] then shows it the
    /// frame from its link header on.
    SchedCls = 3,
}

/// A loaded program; unloaded when the last user is gone.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// What a test run gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's return value.
    pub return_value: u32,
    /// Mean time of one run, in nanoseconds.
    pub duration_ns: u32,
}

impl Program {
    /// Loads `instructions`; `name` is what `bpftool prog` shows.
    ///
    /// # Errors
    /// No privilege, or the verifier's refusal with the end of its log.
    pub fn load(
        program_type: ProgramType,
        name: &str,
        instructions: &[EbpfInstruction],
    ) -> Result<Program, BpfError> {
        let raw: Vec<RawInstruction> = instructions
            .iter()
            .map(|i| RawInstruction {
                code: i.code,
                registers: i.dst & 0xf | i.src << 4,
                offset: i.offset,
                imm: i.imm,
            })
            .collect();
        match load_raw(program_type, name, &raw, &mut []) {
            Ok(fd) => Ok(Program { fd }),
            Err(error @ BpfError::NotPermitted { .. }) if !may_load() => Err(error),
            Err(_) => {
                // Once more for the reason: writing the log is slow, and is not needed above.
                let mut log = vec![0; LOG_BYTES];
                match load_raw(program_type, name, &raw, &mut log) {
                    Ok(fd) => Ok(Program { fd }),
                    Err(error) => Err(refusal(name, error, &log)),
                }
            }
        }
    }

    /// Runs a program on `data` `repeat` times (BPF_PROG_TEST_RUN); nothing is sent or received.
    /// The kernel wants a link header of 14 bytes and at least one byte behind it.
    ///
    /// # Errors
    /// The kernel's refusal, as EINVAL for data that it cannot take.
    pub fn test_run(&self, data: &[u8], repeat: u32) -> Result<TestRun, BpfError> {
        if data.len() > TEST_DATA_BYTES_MAX {
            let (what, value) = ("data of a test run, in bytes", data.len());
            return Err(BpfError::TooLarge { what, value, limit: TEST_DATA_BYTES_MAX });
        }
        let mut attributes = TestRunAttributes {
            program_fd: self.fd.as_raw_fd() as u32,
            return_value: 0,
            data_size_in: data.len() as u32,
            data_size_out: 0,
            data_in: data.as_ptr() as u64,
            data_out: 0,
            repeat,
            duration_ns: 0,
            context_size_in: 0,
            context_size_out: 0,
            context_in: 0,
            context_out: 0,
            flags: 0,
            cpu: 0,
            batch_size: 0,
            padding: 0,
        };
        // SAFETY: the layout is that of BPF_PROG_TEST_RUN; `data_in` is valid for `data_size_in`
        // bytes, which the kernel only reads; there is no output buffer.
        let result = unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) };
        if result < 0 {
            return Err(BpfError::last("running a program on test data"));
        }
        let TestRunAttributes { return_value, duration_ns, .. } = attributes;
        Ok(TestRun { return_value, duration_ns })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn load_raw(
    program_type: ProgramType,
    name: &str,
    instructions: &[RawInstruction],
    log: &mut [u8],
) -> Result<OwnedFd, BpfError> {
    let mut attributes = LoadAttributes {
        program_type: program_type as u32,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buffer: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name: name_bytes(name),
    };
    // SAFETY: the layout is that of BPF_PROG_LOAD; `instructions` and the license are valid for
    // reads of their counts, and `log` for writes of `log_size` bytes, until the call returns. The
    // descriptor that it gives is new.
    unsafe {
        let result = bpf(BPF_PROG_LOAD, &mut attributes);
        owned(result, "loading a BPF program")
    }
}

fn refusal(name: &str, error: BpfError, log: &[u8]) -> BpfError {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = &text[text.len().saturating_sub(LOG_SHOWN_BYTES)..];
    let log = String::from_utf8_lossy(shown).trim().replace('\n', " | ");
    match error {
        BpfError::Io { source, .. } => BpfError::Verifier { name: name.to_owned(), source, log },
        BpfError::NotPermitted { .. } if !log.is_empty() => BpfError::Verifier {
            name: name.to_owned(),
            source: io::Error::from_raw_os_error(libc::EACCES),
            log,
        },
        other => other,
    }
}

/// True if this process has CAP_BPF or CAP_SYS_ADMIN: then EACCES is the verifier's word.
fn may_load() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_BPF: u64 = 1 << 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (CAP_BPF | CAP_SYS_ADMIN) != 0)
}

/// A per-CPU array (BPF_MAP_TYPE_PERCPU_ARRAY) of one value: some u64 counters.
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
        let mut attributes = MapAttributes {
            map_type: BPF_MAP_TYPE_PERCPU_ARRAY,
            key_size: 4,
            value_size: (counters * size_of::<u64>()) as u32,
            entries_max: 1,
            flags: 0,
            inner_map_fd: 0,
            numa_node: 0,
            name: name_bytes(name),
        };
        // SAFETY: the layout is that of BPF_MAP_CREATE, which has no addresses; the descriptor
        // that it gives is new.
        let fd = unsafe {
            let result = bpf(BPF_MAP_CREATE, &mut attributes);
            owned(result, "creating a BPF map")?
        };
        Ok(PerCpuArray { fd, counters, cpus })
    }

    /// An array that another process made by [`create`](PerCpuArray::create) with so many counters,
    /// by its descriptor.
    ///
    /// # Errors
    /// There are not 1 to 8 counters, or the number of CPUs cannot be read. Whether the descriptor
    /// is such an array's shows at the first reading.
    pub fn from_fd(fd: OwnedFd, counters: usize) -> Result<PerCpuArray, BpfError> {
        PerCpuArray::check(counters)?;
        Ok(PerCpuArray { fd, counters, cpus: cpus_of_maps()? })
    }

    fn check(counters: usize) -> Result<(), BpfError> {
        if counters == 0 || counters > COUNTERS_MAX {
            let what = "counters in a per-CPU array";
            return Err(BpfError::TooLarge { what, value: counters, limit: COUNTERS_MAX });
        }
        Ok(())
    }

    /// The counters, summed over the CPUs. Each is exact once the programs that write it have
    /// stopped, and before that some value that it had.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn sums(&self) -> Result<Vec<u64>, BpfError> {
        let key = 0u32;
        let mut values = vec![0u64; self.counters * self.cpus];
        let mut attributes = LookupAttributes {
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

fn cpus_of_maps() -> Result<usize, BpfError> {
    possible_cpus().map_err(|error| BpfError::of("reading the number of possible CPUs", error))
}

/// CPUs that the kernel has per-CPU memory for: `0-3,8` in sysfs.
fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count_cpus(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

fn count_cpus(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (1..=CPUS_MAX).contains(&count).then_some(count)
}

#[cfg(test)]
mod tests;
