//! The tables that all programs of one router share.

use super::{XDP_ROUTE, XDP_ROUTE_OUT};
use crate::Error;
use crate::abi::route::{
    CACHE_ENTRIES, COUNTS_WORDS, Config, Counts, Flow, HOPS, NEAR, PORTS_MAX, Port,
};
use crate::load::Loaded;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};
use ringside_sys::words::Words64;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Their names in `bpf/xdp_route.bpf.c`, and of the last in `bpf/xdp_route_out.bpf.c`.
const MAPS: [&str; 11] = [
    "route_slots",
    "route_near",
    "route_vlans",
    "route_ports",
    "route_egress",
    "route_counts",
    "route_flows",
    "route_hops",
    "route_reports",
    "route_cache",
    "route_sent",
];

/// Bits of the id of a VLAN.
const VLAN_BITS: u32 = 12;

/// The tables of a router. They stay while a program or a descriptor of them does.
#[derive(Debug)]
pub struct RouteTables {
    maps: BTreeMap<&'static str, MapHandle>,
    hops: Words64,
}

impl RouteTables {
    /// Makes tables without interfaces, all 0.
    ///
    /// # Errors
    /// No privilege, no memory, or the kernel refused.
    pub fn new() -> Result<RouteTables, Error> {
        // The first programs make them; these are on no interface.
        let constants = Config::default().to_bytes();
        let cpus = libbpf_rs::num_possible_cpus()
            .map_err(|e| Error::kernel("cannot count the possible CPUs", e))?;
        let size = |open: &mut OpenObject| {
            let mut maps = open.maps_mut();
            let cache = maps.find(|map| map.name() == "route_cache");
            cache.map_or(Ok(()), |mut map| map.set_max_entries(cpus as u32 * CACHE_ENTRIES))
        };
        let loaded = [&XDP_ROUTE, &XDP_ROUTE_OUT].map(|object| {
            Loaded::prepared(object, Some(&constants), size).map(|loaded| (object, loaded))
        });
        let mut maps = BTreeMap::new();
        for part in loaded {
            let (object, loaded) = part?;
            for name in MAPS.into_iter().filter(|name| is_part(object.name, name)) {
                maps.insert(name, loaded.map(name)?);
            }
        }
        RouteTables::of(maps)
    }

    /// Tables that are pinned in a directory, by their names; none if they are of another form.
    pub(super) fn pinned(directory: &Path) -> Option<RouteTables> {
        let open = |name: &'static str| {
            let map = MapHandle::from_pinned_path(directory.join(name)).ok()?;
            Some((name, map))
        };
        let tables = RouteTables::of(MAPS.into_iter().map(open).collect::<Option<_>>()?).ok()?;
        let counts = tables.map("route_counts").ok()?;
        let is_right = counts.map_type() == MapType::PercpuArray
            && counts.max_entries() as usize == PORTS_MAX
            && counts.value_size() as usize == COUNTS_WORDS * size_of::<u64>();
        is_right.then_some(tables)
    }

    /// The kernel's number of the tables: those of one router have the same.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn id(&self) -> Result<u32, Error> {
        let info = self.map("route_counts")?.info();
        info.map(|info| info.info.id).map_err(|e| refused("route_counts", e))
    }

    /// Slots and numbers of the router's interfaces, as they were set.
    pub fn interfaces(&self) -> Vec<(u32, u32)> {
        let port = |slot: u32| {
            let map = self.map("route_ports").ok()?;
            let bytes = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY).ok()??;
            Some((slot, Port::ifindex_in(&bytes)?))
        };
        (0..PORTS_MAX as u32).filter_map(port).collect()
    }

    /// True if frames leave by the interface of this number.
    pub fn is_member(&self, ifindex: u32) -> bool {
        let map = self.map("route_slots").ok();
        let found = map.and_then(|map| map.lookup(&ifindex.to_ne_bytes(), MapFlags::ANY).ok());
        found.flatten().is_some()
    }

    fn of(maps: BTreeMap<&'static str, MapHandle>) -> Result<RouteTables, Error> {
        let hops = maps.get("route_hops").ok_or_else(|| missing("route_hops"))?;
        let hops = Words64::of_array(hops, HOPS).map_err(|e| Error::mapping("route_hops", e))?;
        Ok(RouteTables { maps, hops })
    }

    /// Says what an interface is.
    ///
    /// # Errors
    /// There is no such slot, or the kernel refused.
    pub fn set_port(&self, slot: u32, port: &Port) -> Result<(), Error> {
        self.update("route_ports", slot, &port.to_bytes())
    }

    /// Says which tag the frames of an interface have that come in by a device, which has a number
    /// among those of the router.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_vlan(&self, device: u32, vlan: u16, slot: u32) -> Result<(), Error> {
        self.update("route_vlans", device << VLAN_BITS | u32::from(vlan), &slot.to_ne_bytes())
    }

    /// Lets frames leave by an interface, through the driver of the interface `through`, which is
    /// another one for a VLAN. Each is counted by `program`, which was loaded for the slot.
    ///
    /// # Errors
    /// The interface is not in the calling thread's network namespace, or the kernel refused.
    pub fn join(
        &self,
        slot: u32,
        (ifindex, through): (u32, u32),
        program: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let mut entry = through.to_ne_bytes().to_vec();
        entry.extend(program.as_raw_fd().to_ne_bytes());
        self.update("route_egress", slot, &entry)?;
        self.update("route_slots", ifindex, &slot.to_ne_bytes())?;
        self.set_near(ifindex, slot + 1)
    }

    /// Says the same of an interface of a low number where the program finds it sooner: its slot
    /// and 1, or 0.
    fn set_near(&self, ifindex: u32, value: u32) -> Result<(), Error> {
        match ifindex < NEAR {
            true => self.update("route_near", ifindex, &value.to_ne_bytes()),
            false => Ok(()),
        }
    }

    /// Frames leave by that interface no more: they pass to the host. One that is not there is
    /// none.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn leave(&self, slot: u32, ifindex: u32) -> Result<(), Error> {
        self.set_near(ifindex, 0)?;
        for (name, key) in [("route_slots", ifindex), ("route_egress", slot)] {
            match self.map(name)?.delete(&key.to_ne_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(refused(name, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Frames that came in by an interface: exact while none come.
    ///
    /// # Errors
    /// There is no such slot, or the kernel refused.
    pub fn counts(&self, slot: u32) -> Result<Counts, Error> {
        let words = self.sums("route_counts", slot, COUNTS_WORDS)?;
        Counts::from_words(&words).ok_or_else(|| missing("route_counts"))
    }

    /// Frames that were given on from one interface to another.
    ///
    /// # Errors
    /// As [`counts`](RouteTables::counts).
    pub fn flow(&self, from: u32, to: u32) -> Result<Flow, Error> {
        self.pair("route_flows", from * PORTS_MAX as u32 + to)
    }

    /// Frames that were handed to the driver of an interface.
    ///
    /// # Errors
    /// As [`counts`](RouteTables::counts).
    pub fn sent(&self, slot: u32) -> Result<Flow, Error> {
        self.pair("route_sent", slot)
    }

    /// True for each place ([`hop_place`](super::hop_place)) whose next hops were used since this
    /// was last asked.
    pub fn take_used_hops(&self) -> Vec<bool> {
        self.hops.iter().map(|hop| hop.swap(0, Ordering::Relaxed) != 0).collect()
    }

    /// Those that a program shares, by their names.
    pub(super) fn of_program(&self, object: &'static str) -> Vec<(&'static str, BorrowedFd<'_>)> {
        let all = self.maps.iter().filter(|(name, _)| is_part(object, name));
        all.map(|(name, map)| (*name, map.as_fd())).collect()
    }

    /// All of them, with their names.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.maps.iter().map(|(name, map)| (*name, map.as_fd()))
    }

    /// The report of the last frame, as it lies.
    pub(super) fn report(&self) -> Result<Vec<u8>, Error> {
        let found = self.map("route_reports")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        found.map_err(|e| refused("route_reports", e))?.ok_or_else(|| missing("route_reports"))
    }

    fn pair(&self, name: &'static str, key: u32) -> Result<Flow, Error> {
        let words = self.sums(name, key, 2)?;
        Ok(Flow { frames: words[0], bytes: words[1] })
    }

    /// The words of a value, summed over the CPUs.
    fn sums(&self, name: &'static str, key: u32, words: usize) -> Result<Vec<u64>, Error> {
        let found = self.map(name)?.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(|e| refused(name, e))?.ok_or_else(|| missing(name))?;
        let mut sums = vec![0u64; words];
        for cpu in &found {
            for (sum, word) in sums.iter_mut().zip(cpu.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        Ok(sums)
    }

    fn update(&self, name: &'static str, key: u32, value: &[u8]) -> Result<(), Error> {
        let map = self.map(name)?;
        map.update(&key.to_ne_bytes(), value, MapFlags::ANY).map_err(|e| refused(name, e))
    }

    fn map(&self, name: &'static str) -> Result<&MapHandle, Error> {
        self.maps.get(name).ok_or_else(|| missing(name))
    }
}

/// True if the program of an object has a table of that name.
fn is_part(object: &str, table: &str) -> bool {
    (object == XDP_ROUTE_OUT.name) == (table == "route_sent")
}

fn refused(table: &str, error: libbpf_rs::Error) -> Error {
    Error::kernel(format!("cannot use the table {table} of the router"), error)
}

fn missing(table: &str) -> Error {
    Error::Object { object: XDP_ROUTE.name, part: format!("table {table}") }
}

/// A program that counts what leaves by the interface of a slot.
///
/// # Errors
/// No privilege, or the kernel refused.
pub fn egress_program(tables: &RouteTables, slot: u32) -> Result<OwnedFd, Error> {
    let constants = Config { slot, ..Config::default() };
    super::load(&XDP_ROUTE_OUT, constants, tables, None)
}
