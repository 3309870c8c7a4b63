//! A queue that sends.

use crate::port::Port;
use crate::queue::BURST_FRAMES;
use crate::table::{RawSender, Table};
use std::ptr::NonNull;
use std::sync::Arc;

/// A queue that sends, for one thread at a time.
pub struct Sender {
    table: &'static Table,
    raw: NonNull<RawSender>,
    frame_bytes_max: usize,
    /// Frames that were put and not taken.
    waiting: usize,
    _port: Arc<Port>,
}

// SAFETY: what the pointer leads to belongs to the sender, and to no thread; all that changes it
// takes the sender exclusively.
unsafe impl Send for Sender {}

impl Sender {
    pub(crate) fn new(
        table: &'static Table,
        raw: NonNull<RawSender>,
        port: Arc<Port>,
        frame_bytes_max: u32,
    ) -> Sender {
        Sender { table, raw, frame_bytes_max: frame_bytes_max as usize, waiting: 0, _port: port }
    }

    /// True if another frame can be put, as far as is known.
    pub fn has_room(&self) -> bool {
        self.waiting < BURST_FRAMES
    }

    /// Has `write` write a frame of `bytes` bytes, all of it; what stands there before is anything.
    /// False if there is no room now, or never for so long a frame: `write` was not called.
    pub fn put(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if bytes > self.frame_bytes_max {
            return false;
        }
        // SAFETY: a sender that is there.
        let room = unsafe { (self.table.room)(self.raw.as_ptr(), bytes as u32) };
        let Some(room) = NonNull::new(room) else { return false };
        // SAFETY: the plug-in gives `bytes` bytes that no other caller has until the next flush,
        // which takes the sender exclusively. DPDK's memory was written when it was mapped: the
        // system gives it filled with zeros.
        write(unsafe { std::slice::from_raw_parts_mut(room.as_ptr(), bytes) });
        self.waiting += 1;
        true
    }

    /// Hands over what was put: of how many frames the driver took charge. The rest stays.
    pub fn flush(&mut self) -> usize {
        // SAFETY: a sender that is there.
        let taken = unsafe { (self.table.flush)(self.raw.as_ptr()) };
        let taken = usize::try_from(taken).unwrap_or(0).min(self.waiting);
        self.waiting -= taken;
        taken
    }

    /// Throws away what was put and not taken: how many frames.
    pub fn abandon(&mut self) -> usize {
        // SAFETY: a sender that is there.
        let count = unsafe { (self.table.abandon)(self.raw.as_ptr()) };
        self.waiting = 0;
        usize::try_from(count).unwrap_or(0)
    }
}
