//! Packing by several threads: room is reserved in the order of the claims, which is the order of
//! receipt, and filled side by side.

use super::plan::{Limits, Plan, Planned};
use super::{Offered, OpenBlock, Packer, Put, Reading};
use ringside_core::limits::LANE_THREADS_MAX;
use ringside_core::{FrameNumber, InterfaceId, Padded, Timestamp};
use ringside_ring::{
    ClaimTurn, Claimed, LaneBroken, OpenError, Reservation, Reserving, Rooms, SharedLane,
};
use ringside_store::block::{
    self, BLOCK_HEADER_BYTES, BlockEnd, BlockHeader, CLOSING_BYTES_MAX, Statistics,
    write_block_header,
};
use ringside_sys::clock;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Parts of one ticket: the rest of a block, its closing, the next block's header and beginning,
/// and the closing of that.
const PARTS_MAX: usize = 6;

/// What became of the frames of one ticket, reported when they are shown to readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Which thread took them.
    pub thread: usize,
    /// What became of those that were offered.
    pub put: Put,
    /// Frames that were not to be taken, and were not offered.
    pub filtered: u64,
    /// Frames that a rule drops, and were not offered.
    pub by_rule: u64,
    /// Frames that were not offered, because the run had reached its limit.
    pub limited: u64,
}

/// Fills the blocks of one lane, by several threads.
pub struct SharedPacker {
    lane: SharedLane<Done>,
    interface: InterfaceId,
    limits: Limits,
    block_bytes: usize,
    threads: usize,
    /// What the packer was made from, for the end; without a writer.
    snaplen: u32,
    state: Padded<Mutex<ReservationState>>,
    wants_reading: AtomicBool,
}

/// What changes with every reservation; the thread that has the turn has it.
struct ReservationState {
    frames: u64,
    first_time: Timestamp,
    reading: Arc<Reading>,
    /// Of which room was reserved for the frames, if they are filled in or not.
    open: OpenBlock,
    /// True once a reading was asked for, for the closing of the open block.
    has_asked: bool,
}

/// What one thread keeps from batch to batch.
pub struct PackerScratch {
    plan: Plan,
    parts: Vec<Part>,
}

impl Default for PackerScratch {
    fn default() -> PackerScratch {
        PackerScratch { plan: Plan::new(), parts: Vec::with_capacity(PARTS_MAX) }
    }
}

/// Part of a block that a thread has to fill.
struct Part {
    room: usize,
    content: Content,
}

enum Content {
    Header(BlockHeader),
    /// Frames, by their place in the plan.
    Frames(Range<usize>),
    /// Statistics, padding and the block's end.
    Closing {
        first_time: Timestamp,
        reading: Arc<Reading>,
        end: BlockEnd,
    },
}

/// The frames of one claim, and what comes with them.
pub struct ClaimedFrames<'b> {
    /// The frames that are to be taken; `None` if the source had none.
    pub offered: Option<Offered<'b>>,
    /// Before them, the open block is closed: a file ends.
    pub close_block: bool,
    /// No frame of a later claim is stamped before this.
    pub low_water: Timestamp,
    /// What is reported of them when they are shown, as far as it is known.
    pub done: Done,
}

impl ClaimedFrames<'_> {
    /// A claim without frames.
    pub fn none(low_water: Timestamp) -> ClaimedFrames<'static> {
        let done = Done::default();
        ClaimedFrames { offered: None, close_block: false, low_water, done }
    }
}

impl SharedPacker {
    /// A packer for `threads` threads that goes on where `packer` is.
    pub fn new(packer: Packer, threads: usize) -> SharedPacker {
        let Packer { writer, interface, snaplen, block_bytes, frames, first_time, open } = packer;
        let state = ReservationState {
            frames,
            first_time,
            reading: Arc::default(),
            open,
            has_asked: false,
        };
        SharedPacker {
            lane: SharedLane::new(writer),
            interface,
            limits: Limits::new(snaplen, block_bytes),
            block_bytes,
            threads: threads.min(LANE_THREADS_MAX),
            snaplen,
            state: Padded(Mutex::new(state)),
            wants_reading: AtomicBool::new(true),
        }
    }

    /// The packer of one thread again, once no other is left; `None` if one of them died: the lane
    /// has then ended with what it had shown.
    pub fn into_packer(self) -> Option<Packer> {
        let state = self.state.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some(Packer {
            writer: self.lane.into_writer()?,
            interface: self.interface,
            snaplen: self.snaplen,
            block_bytes: self.block_bytes,
            frames: state.frames,
            first_time: state.first_time,
            open: state.open,
        })
    }

    /// Waits for this thread's turn to claim.
    ///
    /// # Errors
    /// Here and below: another thread of the lane died.
    pub fn enter(&self) -> Result<ClaimTurn<'_, Done>, LaneBroken> {
        self.lane.enter()
    }

    /// True once for a block that will soon be closed: time to read the counters.
    pub fn wants_reading(&self) -> bool {
        self.wants_reading.load(Ordering::Relaxed)
    }

    /// The lane's ledger for the blocks that are closed from now on.
    pub fn set_reading(&self, reading: Reading) {
        self.wants_reading.store(false, Ordering::Relaxed);
        self.state().reading = Arc::new(reading);
    }

    /// Copies the frames of a claim into the ring. `tell` gets what became of them when readers see
    /// them, in the order of the claims; it may be another thread's.
    pub fn put(
        &self,
        claimed: Claimed<'_, Done>,
        frames: ClaimedFrames<'_>,
        scratch: &mut PackerScratch,
        tell: impl FnMut(Done),
    ) -> Result<(), LaneBroken> {
        let mut done = frames.done;
        let PackerScratch { plan, parts } = scratch;
        parts.clear();
        let planned = frames.offered.map(|offered| {
            let (planned, too_large) = plan.make(offered, self.limits);
            done.put.too_large += too_large;
            planned
        });
        let mut turn = claimed.reserve()?;
        if frames.close_block {
            self.close(&mut self.state(), &mut turn, parts);
        }
        if let Some(planned) = planned {
            self.reserve(&mut turn, planned, parts, &mut done.put)?;
        }
        let mut reservation: Reservation<'_, Done> = turn.reserved();
        let offered = planned.map(|planned| planned.offered);
        self.fill(reservation.rooms(), offered, parts, &mut done.put);
        reservation.finish(frames.low_water.0, done, tell);
        Ok(())
    }

    /// Takes room for all frames, as far as blocks are free.
    fn reserve(
        &self,
        turn: &mut Reserving<'_, Done>,
        planned: Planned<'_>,
        parts: &mut Vec<Part>,
        put: &mut Put,
    ) -> Result<(), LaneBroken> {
        let mut state = self.state();
        let mut next = 0;
        while next < planned.slots().len() {
            let free = turn.free_bytes().saturating_sub(CLOSING_BYTES_MAX);
            let count = planned.fitting(next, free);
            if count > 0 {
                let range = next..next + count;
                let bytes = planned.bytes(range.start, range.end);
                let room = turn.room(bytes, count as u32);
                let stamp = planned.slots()[next].timestamp();
                if state.frames == 0 {
                    state.first_time = stamp;
                }
                state.frames += count as u64;
                let open = &mut state.open;
                open.first.get_or_insert(stamp);
                open.stamps = open.stamps.with(planned.stamps(range.clone()));
                open.batch_bytes_max = open.batch_bytes_max.max(bytes);
                next = range.end;
                parts.push(Part { room, content: Content::Frames(range) });
                continue;
            }
            self.close(&mut state, turn, parts);
            match turn.open(state.frames) {
                Ok(true) => self.begin(&mut state, turn, parts),
                Ok(false) => {
                    // More than two blocks: what there is must be shown first.
                    self.fill(turn.rooms(), Some(planned.offered), parts, put);
                    parts.clear();
                    turn.show()?;
                }
                Err(OpenError::Full(_)) => {
                    put.recorder_behind += (planned.slots().len() - next) as u64;
                    return Ok(());
                }
                Err(OpenError::Broken(broken)) => return Err(broken),
            }
        }
        self.look_ahead(&mut state, turn);
        Ok(())
    }

    /// The header of a block that was just opened.
    fn begin(
        &self,
        state: &mut ReservationState,
        turn: &mut Reserving<'_, Done>,
        parts: &mut Vec<Part>,
    ) {
        let header = BlockHeader {
            number: turn.next_sequence() - 1,
            first_frame: FrameNumber(state.frames),
            opened: clock::realtime_now(),
        };
        let room = turn.room(BLOCK_HEADER_BYTES, 0);
        parts.push(Part { room, content: Content::Header(header) });
        state.open = OpenBlock::begun(header.number, state.frames);
        state.has_asked = false;
    }

    /// Closes the open block, if any.
    fn close(
        &self,
        state: &mut ReservationState,
        turn: &mut Reserving<'_, Done>,
        parts: &mut Vec<Part>,
    ) {
        if !turn.is_open() {
            return;
        }
        let rest = turn.free_bytes();
        let room = turn.room(rest, 0);
        turn.close();
        let (first_time, reading) = (state.first_time, state.reading.clone());
        let end = state.open.end(state.frames);
        parts.push(Part { room, content: Content::Closing { first_time, reading, end } });
    }

    /// Asks for a reading if the batches that may be under way can close the open block.
    fn look_ahead(&self, state: &mut ReservationState, turn: &mut Reserving<'_, Done>) {
        let batches = self.threads + 1;
        let near = turn.free_bytes() < batches * state.open.batch_bytes_max + CLOSING_BYTES_MAX;
        if near && !state.has_asked {
            state.has_asked = true;
            self.wants_reading.store(true, Ordering::Relaxed);
        }
    }

    /// Fills the rooms of `parts`; those of frames are of what is offered.
    fn fill(
        &self,
        mut rooms: Rooms<'_>,
        offered: Option<Offered<'_>>,
        parts: &[Part],
        put: &mut Put,
    ) {
        for Part { room, content } in parts {
            match content {
                Content::Header(header) => {
                    write_block_header(rooms.bytes(*room), header);
                }
                Content::Frames(range) => {
                    let offered = offered.as_ref().expect("frames have room if there are some");
                    let captured_max = self.limits.captured_max();
                    let bytes = rooms.bytes(*room);
                    let (packed, cuts) = offered.pack(bytes, range.clone(), captured_max);
                    assert_eq!(packed.frames, range.len(), "the room was made for them");
                    put.taken += packed.frames as u64;
                    put.taken_bytes += packed.captured_bytes;
                    put.cuts.add(cuts);
                    let first = offered.slots[range.start].timestamp();
                    rooms.set_times(*room, first.0, packed.stamps.latest.0);
                }
                Content::Closing { first_time, reading, end } => {
                    let statistics = Statistics {
                        interface: self.interface,
                        first_time: *first_time,
                        when: reading.when,
                        counters: &reading.counters,
                    };
                    block::close_block(rooms.bytes(*room), &statistics, end);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReservationState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests;
