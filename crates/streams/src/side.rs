//! One direction of a connection, put in order.

use crate::event::{Cause, Event};
use crate::held::{Ahead, Held};
use crate::limits::{ACKED_WAIT_NS, PIECES_MAX, WINDOW_SLACK_BYTES};
use crate::opening::SideStart;
use crate::{Limits, StreamLedger};
use ringside_core::Timestamp;
use std::collections::BTreeSet;

/// Takes what a direction says, and when its last byte came.
pub(crate) type Emit<'e> = dyn FnMut(Timestamp, Event<'_>) + 'e;

/// What all directions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub limits: Limits,
    pub ledger: StreamLedger,
    /// Memory of what is held.
    pub held: usize,
    /// Directions that wait: until when, the place of the connection, which of its sides.
    pub waiting: BTreeSet<(u64, usize, usize)>,
}

/// Windows of a host whose SYN was not seen may be scaled by as much.
const SCALE_MAX: u8 = 14;

/// How far what is sent again may lie behind, where most segments are left out and nothing is
/// waited for: no window is larger (RFC 7323). What seems further back lies ahead by 2 GiB and
/// more.
const REPEATED_MAX: i32 = 1 << 30;

const BEGUN: u8 = 1;
/// Its FIN was seen, behind what was handed on or not.
const HAS_FIN: u8 = 2;
/// All up to its FIN was handed on.
const ENDED: u8 = 4;
/// The other side has acknowledged something.
const HAS_ACKED: u8 = 8;
/// It began with its SYN.
const FROM_SYN: u8 = 16;

#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Sequence number of what comes next.
    next: u32,
    /// Sequence number of the first byte.
    start: u32,
    /// Where the FIN stands.
    fin: u32,
    /// What the other side has, and how far its window reaches.
    acked: u32,
    window_end: u32,
    /// By how many bits the windows of this side are scaled.
    scale: u8,
    flags: u8,
    held: Option<Box<Held>>,
    /// Until when bytes before those that are held are waited for; 0 if none are.
    deadline: u64,
    /// The same, as the set of those that wait has it.
    queued: u64,
}

impl Side {
    pub(crate) fn new(opening: &SideStart) -> Side {
        let mut side = Side { scale: SCALE_MAX, ..Side::default() };
        if let Some(start) = opening.start {
            side.open(start, opening.scale);
        }
        side
    }

    /// Its SYN was seen.
    fn open(&mut self, start: u32, scale: Option<u8>) {
        (self.next, self.start) = (start, start);
        self.flags |= BEGUN | FROM_SYN;
        self.scale = scale.unwrap_or(0);
    }

    fn is(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is(ENDED)
    }

    /// A SYN says that the first byte has this number. False if it is that of another connection.
    pub(crate) fn agrees(&mut self, start: u32, scale: Option<u8>) -> bool {
        if !self.is(BEGUN) {
            self.open(start, scale);
            return true;
        }
        // A SYN that comes behind the first bytes of its own connection.
        let is_late = !self.is(FROM_SYN) && self.start.wrapping_sub(start) <= 0xffff;
        self.start == start || is_late
    }

    /// By how many bits windows that this side announces are scaled.
    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }

    /// The other side has everything before `number`, and room for `window` bytes.
    pub(crate) fn acknowledge(&mut self, number: u32, window: u32) {
        if !self.is(HAS_ACKED) || ahead(number, self.acked) >= 0 {
            self.acked = number;
            self.window_end = number.wrapping_add(window);
            self.flags |= HAS_ACKED;
        }
    }

    /// True if a host takes a reset with this number.
    pub(crate) fn takes_reset(&self, number: u32) -> bool {
        !self.is(BEGUN) || self.is_in_window(number) && ahead(number, self.next) >= -0xffff
    }

    fn is_in_window(&self, number: u32) -> bool {
        let slack = WINDOW_SLACK_BYTES as i32;
        !self.is(HAS_ACKED)
            || ahead(number, self.window_end) <= slack
            || ahead(number, self.next) <= slack
    }

    /// Its FIN stands at `number`.
    pub(crate) fn finish_at(&mut self, number: u32, stamp: Timestamp, emit: &mut Emit<'_>) {
        let is_far = || ahead(number, self.next) < 0 || !self.is_in_window(number);
        if self.is(HAS_FIN) || self.is(BEGUN) && is_far() {
            return;
        }
        if !self.is(BEGUN) {
            (self.next, self.start) = (number, number);
            self.flags |= BEGUN;
        }
        self.fin = number;
        self.flags |= HAS_FIN;
        self.end(stamp, emit);
    }

    /// Ends, if all up to the FIN is out.
    fn end(&mut self, stamp: Timestamp, emit: &mut Emit<'_>) {
        // A sender that says more behind its FIN has ended all the same.
        if self.is(HAS_FIN) && !self.is(ENDED) && ahead(self.next, self.fin) >= 0 {
            self.flags |= ENDED;
            emit(stamp, Event::Fin);
        }
    }

    /// Takes a segment with payload, of which `cut` bytes were not captured.
    #[inline]
    pub(crate) fn receive(&mut self, segment: Ahead<'_>, shared: &mut Shared, emit: &mut Emit<'_>) {
        let (stamp, bytes) = (segment.stamp, segment.bytes.len());
        let ledger = &mut shared.ledger;
        ledger.cut_bytes += u64::from(segment.cut);
        if !self.is(BEGUN) {
            (self.next, self.start) = (segment.start, segment.start);
            self.flags |= BEGUN;
            ledger.add_gap(0, Cause::BeforeCapture);
            emit(stamp, Event::Gap { bytes: 0, cause: Cause::BeforeCapture });
        }
        if self.is(ENDED) {
            ledger.after_end_bytes += bytes as u64;
            return;
        }
        let distance = ahead(segment.start, self.next);
        if distance == 0 && self.held.is_none() {
            self.hand_on(segment.bytes, segment.cut, stamp, shared, emit);
            self.end(stamp, emit);
            return;
        }
        self.receive_apart(segment, distance, shared, emit);
    }

    /// A segment that does not begin where the direction goes on, or others wait behind it.
    fn receive_apart(
        &mut self,
        mut segment: Ahead<'_>,
        distance: i32,
        shared: &mut Shared,
        emit: &mut Emit<'_>,
    ) {
        let stamp = segment.stamp;
        if distance < -REPEATED_MAX && shared.limits.wait.is_zero() {
            self.gap(distance as u32, Cause::NotWaitedFor, stamp, shared, emit);
            self.hand_on(segment.bytes, segment.cut, stamp, shared, emit);
            self.end(stamp, emit);
            return;
        }
        if distance > 0 && !self.is_in_window(segment.start) {
            shared.ledger.out_of_window_bytes += segment.bytes.len() as u64;
            return;
        }
        if distance < 0 {
            let behind = distance.unsigned_abs() as usize;
            let known = behind.min(segment.bytes.len());
            shared.ledger.repeated_bytes += known as u64;
            segment.bytes = &segment.bytes[known..];
            segment.cut = segment.cut.saturating_sub((behind - known) as u32);
            if segment.bytes.is_empty() && segment.cut == 0 {
                return;
            }
            segment.start = self.next;
        }
        if self.held.is_none() && distance <= 0 {
            self.hand_on(segment.bytes, segment.cut, stamp, shared, emit);
        } else {
            self.hold(segment, shared);
            self.drain(shared, emit);
            self.give_up_over_limits(stamp, shared, emit);
        }
        self.end(stamp, emit);
    }

    /// What comes next is out; `cut` bytes behind it were not captured.
    #[inline]
    fn hand_on(
        &mut self,
        bytes: &[u8],
        cut: u32,
        stamp: Timestamp,
        shared: &mut Shared,
        emit: &mut Emit<'_>,
    ) {
        if !bytes.is_empty() {
            shared.ledger.delivered_bytes += bytes.len() as u64;
            self.next = self.next.wrapping_add(bytes.len() as u32);
            emit(stamp, Event::Data(bytes));
        }
        if cut > 0 {
            // What waits behind them says how many they are at most.
            let room = self.target().map_or(cut, |target| target.wrapping_sub(self.next));
            self.gap(cut.min(room), Cause::Cut, stamp, shared, emit);
        }
    }

    fn gap(
        &mut self,
        bytes: u32,
        cause: Cause,
        stamp: Timestamp,
        shared: &mut Shared,
        emit: &mut Emit<'_>,
    ) {
        if bytes > 0 {
            self.next = self.next.wrapping_add(bytes);
            shared.ledger.add_gap(bytes, cause);
            emit(stamp, Event::Gap { bytes, cause });
        }
    }

    fn hold(&mut self, segment: Ahead<'_>, shared: &mut Shared) {
        let held = self.held.get_or_insert_default();
        let before = held.memory();
        let taken = held.take_in(segment, self.next, shared.limits.overlap);
        shared.held = shared.held + held.memory() - before;
        let ledger = &mut shared.ledger;
        ledger.held_bytes += taken.new as u64;
        ledger.reordered_bytes += taken.new as u64;
        ledger.repeated_bytes += taken.repeated as u64;
        ledger.conflicting_bytes += taken.conflicting as u64;
    }

    /// Hands on what need not wait any more.
    fn drain(&mut self, shared: &mut Shared, emit: &mut Emit<'_>) {
        let Some(mut held) = self.held.take() else { return };
        while held.first().is_some_and(|piece| ahead(piece.start, self.next) <= 0) {
            let before = held.memory();
            let Some(piece) = held.take_first() else { break };
            shared.held -= before - held.memory();
            shared.ledger.held_bytes -= piece.bytes.len() as u64;
            // Other bytes are waited for now, if any are.
            self.deadline = 0;
            // A gap that a cut frame left may have gone past its beginning.
            let known = (self.next.wrapping_sub(piece.start) as usize).min(piece.bytes.len());
            shared.ledger.repeated_bytes += known as u64;
            let room = held.first().map_or(piece.cut, |next| {
                next.start.wrapping_sub(self.next).wrapping_sub((piece.bytes.len() - known) as u32)
            });
            self.hand_on(&piece.bytes[known..], piece.cut.min(room), piece.stamp, shared, emit);
        }
        if held.pieces() > 0 {
            self.held = Some(held);
        }
    }

    fn give_up_over_limits(&mut self, stamp: Timestamp, shared: &mut Shared, emit: &mut Emit<'_>) {
        if shared.limits.wait.is_zero() {
            while self.held.is_some() {
                self.skip(Cause::NotWaitedFor, stamp, shared, emit);
            }
        }
        let bytes_max = shared.limits.side_bytes;
        let is_over = |held: &Held| held.memory() > bytes_max || held.pieces() > PIECES_MAX;
        while self.held.as_deref().is_some_and(is_over) {
            self.skip(Cause::SideFull, stamp, shared, emit);
        }
    }

    /// Where the next byte that we have stands, or the end.
    fn target(&self) -> Option<u32> {
        let first = self.held.as_deref().and_then(Held::first).map(|piece| piece.start);
        first.or((self.is(HAS_FIN) && !self.is(ENDED)).then_some(self.fin))
    }

    /// Waits no longer for what comes next.
    pub(crate) fn skip(
        &mut self,
        cause: Cause,
        stamp: Timestamp,
        shared: &mut Shared,
        emit: &mut Emit<'_>,
    ) {
        let Some(target) = self.target() else { return };
        self.deadline = 0;
        let bytes = target.wrapping_sub(self.next);
        self.gap(bytes, cause, stamp, shared, emit);
        self.drain(shared, emit);
        self.end(stamp, emit);
    }

    /// Gives out all that waits, since nothing more will come.
    pub(crate) fn flush(&mut self, stamp: Timestamp, shared: &mut Shared, emit: &mut Emit<'_>) {
        while self.target().is_some() {
            self.skip(Cause::Ended, stamp, shared, emit);
        }
    }

    /// Sees to it that the set of those that wait is right about this one.
    #[inline]
    pub(crate) fn settle(&mut self, place: (usize, usize), now: u64, shared: &mut Shared) {
        let is_waiting = self.held.is_some() || self.is(HAS_FIN) && !self.is(ENDED);
        if is_waiting || self.queued != 0 {
            self.settle_waiting(is_waiting, place, now, shared);
        }
    }

    #[cold]
    fn settle_waiting(
        &mut self,
        is_waiting: bool,
        (at, side): (usize, usize),
        now: u64,
        shared: &mut Shared,
    ) {
        if !is_waiting {
            self.deadline = 0;
        } else {
            if self.deadline == 0 {
                let wait_ns = shared.limits.wait.as_nanos() as u64;
                self.deadline = now.saturating_add(wait_ns).max(1);
            }
            if self.has_other_side_all() {
                self.deadline = self.deadline.min(now.saturating_add(ACKED_WAIT_NS)).max(1);
            }
        }
        if self.deadline != self.queued {
            if self.queued != 0 {
                shared.waiting.remove(&(self.queued, at, side));
            }
            if self.deadline != 0 {
                shared.waiting.insert((self.deadline, at, side));
            }
            self.queued = self.deadline;
        }
    }

    /// True if the other side says that it has what we wait for.
    pub(crate) fn has_other_side_all(&self) -> bool {
        let has = |target| ahead(self.acked, target) >= 0;
        self.is(HAS_ACKED) && self.target().is_some_and(has)
    }
}

/// How far a number lies ahead of another; negative if behind.
#[inline]
fn ahead(number: u32, of: u32) -> i32 {
    number.wrapping_sub(of) as i32
}
