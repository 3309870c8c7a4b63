//! A filter on a packet socket that counts what it sees and what it accepts.
//!
//! The kernel counts nowhere what a classic filter rejects, so a ledger could not say how many
//! frames were filtered. The translated program counts in a per-CPU array of its own; each lane
//! has one program and one array, so that its numbers are its own.
//!
//! Behind the filter may stand a pre-filter: it turns away, of what the filter accepts, what others
//! would turn away later, and is switched off when they think otherwise.

use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, EbpfInstruction, Instruction};
use ringside_filter::{FilterError, Second, Target, TranslateOptions, translate, translate_two};
use ringside_sys::bpf::{
    BpfError, MapWord, PerCpuArray, Program, ProgramType, attach_socket_filter,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use thiserror::Error;

/// Name in `bpftool prog` and `bpftool map`.
const NAME: &str = "ringside_filter";

/// Counters of a filter: seen, accepted, and of these turned away by the pre-filter, frames and
/// bytes.
const COUNTERS: usize = 4;

/// Name of the pre-filter's switch.
const SWITCH_NAME: &str = "ringside_switch";

/// Why a socket filter could not be used.
#[derive(Debug, Error)]
pub enum SocketFilterError {
    /// The program cannot be translated.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The kernel refused it.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program is larger than a socket may hold (sk_filter_charge of net/core/filter.c).
    #[error(
        "the filter has {bytes} bytes as eBPF and a socket may hold {limit}; shorten it, or raise \
         the limit: `sysctl net.core.optmem_max={}`",
        bytes * 2
    )]
    TooLongForSocket {
        /// Length of the code, in bytes.
        bytes: u64,
        /// What a socket may hold, in bytes.
        limit: u64,
    },
    /// No socket to try it on.
    #[error("trying the filter on a socket: {0}")]
    Socket(#[source] std::io::Error),
}

/// Bytes of one instruction of eBPF.
const INSTRUCTION_BYTES: u64 = 8;

/// What the filter and other options of one socket may take, in the calling thread's namespace.
/// Without a limit that can be read the kernel has the word.
fn socket_bytes_max() -> u64 {
    let limit = std::fs::read_to_string("/proc/sys/net/core/optmem_max");
    limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// What the filter has counted since it was loaded, over all sockets that it is attached to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounters {
    /// Frames that it was run on.
    pub seen: u64,
    /// Frames that it let through, to the pre-filter where there is one; the socket may still have
    /// dropped some for want of room.
    pub accepted: u64,
    /// Of these, frames that the pre-filter turned away.
    pub turned_away: u64,
    /// Their bytes on the wire.
    pub turned_away_bytes: u64,
}

/// A loaded filter with its counters.
///
/// It stays attached to its sockets when this is dropped, but can then no longer be read.
#[derive(Debug)]
pub struct SocketFilter {
    program: Program,
    meter: FilterMeter,
}

/// The counters of a filter, which outlive it. Clones are the same.
#[derive(Clone, Debug)]
pub struct FilterMeter(Arc<PerCpuArray>);

/// Switches pre-filters on and off while their sockets receive. Clones are the same; one may be of
/// several filters.
#[derive(Clone, Debug)]
pub struct Switch(Arc<MapWord>);

/// What is asked about frames that a filter accepts.
#[derive(Clone, Copy, Debug)]
pub struct Behind<'p> {
    /// Turns away by returning 0; anything else accepts, and cuts nothing.
    pub program: &'p ClassicProgram,
    /// Whether it is asked.
    pub switch: &'p Switch,
}

impl Switch {
    /// A switch that is on.
    ///
    /// # Errors
    /// The kernel's refusal, as without privilege.
    pub fn new() -> Result<Switch, SocketFilterError> {
        let switch = Switch(Arc::new(MapWord::create(SWITCH_NAME)?));
        switch.set(true)?;
        Ok(switch)
    }

    /// Frames that are received after the return are asked about, or not. Needs no privilege from
    /// Linux 5.19 on.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set(&self, is_on: bool) -> Result<(), SocketFilterError> {
        Ok(self.0.set(is_on.into())?)
    }
}

impl FilterMeter {
    /// What was counted so far; exact once no frame is under way to the sockets.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&self) -> Result<FilterCounters, SocketFilterError> {
        Ok(FilterCounters::from_sums(&self.0.sums()?))
    }
}

impl SocketFilter {
    /// Translates and loads `program` for frames of `link_type`, and tries it on a socket, which
    /// may not hold as much as the kernel loads. Accepted frames are cut so that
    /// they have at most `snaplen_bytes` bytes (0: no limit) once the VLAN tag is put back; see
    /// [`TranslateOptions::snaplen_bytes`].
    ///
    /// # Errors
    /// The program is too long, or the kernel refuses it, as without privilege.
    pub fn load(
        program: &ClassicProgram,
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        let socket = ProgramType::SocketFilter;
        SocketFilter::load_as(socket, program, None, link_type, snaplen_bytes)
    }

    /// As [`load`](SocketFilter::load), with a pre-filter behind.
    ///
    /// # Errors
    /// As [`load`](SocketFilter::load).
    pub fn load_before(
        program: &ClassicProgram,
        behind: Behind<'_>,
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        let socket = ProgramType::SocketFilter;
        SocketFilter::load_as(socket, program, Some(behind), link_type, snaplen_bytes)
    }

    /// A program that accepts every frame.
    pub fn accept_all() -> ClassicProgram {
        let accept = Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: u32::MAX };
        ClassicProgram { instructions: vec![accept] }
    }

    /// A filter that accepts every frame: only counts, and cuts to `snaplen_bytes`.
    ///
    /// # Errors
    /// As [`load`](SocketFilter::load).
    pub fn load_accept_all(
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        SocketFilter::load(&SocketFilter::accept_all(), link_type, snaplen_bytes)
    }

    /// As [`load`](SocketFilter::load), as another type of program: the kernel shows a test run of
    /// a classifier the frame from its link header on, that of a socket filter does not.
    ///
    /// # Errors
    /// As [`load`](SocketFilter::load).
    pub fn load_as(
        program_type: ProgramType,
        program: &ClassicProgram,
        behind: Option<Behind<'_>>,
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        let counters = PerCpuArray::create(NAME, COUNTERS)?;
        let map_fd = counters.as_fd().as_raw_fd();
        let (target, counters_fd) = (Target::Socket, Some(map_fd));
        let options = TranslateOptions { target, link_type, snaplen_bytes, counters: counters_fd };
        let code: Vec<EbpfInstruction> = match behind {
            None => translate(program, &options)?,
            Some(Behind { program: behind, switch }) => {
                let switch = switch.0.as_fd().as_raw_fd();
                translate_two(program, &Second { program: behind, switch }, &options)?
            }
        };
        let (bytes, limit) = (code.len() as u64 * INSTRUCTION_BYTES, socket_bytes_max());
        let for_socket = program_type == ProgramType::SocketFilter;
        // Before the kernel verifies it, which takes seconds at such a length.
        if for_socket && bytes >= limit {
            return Err(SocketFilterError::TooLongForSocket { bytes, limit });
        }
        let program = Program::load(program_type, NAME, &code)?;
        let filter = SocketFilter { program, meter: FilterMeter(Arc::new(counters)) };
        if for_socket {
            // The verifier makes it longer, so that the limit may be met only now.
            filter.attach(&UnixDatagram::unbound().map_err(SocketFilterError::Socket)?)?;
        }
        Ok(filter)
    }

    /// Attaches the filter to a socket, in place of an earlier one.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&self, socket: &impl AsFd) -> Result<(), SocketFilterError> {
        Ok(attach_socket_filter(socket.as_fd(), &self.program)?)
    }

    /// What was counted so far; exact once no frame is under way to the sockets.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<FilterCounters, SocketFilterError> {
        self.meter.read()
    }

    /// What reads the counters also when the filter is dropped.
    pub fn meter(&self) -> &FilterMeter {
        &self.meter
    }

    /// The map of the counters, for [`FilterCounters::read`] in another process.
    pub fn counters_fd(&self) -> BorrowedFd<'_> {
        self.meter.0.as_fd()
    }

    /// The loaded program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl FilterCounters {
    /// The counters of a filter's map, from outside: the process that loaded it may have died.
    ///
    /// # Errors
    /// The descriptor is not that of such a map, or the kernel's refusal.
    pub fn read(map: OwnedFd) -> Result<FilterCounters, SocketFilterError> {
        Ok(FilterCounters::from_sums(&PerCpuArray::from_fd(map, COUNTERS)?.sums()?))
    }

    fn from_sums(sums: &[u64]) -> FilterCounters {
        match *sums {
            [seen, accepted, turned_away, turned_away_bytes] => {
                FilterCounters { seen, accepted, turned_away, turned_away_bytes }
            }
            _ => FilterCounters::default(),
        }
    }
}
