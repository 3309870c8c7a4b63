//! Opening the lanes of an interface.

use super::lane::{Parts, XdpRingSource};
use crate::backend::in_driver::{Interface, described, program_refused, refused, stripped_tags};
use crate::backend::wait::Waiting;
use crate::backend::{BackendError, find_device, within};
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX};
use ringside_core::{InterfaceId, LinkType};
use ringside_ebpf::capture::{CaptureConfig, CaptureProgram, Metadata, RingLeaf};
use ringside_sys::netdev::{self, NetDevice};
use ringside_sys::xdp_ring::{RING_BYTES_MAX, RING_BYTES_MIN, XdpRing, XdpRingLayout};
use std::sync::Arc;

/// What to receive and how.
#[derive(Clone, Debug)]
pub struct XdpRingConfig {
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// Its id within the run.
    pub interface_id: InterfaceId,
    /// Lanes: the first so many receive queues; the frames of others pass. `None` stands for all.
    pub lanes: Option<u16>,
    /// Bytes of each lane's ring; rounded down to a power of two.
    pub ring_bytes: u64,
    /// Bytes kept of each frame: no more is copied.
    pub snaplen_bytes: u32,
    /// Receive frames for other stations too, until the sources are dropped.
    pub promiscuous: bool,
    /// Program of the filter, for the frame as on the wire, and the expression it came from. What
    /// it does not accept goes to the host.
    pub filter: Option<(ClassicProgram, String)>,
    /// Frames are stamped.
    pub has_stamps: bool,
    /// What a worker does while its ring is empty: spin or sleep.
    pub waiting: Waiting,
}

/// The lanes of an interface.
pub struct Opened {
    /// One source per lane.
    pub sources: Vec<XdpRingSource>,
    /// What was refused on the way there, and what is not captured.
    pub notes: Vec<String>,
}

/// Opens all lanes of an interface. They receive nothing until they are started.
///
/// # Errors
/// No such interface, it is down or not Ethernet, or its driver runs no programs, or not one at a
/// time for each queue; a privilege or memory is missing; a setting is beyond its limit; somebody
/// else's XDP program is there.
pub fn open(config: &XdpRingConfig) -> Result<Opened, BackendError> {
    within("the snapshot length", u64::from(config.snaplen_bytes), 1, u64::from(FRAME_BYTES_MAX))?;
    let (least, most) = (RING_BYTES_MIN as u64, RING_BYTES_MAX as u64);
    within("the memory of a lane", config.ring_bytes, least, most)?;
    let device = find_device(&config.interface)?;
    if matches!(config.waiting, Waiting::Poll | Waiting::BusyPoll) {
        return Err(unfit(&device, "nothing wakes its worker: wait by spinning or sleeping"));
    }
    if !device.is_up() {
        return Err(BackendError::InterfaceDown { name: device.name });
    }
    let driver = check_driver(&device)?;
    let queues = netdev::queues(&device.name).map_or(device.rx_queues_max, |queues| queues.rx);
    let queues = queues.clamp(1, LANES_MAX as u32);
    let lanes = config.lanes.map_or(queues, u32::from);
    within("the number of lanes (receive queues)", lanes.into(), 1, queues.into())?;
    let layout = XdpRingLayout::new(lanes as usize, 1 << config.ring_bytes.ilog2());
    let program = open_program(config, &device, queues, layout)?;
    let mut notes: Vec<String> = program.notes().to_vec();
    if driver == "veth" {
        notes.push(format!(
            "{}: VLAN tags that the other end sends beside a frame are not seen; there: `ethtool \
             -K IF txvlan off`",
            device.name
        ));
    }
    if lanes < queues {
        let last = queues - 1;
        notes.push(format!(
            "frames of the queues {lanes} to {last} of {} pass to the host",
            device.name
        ));
    }
    let map = program.rings().ok_or_else(|| unfit(&device, "its program has no rings"))?;
    let rings = XdpRing::map(map, layout).map_err(|error| refused(&device.name, error))?;
    let interface = Interface::new(&device, program, lanes, queues, config.promiscuous)?;
    let interface = Arc::new(interface);
    let described = described(&config.interface, config.snaplen_bytes, config.filter.as_ref());
    let source = |(queue, ring)| {
        XdpRingSource::new(Parts {
            ring,
            interface: interface.clone(),
            interface_id: config.interface_id,
            queue,
            has_stamps: config.has_stamps,
            waiting: config.waiting,
            described: described.clone(),
        })
    };
    Ok(Opened { sources: (0..).zip(rings).map(source).collect(), notes })
}

fn unfit(device: &NetDevice, reason: impl Into<String>) -> BackendError {
    BackendError::XdpRing { name: device.name.clone(), reason: reason.into() }
}

/// A ring has one writer, and frames go into it as the program sees them. Returns the driver.
fn check_driver(device: &NetDevice) -> Result<String, BackendError> {
    let driver = netdev::driver(&device.name)
        .map_err(|error| unfit(device, format!("its driver is not known: {error}")))?;
    match driver.as_str() {
        // Its program runs in whatever thread writes to the device.
        "tun" => return Err(BackendError::SeveralWriters { name: device.name.clone() }),
        // Its program runs on each of its members, whose queues are others.
        "bonding" => return Err(unfit(device, "it is a bond: capture from its members")),
        _ => {}
    }
    match stripped_tags(&device.name) {
        Ok(features) if features.is_empty() => Ok(driver),
        Ok(_) => Err(BackendError::TakesTags { name: device.name.clone() }),
        Err(error) => Err(refused(&device.name, error)),
    }
}

fn open_program(
    config: &XdpRingConfig,
    device: &NetDevice,
    queues: u32,
    layout: XdpRingLayout,
) -> Result<CaptureProgram, BackendError> {
    let capture = CaptureConfig {
        interface: &device.name,
        ifindex: device.ifindex,
        queues,
        metadata: Metadata::None,
        filter: config.filter.as_ref().map(|(program, _)| program),
        link_type: LinkType::ETHERNET,
        // There the program runs on whatever CPU has the frame, several at a time.
        generic_allowed: false,
    };
    let rings =
        RingLeaf { layout, kept_bytes_max: config.snaplen_bytes, has_stamps: config.has_stamps };
    CaptureProgram::open_rings(&capture, &rings)
        .map_err(|error| program_refused(&device.name, error))
}
