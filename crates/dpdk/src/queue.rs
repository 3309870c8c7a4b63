//! A receive queue.

use crate::port::Port;
use crate::table::{Frame, HASHED, Memory, RawQueue, STAMPED, Table};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Most frames that are lent at a time.
pub const BURST_FRAMES: usize = 256;

/// A receive queue, for one thread at a time.
pub struct Queue {
    table: &'static Table,
    raw: NonNull<RawQueue>,
    memory: Memory,
    frames: Box<[Frame; BURST_FRAMES]>,
    /// Of them, those of the last burst.
    count: usize,
    /// They are in the copies.
    is_copied: bool,
    _port: Arc<Port>,
}

// SAFETY: what the pointers lead to belongs to the queue, and to no thread; all that changes it
// takes the queue exclusively.
unsafe impl Send for Queue {}

/// A frame of the last burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Where it begins in the queue's memory.
    pub offset: usize,
    /// Bytes of it that are there.
    pub bytes: u32,
    /// Its length.
    pub wire_bytes: u32,
    /// The driver's stamp, in the driver's unit.
    pub stamp: Option<u64>,
    /// The hash of its flow, by the card.
    pub hash: Option<u32>,
}

impl Queue {
    pub(crate) fn new(table: &'static Table, raw: NonNull<RawQueue>, port: Arc<Port>) -> Queue {
        let mut memory = Memory {
            lent: std::ptr::null(),
            lent_bytes: 0,
            copies: std::ptr::null(),
            copies_bytes: 0,
        };
        // SAFETY: a queue that is there, and room for the answer.
        unsafe { (table.memory)(raw.as_ptr(), &raw mut memory) };
        let frames = Box::new([Frame::default(); BURST_FRAMES]);
        Queue { table, raw, memory, frames, count: 0, is_copied: false, _port: port }
    }

    /// Takes the next frames, and gives back the last: how many there are.
    pub fn receive(&mut self) -> usize {
        self.register_thread();
        let mut copied = 0;
        // SAFETY: room for as many frames as are asked for; what was lent is not looked at any
        // more, since `memory` borrows the queue.
        let count = unsafe {
            let frames = self.frames.as_mut_ptr();
            (self.table.receive)(self.raw.as_ptr(), frames, BURST_FRAMES as u32, &raw mut copied)
        };
        self.is_copied = copied != 0;
        self.count = usize::try_from(count).unwrap_or(0).min(BURST_FRAMES);
        self.count
    }

    /// The frames of the last burst, each of which lies in [`memory`](Self::memory).
    pub fn frames(&self) -> impl Iterator<Item = Received> + '_ {
        self.frames[..self.count].iter().map(|frame| Received {
            offset: frame.offset as usize,
            bytes: frame.bytes,
            wire_bytes: frame.wire_bytes,
            stamp: (frame.flags & STAMPED != 0).then_some(frame.stamp),
            hash: (frame.flags & HASHED != 0).then_some(frame.hash),
        })
    }

    /// The memory that the frames of the last burst lie in.
    pub fn memory(&self) -> &[u8] {
        let Memory { lent, lent_bytes, copies, copies_bytes } = self.memory;
        let (from, bytes) =
            if self.is_copied { (copies, copies_bytes) } else { (lent, lent_bytes) };
        if from.is_null() {
            return &[];
        }
        // SAFETY: the plug-in gives one piece of memory of this length, which lives as long as the
        // queue. It is written to by calls that take the queue exclusively, and by a card, into
        // frames that are not lent, which are not read.
        unsafe { std::slice::from_raw_parts(from, bytes as usize) }
    }

    /// How many frames [`receive`](Self::receive) would find; gives back the last burst.
    pub fn waiting(&mut self) -> usize {
        self.register_thread();
        self.count = 0;
        // SAFETY: a queue that is there; what was lent is not looked at any more.
        let count = unsafe { (self.table.waiting)(self.raw.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Throws away what waits.
    pub fn discard(&mut self) {
        self.count = 0;
        // SAFETY: as above.
        unsafe { (self.table.discard)(self.raw.as_ptr()) };
    }

    /// Takes what waits, as far as there is memory, for [`receive`](Self::receive) to lend: how
    /// many frames. After it nothing is taken from the device.
    pub fn finish(&mut self) -> usize {
        self.count = 0;
        // SAFETY: as above.
        let count = unsafe { (self.table.finish)(self.raw.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// DPDK knows the calling thread, so that it has a cache of frames of its own; a thread that it
    /// has no number for works without.
    fn register_thread(&self) {
        thread_local! {
            static REGISTERED: RefCell<Option<Registration>> = const { RefCell::new(None) };
        }
        REGISTERED.with_borrow_mut(|registered| {
            registered.get_or_insert_with(|| Registration::new(self.table));
        });
    }
}

/// A thread that DPDK knows, until it ends: numbers of threads that did not say so are not given
/// out again.
struct Registration {
    table: &'static Table,
    is_known: bool,
}

impl Registration {
    fn new(table: &'static Table) -> Registration {
        // SAFETY: EAL runs: a queue is open.
        let is_known = unsafe { (table.register_thread)() == 0 };
        if !is_known {
            tracing::debug!("DPDK has no number for this thread: it works without a cache");
        }
        Registration { table, is_known }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.is_known {
            // SAFETY: this thread was registered, and ends.
            unsafe { (self.table.unregister_thread)() };
        }
    }
}
