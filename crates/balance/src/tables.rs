//! What the data plane looks at: a configuration as flat tables.
//!
//! A data plane has two such tables, the current ones and those before the last change. VIPs and
//! reals keep their indices from one to the next ([`Tables::next`]), so that counters and
//! remembered flows go on; an index that goes to another real gets another serial number, so that a
//! flow never goes to a stranger.

pub mod keys;

#[cfg(test)]
mod tests;

use crate::config::{
    Affinity, Config, PREFIX_LENGTHS_MAX, Protocol, REALS_MAX, Real, RealState, VIPS_MAX, Via, Vip,
};
use crate::hash::address_words;
use crate::maglev::{self, NONE, Weighted};
use crate::prefix::Prefix;
use keys::{Key, Keys};
use ringside_wire::{IpProtocol, MacAddr};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

/// A real that gets all flows: it never ends.
pub const UP: u64 = u64::MAX;
/// A real that gets none.
pub const DOWN: u64 = 0;

/// The least room for VIPs or reals: a small configuration may grow, and this costs little.
const ROOM_MIN: usize = 16;

/// Room for as much again, as far as a configuration may have it.
fn twice(count: usize, most: usize) -> usize {
    (2 * count).clamp(ROOM_MIN, most)
}

const SECOND_NS: u64 = 1_000_000_000;
/// Idle times are counted in units of 2^20 ns.
const TICK_SHIFT: u32 = 20;

/// Time in the units of idle times; it comes round after 52 days.
pub fn ticks(now_ns: u64) -> u32 {
    (now_ns >> TICK_SHIFT) as u32
}

/// Bits of [`VipEntry::flags`].
pub mod flags {
    /// The index is a VIP's.
    pub const LIVE: u32 = 1;
    /// Its packets are QUIC.
    pub const QUIC: u32 = 2;
    /// The client's address alone chooses the real.
    pub const BY_SOURCE: u32 = 4;
    /// Echo requests are answered.
    pub const ECHO: u32 = 8;
}

/// How packets reach a real, as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// As they are.
    #[default]
    Direct = 0,
    /// Within IPv4.
    Ipip4 = 1,
    /// Within IPv6.
    Ipip6 = 2,
    /// Within UDP over IPv4.
    Gue4 = 3,
    /// Within UDP over IPv6.
    Gue6 = 4,
}

impl Path {
    /// Each of them.
    pub const ALL: [Path; 5] = [Path::Direct, Path::Ipip4, Path::Ipip6, Path::Gue4, Path::Gue6];

    fn of(via: Via, address: IpAddr) -> Path {
        match (via, address) {
            (Via::Direct, _) => Path::Direct,
            (Via::Ipip, IpAddr::V4(_)) => Path::Ipip4,
            (Via::Ipip, IpAddr::V6(_)) => Path::Ipip6,
            (Via::Gue, IpAddr::V4(_)) => Path::Gue4,
            (Via::Gue, IpAddr::V6(_)) => Path::Gue6,
        }
    }

    /// Bytes that it puts in front of a packet.
    pub fn overhead(self) -> usize {
        match self {
            Path::Direct => 0,
            Path::Ipip4 => 20,
            Path::Ipip6 => 40,
            Path::Gue4 => 28,
            Path::Gue6 => 48,
        }
    }
}

/// What holds for all VIPs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// First outer source address of tunnels over IPv4, and the bits that follow the flow.
    pub source_v4: (u32, u32),
    /// The same over IPv6; bits of the lower word follow the flow.
    pub source_v6: ([u64; 2], u64),
    /// Longest packet to a real, in bytes.
    pub mtu: u32,
    /// Destination port of GUE.
    pub gue_port: u16,
    /// New flows that a CPU remembers in a second.
    pub new_flows_per_second_max: u32,
    /// Nanoseconds after a change in which the tables before it count.
    pub change_window_ns: u64,
    /// Lengths of VIPs' prefixes over IPv4, longest first.
    pub lengths_v4: Vec<u8>,
    /// The same over IPv6.
    pub lengths_v6: Vec<u8>,
}

/// A VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VipEntry {
    /// Its first slot, and how many it has.
    pub slots_at: u32,
    /// See `slots_at`.
    pub slots: u32,
    /// Idle time after which a flow is forgotten, in [`ticks`].
    pub timeout_ticks: u32,
    /// See [`flags`].
    pub flags: u32,
    /// Bytes of server ids by configuration of QUIC-LB; the last is always 0.
    pub server_id_bytes: [u8; 8],
}

/// A real of one VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealEntry {
    /// Words of its address.
    pub address: [u64; 2],
    /// Until when its flows go to it, by the monotonic clock: [`UP`], [`DOWN`], or a deadline.
    pub until_ns: u64,
    /// Changes when the index goes to another real.
    pub serial: u32,
    /// Index of its VIP.
    pub vip: u32,
    /// Where its frames go, instead of the host's routes.
    pub next_hop: Option<MacAddr>,
    /// How they go.
    pub path: Path,
}

impl RealEntry {
    /// A real as packets reach it, with whatever index.
    pub fn of(vip: &Vip, real: &Real) -> RealEntry {
        real_entry(vip, real, 0, 0, UP)
    }

    /// True if flows that it has may go to it.
    pub fn is_usable(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        let bits = u128::from(self.address[0]) << 64 | u128::from(self.address[1]);
        IpAddr::from(bits.to_be_bytes()).to_canonical()
    }
}

/// Who has which index.
#[derive(Clone, Debug)]
struct Places<K> {
    names: Vec<Option<K>>,
    serials: Vec<u32>,
    /// How many the data plane has.
    room: usize,
}

impl<K: Clone + Eq + Hash> Places<K> {
    fn none(room: usize) -> Places<K> {
        Places { names: Vec::new(), serials: Vec::new(), room }
    }

    /// Places for `wanted`: each has the index that it had, a newcomer one that had no name before
    /// if there is room for one. The room is exceeded only by as many names as do not fit.
    fn next(&self, wanted: &[K]) -> (Places<K>, Vec<u32>) {
        let before: HashMap<&K, usize> = self
            .names
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some((name.as_ref()?, at)))
            .collect();
        let (names, serials) = (vec![None; self.names.len()], self.serials.clone());
        let mut next = Places { names, serials, room: self.room };
        for name in wanted {
            if let Some(at) = before.get(name) {
                next.names[*at] = Some(name.clone());
            }
        }
        let is_unused = |at: &usize| self.names[*at].is_none();
        let (unused, gone): (Vec<usize>, Vec<usize>) =
            (0..next.names.len()).filter(|at| next.names[*at].is_none()).partition(is_unused);
        let behind = next.names.len()..self.room.max(wanted.len());
        let mut free = unused.into_iter().chain(behind).chain(gone);
        let mut indices = Vec::with_capacity(wanted.len());
        for name in wanted {
            let at = match before.get(name) {
                Some(at) => *at,
                None => free.next().expect("there are at least as many as are wanted"),
            };
            if at == next.names.len() {
                next.names.push(None);
                next.serials.push(0);
            }
            if !before.contains_key(name) {
                next.names[at] = Some(name.clone());
                next.serials[at] = next.serials[at].wrapping_add(1);
            }
            indices.push(at as u32);
        }
        (next, indices)
    }
}

/// The tables of one configuration.
#[derive(Clone, Debug)]
pub struct Tables {
    /// What holds for all VIPs.
    pub settings: Settings,
    /// VIPs, addresses and server ids by what frames bear.
    pub keys: Keys,
    /// By index; indices without a VIP are not live.
    pub vips: Vec<VipEntry>,
    /// By index; indices without a real are down.
    pub reals: Vec<RealEntry>,
    /// Reals of all VIPs' slots, or [`NONE`].
    pub slots: Vec<u32>,
    vip_places: Places<String>,
    real_places: Places<(String, IpAddr)>,
}

impl Tables {
    /// The first tables of a data plane. `now_ns` is by the monotonic clock, as all times here.
    pub fn new(config: &Config, now_ns: u64) -> Tables {
        let reals = config.vips.iter().map(|vip| vip.reals.len()).sum();
        let vips = Places::none(twice(config.vips.len(), VIPS_MAX));
        Tables::build(config, &vips, &Places::none(twice(reals, REALS_MAX)), &[], now_ns)
    }

    /// Tables that follow these.
    pub fn next(&self, config: &Config, now_ns: u64) -> Tables {
        Tables::build(config, &self.vip_places, &self.real_places, &self.reals, now_ns)
    }

    /// Tables of which no more is known than who has which index, as of a data plane that another
    /// process made, and has room for these numbers. Reals have those of `reals` that have an
    /// address.
    pub fn known(vips: Vec<Option<String>>, mut reals: Vec<RealEntry>) -> Tables {
        let room = [vips.len(), reals.len()];
        let was_used = |real: &RealEntry| real.serial != 0;
        reals.truncate(reals.iter().rposition(was_used).map_or(0, |last| last + 1));
        let name = |real: &RealEntry| {
            let vip = vips.get(real.vip as usize)?.clone()?;
            (real.address != [0; 2]).then(|| (vip, real.ip()))
        };
        let real_places = Places {
            names: reals.iter().map(name).collect(),
            serials: reals.iter().map(|real| real.serial).collect(),
            room: room[1],
        };
        let used = vips.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let names: Vec<Option<String>> = vips.into_iter().take(used).collect();
        let vip_places = Places { serials: vec![0; names.len()], names, room: room[0] };
        let (settings, keys) = (Settings::default(), Keys::new(&[]));
        let vips = vec![VipEntry::default(); vip_places.names.len()];
        Tables { settings, keys, vips, reals, slots: Vec::new(), vip_places, real_places }
    }

    fn build(
        config: &Config,
        vips_before: &Places<String>,
        reals_before: &Places<(String, IpAddr)>,
        before: &[RealEntry],
        now_ns: u64,
    ) -> Tables {
        let names: Vec<String> = config.vips.iter().map(|vip| vip.name.clone()).collect();
        let (vip_places, vip_at) = vips_before.next(&names);
        let of_vip = |vip: &Vip| -> Vec<(String, IpAddr)> {
            vip.reals.iter().map(|real| (vip.name.clone(), real.address)).collect()
        };
        let names: Vec<(String, IpAddr)> = config.vips.iter().flat_map(of_vip).collect();
        let (real_places, real_at) = reals_before.next(&names);
        let mut vips = vec![VipEntry::default(); vip_places.names.len()];
        let mut reals = vec![RealEntry::default(); real_places.names.len()];
        for (real, serial) in reals.iter_mut().zip(&real_places.serials) {
            real.serial = *serial;
        }
        let (mut slots, mut keys) = (Vec::new(), Vec::new());
        let mut indices = real_at.iter().copied();
        for (vip, &at) in config.vips.iter().zip(&vip_at) {
            vips[at as usize] = vip_entry(vip, slots.len() as u32);
            let of_this: Vec<u32> = indices.by_ref().take(vip.reals.len()).collect();
            for (real, &index) in vip.reals.iter().zip(&of_this) {
                let (serial, old) = (reals[index as usize].serial, before.get(index as usize));
                let old = old.filter(|old| old.serial == serial);
                let until_ns = until(real.state, old, now_ns);
                reals[index as usize] = real_entry(vip, real, at, serial, until_ns);
                server_keys(vip, real, at, index, &mut keys);
            }
            slots.extend(slots_of(vip, &of_this));
            keys.push((vip_key(vip), at));
        }
        // Of VIPs that share an address one that answers echo requests comes first.
        let mut with_echo: Vec<(&Vip, u32)> = config.vips.iter().zip(vip_at).collect();
        with_echo.sort_by_key(|(vip, _)| !vip.echo);
        keys.extend(with_echo.iter().map(|(vip, at)| (address_key(vip.prefix), *at)));
        let keys = Keys::new(&keys);
        let settings = settings(config);
        Tables { settings, keys, vips, reals, slots, vip_places, real_places }
    }

    /// VIPs and reals that a data plane which begins with these tables is to have room for: twice
    /// as many. Tables that follow need more only if their configuration has more.
    pub fn room(&self) -> [usize; 2] {
        [self.vip_places.room, self.real_places.room]
    }

    /// True if a data plane that has these tables would do nothing else with `others`.
    pub fn say_the_same_as(&self, others: &Tables) -> bool {
        // How long the tables before count is asked when tables change, by the new ones.
        let change_window_ns = others.settings.change_window_ns;
        Settings { change_window_ns, ..self.settings.clone() } == others.settings
            && self.vip_places.names == others.vip_places.names
            && (&self.vips, &self.reals) == (&others.vips, &others.reals)
            && (&self.slots, &self.keys) == (&others.slots, &others.keys)
    }

    /// Name of the VIP that has an index.
    pub fn vip_name(&self, index: u32) -> Option<&str> {
        self.vip_places.names.get(index as usize)?.as_deref()
    }

    /// True if an index is a real's.
    pub fn has_real(&self, index: u32) -> bool {
        self.real_places.names.get(index as usize).is_some_and(Option::is_some)
    }

    /// The VIP of a packet to `destination`, whose version of IP is given.
    pub fn vip(
        &self,
        version: u8,
        destination: [u64; 2],
        port: u16,
        protocol: IpProtocol,
    ) -> Option<u32> {
        self.by_prefix(version, destination, |words, bits| {
            let key = |port| Key::vip(words, version, bits, port, protocol.0);
            self.keys.get(&key(port)).or_else(|| self.keys.get(&key(0)))
        })
    }

    /// A VIP that has this address, one that answers echo requests if there is one.
    pub fn any_vip(&self, version: u8, destination: [u64; 2]) -> Option<u32> {
        self.by_prefix(version, destination, |words, bits| {
            self.keys.get(&Key::address(words, version, bits))
        })
    }

    /// Asks each length of prefix, the longest first.
    fn by_prefix(
        &self,
        version: u8,
        address: [u64; 2],
        mut ask: impl FnMut([u64; 2], u8) -> Option<u32>,
    ) -> Option<u32> {
        let (lengths, common) = match version {
            4 => (&self.settings.lengths_v4, 96),
            _ => (&self.settings.lengths_v6, 0),
        };
        lengths.iter().find_map(|bits| ask(masked(address, common + bits), *bits))
    }
}

/// An address without the bits behind its first `bits`.
fn masked(words: [u64; 2], bits: u8) -> [u64; 2] {
    let mask = |bits: u8| u64::MAX.checked_shl(64 - u32::from(bits.min(64))).unwrap_or(0);
    [words[0] & mask(bits), words[1] & mask(bits.saturating_sub(64))]
}

fn version_of(prefix: Prefix) -> u8 {
    if prefix.address().is_ipv4() { 4 } else { 6 }
}

fn vip_key(vip: &Vip) -> Key {
    let protocol = match vip.protocol {
        Protocol::Tcp => IpProtocol::TCP,
        Protocol::Udp | Protocol::Quic => IpProtocol::UDP,
    };
    let (words, bits) = (address_words(vip.prefix.address()), vip.prefix.bits());
    Key::vip(words, version_of(vip.prefix), bits, vip.port.unwrap_or(0), protocol.0)
}

fn address_key(prefix: Prefix) -> Key {
    Key::address(address_words(prefix.address()), version_of(prefix), prefix.bits())
}

/// A real's server ids, in each configuration that has ids of their length.
fn server_keys(vip: &Vip, real: &Real, at: u32, index: u32, keys: &mut Vec<(Key, u32)>) {
    for id in &real.server_ids {
        let rotations = (0u8..).zip(vip.server_id_bytes).filter(|(_, bytes)| *bytes == id.bytes);
        keys.extend(rotations.map(|(rotation, _)| (Key::server(at, rotation, id.number), index)));
    }
}

fn vip_entry(vip: &Vip, slots_at: u32) -> VipEntry {
    let mut server_id_bytes = [0; 8];
    for (to, from) in server_id_bytes.iter_mut().zip(vip.server_id_bytes) {
        *to = from;
    }
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    VipEntry {
        slots_at,
        slots: vip.slots,
        timeout_ticks: ticks(u64::from(vip.timeout_s) * SECOND_NS),
        flags: flags::LIVE
            | bit(vip.protocol == Protocol::Quic, flags::QUIC)
            | bit(vip.affinity == Affinity::Source, flags::BY_SOURCE)
            | bit(vip.echo, flags::ECHO),
        server_id_bytes,
    }
}

fn real_entry(vip: &Vip, real: &Real, at: u32, serial: u32, until_ns: u64) -> RealEntry {
    RealEntry {
        address: address_words(real.address),
        until_ns,
        serial,
        vip: at,
        next_hop: real.next_hop,
        path: Path::of(vip.via, real.address),
    }
}

/// A deadline that runs goes on.
fn until(state: RealState, before: Option<&RealEntry>, now_ns: u64) -> u64 {
    match state {
        RealState::Up => UP,
        RealState::Down => DOWN,
        RealState::Draining { drain_s } => {
            let running =
                before.map(|real| real.until_ns).filter(|until| ![UP, DOWN].contains(until));
            running.unwrap_or(now_ns.saturating_add(u64::from(drain_s) * SECOND_NS))
        }
    }
}

fn slots_of(vip: &Vip, indices: &[u32]) -> impl Iterator<Item = u32> {
    let weight = |real: &Real| if real.state == RealState::Up { real.weight } else { 0 };
    let weighted =
        |real: &Real| Weighted { key: address_words(real.address), weight: weight(real) };
    let reals: Vec<Weighted> = vip.reals.iter().map(weighted).collect();
    let table = maglev::table(&reals, vip.slots);
    table.into_iter().map(|local| if local == NONE { NONE } else { indices[local as usize] })
}

fn settings(config: &Config) -> Settings {
    let lengths = |is_v4: bool| -> Vec<u8> {
        let prefixes = config.vips.iter().map(|vip| vip.prefix);
        let of_version = prefixes.filter(|prefix| prefix.address().is_ipv4() == is_v4);
        let lengths: BTreeSet<u8> = of_version.map(|prefix| prefix.bits()).collect();
        lengths.into_iter().rev().take(PREFIX_LENGTHS_MAX).collect()
    };
    let source_v4 = config.source_v4.map_or((0, 0), |prefix| {
        let [_, low] = address_words(prefix.address());
        (low as u32, u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0))
    });
    let source_v6 = config.source_v6.map_or(([0; 2], 0), |prefix| {
        let behind = prefix.bits().saturating_sub(64);
        (address_words(prefix.address()), u64::MAX.checked_shr(behind.into()).unwrap_or(0))
    });
    Settings {
        source_v4,
        source_v6,
        mtu: config.mtu,
        gue_port: config.gue_port,
        new_flows_per_second_max: config.new_flows_per_second_max,
        change_window_ns: u64::from(config.change_window_s) * SECOND_NS,
        lengths_v4: lengths(true),
        lengths_v6: lengths(false),
    }
}
