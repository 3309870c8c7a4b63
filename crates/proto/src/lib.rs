#![no_std]
#![forbid(unsafe_code)]
//! What the first bytes of an application message say, read from one payload.
//!
//! Each protocol is one module with the same two questions about the bytes of one TCP segment or
//! UDP datagram, possibly cut:
//!
//! - `looks_like` guesses from a few bytes, so that a protocol is found whatever the port.
//! - `parse` finds the fields and says how sure they are ([`Outcome`]): [`Outcome::Fields`] is
//!   final, [`Outcome::Incomplete`] holds what the bytes so far say, [`Outcome::NotThis`] means
//!   that no bytes to come could make it a message of this protocol.
//!
//! So a longer payload never takes back what a shorter one said: a field is absent, then found,
//! then stays. Two rules follow. A field is given when it cannot change any more (a header's value
//! only when it is seen that its next line does not continue it), and a reader stops at the last
//! field that it looks for: what comes later is neither read nor judged.
//!
//! Fields are slices of the payload. Names that the wire has in pieces are written to a [`Name`]
//! of the caller, which is fixed in size.
//!
//! This crate refuses to allocate (it is built without `std`), to remember anything between
//! payloads, and to repair: what breaks the grammar of its RFC is [`Outcome::NotThis`]. Two things
//! are accepted that the grammars forbid, because all peers accept them: lines that end in LF
//! alone, and bytes above 127 in targets.

mod header_lines;
mod name;
mod outcome;
mod scanner;

pub mod dhcp;
pub mod dns;
pub mod http1;
pub mod quic;
pub mod rtcp;
pub mod rtp;
pub mod sdp;
pub mod sip;
pub mod tls;

pub use dhcp::Dhcp;
pub use dns::Dns;
pub use header_lines::HeaderValue;
pub use http1::Http1;
pub use name::Name;
pub use outcome::{Outcome, Stop};
pub use rtp::Rtp;
pub use sdp::Sdp;
pub use sip::Sip;
pub use tls::ClientHello;
