//! The number of a generated frame, and the time when it was made.
//!
//! | from the payload's start | bytes | [`Numbering::Number`] |
//! |---|---|---|
//! | 0 | 8 | magic "RINGSIDE" |
//! | 8 | 8 | stream in the upper 16 bits, number within the stream from 0 in the lower 48 |
//! | 16 | 4 | flow |
//!
//! | from the payload's start | bytes | [`Numbering::Stamp`] |
//! |---|---|---|
//! | 0 | 4 | magic "RTAI" |
//! | 4 | 8 | stream and number, as above |
//! | 12 | 6 | when the frame was made: the lower 48 bits of the nanoseconds since 1970 of TAI |
//!
//! Integers are in network byte order. The second fits into the shortest frame of Ethernet, 60
//! bytes, over IPv4 and UDP; its time is unique within 78 hours. A frame that is shorter ends where
//! it ends.

use ringside_core::LinkType;
use ringside_wire::{Level, dissect};

/// Marks a numbered frame.
pub const MAGIC: [u8; 8] = *b"RINGSIDE";

/// Marks a numbered frame that says when it was made.
pub const STAMP_MAGIC: [u8; 4] = *b"RTAI";

/// Bits of the time that a frame bears.
const STAMP_BITS: u32 = 48;

pub(super) const STREAM_SHIFT: u32 = 48;

/// Where the payload of a plain frame over IPv4 and UDP begins.
const USUAL_PAYLOAD_AT: usize = 42;

/// What generated frames bear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Nothing: all frames of a flow are the same.
    None,
    /// Their number and flow.
    #[default]
    Number,
    /// Their number and when they were made.
    Stamp,
}

impl Numbering {
    /// Bytes of the payload that it takes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Numbering::None => 0,
            Numbering::Number => 20,
            Numbering::Stamp => 18,
        }
    }
}

/// What stands in a frame for a time.
pub(super) fn low_bits(tai_ns: u64) -> u64 {
    tai_ns & ((1 << STAMP_BITS) - 1)
}

/// The number of a generated frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which sending thread.
    pub stream: u16,
    /// Which frame of it, from 0.
    pub sequence: u64,
    /// Flow; `None` if the frame is too short to say, or bears a time instead.
    pub flow: Option<u32>,
    /// When it was made, the lower 48 bits of the nanoseconds since 1970 of TAI, if it says so.
    pub tai_low_ns: Option<u64>,
}

impl Stamp {
    /// How long before `now_ns` (TAI) it was made; of a time in the future, by clocks that
    /// disagree, almost 78 hours.
    pub fn age_ns(&self, now_ns: u64) -> Option<u64> {
        self.tai_low_ns.map(|made| low_bits(now_ns.wrapping_sub(made)))
    }

    /// Reads the number of a frame; `None` if it was not generated here or bears none.
    pub fn read(frame: &[u8]) -> Option<Stamp> {
        Stamp::at(frame, USUAL_PAYLOAD_AT).or_else(|| {
            let payload = dissect(frame, LinkType::ETHERNET).transport_payload(Level::Outer)?;
            Stamp::at(frame, payload.start)
        })
    }

    fn at(frame: &[u8], at: usize) -> Option<Stamp> {
        let payload = frame.get(at..)?;
        let word = |from: usize| {
            let bytes = payload.get(from..)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*bytes))
        };
        let number = |number: u64| (number >> STREAM_SHIFT, number & ((1 << STREAM_SHIFT) - 1));
        if payload.starts_with(&MAGIC) {
            let (stream, sequence) = number(word(8)?);
            let flow = payload.get(16..20).and_then(|bytes| bytes.first_chunk::<4>());
            let flow = flow.map(|bytes| u32::from_be_bytes(*bytes));
            return Some(Stamp { stream: stream as u16, sequence, flow, tai_low_ns: None });
        }
        if payload.starts_with(&STAMP_MAGIC) {
            let (stream, sequence) = number(word(4)?);
            // The two bytes before the time are the number's last.
            let tai_low_ns = word(10).map(low_bits);
            return Some(Stamp { stream: stream as u16, sequence, flow: None, tai_low_ns });
        }
        None
    }
}
