//! Several threads that fill the blocks of one lane, in the order in which they claimed.

use super::cursor::shared_lane::{Pass, SharedCursor, Step, TakeError};
use super::cursor::{Lane, RingFull, WriterCursor};
use super::region::Region;
use super::writer::{LaneWriter, Parts};
use ringside_sys::bell::Bells;
use ringside_sys::shared_memory::{self, BlockTail};
use ringside_sys::sync::Ordering;
use std::sync::Arc;

pub use super::cursor::shared_lane::LaneBroken;

/// Rooms that one ticket holds at a time: the rest of one block and its closing, the beginning of
/// the next, and its closing.
const ROOMS_MAX: usize = 6;

/// Steps of one ticket: an opening, the block before it and the block after it.
const STEPS_MAX: usize = 3;

/// A lane's writer, shared by several threads. `P` is what a thread gets back when what it filled
/// is shown: for counts that are never ahead of the ring.
///
/// A thread goes round and round: [`enter`](Self::enter), claim frames, [`ClaimTurn::claimed`],
/// [`Claimed::reserve`], take room, [`Reserving::reserved`], fill, [`Reservation::finish`].
pub struct SharedLane<P> {
    region: Arc<Region>,
    lane: usize,
    block_bytes: usize,
    bells: Option<Arc<Bells>>,
    /// `None` once the writer was taken back.
    cursor: Option<SharedCursor<Option<BlockTail>, Shown<P>>>,
}

/// What a ticket shows.
struct Shown<P> {
    rooms: [Option<Room>; ROOMS_MAX],
    steps: [Option<Step>; STEPS_MAX],
    low_water_ns: u64,
    told: P,
}

impl<P> SharedLane<P> {
    /// A shared lane that goes on where `writer` is.
    pub fn new(writer: LaneWriter) -> SharedLane<P> {
        let Parts { region, lane, cursor, tail, bells } = writer.into_parts();
        let block_bytes = region.layout().block_bytes;
        SharedLane {
            region,
            lane,
            block_bytes,
            bells,
            cursor: Some(SharedCursor::new(cursor, tail)),
        }
    }

    /// The writer, once no thread is left; `None` if one of them died on its way: the lane then
    /// ends with what it had shown.
    pub fn into_writer(mut self) -> Option<LaneWriter> {
        let parts = self.cursor.take()?.into_parts();
        match parts {
            Some((cursor, tail)) => {
                let (region, bells) = (self.region.clone(), self.bells.take());
                Some(LaneWriter::from_parts(region, self.lane, cursor, tail, bells))
            }
            None => {
                self.end();
                None
            }
        }
    }

    /// Waits for this thread's turn to claim frames; threads come in the order of their calls.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn enter(&self) -> Result<ClaimTurn<'_, P>, LaneBroken> {
        let pass = self.cursor.as_ref().ok_or(LaneBroken)?.enter()?;
        Ok(ClaimTurn { lane: self, pass })
    }

    fn header(&self) -> Lane<'_> {
        self.region.lane(self.lane)
    }

    fn show(&self, rooms: [Option<Room>; ROOMS_MAX], steps: &[Option<Step>]) {
        // The bytes can be lent before readers see how many they are.
        for room in rooms.into_iter().flatten() {
            self.region.memory().show(room.part);
        }
        let mut closed = false;
        for step in steps.iter().flatten() {
            step.show(self.header());
            closed |= matches!(step, Step::Filled(mark, _) if mark.committed.closed);
        }
        if let Some(bells) = self.bells.as_ref().filter(|_| closed) {
            bells.ring();
        }
    }

    /// Says that nothing follows.
    fn end(&self) {
        let header = self.header();
        header.header.low_water_ns.store(u64::MAX, Ordering::Release);
        WriterCursor::default().finish(header);
        if let Some(bells) = &self.bells {
            bells.ring();
        }
    }
}

impl<P> Drop for SharedLane<P> {
    fn drop(&mut self) {
        if self.cursor.is_some() {
            self.end();
        }
    }
}

/// The turn to claim.
#[must_use = "the threads that come later wait for it"]
pub struct ClaimTurn<'c, P> {
    lane: &'c SharedLane<P>,
    pass: Pass<'c, Option<BlockTail>, Shown<P>>,
}

impl<'c, P> ClaimTurn<'c, P> {
    /// Ends the turn: the next thread may claim. What this one claimed comes before in the lane.
    pub fn claimed(self) -> Claimed<'c, P> {
        self.pass.claimed();
        Claimed { lane: self.lane, pass: self.pass }
    }
}

/// A ticket whose frames are claimed and have no room yet.
#[must_use = "the threads that come later wait for it"]
pub struct Claimed<'c, P> {
    lane: &'c SharedLane<P>,
    pass: Pass<'c, Option<BlockTail>, Shown<P>>,
}

impl<'c, P> Claimed<'c, P> {
    /// Waits for this ticket's turn to reserve room, which comes in the order of the claims.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn reserve(self) -> Result<Reserving<'c, P>, LaneBroken> {
        self.pass.wait_for_reservation()?;
        let reservation = Reservation {
            lane: self.lane,
            pass: self.pass,
            rooms: [const { None }; ROOMS_MAX],
            steps: [const { None }; STEPS_MAX],
            open_step: None,
            has_opened: false,
        };
        Ok(Reserving { reservation })
    }
}

/// The turn to reserve.
#[must_use = "the threads that come later wait for it"]
pub struct Reserving<'c, P> {
    reservation: Reservation<'c, P>,
}

impl<'c, P> Reserving<'c, P> {
    /// Bytes of the open block without a room; 0 if none is open.
    pub fn free_bytes(&mut self) -> usize {
        let block_bytes = self.reservation.lane.block_bytes;
        self.reservation.pass.with_cursor(|cursor| match cursor.slot() {
            Some(_) => block_bytes - cursor.filled_bytes() as usize,
            None => 0,
        })
    }

    /// True between `open` and `close`.
    pub fn is_open(&mut self) -> bool {
        self.reservation.pass.with_cursor(|cursor| cursor.slot().is_some())
    }

    /// Sequence number of the block that `open` will open next.
    pub fn next_sequence(&mut self) -> u64 {
        self.reservation.pass.with_cursor(|cursor| cursor.next_sequence())
    }

    /// Takes the next `bytes` of the open block, which will hold `frames` frames. Returns the
    /// room's index.
    ///
    /// # Panics
    /// If no block is open, the block has no room for them, or the ticket has taken rooms in two
    /// blocks and shown neither.
    pub fn room(&mut self, bytes: usize, frames: u32) -> usize {
        let reservation = &mut self.reservation;
        let block_bytes = reservation.lane.block_bytes;
        let (part, mark) = reservation.pass.with_block(|cursor, tail| {
            cursor.fill(bytes, frames, block_bytes);
            let tail = tail.as_mut().expect("`fill` asserts that a block is open");
            let mark = cursor.mark().expect("as the tail");
            (tail.cut_room(bytes), mark)
        });
        let step = match reservation.open_step {
            Some(step) => {
                reservation.steps[step] = Some(Step::Filled(mark, None));
                step
            }
            None => reservation.push(Step::Filled(mark, None)),
        };
        reservation.open_step = Some(step);
        let room = Room { part, step, times: None };
        let index = reservation.rooms.iter().position(Option::is_none);
        let index = index.expect("two blocks have no more rooms than there are places");
        reservation.rooms[index] = Some(room);
        index
    }

    /// Closes the open block.
    ///
    /// # Panics
    /// If not all of it is taken by rooms.
    pub fn close(&mut self) {
        assert_eq!(self.free_bytes(), 0, "a closed block is full");
        let reservation = &mut self.reservation;
        let Some(mark) = reservation.pass.with_block(|cursor, tail| {
            *tail = None;
            cursor.end()
        }) else {
            return;
        };
        let filled = Step::Filled(mark, None);
        match reservation.open_step.take() {
            Some(step) => reservation.steps[step] = Some(filled),
            None => drop(reservation.push(filled)),
        }
    }

    /// Opens the next block; `first_frame` is the cumulative number of its first frame. False if
    /// this ticket has opened one already: then what it has is to be filled and
    /// [shown](Self::show) first.
    ///
    /// # Errors
    /// No block is free, or a thread died.
    ///
    /// # Panics
    /// If a block is open.
    pub fn open(&mut self, first_frame: u64) -> Result<bool, OpenError> {
        let reservation = &mut self.reservation;
        if reservation.has_opened {
            return Ok(false);
        }
        let sequence = reservation.pass.with_cursor(|cursor| cursor.next_sequence());
        match reservation.pass.take(reservation.lane.header(), first_frame) {
            Ok(Some(slot)) => {
                let taken = reservation.lane.region.take(reservation.lane.lane, slot);
                reservation.pass.with_block(|_, tail| *tail = Some(taken));
                reservation.has_opened = true;
                reservation.push(Step::Opened(sequence));
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(TakeError::Full) => Err(OpenError::Full(RingFull)),
            Err(TakeError::Broken) => Err(OpenError::Broken(LaneBroken)),
        }
    }

    /// The rooms taken so far, to fill them within the turn.
    pub fn rooms(&mut self) -> Rooms<'_> {
        self.reservation.rooms()
    }

    /// Shows what this ticket has filled, once everything before it was shown, and forgets its
    /// rooms: for a ticket that needs more than two blocks. All of them must be filled.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn show(&mut self) -> Result<(), LaneBroken> {
        let reservation = &mut self.reservation;
        let (lane, steps) = (reservation.lane, reservation.final_steps());
        let rooms = std::mem::replace(&mut reservation.rooms, [const { None }; ROOMS_MAX]);
        reservation.pass.show_early(|| lane.show(rooms, &steps))?;
        reservation.steps = [const { None }; STEPS_MAX];
        reservation.open_step = None;
        reservation.has_opened = false;
        Ok(())
    }

    /// Ends the turn: the next thread may reserve.
    pub fn reserved(self) -> Reservation<'c, P> {
        self.reservation.pass.reserved();
        self.reservation
    }
}

/// Why no block was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// See [`RingFull`].
    #[error(transparent)]
    Full(RingFull),
    /// See [`LaneBroken`].
    #[error(transparent)]
    Broken(LaneBroken),
}

/// Rooms in the lane's blocks that belong to one thread until it says that they are filled.
#[must_use = "what other threads fill behind it is shown after it"]
pub struct Reservation<'c, P> {
    lane: &'c SharedLane<P>,
    pass: Pass<'c, Option<BlockTail>, Shown<P>>,
    rooms: [Option<Room>; ROOMS_MAX],
    steps: [Option<Step>; STEPS_MAX],
    /// The step that shows the open block.
    open_step: Option<usize>,
    has_opened: bool,
}

/// Part of a block.
struct Room {
    part: shared_memory::Room,
    /// The step that shows it.
    step: usize,
    times: Option<(u64, u64)>,
}

/// The rooms of a reservation, to be filled.
pub struct Rooms<'r> {
    region: &'r Region,
    rooms: &'r mut [Option<Room>; ROOMS_MAX],
}

impl Rooms<'_> {
    /// The bytes of a room.
    ///
    /// # Panics
    /// If there is no such room.
    pub fn bytes(&mut self, room: usize) -> &mut [u8] {
        let room = self.rooms[room].as_mut().expect("an index that `room` gave");
        self.region.memory().room_bytes(&mut room.part)
    }

    /// Stamp of the first frame in a room, and the latest, nanoseconds of UTC.
    ///
    /// # Panics
    /// If there is no such room.
    pub fn set_times(&mut self, room: usize, first_ns: u64, last_ns: u64) {
        self.rooms[room].as_mut().expect("an index that `room` gave").times =
            Some((first_ns, last_ns));
    }
}

impl<P> Reservation<'_, P> {
    /// The rooms, to fill them.
    pub fn rooms(&mut self) -> Rooms<'_> {
        Rooms { region: &self.lane.region, rooms: &mut self.rooms }
    }

    /// All rooms are filled. They are shown to readers once everything is that was claimed before,
    /// here or by another thread; after that no later frame is stamped before `low_water_ns`, and
    /// the thread that shows it hands `told` to `tell`.
    pub fn finish(self, low_water_ns: u64, told: P, mut tell: impl FnMut(P)) {
        let steps = self.final_steps();
        let (lane, rooms) = (self.lane, self.rooms);
        self.pass.finish(Shown { rooms, steps, low_water_ns, told }, |shown| {
            lane.show(shown.rooms, &shown.steps);
            lane.header().header.low_water_ns.store(shown.low_water_ns, Ordering::Release);
            tell(shown.told);
        });
    }

    fn push(&mut self, step: Step) -> usize {
        let index = self.steps.iter().position(Option::is_none);
        let index = index.expect("one opening, one block before it and one after it");
        self.steps[index] = Some(step);
        index
    }

    /// The steps with the times of their rooms.
    fn final_steps(&self) -> [Option<Step>; STEPS_MAX] {
        let mut steps = self.steps;
        for room in self.rooms.iter().flatten() {
            let (Some(Step::Filled(_, times)), Some((first, last))) =
                (&mut steps[room.step], room.times)
            else {
                continue;
            };
            *times = Some(times.map_or((first, last), |(f, l)| (f, l.max(last))));
        }
        steps
    }
}

impl<P> std::fmt::Debug for SharedLane<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedLane").field("lane", &self.lane).finish_non_exhaustive()
    }
}
