//! What the kernel holds of a lane of AF_XDP.

use super::lane::AfXdpSource;
use crate::backend::AF_XDP;
use crate::backend::kernel_side::{
    KernelCount, KernelSide, LastReading, add_program, check_queues, program, read_program, text,
};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, LaneCounters};
use ringside_ebpf::capture::{CaptureHandles, CaptureLeftBehind, QueueCounters};
use ringside_sys::xsk::XskStatistics;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// As long as the socket is open somewhere the kernel keeps the lane's memory and goes on receiving
/// into it.
#[derive(Debug)]
struct XdpSide {
    socket: OwnedFd,
    /// With the first lane of each interface.
    program: Option<CaptureHandles>,
    facts: Facts,
}

#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    /// Counters of queues without a lane, whose frames pass: they go with the first lane.
    other_queues: Range<u32>,
    /// The driver puts frames into the lane's memory itself.
    zero_copy: bool,
}

/// What was counted, all of it since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XdpCount {
    /// Of the lane's queue, and of those that count with it.
    pub(crate) program: QueueCounters,
    pub(crate) socket: XskStatistics,
    pub(crate) zero_copy: bool,
}

impl AfXdpSource {
    /// Copies of the lane's descriptors, for a process that is to outlive this one.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn kernel_side(&self) -> io::Result<Box<dyn KernelSide>> {
        let lane = self.lane();
        let (program, other_queues) = lane.interface.handles(lane.queue)?;
        let socket = lane.socket.try_clone()?;
        let facts = Facts { other_queues, zero_copy: lane.zero_copy };
        Ok(Box::new(XdpSide { socket, program, facts }))
    }
}

pub(crate) fn restore(facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
    let facts: Facts = serde_json::from_str(facts).ok()?;
    check_queues(&facts.other_queues)?;
    let mut fds = fds.into_iter();
    let (socket, program) = (fds.next()?, program(fds));
    Some(Box::new(XdpSide { socket, program, facts }))
}

impl KernelSide for XdpSide {
    fn backend(&self) -> &'static str {
        AF_XDP.name
    }

    fn facts(&self) -> String {
        serde_json::to_string(&self.facts).expect("numbers are JSON")
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let program = self.program.iter().flat_map(CaptureHandles::descriptors);
        [self.socket.as_fd()].into_iter().chain(program).collect()
    }

    fn take_program(&mut self) -> Option<CaptureHandles> {
        self.program.take()
    }

    fn count(
        &self,
        queue: u16,
        program: Option<&CaptureLeftBehind>,
    ) -> Result<Box<dyn KernelCount>, String> {
        let Facts { other_queues, zero_copy } = &self.facts;
        let program = read_program(queue, other_queues, program)?;
        let socket = XskStatistics::of(&self.socket).map_err(text)?;
        Ok(Box::new(XdpCount { program, socket, zero_copy: *zero_copy }))
    }
}

impl KernelCount for XdpCount {
    fn bring_up(&self, lane: &mut LaneCounters, _last: &LastReading) -> Option<&'static str> {
        add_program(lane, &self.program, dropped(&self.socket, self.zero_copy));
        None
    }
}

/// Frames that the kernel lost on their way into a lane's memory, by what it counted.
pub(super) fn dropped(statistics: &XskStatistics, zero_copy: bool) -> ByCause {
    // Without a copy the driver asks for memory before there is a frame.
    let fill_empty = if zero_copy { 0 } else { statistics.fill_empty.min(statistics.dropped) };
    let counts = [
        (Cause::KernelRingFull, statistics.ring_full),
        (Cause::FillRingEmpty, fill_empty),
        (Cause::FrameTooLarge, statistics.dropped - fill_empty),
    ];
    counts.into_iter().filter(|&(_, count)| count > 0).collect()
}

/// A count of such numbers.
#[cfg(test)]
pub(crate) fn count_of_numbers(number: &mut impl FnMut() -> u64) -> Box<dyn KernelCount> {
    let program = crate::backend::kernel_side::program_of_numbers(number);
    let socket = XskStatistics {
        dropped: number(),
        invalid_fill: number(),
        ring_full: number(),
        fill_empty: number(),
    };
    Box::new(XdpCount { program, socket, zero_copy: false })
}
