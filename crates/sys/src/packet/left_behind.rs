//! The packet socket of a process that died, from outside: what the kernel still counts.

use super::{PacketStatistics, reject_all};
use crate::SysError;
use std::os::fd::{AsFd, OwnedFd};

/// A packet socket whose owner died. The kernel keeps the socket, and goes on receiving into its
/// ring, as long as a descriptor of it is open somewhere.
pub struct LeftBehind {
    socket: OwnedFd,
}

impl LeftBehind {
    /// By a descriptor that the owner gave while it lived.
    pub fn new(socket: OwnedFd) -> LeftBehind {
        LeftBehind { socket }
    }

    /// Stops the supply as [`PacketRing::detach`](super::PacketRing::detach) does: when this
    /// returns, the kernel's counters stand still. May take some ten milliseconds.
    ///
    /// # Errors
    /// It is no packet socket, or the kernel refused.
    pub fn detach(&self) -> Result<(), SysError> {
        reject_all(self.socket.as_fd())
    }

    /// What was counted since the owner last read.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn statistics(&self) -> Result<PacketStatistics, SysError> {
        let mut statistics = PacketStatistics::default();
        statistics.accumulate(&self.socket)?;
        Ok(statistics)
    }
}
