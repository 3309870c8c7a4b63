//! Why a header stack or a payload cannot be cut into frames.

use crate::{HEADER_BYTES_MAX, MTU_BYTES_MAX};
use ringside_wire::LayerKind;
use thiserror::Error;

/// Why bytes are no header stack that can be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// More headers than a slot has room for.
    #[error("{bytes} bytes of headers; at most {HEADER_BYTES_MAX} are taken")]
    TooLong {
        /// Bytes of the headers.
        bytes: usize,
    },
    /// The bytes end within a header.
    #[error("{bytes} bytes end within the {header} header; give the whole header")]
    Truncated {
        /// Kind of the header.
        header: LayerKind,
        /// Bytes that were there.
        bytes: usize,
    },
    /// A header contradicts itself, or its length the headers in it or around it.
    #[error("the {header} header contradicts itself or the lengths of the headers around it")]
    Malformed {
        /// Kind of the header.
        header: LayerKind,
    },
    /// A header that cannot be repeated on each frame.
    #[error(
        "a {header} header cannot be segmented; Ethernet, tags, MPLS, IPv4, IPv6, GRE, VXLAN, \
         Geneve, TCP and UDP can"
    )]
    Unsupported {
        /// Kind of the header.
        header: LayerKind,
    },
    /// The headers end before TCP or UDP.
    #[error("no TCP or UDP header at the end of {bytes} bytes")]
    NoTransport {
        /// Bytes that were there.
        bytes: usize,
    },
    /// A fragment of a packet.
    #[error("the {header} header is that of a fragment; segment the whole packet")]
    Fragment {
        /// Kind of the header that says so.
        header: LayerKind,
    },
    /// A packet with a jumbo payload option, whose length stands in no field that is rewritten.
    #[error("the packet has a jumbo payload option (RFC 2675); remove the option")]
    Jumbo,
    /// Bytes follow the headers.
    #[error("{bytes} bytes follow the headers; a template is headers alone")]
    Trailing {
        /// Bytes behind the headers.
        bytes: usize,
    },
    /// The frame is shorter than a header says.
    #[error("the frame was cut: {missing} bytes of its {header} packet are missing")]
    Cut {
        /// Kind of the header.
        header: LayerKind,
        /// Bytes that are not there.
        missing: usize,
    },
}

/// Why a payload is not cut, or a header not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// An MTU that no packet can have.
    #[error("the MTU is {mtu_bytes} bytes; the limit is {MTU_BYTES_MAX}")]
    Mtu {
        /// As it was given.
        mtu_bytes: usize,
    },
    /// The headers leave no room.
    #[error("the MTU is {mtu_bytes} bytes, the headers alone take {header_bytes}; raise it")]
    NoRoom {
        /// The MTU.
        mtu_bytes: usize,
        /// Bytes of the headers that count against it.
        header_bytes: usize,
    },
    /// A segment size of 0, or more than the MTU has room for.
    #[error("the MSS is {mss_bytes} bytes; the MTU allows {mss_bytes_min} to {mss_bytes_max}")]
    Mss {
        /// As it was given.
        mss_bytes: usize,
        /// The smallest MSS.
        mss_bytes_min: usize,
        /// The largest MSS.
        mss_bytes_max: usize,
    },
    /// Fragments begin at multiples of 8 bytes.
    #[error("fragments of {mss_bytes} bytes: the size must be a multiple of 8 (RFC 791)")]
    FragmentSize {
        /// As it was given.
        mss_bytes: usize,
    },
    /// Fragments of something else than UDP.
    #[error("fragments are made of UDP alone; TCP is cut into segments")]
    NotUdp,
    /// The sender forbade fragments.
    #[error("the IPv4 header says don't fragment; clear DF or cut into datagrams")]
    DontFragment,
    /// The headers belong to one frame alone.
    #[error("{what}: such a packet cannot be more than one frame, and {frame_count} are needed")]
    NotDivisible {
        /// What forbids it.
        what: &'static str,
        /// Frames that would be needed.
        frame_count: usize,
    },
    /// Longer than the length fields of one packet can say.
    #[error("a packet of {payload_bytes} payload bytes; its headers can say {payload_bytes_max}")]
    TooLong {
        /// Bytes of the payload.
        payload_bytes: usize,
        /// The most that the length fields can say.
        payload_bytes_max: usize,
    },
    /// A slot shorter than what is to be written.
    #[error("the slot has {available} bytes, {needed} are needed")]
    Slot {
        /// Bytes to be written.
        needed: usize,
        /// Bytes of the slot.
        available: usize,
    },
    /// Fewer bytes of payload than the plan was made for.
    #[error("the pieces have {available} bytes, the plan needs {needed}")]
    Payload {
        /// Bytes that the frame reaches to.
        needed: usize,
        /// Bytes of all pieces.
        available: usize,
    },
    /// The checksum of a fragmented datagram stands in the first frame and covers all.
    #[error("the UDP checksum covers all fragments; give the payload or its sum")]
    DatagramSum,
}
