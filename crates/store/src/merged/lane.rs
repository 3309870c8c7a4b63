//! One lane of a merge: its files, read in the order of their ring blocks.
//!
//! A lane may lie in several directories, its ring blocks spread over them as the disks had time.
//! Each file holds some of them in order, so the next is always the one with the smallest number
//! among the files that have begun. Files whose blocks have no number come one after the other.

use crate::StoreError;
use crate::block::{BlockEnd, BlockHeader};
use crate::reader::{Condition, FileSource, Notice, Progress, Wanted};
use crate::recording::Series;
use crate::side_by_side::side_by_side;
use ringside_core::{InterfaceId, LaneId, SourceError, Timestamp};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files of a lane that are opened at once, each with a buffer and a descriptor.
pub(super) const OPENED_AHEAD: usize = 8;

/// Gaps of a lane that are reported one by one. An input of one directory of two has a gap with
/// each ring block.
const GAPS_REPORTED_MAX: u32 = 10;

/// Where a file stands in its lane: number of its ring block, then its number as a file.
type Order = (u64, u64);

/// A file that waits for its turn in a lane.
struct Pending {
    order: Order,
    input: Input,
}

enum Input {
    /// To be opened.
    Path(PathBuf),
    /// Already open: it was looked at, and perhaps can be opened only once (a pipe).
    Open(Box<FileSource>),
}

impl Input {
    fn path(&self) -> Option<&Path> {
        match self {
            Input::Path(path) => Some(path),
            Input::Open(_) => None,
        }
    }
}

/// A file that has begun.
pub(super) struct OpenFile {
    pub(super) source: Box<FileSource>,
    /// Ids in the merge by ids in the file.
    pub(super) ids: Vec<InterfaceId>,
    order: Order,
    /// The ring block at which the file stands, until its turn comes; with its end if it was passed
    /// by.
    ahead: Option<(BlockHeader, Option<BlockEnd>)>,
    /// Number of the next frame, if the ring block tells.
    next_frame: Option<u64>,
    /// The ring block was read from another file before.
    is_repeated: bool,
}

/// How far a lane has come by the numbers in its ring blocks.
#[derive(Default)]
struct Reached {
    next_block: u64,
    next_frame: u64,
    gaps_reported: u32,
    /// The gaps that are reported together at the end.
    more: Option<Notice>,
}

/// What a lane needs to get on.
pub(super) enum Next {
    /// That its next file is opened.
    Open,
    /// That it is read.
    Read,
    /// Nothing: it is at its end.
    End,
}

/// What came of reading on.
pub(super) enum Step {
    /// Frames, from this one of [`Lane::current`]'s batch on.
    Frames(usize),
    /// Frames outside the range were passed by; perhaps with something to tell of the file.
    Outside { notice: Option<Notice>, frames: u64, latest: Timestamp },
    /// The file is at its end, or cannot be read on: it is to be closed.
    Ended(Option<SourceError>),
    /// It took too long.
    Late,
    /// Something that the next step continues; perhaps with something to tell of the file.
    Passed(Option<Notice>),
}

/// One lane.
pub(super) struct Lane {
    /// Which lane of a recording; `None` for a file alone, whose numbers have nothing to add to.
    number: Option<LaneId>,
    pending: VecDeque<Pending>,
    open: Vec<OpenFile>,
    /// Which of `open` is read.
    current: usize,
    reached: Reached,
    pub(super) last_stamp: Timestamp,
    /// What is asked for.
    pub(super) wanted: Wanted,
}

impl Lane {
    /// The files of a series.
    pub(super) fn of_series(series: Series) -> Lane {
        let pending = series.files.into_iter().map(|file| Pending {
            order: (file.first_block.unwrap_or(0), file.sequence),
            input: Input::Path(file.path),
        });
        Lane::new(Some(series.lane), pending.collect())
    }

    /// One file.
    pub(super) fn of_file(path: PathBuf) -> Lane {
        Lane::new(None, [Pending { order: (0, 0), input: Input::Path(path) }].into())
    }

    fn new(number: Option<LaneId>, pending: VecDeque<Pending>) -> Lane {
        let (open, reached) = (Vec::new(), Reached::default());
        let (last_stamp, wanted) = (Timestamp::default(), Wanted::default());
        Lane { number, pending, open, current: 0, reached, last_stamp, wanted }
    }

    /// True if its files were found in a directory, not named by the user.
    pub(super) fn is_found(&self) -> bool {
        self.number.is_some()
    }

    /// True if nothing follows its next file.
    pub(super) fn is_last_file(&self) -> bool {
        self.pending.len() == 1 && self.open.is_empty()
    }

    /// Keeps the source that was opened for a look.
    pub(super) fn keep(&mut self, source: FileSource) {
        if let Some(first) = self.pending.front_mut() {
            first.input = Input::Open(Box::new(source));
        }
    }

    /// Where the next file to be opened lies, if that is known.
    pub(super) fn next_path(&self) -> Option<&Path> {
        self.pending.front()?.input.path()
    }

    /// Finds what comes next.
    pub(super) fn choose(&mut self) -> Next {
        let first = (0..self.open.len()).min_by_key(|&index| self.open[index].order);
        let Some(first) = first else {
            return if self.pending.is_empty() { Next::End } else { Next::Open };
        };
        let is_behind = |pending: &Pending| pending.order < self.open[first].order;
        if self.pending.front().is_some_and(is_behind) {
            return Next::Open;
        }
        self.current = first;
        Next::Read
    }

    /// What is still to be reported when the lane is at its end.
    pub(super) fn final_notice(&mut self) -> Option<Notice> {
        self.reached.more.take()
    }

    /// True if the next file was not opened yet.
    pub(super) fn is_next_closed(&self) -> bool {
        self.pending.front().is_some_and(|file| file.input.path().is_some())
    }

    /// Opens the next files of lanes side by side: of each little is to be read.
    pub(super) fn open_ahead(lanes: &mut [Lane]) {
        let next = lanes.iter_mut().flat_map(|Lane { pending, wanted, .. }| {
            let next = pending.iter_mut().take(OPENED_AHEAD);
            next.filter(|file| file.input.path().is_some()).map(|file| (file, &*wanted))
        });
        side_by_side(next.collect(), |(file, wanted)| {
            let opened = file.input.path().map(|path| FileSource::open_unread(path, wanted));
            // What cannot be opened now is said when it is come to.
            if let Some(Ok(source)) = opened {
                file.input = Input::Open(Box::new(source));
            }
        });
    }

    /// Opens the next file.
    pub(super) fn open_next(&mut self) -> Result<(), StoreError> {
        let Some(Pending { order, input }) = self.pending.pop_front() else { return Ok(()) };
        let source = match input {
            Input::Open(source) => source,
            Input::Path(path) => Box::new(FileSource::open_unread(&path, &self.wanted)?),
        };
        let (ids, ahead, next_frame) = (Vec::new(), None, None);
        self.open.push(OpenFile { source, ids, order, ahead, next_frame, is_repeated: false });
        Ok(())
    }

    /// Gives up the next file, which cannot be opened.
    pub(super) fn give_up_next(&mut self) {
        self.pending.pop_front();
    }

    /// The files that are open.
    pub(super) fn sources(&self) -> impl Iterator<Item = &FileSource> {
        let waiting = self.pending.iter().filter_map(|pending| match &pending.input {
            Input::Open(source) => Some(&**source),
            Input::Path(_) => None,
        });
        self.open.iter().map(|file| &*file.source).chain(waiting)
    }

    /// The file that is read.
    pub(super) fn current(&mut self) -> Option<&mut OpenFile> {
        self.open.get_mut(self.current)
    }

    /// Removes the file that is read.
    pub(super) fn close_current(&mut self) -> Option<OpenFile> {
        (self.current < self.open.len()).then(|| self.open.swap_remove(self.current))
    }

    /// Reads on in the file that was chosen.
    pub(super) fn step(&mut self, deadline: Option<Instant>) -> Step {
        let Some(file) = self.open.get_mut(self.current) else { return Step::Passed(None) };
        if let Some((header, end)) = file.ahead.take() {
            let notice = self.reached.enter(self.number, file, &header);
            let Some(BlockEnd { frames, stamps, .. }) = end else { return Step::Passed(notice) };
            let frames = frames - self.reached.pass(file, frames);
            return Step::Outside { notice, frames, latest: stamps.latest };
        }
        match file.source.advance(deadline) {
            Ok(Progress::Frames) => {
                let count = file.source.batch_from(0).frame_count();
                Step::Frames(self.reached.pass(file, count as u64) as usize)
            }
            Ok(Progress::RingBlock(header)) => Lane::stand_at(file, header, None),
            Ok(Progress::Passed(Some(header), end)) => Lane::stand_at(file, header, Some(end)),
            Ok(Progress::Passed(None, BlockEnd { frames, stamps, .. })) => {
                Step::Outside { notice: None, frames, latest: stamps.latest }
            }
            Ok(Progress::Nothing) if *file.source.condition() == Condition::Reading => Step::Late,
            Ok(Progress::Nothing) => Step::Ended(None),
            Err(error) => Step::Ended(Some(error)),
        }
    }
}

impl Lane {
    /// Notes the ring block at which `file` stands.
    fn stand_at(file: &mut OpenFile, header: BlockHeader, end: Option<BlockEnd>) -> Step {
        file.order.0 = header.number;
        file.ahead = Some((header, end));
        Step::Passed(None)
    }
}

impl OpenFile {
    fn notice(&self, condition: Condition) -> Notice {
        Notice { path: self.source.path().to_owned(), condition }
    }
}

impl Reached {
    /// Begins a ring block: what is to be reported of it.
    fn enter(
        &mut self,
        lane: Option<LaneId>,
        file: &mut OpenFile,
        header: &BlockHeader,
    ) -> Option<Notice> {
        let lane = lane?;
        let (block, frame) = (header.number, header.first_frame.0);
        file.next_frame = Some(frame);
        file.is_repeated = block < self.next_block;
        if file.is_repeated {
            return Some(file.notice(Condition::Repeated { lane, block }));
        }
        let missed = frame.checked_sub(self.next_frame);
        let expected = std::mem::replace(&mut self.next_block, block.saturating_add(1));
        let before = std::mem::replace(&mut self.next_frame, frame);
        let blocks = (block > expected).then(|| (expected, block - 1));
        match missed {
            None => {
                let reason = format!(
                    "ring block {block} begins with frame {frame}, and {before} frames came before"
                );
                let offset = file.source.record_offset();
                Some(file.notice(Condition::Damaged { offset, reason }))
            }
            Some(0) if blocks.is_none() => None,
            Some(frames) if self.gaps_reported == GAPS_REPORTED_MAX => {
                let (gaps, frames) = match self.more.take().map(|notice| notice.condition) {
                    Some(Condition::MoreMissing { gaps, frames: before, .. }) => {
                        (gaps + 1, before.saturating_add(frames))
                    }
                    _ => (1, frames),
                };
                self.more = Some(file.notice(Condition::MoreMissing { lane, gaps, frames }));
                None
            }
            Some(frames) => {
                self.gaps_reported += 1;
                Some(file.notice(Condition::Missing { lane, blocks, frames }))
            }
        }
    }

    /// Counts the next `count` frames of `file`. Returns how many of them came before.
    fn pass(&mut self, file: &mut OpenFile, count: u64) -> u64 {
        let Some(first) = file.next_frame else { return 0 };
        let end = first.saturating_add(count);
        file.next_frame = Some(end);
        let known = self.next_frame.saturating_sub(first).min(count);
        self.next_frame = self.next_frame.max(end);
        if file.is_repeated { known } else { 0 }
    }
}
