//! The flow cache: sums of packets by flow, kept where the kernel meets them
//! (`bpf/xdp_flows.bpf.c`, `bpf/tc_flows.bpf.c`).
//!
//! A [`FlowCache`] is the program with its arrays ([`FlowMaps`]), on an interface or only for test
//! runs. What is in the arrays, and who may write what, stands in `bpf/flows.h` and `bpf/abi.h`;
//! the reader is the crate `meter`. Descriptors of it keep it where it is when its process dies:
//! another process goes on with them ([`FlowCache::from_descriptors`]).

pub mod abi;
mod maps;

pub use maps::{FlowLayout, FlowMaps};

use crate::Error;
use crate::abi::METADATA_FULL_BYTES;
use crate::load::{Embedded, Loaded, embedded};
use crate::root::{LEAVES, Root, RootConfig, take_out};
use abi::{Config, WAYS};
use libbpf_rs::OpenObject;
use maps::MAPS;
use ringside_sys::bpf::{self, FdArray};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

static XDP_FLOWS: Embedded = embedded!("xdp_flows");
static TC_FLOWS: Embedded = embedded!("tc_flows");

/// Places among the leaves, with rules: before all captures.
const FLOW_POSITIONS: Range<u32> = 0..2;

/// Where frames are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the driver: what the interface receives, as the wire had it.
    Xdp,
    /// Where the host's stack begins and ends (tcx): what the interface receives and sends.
    Tc,
}

/// Where a cache is to be.
#[derive(Clone, Copy, Debug)]
pub struct FlowCacheConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Where frames are met.
    pub hook: Hook,
    /// How it is cut.
    pub layout: FlowLayout,
    /// Attach to the kernel's generic path if the driver refuses XDP.
    pub generic_allowed: bool,
}

/// A flow cache; taken off its interface on drop, unless another process has its descriptors.
#[derive(Debug)]
pub struct FlowCache {
    maps: FlowMaps,
    hold: Hold,
    notes: Vec<String>,
}

/// What keeps it where it is.
#[derive(Debug)]
enum Hold {
    /// A place among the leaves. The claim is freed first, as in the root.
    Xdp { claim: OwnedFd, leaves: FdArray, entry: OwnedFd, root: OwnedFd, place: Option<Place> },
    /// Links of what is received and sent.
    Tc([OwnedFd; 2]),
    /// Test runs alone: the programs of what is received and sent.
    Unattached([OwnedFd; 2]),
    /// It was taken off.
    Stopped,
}

/// Where a program is among the leaves, as who put it there knows.
#[derive(Clone, Copy, Debug)]
struct Place {
    position: u32,
    program_id: u32,
}

impl FlowCache {
    /// Makes a cache and puts it on its interface, of the calling thread's network namespace:
    /// frames are counted from somewhere in this call on.
    ///
    /// # Errors
    /// A foreign program is on the interface, it takes none, both places before captures are
    /// taken, there is no memory, or the kernel refused.
    pub fn open(config: &FlowCacheConfig<'_>) -> Result<FlowCache, Error> {
        match config.hook {
            Hook::Xdp => FlowCache::in_driver(config),
            Hook::Tc => {
                let (maps, programs) = load_both(config.layout)?;
                let attach = |program: &OwnedFd, is_sending| {
                    bpf::attach_tcx(program.as_fd(), config.ifindex, is_sending).map_err(|e| {
                        let what = "cannot attach the flow cache by tcx (it needs Linux 6.6) to";
                        Error::kernel(format!("{what} {}", config.interface), e.into())
                    })
                };
                let links = [attach(&programs[0], false)?, attach(&programs[1], true)?];
                Ok(FlowCache { maps, hold: Hold::Tc(links), notes: Vec::new() })
            }
        }
    }

    /// A cache for test runs.
    ///
    /// # Errors
    /// There is no memory, or the kernel refused.
    pub fn unattached(hook: Hook, layout: FlowLayout) -> Result<FlowCache, Error> {
        let (maps, programs) = match hook {
            Hook::Tc => load_both(layout)?,
            Hook::Xdp => {
                let mut loaded = load(&XDP_FLOWS, Config::of(layout), None)?;
                let program = loaded.program_fd()?;
                (FlowMaps::of(&loaded, layout)?, [copy(program.as_fd())?, program])
            }
        };
        maps.set_ways(WAYS);
        Ok(FlowCache { maps, hold: Hold::Unattached(programs), notes: Vec::new() })
    }

    fn in_driver(config: &FlowCacheConfig<'_>) -> Result<FlowCache, Error> {
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: FLOW_POSITIONS,
            wants_metadata: false,
            generic_allowed: config.generic_allowed,
            takes_pinned: None,
        })?;
        let constants = Config {
            position: root.position(),
            metadata: if root.has_metadata() { METADATA_FULL_BYTES } else { 0 },
            ..Config::of(config.layout)
        };
        let leaves = root.leaves().as_fd();
        let mut loaded = load(&XDP_FLOWS, constants, Some((LEAVES, leaves)))?;
        let maps = FlowMaps::of(&loaded, config.layout)?;
        maps.set_ways(WAYS);
        let (entry, position) = (loaded.program_fd()?, root.position());
        let unknown = |e| Error::kernel("cannot ask which program the flow cache is", e);
        let program_id = libbpf_rs::Program::id_from_fd(entry.as_fd()).map_err(unknown)?;
        let hold = Hold::Xdp {
            claim: copy(root.claim())?,
            leaves: FdArray::from_fd(copy(leaves)?)?,
            entry,
            root: copy(root.hold())?,
            place: Some(Place { position, program_id }),
        };
        let cache = FlowCache { maps, hold, notes: root.notes().to_vec() };
        if let Hold::Xdp { leaves, entry, .. } = &cache.hold {
            leaves.set(root.position(), entry.as_fd())?;
        }
        Ok(cache)
    }

    /// Another process' cache, by the descriptors that it gave.
    ///
    /// # Errors
    /// They are others than those of [`descriptors`](FlowCache::descriptors), or the cache is cut
    /// in another way.
    pub fn from_descriptors(
        layout: FlowLayout,
        descriptors: Vec<OwnedFd>,
    ) -> Result<FlowCache, Error> {
        let mut all = descriptors.into_iter();
        let mut next = || all.next().ok_or_else(missing);
        let maps = [next()?, next()?, next()?, next()?, next()?, next()?];
        let maps = FlowMaps::mapped(layout, maps)?;
        let first = [next()?, next()?];
        let hold = match (all.next(), all.next()) {
            (Some(entry), Some(root)) => {
                let [claim, leaves] = first;
                let leaves = FdArray::from_fd(leaves)?;
                Hold::Xdp { claim, leaves, entry, root, place: None }
            }
            _ => Hold::Tc(first),
        };
        Ok(FlowCache { maps, hold, notes: Vec::new() })
    }

    /// Descriptors with which another process can go on if this one dies: while they are open,
    /// the program stays where it is and counts. None after [`stop`](FlowCache::stop).
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let maps = self.maps.descriptors();
        match &self.hold {
            Hold::Xdp { claim, leaves, entry, root, .. } => {
                let parts = [claim.as_fd(), leaves.as_fd(), entry.as_fd(), root.as_fd()];
                maps.chain(parts).collect()
            }
            Hold::Tc(parts) => maps.chain(parts.iter().map(AsFd::as_fd)).collect(),
            Hold::Unattached(_) | Hold::Stopped => Vec::new(),
        }
    }

    /// The arrays.
    pub fn maps(&self) -> &FlowMaps {
        &self.maps
    }

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Takes it off the interface. When this returns, no CPU is within the program: nothing in the
    /// arrays changes any more. May take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.hold, Hold::Stopped) {
            // A process that has given up its rights may not ask which program it has.
            Hold::Xdp { leaves, place: Some(Place { position, program_id }), .. } => {
                if leaves.program_at(position)? == Some(program_id) {
                    leaves.clear(position)?;
                }
                bpf::wait_until_left();
            }
            Hold::Xdp { leaves, entry, place: None, .. } => take_out(&leaves, entry.as_fd())?,
            Hold::Tc(links) => {
                for link in &links {
                    bpf::detach_link(link.as_fd())?;
                }
                bpf::wait_until_left();
            }
            Hold::Unattached(_) | Hold::Stopped => {}
        }
        Ok(())
    }

    /// The program for test runs: of what is received or sent.
    pub fn program(&self, is_sending: bool) -> Option<BorrowedFd<'_>> {
        let Hold::Unattached(programs) = &self.hold else { return None };
        Some(programs[usize::from(is_sending)].as_fd())
    }

    /// Runs the program `repeat` times on a copy of `frame`, on this CPU; mean nanoseconds.
    ///
    /// # Errors
    /// The cache is on an interface, where each CPU writes its part; or the kernel refused: a
    /// frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8], is_sending: bool, repeat: u32) -> Result<u32, Error> {
        let program = self.program(is_sending).ok_or_else(missing)?;
        let (run, _) = bpf::test_run(program, frame, repeat, &mut [])?;
        Ok(run.duration_ns)
    }
}

impl Drop for FlowCache {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

impl Config {
    fn of(layout: FlowLayout) -> Config {
        let FlowLayout { cpus, sets, ring_bytes } = layout;
        let (position, metadata, is_sending) = (0, 0, 0);
        let is_weakly_ordered = (!cfg!(target_arch = "x86_64")).into();
        // A secret of each cache: no sender can choose flows that fall on one set.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), cpus);
        Config { seed, cpus, sets, ring_bytes, position, metadata, is_sending, is_weakly_ordered }
    }
}

/// Programs of tc for both directions, which share all arrays.
fn load_both(layout: FlowLayout) -> Result<(FlowMaps, [OwnedFd; 2]), Error> {
    let config = Config::of(layout);
    let mut receiving = load(&TC_FLOWS, config, None)?;
    let maps = FlowMaps::of(&receiving, layout)?;
    maps.set_ways(WAYS);
    let shared: Vec<_> = MAPS.into_iter().zip(maps.descriptors()).collect();
    let mut sending = load(&TC_FLOWS, Config { is_sending: 1, ..config }, shared)?;
    let programs = [receiving.program_fd()?, sending.program_fd()?];
    drop(receiving);
    Ok((maps, programs))
}

/// Loads a program; its arrays are those that are `shared` by their names, or new ones.
fn load<'m>(
    object: &Embedded,
    config: Config,
    shared: impl IntoIterator<Item = (&'static str, BorrowedFd<'m>)>,
) -> Result<Loaded, Error> {
    let layout = FlowLayout { cpus: config.cpus, sets: config.sets, ring_bytes: config.ring_bytes };
    let shared: Vec<_> = shared.into_iter().collect();
    Loaded::prepared(object, Some(&config.to_bytes()), |object| size(object, layout, &shared))
}

fn size(
    object: &mut OpenObject,
    layout: FlowLayout,
    shared: &[(&'static str, BorrowedFd<'_>)],
) -> Result<(), libbpf_rs::Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, fd)) = shared.iter().find(|(shared, _)| *shared == name) {
            map.reuse_fd(*fd)?;
            continue;
        }
        match name.as_str() {
            "flow_counts" => map.set_max_entries(layout.cpus)?,
            "flow_sets" => map.set_max_entries(layout.cpus * layout.sets)?,
            "flow_entries" | "flow_taken" => {
                map.set_max_entries(layout.cpus * layout.entries() as u32)?;
            }
            "flow_rings" => {
                map.set_max_entries(layout.cpus)?;
                map.set_value_size(layout.ring_value_bytes() as u32)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn copy(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    fd.try_clone_to_owned()
        .map_err(|e| Error::kernel("cannot keep a descriptor of the flow cache", e.into()))
}

fn missing() -> Error {
    Error::Object { object: XDP_FLOWS.name, part: "descriptor of this kind".into() }
}
