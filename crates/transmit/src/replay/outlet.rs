//! Where frames leave: the one place that knows how an interface is handed them.

use crate::Error;
use crate::wait::SLEEP_MAX;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX, bound_wait};
use std::io;

/// Frames of one call of [`Outlet::send`] at most.
pub const OUTLET_FRAMES_MAX: usize = SEND_FRAMES_MAX;

/// Hands frames to an interface. Tests have one of their own.
pub trait Outlet: Send {
    /// Hands over the first of `frames`, 1 to [`OUTLET_FRAMES_MAX`], in order; returns how many.
    /// If these are fewer than were given, the next one was refused: sending it again succeeds or
    /// tells why.
    ///
    /// # Errors
    /// The first frame was refused; nothing was handed over.
    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize>;
}

/// A packet socket past the queueing discipline: what the driver takes is counted, and what it has
/// no room for is refused instead of waiting in a queue where its time would be lost.
pub(crate) struct PacketOutlet(PacketTx);

impl PacketOutlet {
    pub fn open(ifindex: u32) -> Result<PacketOutlet, Error> {
        let socket = PacketTx::open(ifindex, true)?;
        bound_wait(&socket, SLEEP_MAX)?;
        Ok(PacketOutlet(socket))
    }
}

impl Outlet for PacketOutlet {
    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        self.0.send_batch(frames)
    }
}
