//! What the kernel holds of a lane, for a process that is to outlive this one.

use super::lane::AfXdpSource;
use ringside_core::Cause;
use ringside_core::ledger::ByCause;
use ringside_ebpf::capture::CaptureHandles;
use ringside_sys::xsk::XskStatistics;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// What the kernel holds of a lane and tells whoever has the descriptors. As long as the socket is
/// open somewhere the kernel keeps the lane's memory and goes on receiving into it.
#[derive(Debug)]
pub struct XdpHandles {
    /// The AF_XDP socket.
    pub socket: OwnedFd,
    /// The program, with the first lane of each interface.
    pub program: Option<CaptureHandles>,
    /// Counters of queues without a lane, whose frames pass: they go with the first lane.
    pub other_queues: Range<u32>,
    /// The driver puts frames into the lane's memory itself.
    pub zero_copy: bool,
}

impl AfXdpSource {
    /// Copies of the lane's descriptors, for a process that is to outlive this one.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn kernel_handles(&self) -> io::Result<XdpHandles> {
        let lane = self.lane();
        let (program, other_queues) = lane.interface.handles(lane.queue)?;
        let socket = lane.socket.try_clone()?;
        Ok(XdpHandles { socket, program, other_queues, zero_copy: lane.zero_copy })
    }
}

/// Frames that the kernel lost on their way into a lane's memory, by what it counted.
pub(crate) fn dropped(statistics: &XskStatistics, zero_copy: bool) -> ByCause {
    // Without a copy the driver asks for memory before there is a frame.
    let fill_empty = if zero_copy { 0 } else { statistics.fill_empty.min(statistics.dropped) };
    let counts = [
        (Cause::KernelRingFull, statistics.ring_full),
        (Cause::FillRingEmpty, fill_empty),
        (Cause::FrameTooLarge, statistics.dropped - fill_empty),
    ];
    counts.into_iter().filter(|&(_, count)| count > 0).collect()
}
