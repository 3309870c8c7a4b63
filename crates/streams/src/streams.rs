//! All connections.

use crate::connection::Connection;
use crate::dues::Dues;
use crate::event::{At, Cause, Closing, Event, Handler};
use crate::held::Ahead;
use crate::limits::{LINGER_NS, OPENING_MAX};
use crate::opening::Opening;
use crate::side::Shared;
use crate::{Limits, Segment, StreamLedger};
use ringside_core::{RecentTable, Timestamp};
use ringside_inspect::Key;
use ringside_wire::Tcp;
use std::collections::BTreeSet;

/// Follows connections.
#[derive(Debug)]
pub struct Streams<C> {
    connections: RecentTable<Key, Connection<C>>,
    opening: RecentTable<Key, Opening>,
    dues: Dues,
    shared: Shared,
    now: Timestamp,
}

impl<C: Default> Streams<C> {
    /// Within these limits.
    pub fn new(limits: Limits) -> Streams<C> {
        Streams {
            connections: RecentTable::new(limits.connections.max(1)),
            opening: RecentTable::new(OPENING_MAX),
            dues: Dues::default(),
            shared: Shared {
                limits,
                ledger: StreamLedger::default(),
                held: 0,
                waiting: BTreeSet::new(),
            },
            now: Timestamp::default(),
        }
    }

    /// Bytes of memory that the tables take for these limits, without what handlers keep behind
    /// pointers and without what is held.
    pub fn table_bytes(limits: &Limits) -> usize {
        RecentTable::<Key, Connection<C>>::bytes(limits.connections)
            + RecentTable::<Key, Opening>::bytes(OPENING_MAX)
            + limits.connections * size_of::<u32>()
    }

    /// The account.
    pub fn ledger(&self) -> &StreamLedger {
        &self.shared.ledger
    }

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.connections.values()
    }

    /// Memory of what is held, as it is counted against [`Limits::held_bytes`].
    pub fn held_memory(&self) -> usize {
        self.shared.held
    }

    /// Takes a segment in.
    #[inline]
    pub fn take_in<H: Handler<Kept = C>>(&mut self, segment: &Segment<'_>, handler: &mut H) {
        if segment.stamp != Timestamp::default() {
            self.now = segment.stamp;
        }
        let ledger = &mut self.shared.ledger;
        ledger.segments += 1;
        if segment.payload_bytes > 0 {
            ledger.data_segments += 1;
            ledger.received_bytes += u64::from(segment.payload_bytes);
        }
        let hash = self.connections.hash(&segment.key);
        let known = self.connections.find(&segment.key, hash);
        let known = known.filter(|&at| !self.is_another(at, segment, handler));
        let at = match known {
            Some(at) => at,
            None => match self.open(segment, hash, handler) {
                Some(at) => at,
                None => return,
            },
        };
        self.go_on(at, segment, handler);
    }

    /// True if a SYN says that the connection at a place is another one, which is over then.
    #[inline]
    fn is_another<H: Handler<Kept = C>>(
        &mut self,
        at: usize,
        segment: &Segment<'_>,
        handler: &mut H,
    ) -> bool {
        if !segment.has(Tcp::SYN) {
            return false;
        }
        let connection = &mut self.connections.at_mut(at).value;
        let side = &mut connection.sides[usize::from(segment.from_high)];
        let start = segment.sequence.wrapping_add(1);
        if side.agrees(start, segment.window_scale) && !connection.is_over {
            return false;
        }
        self.close(at, Closing::Reused, self.now, handler);
        self.remove(at);
        true
    }

    /// A segment of no connection that is known: the place of a new one, if it has payload.
    fn open<H: Handler<Kept = C>>(
        &mut self,
        segment: &Segment<'_>,
        hash: u32,
        handler: &mut H,
    ) -> Option<usize> {
        let is_syn = segment.has(Tcp::SYN);
        if is_syn {
            self.note_opening(segment);
        }
        if segment.payload_bytes == 0 {
            return None;
        }
        let known = self.opening.hash(&segment.key);
        let known = self.opening.find(&segment.key, known);
        let opening = known.map(|at| self.opening.remove(at).value);
        let opening =
            opening.unwrap_or(Opening { initiator_high: segment.from_high, ..Opening::default() });
        if let Some(oldest) = self.connections.must_go() {
            self.shared.ledger.displaced += u64::from(!self.connections.at(oldest).value.is_over);
            self.close(oldest, Closing::Displaced, self.now, handler);
            self.remove(oldest);
        }
        self.shared.ledger.connections += 1;
        let connection = Connection::new(self.shared.ledger.connections, &opening);
        let at = self.connections.put(segment.key, hash, self.now.0, connection);
        self.dues.set(at, self.idle_at(self.now.0));
        Some(at)
    }

    /// What a SYN says of a connection without payload.
    fn note_opening(&mut self, segment: &Segment<'_>) {
        let displaced = &mut self.shared.ledger.opening_displaced;
        let fresh = |gone: Option<_>| {
            *displaced += u64::from(gone.is_some());
            Opening::default()
        };
        let opening = self.opening.enter(segment.key, self.now.0, fresh).value;
        let from = usize::from(segment.from_high);
        let side = &mut opening.sides[from];
        side.start = Some(segment.sequence.wrapping_add(1));
        side.scale = segment.window_scale;
        match segment.acknowledgment {
            // The other side's SYN may not have been seen.
            Some(number) => {
                opening.sides[1 - from].start.get_or_insert(number);
                opening.initiator_high = !segment.from_high;
            }
            None => opening.initiator_high = segment.from_high,
        }
    }

    fn idle_at(&self, seen_ns: u64) -> u64 {
        seen_ns.saturating_add(self.shared.limits.idle.as_nanos() as u64)
    }

    /// A segment of the connection at a place.
    #[inline]
    fn go_on<H: Handler<Kept = C>>(&mut self, at: usize, segment: &Segment<'_>, handler: &mut H) {
        let Streams { connections, shared, now, .. } = self;
        let entry = connections.at_mut(at);
        let key = *entry.key();
        let Connection { sides, number, initiator_high, is_over, kept } = &mut entry.value;
        let captured = segment.payload.len() as u64;
        if *is_over {
            shared.ledger.after_end_bytes += captured;
            shared.ledger.cut_bytes += u64::from(segment.payload_bytes) - captured;
            return;
        }
        entry.seen = now.0;
        let from = usize::from(segment.from_high);
        let place = At {
            key: &key,
            connection: *number,
            from_high: segment.from_high,
            initiator_high: *initiator_high,
            stamp: *now,
        };
        let mut emit = |stamp, event: Event<'_>| {
            handler.event(&At { stamp, ..place }, kept, event);
        };
        if let Some(acknowledgment) = segment.acknowledgment {
            let window = u32::from(segment.window) << sides[from].scale();
            sides[1 - from].acknowledge(acknowledgment, window);
            sides[1 - from].settle((at, 1 - from), now.0, shared);
        }
        let side = &mut sides[from];
        let start = segment.sequence.wrapping_add(u32::from(segment.has(Tcp::SYN)));
        if segment.payload_bytes > 0 {
            let cut = segment.payload_bytes - segment.payload.len() as u32;
            let ahead = Ahead { start, bytes: segment.payload, cut, stamp: *now };
            side.receive(ahead, shared, &mut emit);
        }
        if segment.has(Tcp::FIN) {
            side.finish_at(start.wrapping_add(segment.payload_bytes), *now, &mut emit);
        }
        side.settle((at, from), now.0, shared);
        let is_reset = segment.has(Tcp::RST) && side.takes_reset(segment.sequence);
        shared.ledger.resets_ignored += u64::from(segment.has(Tcp::RST) && !is_reset);
        let is_ended = sides.iter().all(|side| side.is_ended());
        if is_reset || is_ended {
            let why = if is_reset { Closing::Reset } else { Closing::Fin };
            self.close(at, why, self.now, handler);
        }
        if self.shared.held > self.shared.limits.held_bytes {
            self.give_up_oldest(handler);
        }
    }

    /// Has those that wait for longest give up, until what is held fits.
    #[cold]
    fn give_up_oldest<H: Handler<Kept = C>>(&mut self, handler: &mut H) {
        while self.shared.held > self.shared.limits.held_bytes {
            let Some(&(_, at, side)) = self.shared.waiting.first() else { break };
            self.skip(at, side, Some(Cause::HeldFull), self.now, handler);
        }
    }

    /// A direction waits no longer for what comes next.
    fn skip<H: Handler<Kept = C>>(
        &mut self,
        at: usize,
        side: usize,
        cause: Option<Cause>,
        stamp: Timestamp,
        handler: &mut H,
    ) {
        let Streams { connections, shared, .. } = self;
        let entry = connections.at_mut(at);
        let key = *entry.key();
        let Connection { sides, number, initiator_high, kept, .. } = &mut entry.value;
        let place = At {
            key: &key,
            connection: *number,
            from_high: side == 1,
            initiator_high: *initiator_high,
            stamp,
        };
        let has_all = sides[side].has_other_side_all();
        let cause = cause.unwrap_or(if has_all { Cause::Lost } else { Cause::WaitedFor });
        sides[side].skip(cause, stamp, shared, &mut |stamp, event: Event<'_>| {
            handler.event(&At { stamp, ..place }, kept, event);
        });
        sides[side].settle((at, side), stamp.0, shared);
        if sides.iter().all(|side| side.is_ended()) {
            self.close(at, Closing::Fin, stamp, handler);
        }
    }

    /// Ends the connection at a place, which stays for what comes late.
    fn close<H: Handler<Kept = C>>(
        &mut self,
        at: usize,
        why: Closing,
        stamp: Timestamp,
        handler: &mut H,
    ) {
        let Streams { connections, shared, .. } = self;
        let entry = connections.at_mut(at);
        if entry.value.is_over {
            return;
        }
        // The next connection that needs a place may have this one's.
        entry.seen = 0;
        let key = *entry.key();
        let Connection { sides, number, initiator_high, is_over, kept } = &mut entry.value;
        *is_over = true;
        let mut place = At {
            key: &key,
            connection: *number,
            from_high: false,
            initiator_high: *initiator_high,
            stamp,
        };
        // What the initiator said before what was answered to it.
        for side in [usize::from(*initiator_high), usize::from(!*initiator_high)] {
            place.from_high = side == 1;
            sides[side].flush(stamp, shared, &mut |stamp, event: Event<'_>| {
                handler.event(&At { stamp, ..place }, kept, event);
            });
            sides[side].settle((at, side), stamp.0, shared);
        }
        handler.event(&place, kept, Event::Closed(why));
        *kept = C::default();
        self.dues.set(at, stamp.0.saturating_add(LINGER_NS));
    }

    fn remove(&mut self, at: usize) {
        self.connections.remove(at);
        self.dues.clear(at);
    }

    /// Time has come to `now`: what was waited for long enough is given up, and connections that
    /// were silent for long are over, each at the time at which that was due.
    pub fn tick<H: Handler<Kept = C>>(&mut self, now: Timestamp, handler: &mut H) {
        while let Some(&(deadline, at, side)) = self.shared.waiting.first() {
            if deadline > now.0 {
                break;
            }
            self.skip(at, side, None, Timestamp(deadline), handler);
        }
        let mut due = Vec::new();
        self.dues.due(now.0, &mut due);
        let mut idle = Vec::new();
        for at in due {
            let entry = self.connections.at(at);
            if entry.value.is_over {
                self.remove(at);
                continue;
            }
            let due = self.idle_at(entry.seen);
            match due <= now.0 {
                true => idle.push((due, entry.value.number, at)),
                false => self.dues.set(at, due),
            }
        }
        idle.sort_unstable();
        for (due, _, at) in idle {
            self.close(at, Closing::Idle, Timestamp(due), handler);
            self.remove(at);
        }
    }

    /// Ends all connections, in the order in which they began.
    pub fn finish<H: Handler<Kept = C>>(&mut self, handler: &mut H) {
        let open = self.connections.iter().filter(|(_, entry)| !entry.value.is_over);
        let mut open: Vec<_> = open.map(|(at, entry)| (entry.value.number, at)).collect();
        open.sort_unstable();
        for (_, at) in open {
            self.close(at, Closing::Forced, self.now, handler);
        }
    }
}

#[cfg(test)]
mod tests;
