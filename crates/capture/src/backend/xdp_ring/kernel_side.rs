//! What the kernel holds of a lane whose ring a program fills.

use super::lane::{XdpRingSource, dropped};
use crate::backend::XDP_RING;
use crate::backend::kernel_side::{
    KernelCount, KernelSide, LastReading, add_program, check_queues, program, read_program,
};
use ringside_core::LaneCounters;
use ringside_ebpf::capture::{CaptureHandles, CaptureLeftBehind, QueueCounters};
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

#[derive(Debug)]
struct RingSide {
    /// With the first lane of each interface.
    program: Option<CaptureHandles>,
    facts: Facts,
}

#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    /// Counters of queues without a lane, whose frames pass: they go with the first lane.
    other_queues: Range<u32>,
}

/// Of the lane's queue, and of those that count with it, since the start.
#[derive(Clone, Copy, Debug)]
struct RingCount(QueueCounters);

impl XdpRingSource {
    /// Copies of the lane's descriptors, for a process that is to outlive this one.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn kernel_side(&self) -> io::Result<Box<dyn KernelSide>> {
        let (program, other_queues) = self.handles()?;
        Ok(Box::new(RingSide { program, facts: Facts { other_queues } }))
    }
}

pub(crate) fn restore(facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
    let facts: Facts = serde_json::from_str(facts).ok()?;
    check_queues(&facts.other_queues)?;
    Some(Box::new(RingSide { program: program(fds.into_iter()), facts }))
}

impl KernelSide for RingSide {
    fn backend(&self) -> &'static str {
        XDP_RING.name
    }

    fn facts(&self) -> String {
        serde_json::to_string(&self.facts).expect("numbers are JSON")
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.program.iter().flat_map(CaptureHandles::descriptors).collect()
    }

    fn take_program(&mut self) -> Option<CaptureHandles> {
        self.program.take()
    }

    fn count(
        &self,
        queue: u16,
        program: Option<&CaptureLeftBehind>,
    ) -> Result<Box<dyn KernelCount>, String> {
        read_program(queue, &self.facts.other_queues, program)
            .map(|counters| Box::new(RingCount(counters)) as Box<dyn KernelCount>)
    }
}

impl KernelCount for RingCount {
    fn bring_up(&self, lane: &mut LaneCounters, _last: &LastReading) -> Option<&'static str> {
        add_program(lane, &self.0, dropped(&self.0));
        None
    }
}

/// A count of such numbers.
#[cfg(test)]
pub(crate) fn count_of_numbers(number: &mut impl FnMut() -> u64) -> Box<dyn KernelCount> {
    Box::new(RingCount(crate::backend::kernel_side::program_of_numbers(number)))
}
