//! The flow table: packets in, records out.

mod clock;
mod entry;
mod index;
mod tcp;
mod wheel;

use crate::{Application, EndReason, FlowLedger, Key, Packet, PacketReader, Record, Sums};
use clock::Clock;
use entry::{Cold, Hot};
use foldhash::quality::RandomState;
use index::Index;
use ringside_core::Timestamp;
use ringside_wire::Tcp;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;
use thiserror::Error;
use wheel::{Links, Wheel};

/// How long a TCP connection whose end was seen is kept for what belongs to it: the last
/// acknowledgments, and what is sent again. Longer than a round trip round the world.
const LINGER_NS: u64 = 1_000_000_000;

/// Entries among which the one that was seen least lately is given up, when the table is full.
/// They lie side by side; the next time the next ones are looked at. So what goes is among the
/// oldest eighth in half of the cases, at the price of a few cache lines.
const VICTIMS: usize = 8;

/// Packets of a flow in which the beginning of a message is looked for: those of the handshake and
/// of the first exchange.
const LOOKED_AT_MAX: u8 = 8;

/// What a table may use, and when flows end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, taken as flows come and never given back.
    pub memory_bytes: usize,
    /// A flow is over when no packet came for so long.
    pub idle: Duration,
    /// A flow that goes on has a record for each such time.
    pub active: Duration,
}

impl Limits {
    /// Room for some 900,000 flows.
    pub const MEMORY_BYTES: usize = 256 << 20;
    /// Least memory: the fixed parts, and room for some thousand flows.
    pub const MEMORY_BYTES_MIN: usize = 2 << 20;
    /// Most memory: room for some 900 million flows, which are numbered in 32 bits.
    pub const MEMORY_BYTES_MAX: usize = 256 << 30;
    /// Idle time-out: what collectors of IPFIX reckon with.
    pub const IDLE: Duration = Duration::from_secs(15);
    /// Active time-out: a graph of minutes is right.
    pub const ACTIVE: Duration = Duration::from_secs(60);
    /// Longest time-out, two hours: a leap of the clock makes the wheel go round for no longer than
    /// both of them, which hostile stamps can ask for again and again.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(7_200);

    /// Checks all of them.
    ///
    /// # Errors
    /// Less memory than [`Limits::MEMORY_BYTES_MIN`] or more than [`Limits::MEMORY_BYTES_MAX`], or
    /// a time-out that is 0 or longer than [`Limits::TIMEOUT_MAX`].
    pub fn check(&self) -> Result<(), FlowError> {
        let bytes = self.memory_bytes;
        if !(Limits::MEMORY_BYTES_MIN..=Limits::MEMORY_BYTES_MAX).contains(&bytes) {
            return Err(FlowError::Memory { bytes });
        }
        Limits::check_timeouts(self.idle, self.active)
    }

    /// Checks both time-outs.
    ///
    /// # Errors
    /// One of them is 0 or longer than [`Limits::TIMEOUT_MAX`].
    pub fn check_timeouts(idle: Duration, active: Duration) -> Result<(), FlowError> {
        let is_wrong = |&timeout: &Duration| timeout.is_zero() || timeout > Limits::TIMEOUT_MAX;
        let wrong = [idle, active].into_iter().find(is_wrong);
        wrong.map_or(Ok(()), |timeout| Err(FlowError::Timeout(timeout)))
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory_bytes: Limits::MEMORY_BYTES, idle: Limits::IDLE, active: Limits::ACTIVE }
    }
}

/// What is wrong with limits, or with what is to be written.
#[derive(Debug, Error)]
pub enum FlowError {
    /// Too little memory, or too much.
    #[error(
        "{bytes} bytes of memory for flows; give it at least {} and at most {}",
        Limits::MEMORY_BYTES_MIN,
        Limits::MEMORY_BYTES_MAX
    )]
    Memory {
        /// What was asked for.
        bytes: usize,
    },
    /// A time-out that is none.
    #[error("a time-out of {0:?}; it must be longer than 0 and at most two hours")]
    Timeout(Duration),
    /// A name of no scheme or format.
    #[error("{name}: no such {what}; there are {known}")]
    Unknown {
        /// What was named.
        what: &'static str,
        /// The name.
        name: String,
        /// All there are.
        known: String,
    },
}

/// Adds packets up by flow, in memory that is bounded ([`Limits`]), with time that comes from
/// their stamps alone. Whatever it gives out goes to the function that each call is given.
pub struct FlowTable {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// Entries that are in no flow, of those that there are.
    free: Vec<u32>,
    index: Index,
    wheel: Wheel,
    clock: Clock,
    hasher: RandomState,
    entries_max: usize,
    idle_ns: u64,
    active_ns: u64,
    flow_ids: u64,
    /// Where the next entry that must go is looked for.
    hand: usize,
    ledger: FlowLedger,
}

/// Bytes of one flow without its slots in the index.
const ENTRY_BYTES: usize =
    size_of::<Hot>() + size_of::<Cold>() + size_of::<Links>() + size_of::<u32>();

impl FlowTable {
    /// A table within these limits.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn new(limits: Limits) -> Result<FlowTable, FlowError> {
        limits.check()?;
        let Limits { memory_bytes, idle, active } = limits;
        // The reader of packets takes its part of the same memory.
        let (entries_max, slots) = room(memory_bytes - Wheel::BYTES - PacketReader::BYTES);
        // Both are at most two hours.
        let (idle_ns, active_ns) = (idle.as_nanos() as u64, active.as_nanos() as u64);
        Ok(FlowTable {
            hot: Vec::with_capacity(entries_max),
            cold: Vec::with_capacity(entries_max),
            free: Vec::with_capacity(entries_max),
            index: Index::new(slots),
            wheel: Wheel::new(entries_max),
            clock: Clock::new(idle_ns + active_ns + LINGER_NS),
            hasher: RandomState::default(),
            entries_max,
            idle_ns,
            active_ns,
            flow_ids: 0,
            hand: 0,
            ledger: FlowLedger::default(),
        })
    }

    /// Has flows end by other time-outs from now on. What is due earlier by them than it was by the
    /// old ones may be given out as late as by these.
    ///
    /// # Errors
    /// One of them is 0 or longer than [`Limits::TIMEOUT_MAX`]; then nothing has changed.
    pub fn set_timeouts(&mut self, idle: Duration, active: Duration) -> Result<(), FlowError> {
        Limits::check_timeouts(idle, active)?;
        (self.idle_ns, self.active_ns) = (idle.as_nanos() as u64, active.as_nanos() as u64);
        self.clock.set_leap_max(self.idle_ns + self.active_ns + LINGER_NS);
        Ok(())
    }

    /// Flows that there is room for.
    pub fn flows_max(&self) -> usize {
        self.entries_max
    }

    /// Flows that are there. Some may have no packets since their last record.
    pub fn flows(&self) -> usize {
        self.hot.len() - self.free.len()
    }

    /// Idle and active time-out.
    pub fn timeouts(&self) -> (Duration, Duration) {
        (Duration::from_nanos(self.idle_ns), Duration::from_nanos(self.active_ns))
    }

    /// The account so far.
    pub fn ledger(&self) -> &FlowLedger {
        &self.ledger
    }

    /// The same, for what is in no flow.
    pub(crate) fn ledger_mut(&mut self) -> &mut FlowLedger {
        &mut self.ledger
    }

    /// What the flows that are there hold, added up anew: a look at all of them.
    pub fn held(&self) -> Sums {
        let mut held = Sums::default();
        for hot in &self.hot {
            held += Sums { packets: hot.packets(), octets: hot.octets() };
        }
        held
    }

    /// Shows the records of all flows that have packets since their last one, as if they ended
    /// now ([`EndReason::Forced`]); they go on all the same. A look at all of them.
    pub fn show_held(&self, see: &mut dyn FnMut(&Record)) {
        for (hot, cold) in self.hot.iter().zip(&self.cold).filter(|(hot, _)| hot.packets() > 0) {
            see(&hot.clone().take_record(&mut cold.clone(), EndReason::Forced));
        }
    }

    /// Adds a packet. `application` is asked what it carries, in the first ones of a flow of which
    /// that is not known yet. Records of flows that are over, or must go, are given out first.
    #[inline]
    pub fn add(
        &mut self,
        packet: &Packet,
        application: &dyn Fn() -> Option<Application>,
        out: &mut dyn FnMut(Record),
    ) {
        if self.clock.is_new() {
            self.clock.at(packet.stamp);
            self.wheel.begin(self.clock.now_ns());
        }
        let (now, stamp) = self.clock.at(packet.stamp);
        if self.wheel.has_passed(now) {
            self.look_at_due(now, out);
        }
        self.ledger.received += Sums::one(packet.wire_bytes);
        let hash = self.hash(&packet.key);
        let hot = &self.hot;
        let known = self.index.find(hash, |entry| hot[entry as usize].key == packet.key);
        let known = known.filter(|&entry| self.goes_on(entry, packet, now, out));
        let entry = known.unwrap_or_else(|| self.begin(packet, hash, now, out));
        let (hot, cold) = (&mut self.hot[entry as usize], &mut self.cold[entry as usize]);
        let was_ended = packet.segment.is_some() && cold.tcp.is_ended();
        hot.add(cold, packet, now, stamp);
        if packet.segment.is_some() && cold.tcp.is_ended() && !was_ended {
            self.rearm(entry);
        }
        let cold = &mut self.cold[entry as usize];
        if cold.looked_at < LOOKED_AT_MAX && cold.application.is_none() {
            cold.looked_at += 1;
            cold.application = application();
        }
    }

    /// No later packet is older than this, but for late ones: gives out what is due.
    pub fn advance(&mut self, low_water: Timestamp, out: &mut dyn FnMut(Record)) {
        let now = self.clock.advance(low_water);
        self.look_at_due(now, out);
        self.ledger.clock_steps = self.clock.steps;
    }

    /// Ends all flows.
    pub fn flush(&mut self, out: &mut dyn FnMut(Record)) {
        let now = self.clock.now_ns();
        self.look_at_due(now, out);
        for entry in 0..self.hot.len() as u32 {
            self.is_over(entry, now, out);
            if self.hot[entry as usize].packets() > 0 {
                self.export(entry, EndReason::Forced, out);
            }
        }
        self.hot.clear();
        self.cold.clear();
        self.free.clear();
        self.index = Index::new(Index::slots_for(self.entries_max));
        self.wheel = Wheel::new(self.entries_max);
        self.wheel.begin(now);
        self.ledger.clock_steps = self.clock.steps;
    }

    #[inline]
    fn hash(&self, key: &Key) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        for &word in key.words() {
            hasher.write_u64(word);
        }
        let hash = hasher.finish();
        hash as u32
    }

    /// A packet of a flow that is known: false if it is that of a new one, and the old is gone.
    #[inline]
    fn goes_on(
        &mut self,
        entry: u32,
        packet: &Packet,
        now: u64,
        out: &mut dyn FnMut(Record),
    ) -> bool {
        if now >= self.due(entry) && self.is_over(entry, now, out) {
            self.remove(entry);
            return false;
        }
        let Some(segment) = &packet.segment else { return true };
        let is_syn = segment.flags & (Tcp::SYN | Tcp::ACK) == Tcp::SYN;
        if is_syn && self.cold[entry as usize].tcp.is_ended() {
            self.export(entry, EndReason::End, out);
            self.remove(entry);
            return false;
        }
        true
    }

    /// When a flow is over or has to have a record, if nothing comes.
    #[inline]
    fn due(&self, entry: u32) -> u64 {
        let hot = &self.hot[entry as usize];
        let over = self.over(entry);
        if hot.packets() == 0 { over } else { over.min(hot.begun_ns + self.active_ns) }
    }

    /// When a flow is over, if nothing comes.
    #[inline]
    fn over(&self, entry: u32) -> u64 {
        let hot = &self.hot[entry as usize];
        // Only TCP ends, and only its packets need the second part.
        let is_ended = hot.key.protocol() == ringside_wire::IpProtocol::TCP
            && self.cold[entry as usize].tcp.is_ended();
        hot.seen_ns + if is_ended { LINGER_NS.min(self.idle_ns) } else { self.idle_ns }
    }

    /// Does what is due by `now`, in its order: true if the flow is over and has no packets any
    /// more, so that it is to be removed.
    fn is_over(&mut self, entry: u32, now: u64, out: &mut dyn FnMut(Record)) -> bool {
        let over = self.over(entry);
        let active = self.hot[entry as usize].begun_ns + self.active_ns;
        if self.hot[entry as usize].packets() > 0 && active < over && active <= now {
            self.export(entry, EndReason::Active, out);
        }
        if over > now {
            return false;
        }
        if self.hot[entry as usize].packets() > 0 {
            let is_ended = self.cold[entry as usize].tcp.is_ended();
            self.export(entry, if is_ended { EndReason::End } else { EndReason::Idle }, out);
        }
        true
    }

    /// Looks at what lies in the wheel's slots that have passed.
    #[cold]
    fn look_at_due(&mut self, now: u64, out: &mut dyn FnMut(Record)) {
        while let Some((entry, slot_end)) = self.wheel.pop(now) {
            if self.is_over(entry, slot_end, out) {
                self.remove(entry);
            } else {
                self.wheel.put(entry, self.due(entry));
            }
        }
    }

    /// Its end was seen: it is due earlier.
    fn rearm(&mut self, entry: u32) {
        self.wheel.take(entry);
        self.wheel.put(entry, self.due(entry));
    }

    /// A new flow, for which another one may have to go.
    fn begin(&mut self, packet: &Packet, hash: u32, now: u64, out: &mut dyn FnMut(Record)) -> u32 {
        self.flow_ids += 1;
        let (hot, cold) = entry::begin(packet, self.flow_ids, now);
        if self.free.is_empty() && self.hot.len() == self.entries_max {
            self.evict(now, out);
        }
        let entry = match self.free.pop() {
            Some(entry) => {
                (self.hot[entry as usize], self.cold[entry as usize]) = (hot, cold);
                entry
            }
            None => {
                self.hot.push(hot);
                self.cold.push(cold);
                self.wheel.push();
                self.hot.len() as u32 - 1
            }
        };
        self.index.insert(hash, entry);
        self.wheel.put(entry, now + self.idle_ns.min(self.active_ns));
        entry
    }

    /// Gives up one flow, of a table that is full.
    #[cold]
    fn evict(&mut self, now: u64, out: &mut dyn FnMut(Record)) {
        let places = (self.hand..self.hand + VICTIMS).map(|at| at % self.entries_max);
        let oldest = places.min_by_key(|&at| self.hot[at].seen_ns).unwrap_or(0) as u32;
        self.hand = (self.hand + VICTIMS) % self.entries_max;
        if !self.is_over(oldest, now, out) && self.hot[oldest as usize].packets() > 0 {
            self.export(oldest, EndReason::LackOfResources, out);
        }
        self.remove(oldest);
    }

    fn export(&mut self, entry: u32, end: EndReason, out: &mut dyn FnMut(Record)) {
        let (hot, cold) = (&mut self.hot[entry as usize], &mut self.cold[entry as usize]);
        let record = hot.take_record(cold, end);
        self.ledger.exported += Sums { packets: record.packets(), octets: record.octets() };
        self.ledger.records[end.index()] += 1;
        out(record);
    }

    /// Removes an entry without packets.
    fn remove(&mut self, entry: u32) {
        let hash = self.hash(&self.hot[entry as usize].key);
        self.index.remove(hash, entry);
        self.wheel.take(entry);
        self.free.push(entry);
    }
}

/// As many flows as fit in `bytes`, and the slots of their index: whichever power of two
/// leaves the most room.
fn room(bytes: usize) -> (usize, usize) {
    let powers = (8..31).map(|power| 1_usize << power);
    let flows = |slots: usize| {
        let left = bytes.saturating_sub(slots * size_of::<u64>());
        (left / ENTRY_BYTES).min(slots / 2)
    };
    let slots = powers.max_by_key(|&slots| (flows(slots), std::cmp::Reverse(slots)));
    let slots = slots.expect("there are powers");
    // An index for more would not fit.
    (flows(slots).min(1 << 29), slots)
}

#[cfg(test)]
mod tests;
