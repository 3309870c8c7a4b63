//! Opening the lanes of a device.

use super::drivers::{Release, counts_losses, release_of, stamps};
use super::lane::{DpdkQueue, Shared};
use super::link::Link;
use super::losses::{LaneLosses, Losses};
use crate::backend::in_driver::described;
use crate::backend::opening::{Lane, OpenRequest, OpenWarning, OpenedLanes};
use crate::backend::polled::{KernelInterface, Parts, PolledSource, filter, find_up};
use crate::backend::{BackendError, merge_warning, within};
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX, MERGE_HOLD_NS};
use ringside_core::{Cause, Direction, FrameMeta, QueueId, Source, TimestampKind};
use ringside_dpdk::device::{FRAME_ROOM_MAX, FRAME_ROOM_MIN, HEADER_BYTES};
use ringside_dpdk::eal::{self, Memory};
use ringside_dpdk::{Device, DpdkError, Opened, PortRequest, Properties};
use ringside_filter::Prepared;
use ringside_netdev::NetDevice;
use ringside_sys::packet::CaptureDirection;
use std::sync::Arc;

/// Bytes of a page: without huge pages each frame of a pool begins a new one.
const PAGE_BYTES: u64 = 4096;
/// Bytes of a frame in a pool in addition to its room: DPDK's header of it, and space in front.
const OVERHEAD_BYTES: u64 = 128 + 128 + 64;
/// Frames of a queue's memory: several bursts, and what a card's ring may hold.
const FRAMES_MIN: u64 = 512;
const FRAMES_MAX: u64 = 64 << 10;

/// How long libpcap may hold frames back that the kernel has stamped.
const STAMPED_BEFORE_NS: u64 = 100_000_000 + MERGE_HOLD_NS;

/// Opens the lanes of a device; what it receives before they are started is thrown away.
pub(super) fn open(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let name = request.interface.as_str();
    within("the snapshot length", request.snaplen_bytes.into(), 1, FRAME_BYTES_MAX.into())?;
    let lanes = u32::from(request.lanes.unwrap_or(1));
    within("the number of lanes", lanes.into(), 1, LANES_MAX as u64)?;
    let filter = filter(request)?;
    let mut device = Device::named(name);
    let kernel = device.kernel_interface().map(find_up).transpose()?;
    let warnings = kernel.as_ref().and_then(|kernel| merge_warning(&kernel.name));
    let bare = kernel.clone().filter(|kernel| kernel.xdp_programs.is_empty());
    let plan = Plan::new(&mut device, kernel.as_ref(), lanes, request.memory_bytes);
    let refused = |source: DpdkError| BackendError::Dpdk { name: name.to_owned(), source };
    eal::start(&Memory::of(&device)).map_err(refused)?;
    let attached = ringside_dpdk::attach(&device.words()).map_err(refused)?;
    let properties = attached.properties.clone();
    within("the number of lanes", lanes.into(), 1, most_lanes(&device, &properties))?;
    let promiscuous = request.promiscuous && device.is_card;
    let opened = attached.open(&plan.port_request(lanes, promiscuous)).map_err(refused)?;
    let interface = kernel.map(|kernel| KernelInterface::new(kernel, request.promiscuous));
    let interface = interface.transpose()?;
    let link = device.is_card.then(|| Link::of(&opened.port, name));
    // All that needs a privilege is open.
    eal::limit_threads().map_err(refused)?;
    let notes = notes(&device, &properties, lanes, request.direction, &plan);
    let way = format!("{}, {}", ringside_dpdk::release().map_err(refused)?, properties.driver);
    let warnings = warnings.map(OpenWarning::Merges).into_iter().collect();
    let left_program_on = bare.map(|kernel| kernel.name).filter(|name| has_program(name));
    let lanes = sources(request, &device, &properties, filter, interface, (opened, link));
    let way = Some(way);
    Ok(OpenedLanes { lanes, way, notes, warnings, left_program_on, ..OpenedLanes::default() })
}

/// The driver of AF_XDP puts one on its interface, by netlink: it stays when its process is gone.
fn has_program(interface: &str) -> bool {
    let device = ringside_netdev::by_name(interface).ok().flatten();
    device.is_some_and(|device| !device.xdp_programs.is_empty())
}

/// Most lanes that a device has.
fn most_lanes(device: &Device, properties: &Properties) -> u64 {
    let most = device.queues_named().map_or(properties.receive_queues_max as usize, |count| count);
    most.clamp(1, LANES_MAX) as u64
}

/// Sizes of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// Room of a frame, in bytes.
    room_bytes: u32,
    /// Frames of a queue's memory.
    frames: u32,
    /// Longest frame that comes whole, if some do not.
    cut_bytes: Option<u32>,
}

impl Plan {
    /// That of `lanes` lanes with `memory_bytes` each; adds to the arguments of a driver what makes
    /// it so.
    fn new(device: &mut Device, kernel: Option<&NetDevice>, lanes: u32, memory_bytes: u64) -> Plan {
        let mtu_bytes = kernel.map_or(0, |kernel| kernel.mtu_bytes);
        let longest = mtu_bytes.saturating_add(HEADER_BYTES);
        let mut room_bytes = longest.clamp(FRAME_ROOM_MIN, FRAME_ROOM_MAX);
        let mut cut_bytes = None;
        if device.is_of("net_af_packet") {
            // The driver copies as many bytes as its ring has for a frame, whatever room there is.
            // Half of the frames may wait in the kernel: at the end there is memory for all.
            let half = |room_bytes| frames_of(memory_bytes, room_bytes) as u32 / 2;
            (room_bytes, cut_bytes) = device.set_packet_ring(mtu_bytes, lanes, half);
        }
        if device.is_of("net_af_xdp") {
            device.set("queue_count", lanes);
        }
        // One less than a power of two: what pools are best at (rte_mempool.h).
        let frames = frames_of(memory_bytes, room_bytes) as u32 - 1;
        Plan { room_bytes, frames, cut_bytes }
    }

    fn port_request(&self, lanes: u32, promiscuous: bool) -> PortRequest {
        PortRequest {
            receive_queues: lanes,
            transmit_queues: 0,
            // As much as a card holds must be there once more, for what is lent meanwhile.
            descriptors: self.frames.div_ceil(2),
            frames_per_queue: self.frames,
            frame_bytes_max: self.room_bytes,
            mtu: None,
            promiscuous,
        }
    }
}

/// Frames of a queue's memory, a power of two.
fn frames_of(memory_bytes: u64, room_bytes: u32) -> u64 {
    let frame_bytes = u64::from(room_bytes) + OVERHEAD_BYTES;
    let frames = memory_bytes / frame_bytes.next_multiple_of(PAGE_BYTES);
    frames.clamp(FRAMES_MIN, FRAMES_MAX).next_power_of_two().min(FRAMES_MAX)
}

/// What is not as one might think.
fn notes(
    device: &Device,
    properties: &Properties,
    lanes: u32,
    direction: CaptureDirection,
    plan: &Plan,
) -> Vec<String> {
    let driver = properties.driver.as_str();
    let mut notes = Vec::new();
    if let Some(bytes) = plan.cut_bytes {
        notes.push(format!(
            "{driver} cuts frames of more than {bytes} bytes, and does not say how long they were"
        ));
    }
    let is_tap = device.is_of("net_af_packet");
    if is_tap && direction == CaptureDirection::Inbound {
        notes.push(format!("{driver} also receives what this host sends"));
    }
    if lanes > 1 && !properties.has_rss && device.is_card {
        notes.push(format!("{driver} does not spread frames over queues by their flow"));
    }
    // A file's frames wait: none is lost.
    if lanes > 1 && counts_losses(driver, release()) && !device.plays_files() {
        notes.push(format!(
            "{driver} counts lost frames of the device, not of a queue: they are in the ledger of \
             its first lane"
        ));
    }
    notes
}

/// That of DPDK which is there.
fn release() -> Release {
    let release = ringside_dpdk::release().ok().and_then(|text| release_of(&text));
    release.unwrap_or_default()
}

fn sources(
    request: &OpenRequest,
    device: &Device,
    properties: &Properties,
    filter: Option<Prepared>,
    interface: Option<KernelInterface>,
    (opened, mut link): (Opened, Option<Link>),
) -> Vec<Lane> {
    let release = release();
    let driver = properties.driver.as_str();
    let stamps = stamps(driver, device, release);
    let plays_files = device.plays_files();
    let losses = Losses::default();
    let shared = Arc::new(Shared { port: opened.port, plays_files, stamps, losses });
    let interface = interface.map(Arc::new);
    let is_polled = stamps.kind == TimestampKind::Poll;
    let mut described =
        described(&request.interface, request.snaplen_bytes, request.filter.as_ref());
    described.description = stamps.kind.remark().to_owned();
    let source = |(queue, opened_queue)| {
        let direction = if device.is_card { Direction::Inbound } else { Direction::Unknown };
        let meta = FrameMeta {
            interface: request.interface_id,
            queue: QueueId(queue),
            direction,
            ..FrameMeta::default()
        };
        let supply = DpdkQueue {
            queue: opened_queue,
            shared: shared.clone(),
            losses: LaneLosses::new(queue == 0),
            link: link.take(),
        };
        let source = PolledSource::new(Parts {
            supply,
            interface: interface.clone(),
            losses: counts_losses(driver, release).then_some(Cause::InterfaceDrop),
            hold_ns: if is_polled { 0 } else { STAMPED_BEFORE_NS },
            filter: filter.clone(),
            snaplen_bytes: request.snaplen_bytes,
            meta,
            waiting: request.waiting,
            described: described.clone(),
        });
        (Box::new(source) as Box<dyn Source>, None)
    };
    (0u16..).zip(opened.queues).map(source).collect()
}
