//! bpf(2), as far as filters need it: load a program, count in a per-CPU array, run a program on
//! given bytes, attach to a socket, or by a link to an interface.
//!
//! Layouts as in linux/bpf.h and linux/filter.h. The programs are made at run time from filter
//! expressions, so there is no object file that libbpf could load.

mod arrays;
mod attach;
mod link;
mod memory;
mod pin;
mod probe;
mod word;

pub use arrays::{FdArray, PerCpuArray, cpu_numbers};
pub use attach::{approximate_because, attach_classic, attach_socket_filter, wait_until_left};
pub use link::{LinkInfo, XdpMode, attach_tcx, attach_xdp, detach_link, link_by_id, link_info};
pub use memory::ArrayMemory;
pub use pin::{is_bpf_fs, pin, pinned};
pub use probe::{may_use_trampolines, program_name, try_xdp};
pub use word::MapWord;

use ringside_core::bpf::EbpfInstruction;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use thiserror::Error;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
/// Longest name of a program or map, with the closing zero (BPF_OBJ_NAME_LEN).
const NAME_BYTES: usize = 16;

/// Room for the verifier's log of a refused program. Its end, which has the reason, is kept.
const LOG_BYTES: usize = 1 << 20;

/// How often a program is loaded again: the verifier gives up with EAGAIN when a signal is pending,
/// also where the process is only stopped for a moment.
const LOAD_TRIES_MAX: u32 = 8;

/// Part of the log that goes into an error: the last lines.
const LOG_SHOWN_BYTES: usize = 600;

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
        /// Name of the value.
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

    /// The system's reason alone, for who decides by it.
    fn into_io(self) -> io::Error {
        match self {
            BpfError::Io { source, .. } | BpfError::Verifier { source, .. } => source,
            BpfError::NotPermitted { .. } => io::Error::from_raw_os_error(libc::EPERM),
            BpfError::TooLarge { .. } => io::Error::from_raw_os_error(libc::E2BIG),
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
    ifindex: u32,
    expected_attach_type: u32,
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

/// `union bpf_attr` for BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct InfoAttributes {
    fd: u32,
    info_bytes: u32,
    info: u64,
}

/// `struct xdp_md`; for a test run, `data` and `data_end` are offsets in the input.
#[repr(C)]
#[derive(Default)]
struct XdpContext {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

const _: () = assert!(size_of::<RawInstruction>() == 8);
const _: () = assert!(size_of::<XdpContext>() == 24);
const _: () = assert!(size_of::<LoadAttributes>() == 72);
const _: () = assert!(size_of::<TestRunAttributes>() == 80);
const _: () = assert!(size_of::<InfoAttributes>() == 16);

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

/// What the kernel says of an object, as far as `T` goes.
///
/// # Safety
/// Any bytes must be a value of `T`, and its default must be all 0, which asks for nothing to be
/// written elsewhere.
unsafe fn object_info<T: Default>(
    object: BorrowedFd<'_>,
    what: &'static str,
) -> Result<T, BpfError> {
    let mut info = T::default();
    let mut attributes = InfoAttributes {
        fd: object.as_raw_fd() as u32,
        info_bytes: size_of::<T>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the layout is that of BPF_OBJ_GET_INFO_BY_FD; `info` is valid for writes of
    // `info_bytes`, and the kernel writes at most as many, whatever object the descriptor is of;
    // the caller answers for what they then are.
    let result = unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) };
    if result < 0 { Err(BpfError::last(what)) } else { Ok(info) }
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
    /// On the frames of an interface, before the kernel makes socket buffers of them, also frames
    /// in several pieces (BPF_PROG_TYPE_XDP, BPF_F_XDP_HAS_FRAGS; Linux 5.18).
    Xdp = 6,
}

/// BPF_F_XDP_HAS_FRAGS.
const XDP_HAS_FRAGS: u32 = 1 << 5;

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
            Err(error) => {
                // Once more for the reason: writing the log is slow, and is not needed above. This
                // time the kernel may only say that the log is too long.
                let mut log = vec![0; LOG_BYTES];
                match load_raw(program_type, name, &raw, &mut log) {
                    Ok(fd) => Ok(Program { fd }),
                    Err(_) => Err(refusal(name, error, &log)),
                }
            }
        }
    }

    /// As [`test_run`]: the output is not looked at.
    ///
    /// # Errors
    /// As [`test_run`].
    pub fn test_run(&self, data: &[u8], repeat: u32) -> Result<TestRun, BpfError> {
        test_run(self.fd.as_fd(), data, repeat, &mut []).map(|(run, _)| run)
    }
}

/// Runs a program on `data` `repeat` times (BPF_PROG_TEST_RUN); nothing is sent or received. The
/// kernel wants a link header of 14 bytes and at least one byte behind it. Puts into `output`,
/// unless it is empty, the frame as the last run left it, with the metadata in front of it if it
/// is XDP, and says how long that is.
///
/// # Errors
/// The kernel's refusal, as EINVAL for data that it cannot take and ENOSPC for too short an
/// output.
pub fn test_run(
    program: BorrowedFd<'_>,
    data: &[u8],
    repeat: u32,
    output: &mut [u8],
) -> Result<(TestRun, usize), BpfError> {
    run(program, data, None, repeat, output)
}

/// As [`test_run`] for an XDP program, with `metadata` of a multiple of 4 bytes before `frame`.
///
/// # Errors
/// As [`test_run`]; the kernel takes 32 bytes of metadata, or 252.
pub fn test_run_xdp(
    program: BorrowedFd<'_>,
    metadata: &[u8],
    frame: &[u8],
    repeat: u32,
    output: &mut [u8],
) -> Result<(TestRun, usize), BpfError> {
    let data = [metadata, frame].concat();
    test_run_xdp_behind(program, metadata.len(), &data, repeat, output)
}

/// As [`test_run_xdp`], with the first `metadata_bytes` of `data` as the metadata.
///
/// # Errors
/// As [`test_run_xdp`].
pub fn test_run_xdp_behind(
    program: BorrowedFd<'_>,
    metadata_bytes: usize,
    data: &[u8],
    repeat: u32,
    output: &mut [u8],
) -> Result<(TestRun, usize), BpfError> {
    let context = XdpContext {
        data: metadata_bytes as u32,
        data_end: data.len() as u32,
        ..XdpContext::default()
    };
    run(program, data, Some(&context), repeat, output)
}

/// As [`test_run`] once for an XDP program, as if `frame` had been received by interface `ifindex`
/// of the calling thread's network namespace.
///
/// # Errors
/// As [`test_run`]; the kernel takes an interface with a program inside its driver.
pub fn test_run_xdp_at(
    program: BorrowedFd<'_>,
    ifindex: u32,
    frame: &[u8],
) -> Result<TestRun, BpfError> {
    let data_end = frame.len() as u32;
    let context = XdpContext { data_end, ingress_ifindex: ifindex, ..XdpContext::default() };
    run(program, frame, Some(&context), 1, &mut []).map(|(run, _)| run)
}

fn run(
    program: BorrowedFd<'_>,
    data: &[u8],
    context: Option<&XdpContext>,
    repeat: u32,
    output: &mut [u8],
) -> Result<(TestRun, usize), BpfError> {
    if data.len() > TEST_DATA_BYTES_MAX {
        let (what, value) = ("data of a test run, in bytes", data.len());
        return Err(BpfError::TooLarge { what, value, limit: TEST_DATA_BYTES_MAX });
    }
    let mut attributes = TestRunAttributes {
        program_fd: program.as_raw_fd() as u32,
        return_value: 0,
        data_size_in: data.len() as u32,
        data_size_out: u32::try_from(output.len()).unwrap_or(u32::MAX),
        data_in: data.as_ptr() as u64,
        data_out: if output.is_empty() { 0 } else { output.as_mut_ptr() as u64 },
        repeat,
        duration_ns: 0,
        context_size_in: context.map_or(0, |_| size_of::<XdpContext>() as u32),
        context_size_out: 0,
        context_in: context.map_or(0, |context| &raw const *context as u64),
        context_out: 0,
        flags: 0,
        cpu: 0,
        batch_size: 0,
        padding: 0,
    };
    // SAFETY: the layout is that of BPF_PROG_TEST_RUN; `data_in` is valid for `data_size_in`
    // bytes and `context_in`, where it is not 0, for `context_size_in`, both of which the kernel
    // only reads; `data_out`, where it is not 0, for writes of
    // `data_size_out` bytes.
    let result = unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) };
    if result < 0 {
        return Err(BpfError::last("running a program on test data"));
    }
    let TestRunAttributes { return_value, duration_ns, data_size_out, .. } = attributes;
    Ok((TestRun { return_value, duration_ns }, data_size_out as usize))
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
    let mut attributes = load_attributes(program_type as u32, name, instructions, log);
    if program_type == ProgramType::Xdp {
        attributes.flags = XDP_HAS_FRAGS;
        attributes.expected_attach_type = link::ATTACH_TYPE_XDP;
    }
    for _ in 0..LOAD_TRIES_MAX {
        // SAFETY: the layout is that of BPF_PROG_LOAD; `instructions` and the license are valid for
        // reads of their counts, and `log` for writes of `log_size` bytes, until the call returns.
        // The descriptor that it gives is new.
        let loaded = unsafe {
            let result = bpf(BPF_PROG_LOAD, &mut attributes);
            owned(result, "loading a BPF program")
        };
        match loaded {
            Err(BpfError::Io { source, .. }) if source.raw_os_error() == Some(libc::EAGAIN) => {}
            other => return other,
        }
    }
    Err(BpfError::of("loading a BPF program", io::Error::from_raw_os_error(libc::EAGAIN)))
}

/// The attributes of BPF_PROG_LOAD. The addresses in it are those of `instructions` and `log`.
fn load_attributes(
    program_type: u32,
    name: &str,
    instructions: &[RawInstruction],
    log: &mut [u8],
) -> LoadAttributes {
    LoadAttributes {
        program_type,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buffer: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name: name_bytes(name),
        ifindex: 0,
        expected_attach_type: 0,
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

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
