//! An object that somebody else made: one XDP program, which is run on packets here and attached
//! to nothing, and its tables.
//!
//! The kernel's verifier says that a run ends and reads nothing but the packet, its stack and its
//! tables. What the verifier leaves open is refused before the first run: tables without bound,
//! helpers that loop or act on the machine, and maps that others have pinned ([`ObjectError`]).

mod checks;
mod error;
mod tables;

use crate::Error;
use crate::load::{listen, said};
pub use error::ObjectError;
use libbpf_rs::{Object, ObjectBuilder, OpenObject};
use ringside_sys::bpf;
use std::os::fd::{AsFd, OwnedFd};
pub use tables::{Cell, Table};

/// What the program is called: it takes packets as the first version of the interface has them.
pub const PROGRAM: &str = "ringside_packet";

/// Where libbpf would pin what an object wants pinned, or find what others pinned: nowhere, so
/// that such objects are refused.
const NO_PINS: &str = "/dev/null/pins";

/// What an object may have.
#[derive(Clone, Copy, Debug)]
pub struct ObjectLimits {
    /// Maps, those of its variables included.
    pub maps: usize,
    /// Bytes of all of them.
    pub memory_bytes: u64,
    /// Entries of all tables that are shown.
    pub rows: u64,
    /// Fields of a row.
    pub fields: usize,
}

/// A loaded object of somebody else.
pub struct UserObject {
    program: OwnedFd,
    tables: Vec<Table>,
    memory_bytes: u64,
}

impl UserObject {
    /// Loads it into the kernel.
    ///
    /// # Errors
    /// It is no eBPF object, passes a limit, could do more than look at packets, or the kernel
    /// refuses it.
    pub fn load(elf: &[u8], limits: &ObjectLimits) -> Result<UserObject, ObjectError> {
        listen();
        let open = opened(elf)?;
        let memory_bytes = checks::before_load(&open, limits)?;
        let object = open.load().map_err(|source| ObjectError::Refused { said: said(), source })?;
        UserObject::loaded(&object, memory_bytes, limits)
    }

    fn loaded(
        object: &Object,
        memory_bytes: u64,
        limits: &ObjectLimits,
    ) -> Result<UserObject, ObjectError> {
        let program = object.progs().next().ok_or(ObjectError::Programs(0))?;
        checks::instructions(program.insns())?;
        let tables = tables::shown(object, limits)?;
        let program = program.as_fd().try_clone_to_owned().map_err(ObjectError::Descriptor)?;
        Ok(UserObject { program, tables, memory_bytes })
    }

    /// Runs the program on a frame with `metadata_bytes` in front of it; what it returned.
    ///
    /// # Errors
    /// The kernel did not run it.
    pub fn run(&self, data: &[u8], metadata_bytes: usize) -> Result<u32, Error> {
        let fd = self.program.as_fd();
        let (run, _) = bpf::test_run_xdp_behind(fd, metadata_bytes, data, 1, &mut [])?;
        Ok(run.return_value)
    }

    /// The tables that are shown.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Bytes of all its maps.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

fn opened(elf: &[u8]) -> Result<OpenObject, ObjectError> {
    let none = |error: libbpf_rs::Error| {
        let said = said();
        ObjectError::NoObject(if said.is_empty() { format!(" ({error})") } else { said })
    };
    let mut builder = ObjectBuilder::default();
    builder.name("extension").and_then(|named| named.pin_root_path(NO_PINS)).map_err(none)?;
    builder.open_memory(elf).map_err(none)
}
