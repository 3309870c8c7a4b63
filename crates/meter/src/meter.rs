//! A meter: the cache of an interface, read into a flow table.

use crate::MeterError;
use crate::entries::Entries;
use crate::frames::Frames;
use crate::ledger::{InterfaceSums, Ledger, Status};
use crate::ring::Ring;
use ringside_core::{InterfaceId, Timestamp};
use ringside_ebpf::flows::abi::{CONTROL_EPOCH, Counts, WAYS};
use ringside_ebpf::flows::{FlowCache, FlowCacheConfig, FlowLayout, FlowMaps, Hook};
use ringside_flow::{Counted, FlowTable, NoFlow, Record, Sums};
use ringside_netdev::{DeviceStatistics, NetDevice};
use ringside_sys::{bpf, clock};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Words of control that the program leaves alone: packets and octets whose records a meter has
/// given out, for a process that goes on for it.
const CONTROL_EXPORTED: [usize; 2] = [2, 3];
/// ARPHRD_ETHER of linux/if_arp.h.
const ETHERNET: u16 = 1;
/// Longer than a reading takes: what is stamped later than its beginning by more was stamped before
/// the clock was set back, and waits for nothing.
const READING_NS_MAX: u64 = 1_000_000_000;

/// How a meter's cache is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries of each CPU, a power of two; some 200 bytes each.
    pub entries: usize,
    /// Bytes of each CPU's ring for what is handed up, a power of two. It has to hold what goes
    /// from one reading to the next: 160 bytes for each entry that is evicted.
    pub ring_bytes: usize,
    /// Attach to the kernel's generic path if the driver refuses XDP.
    pub generic_allowed: bool,
    /// The interface's number in keys and records.
    pub interface: InterfaceId,
}

impl Options {
    /// Least and most entries of a CPU. The most take 800 MiB.
    pub const ENTRIES: [usize; 2] = [64, 1 << 22];
    /// Smallest and largest ring.
    pub const RING_BYTES: [usize; 2] = [4_096, 256 << 20];
}

impl Default for Options {
    fn default() -> Options {
        Options {
            entries: 1 << 16,
            ring_bytes: 8 << 20,
            generic_allowed: false,
            interface: InterfaceId(0),
        }
    }
}

/// The flow cache of an interface, read into a [`FlowTable`]. Dropping it takes the program off.
pub struct Meter {
    cache: FlowCache,
    entries: Entries,
    interface: String,
    at_start: Option<DeviceStatistics>,
    /// TAI is so much ahead of UTC.
    tai_ahead_ns: u64,
    ledger: Ledger,
    /// Frames without IP that were accounted for.
    not_ip: Sums,
    /// Fragments without ports that were.
    fragments: u64,
    /// What a process before this one had exported, if this one goes on for it.
    exported_before: Option<Sums>,
    status: Status,
}

impl Meter {
    /// Puts a cache on an interface, of the calling thread's network namespace. What comes from
    /// somewhere in this call on is counted.
    ///
    /// # Errors
    /// There is no such interface, it is no Ethernet, a size is none, or the program could not be
    /// loaded or attached.
    pub fn open(interface: &str, hook: Hook, options: &Options) -> Result<Meter, MeterError> {
        let layout = layout(options)?;
        let device = device(interface)?;
        let config = FlowCacheConfig {
            interface,
            ifindex: device.ifindex,
            hook,
            layout,
            generic_allowed: options.generic_allowed,
        };
        let cache = FlowCache::open(&config)?;
        Ok(Meter::of(cache, interface, Some(device.statistics), options.interface, None))
    }

    /// A cache on no interface, for frames that are given to its program in test runs.
    ///
    /// # Errors
    /// As [`open`](Meter::open).
    pub fn unattached(hook: Hook, options: &Options) -> Result<Meter, MeterError> {
        let cache = FlowCache::unattached(hook, layout(options)?)?;
        Ok(Meter::of(cache, "", None, options.interface, None))
    }

    /// Goes on for a process that died, by the descriptors that it gave, and how its cache was cut.
    /// The interface's counters are compared from here on.
    ///
    /// # Errors
    /// The descriptors are others.
    pub fn take_over(
        interface: &str,
        id: InterfaceId,
        layout: FlowLayout,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Meter, MeterError> {
        let cache = FlowCache::from_descriptors(layout, descriptors)?;
        let [packets, octets] =
            CONTROL_EXPORTED.map(|word| cache.maps().control[word].load(Ordering::Acquire));
        let at_start = device(interface).ok().map(|device| device.statistics);
        let before = Some(Sums { packets, octets });
        Ok(Meter::of(cache, interface, at_start, id, before))
    }

    fn of(
        cache: FlowCache,
        interface: &str,
        at_start: Option<DeviceStatistics>,
        id: InterfaceId,
        exported_before: Option<Sums>,
    ) -> Meter {
        let frames = Frames::new(interface, id);
        let epoch = cache.maps().control[CONTROL_EPOCH].load(Ordering::Relaxed) as u32;
        let entries = Entries::new(cache.maps(), epoch, id, frames);
        Meter {
            entries,
            cache,
            interface: interface.to_owned(),
            at_start,
            tai_ahead_ns: clock::tai_offset_ns(),
            ledger: Ledger::default(),
            not_ip: Sums::default(),
            fragments: 0,
            exported_before,
            status: Status::default(),
        }
    }

    /// Reads what came, and adds it to the table: all that was there when this call began. Records
    /// that are due go to `out`.
    ///
    /// # Errors
    /// What the kernel handed up is damaged.
    pub fn poll(
        &mut self,
        table: &mut FlowTable,
        out: &mut dyn FnMut(Record),
    ) -> Result<(), MeterError> {
        self.poll_until(clock::tai_ns(), table, out)
    }

    /// As [`poll`](Meter::poll). What began later than `until_ns` of TAI waits for the next one.
    fn poll_until(
        &mut self,
        until_ns: u64,
        table: &mut FlowTable,
        out: &mut dyn FnMut(Record),
    ) -> Result<(), MeterError> {
        let (start, now) = (clock::monotonic_ns(), clock::tai_ns());
        self.read()?;
        self.add(until_ns, table, out);
        table.advance(Timestamp(now.saturating_sub(self.tai_ahead_ns)), out);
        self.status.readings += 1;
        self.status.changed = self.entries.changed;
        self.status.reading_ns = clock::monotonic_ns() - start;
        Ok(())
    }

    /// Takes the program off the interface, reads the rest, and ends all flows. The ledger is
    /// exact then.
    ///
    /// # Errors
    /// The kernel refused, or what it handed up is damaged; the rest is done all the same.
    pub fn finish(
        &mut self,
        table: &mut FlowTable,
        out: &mut dyn FnMut(Record),
    ) -> Result<Ledger, MeterError> {
        let stopped = self.cache.stop();
        let read = self.poll_until(u64::MAX, table, out);
        table.flush(out);
        stopped?;
        read?;
        Ok(self.ledger())
    }

    /// The account so far: exact when no frames come and all was read.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger;
        let counts = self.cache.maps().counts();
        ledger.received = sums(counts.received);
        ledger.sent = sums(counts.sent);
        ledger.no_room = sums(counts.no_room);
        if let Some(exported) = self.exported_before {
            let Ledger { received, sent, in_flows, no_flow: [not_ip, unreadable], .. } = ledger;
            let seen = [received, sent];
            let found = [in_flows, not_ip, unreadable, ledger.no_room];
            let before = |of: fn(&Sums) -> u64| {
                let seen: u64 = seen.iter().map(of).sum();
                seen.saturating_sub(found.iter().map(of).sum())
            };
            let (packets, octets) = (before(|sums| sums.packets), before(|sums| sums.octets));
            ledger.taken_before = Sums { packets, octets };
            ledger.lost_before = Sums {
                packets: packets.saturating_sub(exported.packets),
                octets: octets.saturating_sub(exported.octets),
            };
        }
        ledger.interface = self.interface_sums();
        ledger
    }

    /// How the cache does.
    pub fn status(&self) -> Status {
        let maps = self.cache.maps();
        let Counts { places, evicted, renewed, handed_up, no_room, .. } = maps.counts();
        Status {
            entries_max: maps.layout.cpus as usize * maps.layout.entries() / WAYS * maps.ways(),
            entries: places,
            evicted,
            renewed,
            handed_up: handed_up[0],
            no_room: no_room[0],
            memory_bytes: maps.layout.memory_bytes(),
            ..self.status
        }
    }

    /// Lets at most this number of entries, of all CPUs, be used, in steps of an eighth of what
    /// there is. Those beyond stay as they are; their flows get other entries.
    pub fn set_entries_max(&self, entries: usize) {
        let maps = self.cache.maps();
        let step = maps.layout.cpus as usize * maps.layout.entries() / WAYS;
        maps.set_ways(entries / step);
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// What the kernel refused when the program was attached, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.cache.notes()
    }

    /// How the cache is cut: for [`take_over`](Meter::take_over).
    pub fn layout(&self) -> FlowLayout {
        self.cache.maps().layout
    }

    /// Descriptors for a process that may have to go on for this one: while they are open, the
    /// cache stays where it is.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.cache.descriptors()
    }

    /// The cache itself, to run frames through it.
    pub fn cache(&self) -> &FlowCache {
        &self.cache
    }

    fn read(&mut self) -> Result<(), MeterError> {
        let maps = self.cache.maps();
        let cpus = 0..maps.layout.cpus as usize;
        let waiting = cpus.map(|cpu| Ring::of(&maps.rings, &maps.layout, cpu).waiting()).max();
        self.status.ring_fill = waiting.unwrap_or(0) as f64 / f64::from(maps.layout.ring_bytes);
        // What comes from now on is of the new epoch.
        let epoch = next_epoch(maps);
        self.entries.read(maps, epoch)
    }

    /// Adds what was read to the table, but for what began after `until_ns`: its place may have
    /// been looked at when that of what it answers had been passed already.
    fn add(&mut self, until_ns: u64, table: &mut FlowTable, out: &mut dyn FnMut(Record)) {
        let Meter { entries, ledger, .. } = self;
        let Entries { found, later, frames, .. } = entries;
        frames.read(|read| match read {
            Ok(counted) => found.push(counted),
            Err((cause, sums)) => {
                table.count_no_flow(cause, sums);
                ledger.no_flow[cause as usize] += sums;
            }
        });
        let fragments = frames.fragments_without_ports();
        table.add_fragments_without_ports(fragments - self.fragments);
        self.fragments = fragments;
        // Who began a flow is found by who sent first.
        found.sort_unstable_by_key(|counted| counted.first);
        let utc = |stamp: Timestamp| Timestamp(stamp.0.saturating_sub(self.tai_ahead_ns));
        for counted in found.drain(..) {
            if (1..READING_NS_MAX).contains(&counted.first.0.saturating_sub(until_ns)) {
                later.push(counted);
                continue;
            }
            let (first, last) = (utc(counted.first), utc(counted.last));
            ledger.in_flows += Sums { packets: counted.packets, octets: counted.octets };
            table.add_counted(&Counted { first, last, ..counted }, out);
        }
        std::mem::swap(found, later);
        let not_ip = sums(self.cache.maps().counts().not_ip);
        let new = Sums {
            packets: not_ip.packets - self.not_ip.packets,
            octets: not_ip.octets - self.not_ip.octets,
        };
        table.count_no_flow(NoFlow::NotIp, new);
        ledger.no_flow[NoFlow::NotIp as usize] += new;
        self.not_ip = not_ip;
    }

    /// Leaves word of what records of this interface that were given out hold, for a process that
    /// goes on for this one.
    pub fn note_exported(&self, exported: Sums) {
        let mut sums = self.exported_before.unwrap_or_default();
        sums += exported;
        // Frames without IP are counted in the kernel, and who reads there next finds them.
        sums += self.ledger.no_flow[NoFlow::Unreadable as usize];
        let words = [sums.packets, sums.octets];
        for (at, word) in CONTROL_EXPORTED.into_iter().zip(words) {
            self.cache.maps().control[at].store(word, Ordering::Release);
        }
    }

    fn interface_sums(&self) -> Option<InterfaceSums> {
        let before = self.at_start?;
        let now = device(&self.interface).ok()?.statistics;
        let since = |now: u64, before: u64| now.saturating_sub(before);
        Some(InterfaceSums {
            received: Sums {
                packets: since(now.rx_packets, before.rx_packets),
                octets: since(now.rx_bytes, before.rx_bytes),
            },
            sent: Sums {
                packets: since(now.tx_packets, before.tx_packets),
                octets: since(now.tx_bytes, before.tx_bytes),
            },
        })
    }
}

fn next_epoch(maps: &FlowMaps) -> u32 {
    let word = &maps.control[CONTROL_EPOCH];
    let next = (word.load(Ordering::Relaxed) as u32).wrapping_add(1).max(1);
    word.store(next.into(), Ordering::Release);
    next
}

fn sums([packets, octets]: [u64; 2]) -> Sums {
    Sums { packets, octets }
}

fn device(name: &str) -> Result<NetDevice, MeterError> {
    let device = ringside_netdev::by_name(name)?;
    let device = device.ok_or_else(|| MeterError::NoInterface(name.to_owned()))?;
    match device.hardware_type {
        ETHERNET => Ok(device),
        _ => Err(MeterError::NotEthernet(name.to_owned())),
    }
}

fn layout(options: &Options) -> Result<FlowLayout, MeterError> {
    let check = |what, value: usize, [min, max]: [usize; 2]| {
        let is_right = value.is_power_of_two() && (min..=max).contains(&value);
        if is_right { Ok(value) } else { Err(MeterError::Size { what, value, min, max }) }
    };
    let entries = check("a number of entries", options.entries, Options::ENTRIES)?;
    let ring_bytes = check("a ring in bytes", options.ring_bytes, Options::RING_BYTES)? as u32;
    let cpus = bpf::cpu_numbers().map_err(ringside_ebpf::Error::from)?;
    Ok(FlowLayout { cpus, sets: (entries / WAYS) as u32, ring_bytes })
}
