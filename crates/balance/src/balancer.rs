//! What becomes of a frame: the whole decision, in the order in which the program in the driver
//! takes it, and the judge of that program in tests.
//!
//! 1. A frame for another hardware address passes, and one that cannot be read
//!    ([`crate::packet`]).
//! 2. A later fragment goes where the first one of its packet went; of a VIP's packet whose first
//!    fragment did not come by, it is dropped.
//! 3. TCP and UDP to a VIP: the real that a QUIC connection id names; else the one that the flow is
//!    remembered with; else, for a packet that continues a flow, the one that another CPU remembers
//!    it with, or, within a window after a change, the one that the tables before the change name,
//!    if flows may still go to it; else the one that the current tables name.
//! 4. An error of ICMP goes where the flow goes that it is about; an echo request to a VIP is
//!    answered; other ICMP passes.
//! 5. What is longer than the way to the real allows is answered, or dropped. Else it is put into
//!    the tunnel and sent to the next hop.
//!
//! Each CPU remembers the flows that it sees, and mostly sees all packets of a flow. They come to
//! another one when the card spreads them anew or an interrupt moves; and errors of ICMP and
//! fragments are spread by other fields. What other CPUs remember is read then, never
//! written, and only so often in a second ([`ASKED_PER_NEW_FLOW`]): a flood of packets of no
//! connection costs no more than that.
//!
//! A packet *continues* a flow if it is TCP without SYN, or QUIC that is neither Initial nor 0-RTT.
//! Of plain UDP nothing says so, and most flows of UDP are one question: it counts as new.

pub use crate::count::Count;
use crate::flows::{Flow, FlowKey, FlowTable, Place};
use crate::hash::{SEED_FLOW, hash, slot};
use crate::maglev::NONE;
use crate::packet::{Fragment, ICMP, ICMPV6, Packet, TCP, UDP};
use crate::quic::{self, ROTATIONS};
use crate::tables::keys::Key;
use crate::tables::{RealEntry, Tables, UP, VipEntry, flags, ticks};
use crate::write::{self, Link};
use ringside_wire::{IpProtocol, MacAddr};
use std::net::IpAddr;

const SECOND_NS: u64 = 1_000_000_000;

/// A real whose next hop is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Towards {
    /// Its address.
    pub address: IpAddr,
    /// Bytes of the packet as it would be sent, from its outermost IP header.
    pub bytes: usize,
}

/// The next hop to a real, as the host's routes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// By this interface.
    Found {
        /// Number of the interface.
        interface: u32,
        /// Hardware addresses of the next hop and of the interface.
        link: Link,
    },
    /// The way takes packets of this many bytes.
    TooBig {
        /// The longest packet.
        mtu: u32,
    },
    /// Its hardware address is not known.
    NoNeighbour,
    /// There is none.
    NoRoute,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To the host, unchanged.
    Pass,
    /// Discarded.
    Drop(Count),
    /// This frame, back by the interface that it came from.
    Answer(Vec<u8>),
    /// This frame, to a real.
    Send {
        /// Index of the real.
        real: u32,
        /// Interface that it leaves by.
        interface: u32,
        /// The frame.
        frame: Vec<u8>,
    },
}

/// The interface that frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub number: u32,
    /// Its hardware address; frames for others pass.
    pub mac: MacAddr,
}

/// What one CPU may do in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Guard {
    until_ns: u64,
    /// New flows that were remembered.
    flows: u32,
    /// Tables of other CPUs that were asked.
    asked: u32,
}

impl Guard {
    /// Begins a second.
    fn renew(&mut self, now_ns: u64) {
        if now_ns >= self.until_ns {
            *self = Guard { until_ns: now_ns.saturating_add(SECOND_NS), flows: 0, asked: 0 };
        }
    }
}

/// Tables of other CPUs that a CPU asks in a second, for each new flow that it may remember: at the
/// usual 125,000 a million, which take about a tenth of the second from memory that another CPU
/// wrote (100 ns each).
pub const ASKED_PER_NEW_FLOW: u32 = 8;

/// A second, in [`ticks`]: so far ahead another CPU's clock may be, which it reads once a tick.
const AHEAD_TICKS: u32 = (SECOND_NS >> 20) as u32;

/// What one CPU remembers.
#[derive(Clone, Debug)]
struct Memory {
    flows: FlowTable,
    guard: Guard,
    /// A frame came to this CPU: others may ask it.
    has_seen: bool,
}

/// A balancer.
#[derive(Clone, Debug)]
pub struct Balancer {
    interface: Interface,
    tables: Tables,
    before: Option<Tables>,
    before_until_ns: u64,
    memories: Vec<Memory>,
    /// Which of the memories is that of the CPU that decides.
    cpu: usize,
    counts: Vec<[u64; Count::ALL]>,
    real_counts: Vec<[u64; 2]>,
}

/// A real that was chosen.
#[derive(Clone, Copy)]
struct Choice {
    vip: u32,
    real: u32,
    spread: u32,
}

/// Says how the next hop of a real is found.
pub type Route<'r> = dyn FnMut(&Towards) -> Hop + 'r;

impl Balancer {
    /// A balancer on one CPU, which remembers `flows` flows, a power of two, in a table of this
    /// secret seed.
    pub fn new(interface: Interface, tables: Tables, flows: usize, seed: u64) -> Balancer {
        let memory =
            Memory { flows: FlowTable::new(flows, seed), guard: Guard::default(), has_seen: false };
        let mut balancer = Balancer {
            interface,
            tables,
            before: None,
            before_until_ns: 0,
            memories: vec![memory],
            cpu: 0,
            counts: Vec::new(),
            real_counts: Vec::new(),
        };
        balancer.grow();
        balancer
    }

    /// The same on this number of CPUs, at least one.
    pub fn with_cpus(mut self, cpus: usize) -> Balancer {
        self.memories.resize(cpus.max(1), self.memories[0].clone());
        self
    }

    /// From now on frames come to this CPU.
    ///
    /// # Panics
    /// Unless there is such a CPU.
    pub fn go_to_cpu(&mut self, cpu: usize) {
        assert!(cpu < self.memories.len(), "CPU {cpu} of {}", self.memories.len());
        self.cpu = cpu;
    }

    /// Goes on with `tables`, which follow the current ones; these count for the time that the new
    /// ones say. Tables that say the same are no change.
    pub fn change(&mut self, tables: Tables, now_ns: u64) {
        if tables.say_the_same_as(&self.tables) {
            self.tables = tables;
            return;
        }
        self.before_until_ns = now_ns.saturating_add(tables.settings.change_window_ns);
        self.before = Some(std::mem::replace(&mut self.tables, tables));
        self.grow();
    }

    fn grow(&mut self) {
        self.counts.resize(self.tables.vips.len(), [0; Count::ALL]);
        self.real_counts.resize(self.tables.reals.len(), [0; 2]);
    }

    /// The tables that are in force.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Forgets all flows.
    pub fn forget(&mut self) {
        self.memories.iter_mut().for_each(|memory| memory.flows.clear());
    }

    fn hash(&self, key: &FlowKey) -> u64 {
        self.memories[self.cpu].flows.hash(key)
    }

    fn touch(&mut self, place: Place, now_ns: u64) {
        self.memories[self.cpu].flows.touch(place, ticks(now_ns));
    }

    /// What was counted of a VIP, by [`Count`].
    pub fn counts(&self, vip: u32) -> [u64; Count::ALL] {
        self.counts.get(vip as usize).copied().unwrap_or_default()
    }

    /// Frames that went to a real, and the bytes in which they came.
    pub fn real_counts(&self, real: u32) -> [u64; 2] {
        self.real_counts.get(real as usize).copied().unwrap_or_default()
    }

    /// What becomes of a frame at a time; `route` finds next hops.
    pub fn decide(&mut self, frame: &[u8], now_ns: u64, route: &mut Route<'_>) -> Verdict {
        self.memories[self.cpu].has_seen = true;
        if !frame.starts_with(&self.interface.mac.0) {
            return Verdict::Pass;
        }
        let Some(packet) = Packet::read(frame) else { return Verdict::Pass };
        match (packet.fragment, packet.protocol) {
            (Fragment::Later(id), TCP | UDP) => {
                self.later_fragment(frame, &packet, id, now_ns, route)
            }
            (Fragment::Later(_), _) => Verdict::Pass,
            (_, TCP | UDP) => self.packet(frame, &packet, now_ns, route),
            (Fragment::No, ICMP) if packet.version == 4 => self.icmp(frame, &packet, now_ns, route),
            (Fragment::No, ICMPV6) if packet.version == 6 => {
                self.icmp(frame, &packet, now_ns, route)
            }
            _ => Verdict::Pass,
        }
    }

    fn later_fragment(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        id: u32,
        now_ns: u64,
        route: &mut Route<'_>,
    ) -> Verdict {
        let key = packet.fragments(id);
        let hash = self.hash(&key);
        if let Some((place, flow)) = self.remembered(&key, hash, FRAGMENT_TICKS, now_ns) {
            let vip = self.tables.reals[flow.real as usize].vip;
            self.touch(place, now_ns);
            self.count(vip, Count::Remembered);
            let choice = Choice { vip, real: flow.real, spread: spread(hash) };
            return self.send(frame, packet, choice, false, route);
        }
        let Some(vip_of_address) = self.tables.any_vip(packet.version, packet.destination) else {
            return Verdict::Pass;
        };
        if let Some(real) = self.remembered_elsewhere(&key, hash, FRAGMENT_TICKS, now_ns) {
            let vip = self.tables.reals[real as usize].vip;
            self.count(vip, Count::Moved);
            let choice = Choice { vip, real, spread: spread(hash) };
            return self.send(frame, packet, choice, false, route);
        }
        self.drop(vip_of_address, Count::Fragment)
    }

    fn packet(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        now_ns: u64,
        route: &mut Route<'_>,
    ) -> Verdict {
        let Some(key) = packet.flow(frame) else { return Verdict::Pass };
        let Some(vip) = self.vip_of(packet.version, &key) else { return Verdict::Pass };
        let hash = self.hash(&key);
        let opening = self.opening(frame, packet, vip, now_ns);
        let real = match opening {
            Opening::Named(real) => {
                self.count(vip, Count::ById);
                real
            }
            _ => match self.choose(vip, &key, hash, &opening, now_ns) {
                Some(real) => real,
                None => return self.drop(vip, Count::NoReal),
            },
        };
        if let Fragment::First(id) = packet.fragment {
            let key = packet.fragments(id);
            let hash = self.hash(&key);
            self.remember(vip, &key, hash, real, now_ns);
        }
        self.send(frame, packet, Choice { vip, real, spread: spread(hash) }, false, route)
    }

    /// The VIP that a flow is to.
    fn vip_of(&self, version: u8, key: &FlowKey) -> Option<u32> {
        let port = (key.rest >> 32) as u16;
        self.tables.vip(version, key.destination, port, IpProtocol(key.rest as u8))
    }

    fn entry(&self, vip: u32) -> VipEntry {
        self.tables.vips[vip as usize]
    }

    /// What a packet says about its flow.
    fn opening(&self, frame: &[u8], packet: &Packet, vip: u32, now_ns: u64) -> Opening {
        if packet.protocol == TCP {
            return if packet.is_syn(frame) { Opening::New } else { Opening::Continues };
        }
        let entry = self.entry(vip);
        if entry.flags & flags::QUIC == 0 {
            return Opening::Unknown;
        }
        let payload = packet.transport(frame).get(8..).unwrap_or_default();
        match quic::packet(payload) {
            quic::Packet::Opening => Opening::New,
            quic::Packet::Other => Opening::Unknown,
            quic::Packet::Continuing(id) => {
                let lengths: [u8; ROTATIONS] = std::array::from_fn(|at| entry.server_id_bytes[at]);
                let named = quic::server_id(id, &lengths).and_then(|(rotation, number)| {
                    self.tables.keys.get(&Key::server(vip, rotation, number))
                });
                let named = named.filter(|real| self.is_usable(*real, now_ns));
                named.map_or(Opening::Continues, Opening::Named)
            }
        }
    }

    fn is_usable(&self, real: u32, now_ns: u64) -> bool {
        self.tables.reals.get(real as usize).is_some_and(|real| real.is_usable(now_ns))
    }

    /// The real of a flow, which is remembered from now on.
    fn choose(
        &mut self,
        vip: u32,
        key: &FlowKey,
        hash: u64,
        opening: &Opening,
        now_ns: u64,
    ) -> Option<u32> {
        let entry = self.entry(vip);
        if let Some((place, flow)) = self.remembered(key, hash, entry.timeout_ticks, now_ns) {
            let real = self.tables.reals[flow.real as usize];
            // A real that drains takes no new flows, also not of ports that were used before.
            if real.vip == vip && (*opening != Opening::New || real.until_ns == UP) {
                self.touch(place, now_ns);
                self.count(vip, Count::Remembered);
                return Some(flow.real);
            }
        }
        let continues = *opening == Opening::Continues;
        let moved = continues.then(|| self.moved(vip, key, hash, now_ns)).flatten();
        let (real, how) = match moved {
            Some(real) => (real, Count::Moved),
            None => self.by_tables(vip, key, continues, now_ns)?,
        };
        self.count(vip, how);
        self.remember(vip, key, hash, real, now_ns);
        Some(real)
    }

    /// A flow in the table that is not idle for too long, and whose real is there.
    fn remembered(
        &self,
        key: &FlowKey,
        hash: u64,
        idle_max: u32,
        now_ns: u64,
    ) -> Option<(Place, Flow)> {
        let flows = &self.memories[self.cpu].flows;
        let place = flows.find(key, hash)?;
        let (flow, idle) = flows.get(place, ticks(now_ns));
        (self.may_take(&flow, now_ns) && idle <= idle_max).then_some((place, flow))
    }

    /// True if a flow's real is there, and the one that it was.
    fn may_take(&self, flow: &Flow, now_ns: u64) -> bool {
        let real = self.tables.reals.get(flow.real as usize);
        real.is_some_and(|real| real.serial == flow.serial && real.is_usable(now_ns))
    }

    /// The real of a flow of this VIP that another CPU remembers.
    fn moved(&mut self, vip: u32, key: &FlowKey, hash: u64, now_ns: u64) -> Option<u32> {
        let idle_max = self.entry(vip).timeout_ticks;
        let real = self.remembered_elsewhere(key, hash, idle_max, now_ns)?;
        (self.tables.reals[real as usize].vip == vip).then_some(real)
    }

    /// The real with which other CPUs remember a flow; of several the one whose packet came last.
    fn remembered_elsewhere(
        &mut self,
        key: &FlowKey,
        hash: u64,
        idle_max: u32,
        now_ns: u64,
    ) -> Option<u32> {
        let asked_max = self.tables.settings.new_flows_per_second_max;
        let guard = &mut self.memories[self.cpu].guard;
        guard.renew(now_ns);
        if guard.asked >= asked_max.saturating_mul(ASKED_PER_NEW_FLOW) {
            return None;
        }
        let is_asked = |cpu: &usize| *cpu != self.cpu && self.memories[*cpu].has_seen;
        let others: Vec<usize> = (0..self.memories.len()).filter(is_asked).collect();
        self.memories[self.cpu].guard.asked += others.len() as u32;
        let found = others.into_iter().filter_map(|cpu| {
            let flows = &self.memories[cpu].flows;
            let (flow, idle) = flows.get(flows.find(key, hash)?, ticks(now_ns));
            let idle = if idle.wrapping_neg() < AHEAD_TICKS { 0 } else { idle };
            (self.may_take(&flow, now_ns) && idle <= idle_max).then_some((idle, flow.real))
        });
        // The first of equals.
        found.min_by_key(|(idle, _)| *idle).map(|(_, real)| real)
    }

    /// The real that tables name, without a look at what is remembered.
    fn by_tables(
        &self,
        vip: u32,
        key: &FlowKey,
        continues: bool,
        now_ns: u64,
    ) -> Option<(u32, Count)> {
        let entry = self.entry(vip);
        let hash = match entry.flags & flags::BY_SOURCE {
            0 => hash(SEED_FLOW, &key.words()),
            _ => hash(SEED_FLOW, &key.source),
        };
        if continues && now_ns < self.before_until_ns {
            let real = self.before.as_ref().and_then(|before| named(before, vip, hash));
            if let Some((real, entry)) = real
                && (self.tables.reals.get(real as usize))
                    .is_some_and(|now| now.serial == entry.serial && now.is_usable(now_ns))
            {
                return Some((real, Count::Before));
            }
        }
        let (real, entry) = named(&self.tables, vip, hash)?;
        entry.is_usable(now_ns).then_some((real, Count::Chosen))
    }

    fn remember(&mut self, vip: u32, key: &FlowKey, hash: u64, real: u32, now_ns: u64) {
        let Memory { flows, guard, .. } = &mut self.memories[self.cpu];
        guard.renew(now_ns);
        if guard.flows >= self.tables.settings.new_flows_per_second_max {
            return self.count(vip, Count::Guarded);
        }
        guard.flows += 1;
        let serial = self.tables.reals[real as usize].serial;
        flows.put(Flow { key: *key, real, serial }, hash, ticks(now_ns));
    }

    fn icmp(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        now_ns: u64,
        route: &mut Route<'_>,
    ) -> Verdict {
        if packet.transport(frame).len() < 8 {
            return Verdict::Pass;
        }
        if packet.is_icmp_error(frame) {
            return self.error(frame, packet, now_ns, route);
        }
        let echo = if packet.version == 4 { [8, 0] } else { [128, 0] };
        let without_options = if packet.version == 4 { 34 } else { 54 };
        if !packet.transport(frame).starts_with(&echo) || packet.transport_at != without_options {
            return Verdict::Pass;
        }
        let vip = self.tables.any_vip(packet.version, packet.destination);
        let vip = vip.filter(|vip| self.entry(*vip).flags & flags::ECHO != 0);
        match (vip, write::echo_reply(frame, packet)) {
            (Some(vip), Some(reply)) => {
                self.count(vip, Count::Echo);
                Verdict::Answer(reply)
            }
            _ => Verdict::Pass,
        }
    }

    fn error(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        now_ns: u64,
        route: &mut Route<'_>,
    ) -> Verdict {
        let Some(key) = packet.flow_of_error(frame) else { return Verdict::Pass };
        let Some(vip) = self.vip_of(packet.version, &key) else { return Verdict::Pass };
        let hash = self.hash(&key);
        let entry = self.entry(vip);
        let remembered = self.remembered(&key, hash, entry.timeout_ticks, now_ns);
        let remembered = remembered.map(|(_, flow)| flow.real);
        let is_of_vip = |real: &u32| self.tables.reals[*real as usize].vip == vip;
        let found = match remembered.filter(is_of_vip) {
            Some(real) => Some((real, Count::Remembered)),
            None => (self.moved(vip, &key, hash, now_ns).map(|real| (real, Count::Moved)))
                .or_else(|| self.by_tables(vip, &key, true, now_ns)),
        };
        let Some((real, how)) = found else { return self.drop(vip, Count::NoReal) };
        self.count(vip, how);
        self.count(vip, Count::Error);
        self.send(frame, packet, Choice { vip, real, spread: spread(hash) }, true, route)
    }

    fn send(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        choice: Choice,
        is_error: bool,
        route: &mut Route<'_>,
    ) -> Verdict {
        let Choice { vip, real, spread } = choice;
        let entry = self.tables.reals[real as usize];
        let overhead = entry.path.overhead();
        let towards = Towards { address: entry.ip(), bytes: packet.bytes + overhead };
        let mtu = self.tables.settings.mtu;
        let hop = match entry.next_hop {
            _ if towards.bytes > mtu as usize => Hop::TooBig { mtu },
            Some(destination) => {
                let Interface { number: interface, mac: source } = self.interface;
                Hop::Found { interface, link: Link { destination, source } }
            }
            None => route(&towards),
        };
        match hop {
            Hop::Found { interface, link } => {
                let settings = &self.tables.settings;
                let sent = write::to_real(frame, packet, &entry, settings, &link, spread);
                self.count(vip, Count::Forwarded);
                self.real_counts[real as usize][0] += 1;
                self.real_counts[real as usize][1] += frame.len() as u64;
                Verdict::Send { real, interface, frame: sent }
            }
            Hop::TooBig { mtu } => {
                let bytes_max = mtu.saturating_sub(overhead as u32);
                let may_answer = packet.dont_fragment && !is_error && has_one_sender(packet);
                let allowed = bytes_max >= if packet.version == 4 { 68 } else { 1_280 };
                match write::too_big(frame, packet, bytes_max) {
                    Some(answer) if may_answer && allowed => {
                        self.count(vip, Count::Answered);
                        Verdict::Answer(answer)
                    }
                    _ => self.drop(vip, Count::TooBig),
                }
            }
            Hop::NoNeighbour => self.drop(vip, Count::NoNeighbour),
            Hop::NoRoute => self.drop(vip, Count::NoRoute),
        }
    }

    fn drop(&mut self, vip: u32, cause: Count) -> Verdict {
        self.count(vip, cause);
        Verdict::Drop(cause)
    }

    fn count(&mut self, vip: u32, what: Count) {
        self.counts[vip as usize][what as usize] += 1;
    }
}

/// Half a minute, in [`ticks`]: as long as Linux waits for the rest of a packet.
pub const FRAGMENT_TICKS: u32 = ((30 * SECOND_NS) >> 20) as u32;

/// What a packet says about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// It begins.
    New,
    /// It goes on.
    Continues,
    /// Nothing.
    Unknown,
    /// It is with this real.
    Named(u32),
}

/// Bits that follow a flow: of source addresses and ports of tunnels, and flow labels.
fn spread(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The real that a VIP's slots have for a hash.
fn named(tables: &Tables, vip: u32, hash: u64) -> Option<(u32, &RealEntry)> {
    let entry = tables.vips.get(vip as usize).filter(|entry| entry.flags & flags::LIVE != 0)?;
    let real = *tables.slots.get((entry.slots_at + slot(hash, entry.slots)) as usize)?;
    if real == NONE {
        return None;
    }
    Some((real, tables.reals.get(real as usize)?))
}

/// True unless an answer would go to many hosts or to none (RFC 1122, 3.2.2; RFC 4443, 2.4).
fn has_one_sender(packet: &Packet) -> bool {
    match packet.version {
        4 => {
            let first = packet.source[1] as u32 >> 24;
            (1..224).contains(&first) && first != 127
        }
        _ => packet.source != [0, 0] && packet.source[0] >> 56 != 0xff,
    }
}
