//! What a run sent.

use crate::{Error, SenderKind};
use serde::Serialize;
use std::time::Duration;

/// The account of a run, exact: `offered = handed + refused`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which sender.
    pub sender: SenderKind,
    /// Frames that the sender made and tried to send.
    pub offered: u64,
    /// Frames that the driver took: of a veth pair, that the far end was handed and accepted.
    pub handed: u64,
    /// Frames that the driver, or the far end of a veth pair, had no room for, as it counts them.
    pub refused_ring_full: u64,
    /// Frames that the socket or the driver refused before the ring (too long, interface down).
    pub refused_before_ring: u64,
    /// Increase of the far end's own count of received frames (`rx_packets`), where the far end is
    /// known. It equals `handed` unless somebody else sent through the same pair meanwhile.
    pub received_by_interface: Option<u64>,
    /// Frames of the capture that no interface takes and that were left out, of each round.
    pub unsendable: u64,
    /// Offered by each sending thread, which is its stream.
    pub streams: Vec<u64>,
    /// Bytes of the frames offered.
    pub offered_bytes: u64,
    /// From the first frame to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// True if the run ended before its limit because it was stopped.
    pub stopped: bool,
    /// The error that ended it.
    pub failure: Option<String>,
}

impl Report {
    /// Frames offered per second; 0 for a run without length.
    pub fn offered_per_sec(&self) -> f64 {
        per_sec(self.offered, self.elapsed_ns)
    }

    /// Frames handed to the far end per second; 0 for a run without length.
    pub fn handed_per_sec(&self) -> f64 {
        per_sec(self.handed, self.elapsed_ns)
    }
}

fn per_sec(count: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / elapsed_ns as f64 }
}

/// What one thread sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames offered.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that a system call refused.
    pub refused_by_socket: u64,
    /// Of these, frames for which there was no room, where that is known.
    pub refused_for_room: u64,
    /// From its first frame to its last.
    pub elapsed: Duration,
    /// Stopped from outside.
    pub stopped: bool,
    /// Why it ended early.
    pub failure: Option<Error>,
}
