//! A frame and what is known about it.

use crate::{InterfaceId, QueueId, Timestamp, TimestampKind};

/// Which way a frame crossed the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The backend does not say.
    #[default]
    Unknown,
    /// Received from the wire.
    Inbound,
    /// Sent by this host.
    Outbound,
}

/// The outermost VLAN tag, if the driver or the kernel had taken it out of the frame.
///
/// Backends put the tag back into the bytes, so a [`Frame`] always is what was on the wire; this
/// field only repeats what the metadata said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// Tag protocol identifier: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Priority, drop eligibility and VLAN id as in the tag, host byte order.
    pub tci: u16,
}

/// What the backend knows about a frame in addition to its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMeta {
    /// When it was received.
    pub timestamp: Timestamp,
    /// Which clock said so.
    pub timestamp_kind: TimestampKind,
    /// Bytes on the wire, at least the number captured (without the frame check sequence).
    pub wire_bytes: u32,
    /// Interface within the run or file.
    pub interface: InterfaceId,
    /// Receive queue or fanout member.
    pub queue: QueueId,
    /// Tag that the metadata carried and that was put back into the bytes.
    pub vlan: Option<VlanTag>,
    /// Receive hash, where the backend has one.
    pub hash: Option<u32>,
    /// Way across the interface.
    pub direction: Direction,
}

/// One captured frame, borrowed from its batch.
///
/// `bytes.len() <= meta.wire_bytes` always holds; the difference was cut by a snapshot length.
/// A frame cannot outlive the batch that lent it:
///
/// ```compile_fail
/// use ringside_core::{Batch, Frame, FrameMeta, FrameSlot};
/// let memory = vec![0u8; 64];
/// let slots = [FrameSlot::new(0, 64, FrameMeta::default())];
/// let kept: Frame<'_> = {
///     let batch = Batch::new(&memory, &slots);
///     batch.get(0).unwrap() // error: `batch` does not live long enough
/// };
/// println!("{}", kept.bytes.len());
/// ```
///
/// To keep a frame, copy it, visibly: [`Frame::to_owned_frame`].
#[derive(Clone, Copy, Debug)]
pub struct Frame<'b> {
    /// The captured bytes as they were on the wire, VLAN tags in place.
    pub bytes: &'b [u8],
    /// What is known about the frame in addition to its bytes.
    pub meta: FrameMeta,
}

impl Frame<'_> {
    /// Copies the frame out of its batch. Allocates: not for the packet path.
    pub fn to_owned_frame(&self) -> OwnedFrame {
        OwnedFrame { bytes: self.bytes.to_vec(), meta: self.meta }
    }
}

/// A frame with memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame {
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// What is known about the frame in addition to its bytes.
    pub meta: FrameMeta,
}

impl OwnedFrame {
    /// Lends it as a [`Frame`].
    pub fn as_frame(&self) -> Frame<'_> {
        Frame { bytes: &self.bytes, meta: self.meta }
    }
}
