#![forbid(unsafe_code)]
//! TLS handshakes over TCP: one record a connection.
//!
//! - [`TlsObserver`] sees every frame of a stream, finds connections that begin with a ClientHello
//!   on whatever port, reads what is not encrypted of their handshakes, and hands each
//!   [`Handshake`] to sinks once it is over. Every one says how it ended ([`Ending`]).
//! - [`fingerprint`] has JA3, JA3S and JA4 by their published rules.
//! - [`text`] is a handshake as a line for people; other formats come from its columns (crate
//!   `record`).
//! - [`TlsLedger`] says that no byte and no handshake is missing; [`TlsStatus`] is what others may
//!   ask meanwhile.
//!
//! Nothing is decrypted. Memory is bounded. There is no clock here and no socket.

mod certificate;
mod conversation;
pub mod fingerprint;
mod handshake;
mod ledger;
mod limits;
mod names;
mod observer;
mod records;
mod status;
mod text;
mod words;

pub use certificate::Certificate;
pub use handshake::{ClientSide, Ending, Endpoint, Handshake, ServerSide};
pub use ledger::TlsLedger;
pub use observer::TlsObserver;
pub use status::TlsStatus;
pub use text::text;
