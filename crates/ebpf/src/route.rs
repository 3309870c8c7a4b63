//! Forwarding inside the driver: `bpf/xdp_route.bpf.c`, its tables and its places on interfaces.
//!
//! A router has [`RouteTables`], and on each of its interfaces a program, which stands behind rules
//! and before captures ([`RouteAttachment`]). Where a packet goes the kernel's own tables say; what
//! the program does not forward goes on to the host unmodified. A [`RouteProgram`] alone answers
//! what would become of a frame ([`RouteProgram::explain`]). What is pinned
//! ([`pins`](crate::pins)) forwards without a process, and can be read: [`PinnedRoutes`].

mod pinned;
mod tables;

pub use crate::abi::route::{
    ANSWER_AGE_MIN, Cause, Counts, Flow, HOPS, PORTS_MAX, Port, Report, ReversePath, hop_place,
};
pub use pinned::PinnedRoutes;
pub use tables::{RouteTables, egress_program};

use crate::abi::METADATA_FULL_BYTES;
use crate::abi::route::{Config, NO_SLOT, cache_ticks};
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::pins::{Kind, Pins};
use crate::root::{LEAVES, Root, RootConfig};
use crate::{Error, TestRun};
use pinned::VERSION;
use ringside_sys::bpf::{self, XdpMode};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

static XDP_ROUTE: Embedded = embedded!("xdp_route");
static XDP_ROUTE_OUT: Embedded = embedded!("xdp_route_out");

/// Its place among the leaves: behind rules that protect the host, before all captures. One: two
/// routers would forward the same frames.
const ROUTE_POSITIONS: Range<u32> = 1..2;

/// A device of a router: where its frames come in.
#[derive(Clone, Copy, Debug)]
pub struct RouteDevice<'a> {
    /// Name of its interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Its number among the router's devices, and the slot of the interface whose frames have no
    /// tag, if that is one of the router's.
    pub place: DevicePlace,
    /// The router has interfaces of VLANs.
    pub has_vlans: bool,
    /// The driver takes VLAN tags out of frames, and must be asked for them.
    pub has_hardware_tags: bool,
    /// The program outlives the process, and takes the place of one that is pinned there already.
    pub is_pinned: bool,
    /// How long an answer of the kernel's tables stands for further packets of the same flow.
    pub answer_age_max: Duration,
}

/// What a device is to a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DevicePlace {
    /// Its number among the router's devices.
    pub device: u32,
    /// Slot of the interface whose frames have no tag, if it is one of the router's.
    pub slot: Option<u32>,
}

/// A router's program on a device; taken off on drop, unless it is pinned.
#[derive(Debug)]
pub struct RouteAttachment {
    root: Root,
    pins: Option<Pins>,
    program: OwnedFd,
    is_there: bool,
}

impl RouteAttachment {
    /// Takes the place on an interface of the calling thread's network namespace, with a program
    /// that is not there yet ([`start`](RouteAttachment::start)).
    ///
    /// # Errors
    /// A foreign program is on the interface, its driver takes none, or the place is taken: by
    /// another router, or by rules and a flow cache. Where it is to be pinned: no BPF file system
    /// is mounted.
    pub fn open(tables: &RouteTables, at: &RouteDevice<'_>) -> Result<RouteAttachment, Error> {
        let pins = at.is_pinned.then(|| Pins::prepare(Kind::Router, at.ifindex)).transpose()?;
        let root = Root::open(&RootConfig {
            interface: at.interface,
            ifindex: at.ifindex,
            positions: ROUTE_POSITIONS,
            wants_metadata: at.has_hardware_tags,
            generic_allowed: false,
            takes_pinned: at.is_pinned.then_some(Kind::Router),
        });
        let root = root.map_err(|error| match error {
            Error::NoPlace { interface, claim, .. } => Error::NoRoutePlace { interface, claim },
            Error::PinsHeld { interface } => Kind::Router.held(interface),
            other => other,
        })?;
        let constants = Config {
            device: at.place.device,
            slot: at.place.slot.unwrap_or(NO_SLOT),
            vlans: at.has_vlans.into(),
            position: root.position(),
            metadata: if root.has_metadata() { METADATA_FULL_BYTES } else { 0 },
            stays: at.is_pinned.into(),
            ticks: cache_ticks(at.answer_age_max),
            ..Config::default()
        };
        let program = load(&XDP_ROUTE, constants, tables, Some(root.leaves().as_fd()))?;
        Ok(RouteAttachment { root, pins, program, is_there: false })
    }

    /// Puts the program in its place, instead of one that is pinned: frames are forwarded by it
    /// from somewhere in this call on. `tables` are its own.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&mut self, tables: &RouteTables) -> Result<(), Error> {
        let (leaves, position) = (self.root.leaves(), self.root.position());
        let Some(pins) = &self.pins else {
            leaves.set(position, self.program.as_fd())?;
            self.is_there = true;
            return Ok(());
        };
        self.root.put_to_stay(pins, VERSION, self.program.as_fd(), tables.objects())?;
        self.is_there = true;
        Ok(())
    }

    /// Takes the program out, unless it is pinned. When this returns all frames pass, those that
    /// were forwarded have left, and the counters do not change any more. May take some ten
    /// milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        if self.pins.is_none() && std::mem::take(&mut self.is_there) {
            self.root.leaves().clear(self.root.position())?;
            bpf::wait_until_left();
        }
        Ok(())
    }

    /// Puts the program to its place again if nothing is there, as after a process that was killed
    /// on the way out; true if so.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put_back_if_gone(&self) -> Result<bool, Error> {
        let (leaves, position) = (self.root.leaves(), self.root.position());
        if !self.is_there || leaves.program_at(position)?.is_some() {
            return Ok(false);
        }
        leaves.set(position, self.program.as_fd())?;
        Ok(true)
    }

    /// Where the kernel runs it.
    pub fn mode(&self) -> XdpMode {
        self.root.mode()
    }

    /// True if VLAN tags that the driver takes out of frames are seen.
    pub fn sees_hardware_tags(&self) -> bool {
        self.root.has_metadata()
    }

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }
}

impl Drop for RouteAttachment {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

/// A router's program that is on no device, for test runs: frames seem to have come in by one.
#[derive(Debug)]
pub struct RouteProgram {
    program: OwnedFd,
}

impl RouteProgram {
    /// Loads it as if for a device, with interfaces of VLANs or without, and as it is pinned if it
    /// `stays`. It asks the kernel for each frame, and can explain what it did.
    ///
    /// # Errors
    /// No privilege, or the kernel refused.
    pub fn unattached(
        tables: &RouteTables,
        place: DevicePlace,
        has_vlans: bool,
        stays: bool,
    ) -> Result<RouteProgram, Error> {
        let (vlans, stays) = (has_vlans.into(), stays.into());
        let slot = place.slot.unwrap_or(NO_SLOT);
        RouteProgram::load(
            tables,
            Config { device: place.device, slot, reports: 1, vlans, stays, ..Config::default() },
        )
    }

    /// Loads it as if for a device without VLANs, as it is at work: answers of the kernel's stand
    /// for as long as `answer_age_max`, and nothing is explained.
    ///
    /// # Errors
    /// As [`unattached`](RouteProgram::unattached).
    pub fn at_work(
        tables: &RouteTables,
        place: DevicePlace,
        answer_age_max: Duration,
    ) -> Result<RouteProgram, Error> {
        let (slot, ticks) = (place.slot.unwrap_or(NO_SLOT), cache_ticks(answer_age_max));
        let config = Config { device: place.device, slot, ticks, ..Config::default() };
        RouteProgram::load(tables, config)
    }

    fn load(tables: &RouteTables, constants: Config) -> Result<RouteProgram, Error> {
        Ok(RouteProgram { program: load(&XDP_ROUTE, constants, tables, None)? })
    }

    /// Runs it on a copy of `frame`, in the calling thread's network namespace; it is counted in
    /// `tables`, which must be its own, and goes nowhere.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 15 bytes is.
    pub fn explain(&self, tables: &RouteTables, frame: &[u8]) -> Result<(TestRun, Report), Error> {
        let run = test_run(self.program.as_fd(), frame)?;
        let report = Report::from_bytes(&tables.report()?);
        let part = || Error::Object { object: XDP_ROUTE.name, part: "report of this form".into() };
        Ok((run, report.ok_or_else(part)?))
    }

    /// Runs it on a copy of `frame`, as [`explain`](RouteProgram::explain), and explains nothing.
    ///
    /// # Errors
    /// As [`explain`](RouteProgram::explain).
    pub fn run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program.as_fd(), frame)
    }

    /// Runs it `repeat` times; mean nanoseconds.
    ///
    /// # Errors
    /// As [`explain`](RouteProgram::explain).
    pub fn time(&self, frame: &[u8], repeat: u32) -> Result<u32, Error> {
        Ok(bpf::test_run(self.program.as_fd(), frame, repeat, &mut [])?.0.duration_ns)
    }
}

/// Loads a program of a router, which shares its tables.
fn load(
    object: &'static Embedded,
    constants: Config,
    tables: &RouteTables,
    leaves: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, Error> {
    let mut shared = tables.of_program(object.name);
    shared.extend(leaves.map(|leaves| (LEAVES, leaves)));
    let mut loaded = Loaded::prepared(object, Some(&constants.to_bytes()), |open| {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((_, fd)) = shared.iter().find(|(shared, _)| *shared == name) {
                map.reuse_fd(*fd)?;
            }
        }
        Ok(())
    })?;
    loaded.program_fd()
}
