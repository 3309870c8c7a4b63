#![forbid(unsafe_code)]
//! TCP streams and fragmented IP packets put together again, in bounded memory.
//!
//! - [`Segment`] is what streams need of a frame.
//! - [`Streams`] follows connections and hands a [`Handler`] what each direction said: [`Event`]s
//!   in the order of the stream. What comes in order is handed on in place, without a copy; what is
//!   ahead is kept, up to [`Limits`], and what never comes is a [`Event::Gap`] with its [`Cause`].
//! - [`Defragmenter`] makes one packet of its fragments.
//! - [`Transport`] is both of them: it takes frames, and a handler that wants them gets UDP's
//!   [`Datagram`]s too.
//! - [`StreamLedger`] says where every segment and every byte went.
//!
//! The events depend on the bytes and on what was lost of them, not on how they were cut into
//! segments or in which order these came, within what the limits allow. Time is that of the
//! packets. There is no clock here, no I/O, and no protocol above TCP and UDP.
//!
//! It refuses to look at checksums (cards fill them in after a capture of what is sent), and to
//! guess which of two answers a host took: that is an [`Overlap`] that one chooses.

mod connection;
mod datagram;
mod dues;
mod event;
mod fragments;
mod held;
mod ledger;
mod limits;
mod opening;
mod segment;
mod side;
mod streams;
mod transport;

pub use datagram::Datagram;
pub use event::{At, Cause, Closing, Event, Handler};
pub use fragments::{Defragmenter, FragmentLedger};
pub use ledger::StreamLedger;
pub use limits::{Limits, Overlap};
pub use segment::{Place, Segment};
pub use streams::Streams;
pub use transport::{Carried, Transport};
