//! What the kernel holds of a lane, and reports to any process with the descriptors, also when the
//! one that opened them is gone: one trait for all backends, so that the keeper names none of them.

use ringside_core::ledger::ByCause;
use ringside_core::limits::LANES_MAX;
use ringside_core::{InterfaceId, LaneCounters};
use ringside_ebpf::capture::{CaptureHandles, CaptureLeftBehind, QueueCounters};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What the kernel holds of a lane.
pub trait KernelSide: Debug + Send {
    /// The backend's [name](super::Description::name).
    fn backend(&self) -> &'static str;

    /// What a process that gets the descriptors must know besides: the text that the backend's
    /// [`restore`](super::Description::restore) takes.
    fn facts(&self) -> String;

    /// The descriptors, in the order in which `restore` takes them.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Gives away the program in the driver, if it came with this lane: it serves all of the
    /// interface's lanes.
    fn take_program(&mut self) -> Option<CaptureHandles> {
        None
    }

    /// Stops the supply: after it the counters stand still. A program in the driver is stopped
    /// beforehand.
    ///
    /// # Errors
    /// The kernel refused.
    fn detach(&self) -> Result<(), String> {
        Ok(())
    }

    /// What was counted for the lane of `queue`, with what the program in its interface's driver
    /// says, if there is one.
    ///
    /// # Errors
    /// A descriptor is missing, or the kernel refused.
    fn count(
        &self,
        queue: u16,
        program: Option<&CaptureLeftBehind>,
    ) -> Result<Box<dyn KernelCount>, String>;
}

/// Makes of descriptors that another process gave what it had, with the [facts](KernelSide::facts)
/// that came along; `None` if they contradict each other. They come from a process that may lie.
pub type Restore = fn(facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>>;

/// What the kernel counted for a lane that was detached.
pub trait KernelCount: Debug {
    /// Brings the lane's counters up to it. Returns what is not known, if anything.
    fn bring_up(&self, lane: &mut LaneCounters, last: &LastReading) -> Option<&'static str>;
}

/// What the dead process had last read of the kernel's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastReading {
    /// It died while it read them.
    pub is_interrupted: bool,
    /// Of the frames dropped by rule, those that the kernel turned away and counts.
    pub turned_away_before: u64,
}

/// The programs in drivers, one for each interface.
pub(crate) type Programs = BTreeMap<InterfaceId, CaptureLeftBehind>;

pub(crate) fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

/// `None` if these are more queues than there can be.
pub(crate) fn check_queues(other_queues: &Range<u32>) -> Option<()> {
    (other_queues.len() <= LANES_MAX + 1).then_some(())
}

/// The program whose descriptors these are; `None` if they are none.
pub(crate) fn program(fds: impl Iterator<Item = OwnedFd>) -> Option<CaptureHandles> {
    let fds = <[OwnedFd; CaptureHandles::COUNT]>::try_from(fds.collect::<Vec<_>>());
    fds.ok().map(CaptureHandles::from_descriptors)
}

/// What a program in the driver counted of a queue, and of those that count with it, since the
/// start.
pub(crate) fn read_program(
    queue: u16,
    other_queues: &Range<u32>,
    program: Option<&CaptureLeftBehind>,
) -> Result<QueueCounters, String> {
    let program = program.ok_or("the descriptors of its program are missing")?;
    let mut sum = program.counters_at(queue.into()).map_err(text)?;
    for entry in other_queues.clone() {
        let other = program.counters_at(entry).map_err(text)?;
        sum.seen = sum.seen.saturating_add(other.seen);
        sum.passed = sum.passed.saturating_add(other.passed);
    }
    Ok(sum)
}

/// Puts what a program in the driver has counted since the start in place of the last reading.
pub(crate) fn add_program(lane: &mut LaneCounters, program: &QueueCounters, dropped: ByCause) {
    (lane.received, lane.filtered) = (Some(program.seen), Some(0));
    lane.passed = program.passed;
    for (cause, count) in dropped {
        // The worker drops frames by some of the causes too.
        let dropped = lane.dropped.entry(cause).or_default();
        *dropped = count.max(*dropped);
    }
}

/// Counters of such numbers, for tests.
#[cfg(test)]
pub(crate) fn program_of_numbers(number: &mut impl FnMut() -> u64) -> QueueCounters {
    QueueCounters {
        seen: number(),
        passed: number(),
        steered: number(),
        unmarked: number(),
        no_room: number(),
        too_long: number(),
    }
}
