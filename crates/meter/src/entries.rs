//! Readings of the cache: what is new in its entries, and in what it handed up.

use crate::MeterError;
use crate::frames::Frames;
use crate::ring::{Record, Ring};
use crate::taken::{AllTaken, Sums3, Taken};
use ringside_core::{InterfaceId, Timestamp};
use ringside_ebpf::flows::FlowMaps;
use ringside_ebpf::flows::abi::{ENTRY_WORDS, Entry, HAS_VLAN, ONE_WAY, SET_WORDS, V6, WAYS};
use ringside_flow::key::Around;
use ringside_flow::packet::is_question;
use ringside_flow::{Counted, Key};
use ringside_wire::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How often an entry is read that the program writes meanwhile; then it waits for the next
/// reading.
const TRIES_MAX: u32 = 1_000;

/// What this process knows of a place since its last reading.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    version: u32,
    /// The epoch that had begun when it was read.
    epoch: u32,
    /// Stamp of its last packet then.
    last: u64,
}

/// Reads the cache.
pub(crate) struct Entries {
    seen: Vec<Seen>,
    taken: AllTaken,
    interface: InterfaceId,
    epoch: u32,
    /// What was found, with stamps in TAI.
    pub found: Vec<Counted>,
    /// What of that waits for the next reading; empty in between.
    pub later: Vec<Counted>,
    pub frames: Frames,
    /// Entries that had changed at the last reading.
    pub changed: u64,
}

impl Entries {
    pub fn new(maps: &FlowMaps, epoch: u32, interface: InterfaceId, frames: Frames) -> Entries {
        let places = maps.entries.len() / ENTRY_WORDS;
        Entries {
            seen: vec![Seen::default(); places],
            taken: AllTaken::new(maps.taken.clone()),
            interface,
            epoch,
            found: Vec::new(),
            later: Vec::new(),
            frames,
            changed: 0,
        }
    }

    /// Finds all that came before `epoch` began, and some that came since.
    pub fn read(&mut self, maps: &FlowMaps, epoch: u32) -> Result<(), MeterError> {
        self.epoch = epoch;
        self.changed = 0;
        for cpu in 0..maps.layout.cpus as usize {
            self.drain(maps, cpu)?;
        }
        for (set, words) in maps.sets.chunks_exact(SET_WORDS).enumerate() {
            for (way, version) in words[WAYS..].iter().enumerate() {
                let place = set * WAYS + way;
                if version.load(Ordering::Relaxed) != self.seen[place].version {
                    self.look_at(maps, place)?;
                }
            }
        }
        Ok(())
    }

    /// Takes all that a CPU handed up.
    fn drain(&mut self, maps: &FlowMaps, cpu: usize) -> Result<(), MeterError> {
        let ring = Ring::of(&maps.rings, &maps.layout, cpu);
        loop {
            let Entries { seen, taken, found, frames, interface, epoch, .. } = self;
            let Frames { bytes, records, .. } = frames;
            let mut damaged = None;
            let went_on = ring.next(bytes, |record| match record {
                Record::Frame(frame) => records.push(*frame),
                Record::Entry(entry) => match seen.get_mut(entry.index as usize) {
                    Some(seen) => {
                        let before = taken.get(entry.index as usize);
                        if (entry.generation.wrapping_sub(before.generation) as i32) < 0 {
                            // A process that died had taken it.
                            return;
                        }
                        let is_known = entry.generation == before.generation;
                        let known = if is_known { before.sums } else { Sums3::default() };
                        let generation = entry.generation.wrapping_add(1);
                        let sums = Sums3::default();
                        taken.set(entry.index as usize, Taken { generation, sums });
                        found.extend(counted(entry, &known, seen, *interface));
                        (seen.last, seen.epoch) = (0, *epoch);
                    }
                    None => damaged = Some(entry.index),
                },
            })?;
            if let Some(index) = damaged {
                return Err(MeterError::Damaged { cpu, position: index.into() });
            }
            if !went_on {
                return Ok(());
            }
        }
    }

    /// Takes what is new in a place.
    fn look_at(&mut self, maps: &FlowMaps, place: usize) -> Result<(), MeterError> {
        let Some((mut version, mut entry)) = copy(maps, place) else { return Ok(()) };
        let mut taken = self.taken.get(place);
        if entry.generation != taken.generation {
            // Those before were handed up first.
            let cpu = place / maps.layout.entries();
            self.drain(maps, cpu)?;
            taken = self.taken.get(place);
            let Some(again) = copy(maps, place) else { return Ok(()) };
            (version, entry) = again;
            let ahead = entry.generation.wrapping_sub(taken.generation) as i32;
            if ahead < 0 || ahead > 0 && Ring::of(&maps.rings, &maps.layout, cpu).waiting() > 0 {
                // It is just going, or went once more: the next reading finds what came then.
                return Ok(());
            }
            if ahead > 0 {
                // A process that died had taken what was handed up.
                taken = Taken { generation: entry.generation, sums: Sums3::default() };
            }
        }
        let sums = Sums3::of(&entry);
        self.taken.set(place, Taken { generation: entry.generation, sums });
        let seen = &mut self.seen[place];
        self.found.extend(counted(&entry, &taken.sums, seen, self.interface));
        *seen = Seen { version, epoch: self.epoch, last: entry.last };
        self.changed += 1;
        Ok(())
    }
}

/// A consistent copy of an entry, with its version; none if the program writes it all the time.
fn copy(maps: &FlowMaps, place: usize) -> Option<(u32, Entry)> {
    let version = &maps.sets[place / WAYS * SET_WORDS + WAYS + place % WAYS];
    let words = &maps.entries[place * ENTRY_WORDS..][..ENTRY_WORDS];
    for _ in 0..TRIES_MAX {
        let before = version.load(Ordering::Acquire);
        if before.is_multiple_of(2) {
            let copy =
                std::array::from_fn(|at: usize| AtomicU64::load(&words[at], Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.load(Ordering::Relaxed) == before {
                return Some((before, Entry::of(&copy)));
            }
        }
        std::hint::spin_loop();
    }
    None
}

/// What an entry has more than was taken of it.
fn counted(entry: &Entry, taken: &Sums3, seen: &Seen, interface: InterfaceId) -> Option<Counted> {
    let Sums3 { packets, octets, ip_octets } = Sums3::of(entry).since(taken);
    let is_new = taken.packets == 0;
    let epochs = (0..2).filter(|&turn| {
        entry.epoch[turn] != 0 && (entry.epoch[turn].wrapping_sub(seen.epoch) as i32) >= 0
    });
    // Of what was never taken all count; it may have come and gone between two readings.
    let flags = match is_new {
        true => entry.all_flags,
        false => epochs.clone().fold(0, |all, turn| all | entry.epoch_flags[turn]),
    };
    let since = epochs.map(|turn| entry.since[turn]).filter(|&since| since > seen.last).min();
    let first = if is_new { entry.first } else { since.unwrap_or(entry.last) };
    let (key, from_high, is_question) = key(entry, interface);
    (packets > 0).then_some(Counted {
        key,
        from_high,
        is_question,
        packets,
        octets,
        ip_octets,
        first: Timestamp(first),
        last: Timestamp(entry.last),
        tos: entry.tos,
        mpls_label: None,
        tcp_flags: flags,
        first_flags: if is_new { entry.first_flags } else { 0 },
    })
}

/// The key of an entry, whether the higher endpoint sends, and whether it asks.
fn key(entry: &Entry, interface: InterfaceId) -> (Key, bool, bool) {
    let (source, destination) = addresses(entry);
    let protocol = IpProtocol(entry.protocol);
    let vlan = (entry.vlan & HAS_VLAN != 0).then_some(entry.vlan & (HAS_VLAN - 1));
    let around = Around { protocol, vlan, tunnel: None, interface };
    let is_one_way = entry.flags & ONE_WAY != 0;
    let (from, to) = (entry.ports[0], entry.ports[1]);
    let (key, from_high) = Key::new((source, from), (destination, to), &around, is_one_way);
    let is_icmp = matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
    (key, from_high, is_icmp && is_question(protocol, from))
}

fn addresses(entry: &Entry) -> (IpAddr, IpAddr) {
    let bytes = entry.address.map(u64::to_ne_bytes);
    if entry.flags & V6 == 0 {
        let [a, b, c, d, e, f, g, h] = bytes[0];
        return (Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into());
    }
    let half = |at: usize| u128::from(u64::from_be_bytes(bytes[at]));
    let address = |at: usize| Ipv6Addr::from_bits(half(at) << 64 | half(at + 1)).into();
    (address(0), address(2))
}
