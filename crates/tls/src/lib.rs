#![forbid(unsafe_code)]
//! TLS handshakes over TCP and QUIC: one record a connection.
//!
//! - [`TlsObserver`] sees every frame of a stream, finds connections that begin with a ClientHello
//!   on whatever port, reads what is not encrypted of their handshakes, and hands each
//!   [`Handshake`] to sinks once it is over. Every one says how it ended ([`Ending`]).
//! - [`fingerprint`] has JA3, JA3S and JA4 by their published rules.
//! - [`text`] is a handshake as a line for people; other formats come from its columns (crate
//!   `record`).
//! - [`TlsLedger`] and [`QuicLedger`] say that no byte, no datagram and no handshake is missing;
//!   [`TlsStatus`] is what others may ask meanwhile.
//!
//! Nothing is decrypted but Initial packets of QUIC, whose keys are made of what lies open in them,
//! and nothing is verified. Memory is bounded. There is no clock here and no socket.

mod certificate;
mod conversation;
pub mod fingerprint;
mod handshake;
mod ledger;
mod limits;
mod messages;
mod names;
mod observer;
mod quic;
mod records;
mod shared;
mod status;
mod text;
mod words;

pub use certificate::Certificate;
pub use handshake::{ClientSide, Ending, Endpoint, Handshake, ServerSide};
pub use ledger::TlsLedger;
pub use observer::TlsObserver;
pub use quic::QuicLedger;
pub use ringside_proto::quic::Version as QuicVersion;
pub use status::TlsStatus;
pub use text::text;
