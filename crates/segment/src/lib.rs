#![forbid(unsafe_code)]
//! Segmentation: one header stack and a large payload, cut into frames that a link takes.
//!
//! - [`Template`] is the header stack, read and checked from bytes: of a file, of the command line,
//!   or of a received frame that is too long for the next link.
//! - [`Segmenter`] is a template with the sizes of a link; it is made once for a stream.
//! - [`SegPlan`] says how one buffer is cut: segments of TCP, datagrams of UDP, or IP fragments.
//! - [`Segment`] writes the headers of one frame into a slot of their own. The payload stays
//!   where it is, in one or many [`Pieces`], and is read only if its checksum is asked for here; so
//!   one plan serves chains of descriptors, vectors for sendmsg(2), and copies
//!   ([`Segment::write_linear`]).
//!
//! What changes from frame to frame follows Linux (`inet_gso_segment`, `ipv6_gso_segment`,
//! `tcp_gso_segment`, `__udp_gso_segment`, and the fragments of `udp4_ufo_fragment`), so that it
//! makes no difference whether a frame was cut here or there: lengths of every header, IPv4 ids
//! that count up, the TCP sequence number, CWR on the first segment alone, FIN and PSH on the last
//! alone, and every checksum, those of tunnels too. An outer checksum needs no look at the payload:
//! over a packet whose own checksum is right the sum is known (local checksum offload, kernel
//! document networking/checksum-offloads.rst).
//!
//! This crate sends nothing and holds no payload. It refuses what must not be cut: a packet that is
//! a fragment, a SYN, signed options, numbered tunnel packets ([`TemplateError`],
//! [`SegmentError`]).

mod error;
mod field;
mod fragment;
mod pieces;
mod plan;
mod segmenter;
mod template;
mod write;

pub use error::{SegmentError, TemplateError};
pub use pieces::{Part, Pieces};
pub use plan::{Position, SegPlan, Segment};
pub use segmenter::{Cut, Cwr, Ids, MTU_BYTES_MAX, Segmenter, Settings};
pub use template::{HEADER_BYTES_MAX, Template};
pub use write::{Checksum, LinearChecksum, Offload, Written};
