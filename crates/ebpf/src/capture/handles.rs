//! What a capture leaves to another process: descriptors, and how to finish with them alone.

use super::leaf::copy;
use super::{CaptureProgram, Counters, Filter, QueueCounters};
use crate::Error;
use crate::root::take_out;
use ringside_sys::bpf::FdArray;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors of a capture. While they are open the root stays on the interface and the place
/// among its leaves stays taken.
#[derive(Debug)]
pub struct CaptureHandles {
    descriptors: [OwnedFd; CaptureHandles::COUNT],
}

impl CaptureHandles {
    /// How many descriptors there are.
    pub const COUNT: usize = 6;

    pub(super) fn of(program: &CaptureProgram) -> Result<CaptureHandles, Error> {
        let root = &program.root;
        let descriptors = [
            // The claim first: a dying process closes descriptors in ascending order, and a process
            // that finds the claim must find the array as it is.
            copy(root.claim())?,
            copy(root.hold())?,
            copy(root.leaves().as_fd())?,
            copy(program.entry())?,
            copy(program.counters.0.as_fd())?,
            // Without a filter there are no steps, and the leaves stand for them.
            copy(program.filter.as_ref().map_or(root.leaves().as_fd(), Filter::steps))?,
        ];
        Ok(CaptureHandles { descriptors })
    }

    /// The same at the other process, by the descriptors that it got.
    pub fn from_descriptors(descriptors: [OwnedFd; CaptureHandles::COUNT]) -> CaptureHandles {
        CaptureHandles { descriptors }
    }

    /// The descriptors, in the order in which [`from_descriptors`](Self::from_descriptors) wants
    /// them.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; CaptureHandles::COUNT] {
        self.descriptors.each_ref().map(|fd| fd.as_fd())
    }
}

/// The capture of a process that died, from outside. Its sockets went with it, so that every frame
/// passes, but for a leaf that fills rings, which goes on; either still counts.
#[derive(Debug)]
pub struct CaptureLeftBehind {
    /// Freed first, as in the root.
    _claim: OwnedFd,
    leaves: FdArray,
    entry: OwnedFd,
    counters: Counters,
    _steps: OwnedFd,
    _link: OwnedFd,
}

impl CaptureLeftBehind {
    /// By what the process gave while it lived.
    ///
    /// # Errors
    /// The descriptors are others than those of [`CaptureProgram::handles`].
    pub fn new(handles: CaptureHandles) -> Result<CaptureLeftBehind, Error> {
        let CaptureHandles { descriptors } = handles;
        let [claim, link, leaves, entry, counters, steps] = descriptors;
        let leaves = FdArray::from_fd(leaves)?;
        let counters = Counters::new(counters.as_fd())?;
        Ok(CaptureLeftBehind { _claim: claim, leaves, entry, counters, _steps: steps, _link: link })
    }

    /// Takes the leaf out if it is still in its place. When this returns the counters stand still.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&self) -> Result<(), Error> {
        take_out(&self.leaves, self.entry.as_fd())
    }

    /// What was counted since the capture was opened, as [`CaptureProgram::counters_at`] says.
    ///
    /// # Errors
    /// There is no such entry, or the kernel refused.
    pub fn counters_at(&self, entry: u32) -> Result<QueueCounters, Error> {
        self.counters.read(entry)
    }
}
