//! An extension that was loaded, and its calls: a module that is interpreted here, or an object
//! that the kernel runs.

use crate::host::Host;
use crate::ledger::Faulted;
use crate::limits::{OBJECT_PACKET_BYTES_MAX, PACKET_BYTES_MAX};
use crate::module::ModuleGuest;
use crate::object::ObjectGuest;
use crate::{ExtensionError, Found};
use ringside_inspect::{DissectedFrame, Received};
use ringside_logs::Sinks;
use std::sync::Arc;

/// An extension, ready for packets.
pub(crate) enum Guest {
    Module(Box<ModuleGuest>),
    Object(Box<ObjectGuest>),
}

/// What files of eBPF objects begin with: they are ELF.
const ELF: &[u8] = b"\x7fELF";

/// True for a file that is an eBPF object, if it is an extension at all.
pub(crate) fn is_object(file: &[u8]) -> bool {
    file.starts_with(ELF)
}

impl Guest {
    /// Loads the file of an extension and starts it.
    pub(crate) fn new(
        name: Arc<str>,
        file: &[u8],
        sinks: Sinks<'static, Found>,
    ) -> Result<Guest, ExtensionError> {
        Ok(if is_object(file) {
            Guest::Object(Box::new(ObjectGuest::new(name, file, sinks)?))
        } else {
            Guest::Module(Box::new(ModuleGuest::new(name, file, sinks)?))
        })
    }

    pub(crate) fn host(&self) -> &Host {
        match self {
            Guest::Module(module) => module.host(),
            Guest::Object(object) => object.host(),
        }
    }

    pub(crate) fn host_mut(&mut self) -> &mut Host {
        match self {
            Guest::Module(module) => module.host_mut(),
            Guest::Object(object) => object.host_mut(),
        }
    }

    /// Bytes of a packet that it gets.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        match self {
            Guest::Module(_) => PACKET_BYTES_MAX,
            Guest::Object(_) => OBJECT_PACKET_BYTES_MAX,
        }
    }

    /// Bytes of its memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Guest::Module(module) => module.memory_bytes(),
            Guest::Object(object) => object.memory_bytes(),
        }
    }

    /// Shows it a packet.
    pub(crate) fn see(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Result<(), Faulted> {
        match self {
            Guest::Module(module) => module.see(frame, received),
            Guest::Object(object) => object.see(frame, received),
        }
    }

    /// There are no more packets.
    pub(crate) fn end(&mut self) -> Result<(), Faulted> {
        match self {
            Guest::Module(module) => module.end(),
            Guest::Object(object) => object.end(),
        }
    }
}
