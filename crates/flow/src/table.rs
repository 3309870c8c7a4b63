//! The flow table: packets in, records out.

mod clock;
mod counted;
mod dues;
mod entry;
mod tcp;

use crate::{Application, EndReason, FlowLedger, Key, Packet, PacketReader, Record, Sums};
pub use counted::Counted;

use clock::Clock;
use dues::Dues;
use entry::{Entry, Flow, LINES_BYTES, Rest};
use ringside_core::{RecentTable, Timestamp};
use ringside_sys::hints::{ask_for_huge_pages, prefetch};
use ringside_wire::Tcp;
use std::time::Duration;
use thiserror::Error;

/// How long a TCP connection whose end was seen is kept for what belongs to it: the last
/// acknowledgments, and what is sent again. Longer than a round trip round the world.
const LINGER_NS: u64 = 1_000_000_000;

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
    /// Room for a million flows.
    pub const MEMORY_BYTES: usize = 272 << 20;
    /// Where no size is set, a table takes this part of the free memory: one in 16.
    const PART_OF_FREE: u64 = 16;
    /// It takes this at least, room for a quarter of a million flows,
    const MEMORY_BYTES_LEAST: u64 = 64 << 20;
    /// and this at most, room for four million: more than a link has at once but in a flood.
    const MEMORY_BYTES_MOST: u64 = 1 << 30;
    /// Least memory: the fixed parts, and room for some thousand flows.
    pub const MEMORY_BYTES_MIN: usize = 2 << 20;
    /// Most memory: room for some 900 million flows, which are numbered in 32 bits.
    pub const MEMORY_BYTES_MAX: usize = 256 << 30;
    /// Idle time-out: what collectors of IPFIX reckon with.
    pub const IDLE: Duration = Duration::from_secs(15);
    /// Active time-out: a graph of minutes is right.
    pub const ACTIVE: Duration = Duration::from_secs(60);
    /// Longest time-out, two hours: a leap of the clock counts for no more than both of them.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(7_200);

    /// Memory for a table where `free_bytes` are free, as far as that is known: a sixteenth, from
    /// 64 MiB to 1 GiB.
    pub fn memory_of_free(free_bytes: Option<u64>) -> usize {
        let Some(free) = free_bytes else { return Limits::MEMORY_BYTES };
        let part = free / Limits::PART_OF_FREE;
        let bytes = part.clamp(Limits::MEMORY_BYTES_LEAST, Limits::MEMORY_BYTES_MOST);
        usize::try_from(bytes).unwrap_or(Limits::MEMORY_BYTES)
    }

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
    flows: RecentTable<Key, Flow>,
    /// By place in `flows`, as what follows.
    rest: Vec<Rest>,
    dues: Dues,
    clock: Clock,
    idle_ns: u64,
    active_ns: u64,
    flow_ids: u64,
    ledger: FlowLedger,
}

impl FlowTable {
    /// A table within these limits.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn new(limits: Limits) -> Result<FlowTable, FlowError> {
        limits.check()?;
        let Limits { memory_bytes, idle, active } = limits;
        // The reader of packets takes its part of the same memory.
        let elsewhere_bytes = size_of::<Rest>() + Dues::BYTES;
        let memory_bytes = memory_bytes - PacketReader::BYTES;
        let flows_max = RecentTable::<Key, Flow>::values_in(memory_bytes, elsewhere_bytes);
        // Both are at most two hours.
        let (idle_ns, active_ns) = (idle.as_nanos() as u64, active.as_nanos() as u64);
        let mut flows = RecentTable::new(flows_max);
        let mut rest = Vec::with_capacity(flows_max);
        let (places, slots) = flows.memory();
        ask_for_huge_pages(places);
        ask_for_huge_pages(slots);
        ask_for_huge_pages(rest.spare_capacity_mut());
        Ok(FlowTable {
            flows,
            rest,
            dues: Dues::new(flows_max),
            clock: Clock::new(idle_ns + active_ns + LINGER_NS),
            idle_ns,
            active_ns,
            flow_ids: 0,
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
        self.flows.values_max()
    }

    /// Flows that are there. Some may have no packets since their last record.
    pub fn flows(&self) -> usize {
        self.flows.values()
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
        for (_, Entry { value: flow, .. }) in self.flows.iter() {
            held += Sums { packets: flow.packets(), octets: flow.octets() };
        }
        held
    }

    /// Shows the records of all flows that have packets since their last one, as if they ended
    /// now ([`EndReason::Forced`]); they go on all the same. A look at all of them.
    pub fn show_held(&self, see: &mut dyn FnMut(&Record)) {
        for (at, entry) in self.flows.iter().filter(|(_, entry)| entry.value.packets() > 0) {
            let (mut flow, mut rest) = (entry.value.clone(), self.rest[at].clone());
            see(&flow.take_record(entry.key(), &mut rest, EndReason::Forced));
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
        self.add_hashed(packet, self.hash(packet), application, out);
    }

    /// The hash of a packet that may come next. What the search for its flow looks at first is
    /// fetched: the first step, for some packets at once.
    #[inline]
    pub(crate) fn look_ahead(&self, packet: &Packet) -> u32 {
        let hash = self.hash(packet);
        prefetch(self.flows.slot(hash), 1);
        hash
    }

    /// The second step, when that is there: its flow is fetched, if it is known.
    #[inline]
    pub(crate) fn fetch(&self, packet: &Packet, hash: u32) {
        if let Some(place) = self.flows.likely(hash) {
            prefetch(place, LINES_BYTES[usize::from(packet.segment.is_some())]);
        }
    }

    /// As [`add`](FlowTable::add), with the hash of the packet.
    #[inline]
    pub(crate) fn add_hashed(
        &mut self,
        packet: &Packet,
        hash: u32,
        application: &dyn Fn() -> Option<Application>,
        out: &mut dyn FnMut(Record),
    ) {
        let (now, stamp) = self.clock.at(packet.stamp);
        if self.dues.has_passed(now) {
            self.look_at_due(now, out);
        }
        self.ledger.received += Sums::one(packet.wire_bytes);
        let known = self.flows.find(&packet.key, hash);
        let known = known.filter(|&at| self.goes_on(at, packet, now, out));
        let at = known.unwrap_or_else(|| self.begin(packet, hash, now, out));
        let entry = self.flows.at_mut(at);
        entry.seen = entry.seen.max(now);
        let flow = &mut entry.value;
        let was_over = packet.segment.is_some() && flow.tcp.is_ended();
        flow.add(&mut self.rest[at], packet, now, stamp);
        if flow.may_begin_message(LOOKED_AT_MAX) {
            flow.application = application();
        }
        if packet.segment.is_some() && flow.tcp.is_ended() && !was_over {
            // It is due earlier.
            self.dues.set(at, self.due(at));
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
        for at in 0..self.rest.len() {
            if !self.flows.is_taken(at) {
                continue;
            }
            self.is_over(at, now, out);
            if self.flows.at(at).value.packets() > 0 {
                self.export(at, EndReason::Forced, out);
            }
        }
        self.flows.clear();
        self.rest.clear();
        self.dues.clear();
        self.ledger.clock_steps = self.clock.steps;
    }

    #[inline]
    fn hash(&self, packet: &Packet) -> u32 {
        self.flows.hash(&packet.key)
    }

    /// A packet of a flow that is known: false if it is that of a new one, and the old is gone.
    #[inline]
    fn goes_on(
        &mut self,
        at: usize,
        packet: &Packet,
        now: u64,
        out: &mut dyn FnMut(Record),
    ) -> bool {
        if now >= self.due(at) && self.is_over(at, now, out) {
            self.remove(at);
            return false;
        }
        let Some(segment) = &packet.segment else { return true };
        let is_syn = segment.flags & (Tcp::SYN | Tcp::ACK) == Tcp::SYN;
        if is_syn && self.flows.at(at).value.tcp.is_ended() {
            self.export(at, EndReason::End, out);
            self.remove(at);
            return false;
        }
        true
    }

    /// When a flow is over or has to have a record, if nothing comes.
    #[inline]
    fn due(&self, at: usize) -> u64 {
        let entry = self.flows.at(at);
        let over = self.over(entry);
        match entry.value.packets() {
            0 => over,
            _ => over.min(entry.value.begun_ns + self.active_ns),
        }
    }

    /// When a flow is over, if nothing comes.
    #[inline]
    fn over(&self, entry: &Entry) -> u64 {
        // Only TCP ends, and only its packets need the third line.
        let is_ended =
            entry.key().protocol() == ringside_wire::IpProtocol::TCP && entry.value.tcp.is_ended();
        entry.seen + if is_ended { LINGER_NS.min(self.idle_ns) } else { self.idle_ns }
    }

    /// Does what is due by `now`, in its order: true if the flow is over and has no packets any
    /// more, so that it is to be removed.
    fn is_over(&mut self, at: usize, now: u64, out: &mut dyn FnMut(Record)) -> bool {
        let entry = self.flows.at(at);
        let (over, active) = (self.over(entry), entry.value.begun_ns + self.active_ns);
        let is_ended = entry.value.tcp.is_ended();
        if entry.value.packets() > 0 && active < over && active <= now {
            self.export(at, EndReason::Active, out);
        }
        if over > now {
            return false;
        }
        if self.flows.at(at).value.packets() > 0 {
            self.export(at, if is_ended { EndReason::End } else { EndReason::Idle }, out);
        }
        true
    }

    /// Looks at what is due in slots that have passed.
    #[cold]
    fn look_at_due(&mut self, now: u64, out: &mut dyn FnMut(Record)) {
        while let Some((slot, slot_end)) = self.dues.next_slot(now) {
            let mut from = 0;
            while let Some(at) = self.dues.find(from, slot) {
                from = at;
                if !self.flows.is_taken(at) {
                    self.dues.unset(at);
                } else if self.is_over(at, slot_end, out) {
                    self.remove(at);
                } else {
                    self.dues.set(at, self.due(at));
                }
            }
        }
    }

    /// A new flow, for which another one may have to go.
    fn begin(
        &mut self,
        packet: &Packet,
        hash: u32,
        now: u64,
        out: &mut dyn FnMut(Record),
    ) -> usize {
        if let Some(oldest) = self.flows.must_go() {
            self.evict(oldest, now, out);
        }
        self.flow_ids += 1;
        let (flow, rest) = Flow::begin(packet, self.flow_ids, now);
        let at = self.flows.put(packet.key, hash, now, flow);
        match self.rest.get_mut(at) {
            Some(there) => *there = rest,
            None => self.rest.push(rest),
        }
        self.dues.set(at, now + self.idle_ns.min(self.active_ns));
        at
    }

    /// Gives up a flow, of a table that is full.
    #[cold]
    fn evict(&mut self, at: usize, now: u64, out: &mut dyn FnMut(Record)) {
        if !self.is_over(at, now, out) && self.flows.at(at).value.packets() > 0 {
            self.export(at, EndReason::LackOfResources, out);
        }
        self.remove(at);
    }

    fn export(&mut self, at: usize, end: EndReason, out: &mut dyn FnMut(Record)) {
        let entry = self.flows.at_mut(at);
        let key = *entry.key();
        let record = entry.value.take_record(&key, &mut self.rest[at], end);
        self.ledger.exported += Sums { packets: record.packets(), octets: record.octets() };
        self.ledger.records[end.index()] += 1;
        out(record);
    }

    /// Removes a flow without packets.
    fn remove(&mut self, at: usize) {
        self.flows.remove(at);
        self.dues.unset(at);
    }
}

#[cfg(test)]
mod tests;
