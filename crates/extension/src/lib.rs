#![forbid(unsafe_code)]
//! Analyzers of the user's own: WebAssembly modules and eBPF objects that see packets and make
//! records, within limits.
//!
//! - [`ExtensionObserver`] shows each packet of a stream to an extension, and hands the records
//!   that this makes ([`Found`]) to sinks (crate `logs`). What a module has to export and may
//!   import, and what an object may have, is in docs/extensions.md.
//! - [`limits`] says what an extension may use: fuel for each packet, memory, records. One that
//!   does not come to its end with a packet loses that packet, which is a [`Fault`] and counted;
//!   after [`limits::FAULTS_MAX`] of them it is stopped, and the stream goes on without it.
//! - [`ExtensionLedger`] says that no packet and no record is missing; [`ExtensionStatus`] is what
//!   others may ask meanwhile.
//!
//! - [`trial`] has a child process load an eBPF object first, with limits that libbpf itself lacks.
//!
//! An extension has no clock, no files and no sockets, so that the same packets give the same
//! records. A module is interpreted here (`module`), an object's program is run by the kernel on
//! each packet, and its tables are read at the end (`object`).
//!
//! Nothing that it does may panic here, take longer than its fuel, or take more memory than its
//! own: bytes of modules, records and names come from anybody.

mod abi;
mod error;
mod found;
mod guest;
mod host;
mod ledger;
pub mod limits;
mod module;
mod object;
mod observer;
mod status;
pub mod trial;

pub use error::ExtensionError;
pub use found::{Fields, Found, text};
pub use ledger::{ExtensionLedger, Fault, Refusal};
pub use observer::{ExtensionObserver, read_extension};
pub use status::ExtensionStatus;
