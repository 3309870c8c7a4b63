//! The trait of code that looks at every frame.

use crate::DissectedFrame;
use ringside_core::limits::INTERFACES_MAX;
use ringside_core::{Batch, Frame, FrameMeta, InterfaceId, LaneId, SourceInterface, Timestamp};
use std::ops::Range;

/// Looks at every frame of a stream: counts it, follows its flow, makes records of it. A
/// [`Pump`](crate::Pump) calls it, on one thread, with the same frames and the same times whether
/// they come from a file, a directory, an attached ring or a capture that goes on.
///
/// - [`see`](Observer::see) gets the frames of each lane in the order of receipt; of several lanes
///   that are one stream, in the order of time as the merge gives them. Stamps may go back all the
///   same: a clock does, and a live merge delivers late what a lane held back for too long.
/// - [`tick`](Observer::tick) says how far time is. It comes between frames, never goes back, and
///   goes by the stamps of frames alone, never by the clock on the wall.
/// - [`finish`](Observer::finish) comes once, at the end, also after a source that failed. What was
///   found goes where the observer likes: to a channel, a file, or the owner that lent it.
///
/// # Same results from everywhere
/// Where no frame comes, a live stream ticks more often than a file does, at times that lie between
/// those of the file. So what is due by time is to be done in the order of the times at which it is
/// due: then two ticks with no frame between them do what the last of them does alone, and the
/// results are the same.
pub trait Observer: Send {
    /// The next frame. Nothing of it may be kept but by a copy.
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>);

    /// Frames that are at hand and will be seen next, each of them and in this order, with ticks
    /// between them and no other frame: an observer with a large table has what they need fetched
    /// from memory. What is read of a frame here is not kept for `see`. Not every stream has frames
    /// at hand, and results are the same without.
    fn look_ahead(&mut self, frames: &Ahead<'_>) {
        let _ = frames;
    }

    /// No later frame is stamped before `low_water`, but for inversions and late frames: whatever
    /// waited for older ones need not wait any more.
    fn tick(&mut self, low_water: Timestamp) {
        let _ = low_water;
    }

    /// No frame will come again.
    fn finish(&mut self) {}

    /// True if it has the kernel run programs, which a run without privileges allows to those who
    /// ask.
    fn runs_programs(&self) -> bool {
        false
    }
}

/// How a frame was received. How much of it was captured is the length of its
/// [`bytes`](DissectedFrame::bytes).
#[derive(Clone, Copy, Debug)]
pub struct Received<'s> {
    /// Its stamp and whose clock that was, its length on the wire, its way across the interface,
    /// and what else the backend says.
    pub meta: &'s FrameMeta,
    /// The interface, by which the frame begins as its link type says.
    pub interface: &'s SourceInterface,
    /// The lane, within whose frames the order of receipt is kept. A file, and whatever was merged
    /// when it was written, is one lane.
    pub lane: LaneId,
}

/// Names of the interfaces that frames came from, by their numbers: for records that are made when
/// the frame is gone.
#[derive(Clone, Debug, Default)]
pub struct InterfaceNames(Vec<String>);

impl InterfaceNames {
    /// These, by their numbers: for what no frame brings.
    pub fn new(names: Vec<String>) -> InterfaceNames {
        InterfaceNames(names)
    }

    /// Learns the name of the interface that a frame came from.
    #[inline]
    pub fn learn(&mut self, received: &Received<'_>) {
        let id = received.meta.interface.0 as usize;
        if self.0.get(id).is_none_or(|name| !is_same(name, &received.interface.name)) {
            self.put(id, &received.interface.name);
        }
    }

    #[cold]
    fn put(&mut self, id: usize, name: &str) {
        if id < INTERFACES_MAX {
            let known = self.0.len().max(id + 1);
            self.0.resize(known, String::new());
            self.0[id] = name.to_owned();
        }
    }

    /// The name of an interface; empty if it is not known.
    pub fn of(&self, id: InterfaceId) -> &str {
        self.0.get(id.0 as usize).map_or("", String::as_str)
    }

    /// All names.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

/// Two names are the same. Those that are empty have no memory, and a comparison of nothing at no
/// address costs 139 ns with the C library that this was measured on.
#[inline]
fn is_same(name: &str, other: &str) -> bool {
    name.len() == other.len() && (name.is_empty() || name == other)
}

/// Frames of a batch that will be seen next.
pub struct Ahead<'a> {
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) range: Range<usize>,
    pub(crate) interfaces: &'a [SourceInterface],
    pub(crate) unknown: &'a SourceInterface,
    pub(crate) lane: LaneId,
}

impl Ahead<'_> {
    /// Most frames that are looked at ahead: enough that the first of them is there when the last
    /// was asked for, and few enough that all of them are still there when they are seen.
    pub const FRAMES_MAX: usize = 32;

    /// Shows each of them.
    #[inline]
    pub fn for_each(&self, mut look: impl FnMut(&Frame<'_>, &Received<'_>)) {
        let lane = self.lane;
        for frame in self.batch.range(self.range.clone()) {
            let meta = &frame.meta;
            let interface = SourceInterface::of(meta, self.interfaces).unwrap_or(self.unknown);
            look(&frame, &Received { meta, interface, lane });
        }
    }
}

/// An observer that is lent, so that its owner has what it found.
impl<O: Observer + ?Sized> Observer for &mut O {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        (**self).see(frame, received);
    }

    fn look_ahead(&mut self, frames: &Ahead<'_>) {
        (**self).look_ahead(frames);
    }

    fn tick(&mut self, low_water: Timestamp) {
        (**self).tick(low_water);
    }

    fn finish(&mut self) {
        (**self).finish();
    }

    fn runs_programs(&self) -> bool {
        (**self).runs_programs()
    }
}
