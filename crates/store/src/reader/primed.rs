//! Reading ahead to the first frames of a file: when its lane begins, and whether anything of it is
//! to be read.

use super::record::Progress;
use super::{Condition, FileSource};
use ringside_core::Timestamp;

impl FileSource {
    /// Reads ahead to the first frames: what is come to is come to again.
    pub(super) fn read_ahead(&mut self) {
        let mut next_block = None;
        loop {
            let progress = self.advance_on(None);
            if let Ok(Progress::RingBlock(header) | Progress::Passed(Some(header), _)) = &progress {
                let expected = next_block.replace(header.number.saturating_add(1));
                self.begins_alone &= expected.is_none_or(|expected| expected == header.number);
            }
            if let Ok(Progress::Passed(_, end)) = &progress
                && end.frames > 0
            {
                self.passed_from.get_or_insert(end.stamps.earliest);
            }
            let is_on_the_way =
                matches!(progress, Ok(Progress::RingBlock(_) | Progress::Passed(..)));
            self.primed.push_back(progress);
            if !is_on_the_way {
                return;
            }
        }
    }

    /// True if frames were read ahead and not lent.
    pub(super) fn is_primed(&self) -> bool {
        matches!(self.primed.back(), Some(Ok(Progress::Frames)))
    }

    /// True if reading ahead has come to the end, or cannot go on, and found no frame to be read.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(self.primed.back(), Some(Ok(Progress::Nothing) | Err(_)))
            && self.condition != Condition::Reading
    }

    /// No frame of a lane that begins here has an order key below this, if the file was read ahead:
    /// the stamp of its first frame, or the earliest of the ring block that holds it and was passed
    /// by. None if ring blocks before it lie in other files.
    pub(crate) fn first_stamp(&self) -> Option<Timestamp> {
        if !self.begins_alone {
            return None;
        }
        if self.passed_from.is_some() {
            return self.passed_from;
        }
        let first = self.is_primed().then(|| self.batch_from(0))?;
        first.get(0).map(|frame| frame.meta.timestamp)
    }
}
