//! One frame of a capture, made ready to be sent, or the cause why it cannot be.

use crate::interface::{HEADER_BYTES, SizeLimit};
use crate::replay::report::Cause;
use crate::rewrite::{Changed, Rewrite};
use ringside_core::{Frame, LinkType};

/// What becomes of frames that were cut when they were captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutFrames {
    /// They cannot be sent.
    #[default]
    Refuse,
    /// What there is of them is sent.
    Send,
    /// They are filled up with zeros to what they were.
    Pad,
}

/// What was done to a frame that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub was_cut: bool,
    pub changed: Changed,
}

/// Makes frames ready.
#[derive(Clone, Debug)]
pub(crate) struct Preparer {
    pub rewrite: Rewrite,
    pub cut: CutFrames,
    pub limit: SizeLimit,
}

impl Preparer {
    /// Appends the frame to `memory` as it is to be sent. Nothing is appended if it cannot be.
    pub fn append(
        &mut self,
        frame: &Frame<'_>,
        link: LinkType,
        memory: &mut Vec<u8>,
    ) -> Result<Prepared, Cause> {
        if link != LinkType::ETHERNET {
            return Err(Cause::LinkType(link));
        }
        if frame.bytes.len() < HEADER_BYTES {
            return Err(Cause::TooShort);
        }
        let missing = (frame.meta.wire_bytes as usize).saturating_sub(frame.bytes.len());
        if missing > 0 && self.cut == CutFrames::Refuse {
            return Err(Cause::Cut);
        }
        let begin = memory.len();
        let changed = self.rewrite.append(frame.bytes, memory);
        let padding = if self.cut == CutFrames::Pad { missing } else { 0 };
        let sent = &memory[begin..];
        // The length on the wire comes from the file: checked before memory is filled.
        let excess = self.limit.excess(sent, sent.len() + padding);
        if excess > 0 {
            memory.truncate(begin);
            return Err(Cause::TooLong(self.limit.mtu_bytes + HEADER_BYTES + excess));
        }
        memory.resize(memory.len() + padding, 0);
        Ok(Prepared { was_cut: missing > 0, changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::FrameMeta;

    fn prepare(cut: CutFrames, bytes: usize, wire_bytes: u32) -> Result<(usize, bool), Cause> {
        let limit = SizeLimit { mtu_bytes: 100 };
        let mut preparer = Preparer { rewrite: Rewrite::default(), cut, limit };
        let frame = vec![1; bytes];
        let meta = FrameMeta { wire_bytes, ..FrameMeta::default() };
        let mut memory = vec![7; 3];
        let prepared =
            preparer.append(&Frame { bytes: &frame, meta }, LinkType::ETHERNET, &mut memory);
        if prepared.is_err() {
            assert_eq!(memory.len(), 3);
        }
        Ok((memory.len() - 3, prepared?.was_cut))
    }

    #[test]
    fn what_cannot_be_sent_has_a_cause() {
        use CutFrames::{Pad, Refuse, Send};
        assert_eq!(prepare(Refuse, 60, 60), Ok((60, false)));
        assert_eq!(prepare(Refuse, 13, 13), Err(Cause::TooShort));
        assert_eq!(prepare(Refuse, 114, 114), Ok((114, false)));
        assert_eq!(prepare(Refuse, 115, 115), Err(Cause::TooLong(115)));
        assert_eq!(prepare(Refuse, 60, 61), Err(Cause::Cut));
        assert_eq!(prepare(Send, 60, 4000), Ok((60, true)));
        assert_eq!(prepare(Pad, 60, 114), Ok((114, true)));
        assert_eq!(prepare(Pad, 60, u32::MAX), Err(Cause::TooLong(u32::MAX as usize)));
    }
}
