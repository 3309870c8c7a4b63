//! A filter on a packet socket that counts what it sees and what it accepts.
//!
//! The kernel counts nowhere what a classic filter rejects, so a ledger could not say how many
//! frames were filtered. The translated program counts in a per-CPU array of its own; each lane
//! has one program and one array, so that its numbers are its own.

use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, EbpfInstruction, Instruction};
use ringside_filter::{FilterError, TranslateOptions, translate};
use ringside_sys::bpf::{BpfError, PerCpuArray, Program, ProgramType, attach_socket_filter};
use std::os::fd::{AsFd, AsRawFd};
use thiserror::Error;

/// Name in `bpftool prog` and `bpftool map`.
const NAME: &str = "ringside_filter";

/// Why a socket filter could not be used.
#[derive(Debug, Error)]
pub enum SocketFilterError {
    /// The program cannot be translated.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The kernel refused it.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// What the filter has counted since it was loaded, over all sockets that it is attached to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounters {
    /// Frames that it was run on.
    pub seen: u64,
    /// Frames that it let through; the socket may still have dropped some for want of room.
    pub accepted: u64,
}

/// A loaded filter with its counters.
///
/// It stays attached to its sockets when this is dropped, but can then no longer be read.
#[derive(Debug)]
pub struct SocketFilter {
    program: Program,
    counters: PerCpuArray,
}

impl SocketFilter {
    /// Translates and loads `program` for frames of `link_type`. Accepted frames are cut so that
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
        SocketFilter::load_as(ProgramType::SocketFilter, program, link_type, snaplen_bytes)
    }

    /// A filter that accepts every frame: only counts, and cuts to `snaplen_bytes`.
    ///
    /// # Errors
    /// As [`load`](SocketFilter::load).
    pub fn load_accept_all(
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        let accept = Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: u32::MAX };
        let program = ClassicProgram { instructions: vec![accept] };
        SocketFilter::load(&program, link_type, snaplen_bytes)
    }

    /// As [`load`](SocketFilter::load), as another type of program: the kernel shows a test run of
    /// a classifier the frame from its link header on, that of a socket filter does not.
    ///
    /// # Errors
    /// As [`load`](SocketFilter::load).
    pub fn load_as(
        program_type: ProgramType,
        program: &ClassicProgram,
        link_type: LinkType,
        snaplen_bytes: u32,
    ) -> Result<SocketFilter, SocketFilterError> {
        let counters = PerCpuArray::create(NAME, 2)?;
        let map_fd = counters.as_fd().as_raw_fd();
        let options = TranslateOptions { link_type, snaplen_bytes, counters: Some(map_fd) };
        let code: Vec<EbpfInstruction> = translate(program, &options)?;
        let program = Program::load(program_type, NAME, &code)?;
        Ok(SocketFilter { program, counters })
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
        let sums = self.counters.sums()?;
        Ok(match sums[..] {
            [seen, accepted] => FilterCounters { seen, accepted },
            _ => FilterCounters::default(),
        })
    }

    /// The loaded program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}
