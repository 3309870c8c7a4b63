//! Opening the lanes of a device.

use super::lane::PfRingLane;
use crate::backend::af_xdp::Stamps;
use crate::backend::in_driver::described;
use crate::backend::opening::{Lane, OpenRequest, OpenWarning, OpenedLanes};
use crate::backend::polled::{KernelInterface, Parts, PolledSource, filter, find_up};
use crate::backend::{BackendError, merge_warning, within};
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX, MERGE_HOLD_NS};
use ringside_core::{Cause, Direction, FrameMeta, QueueId, Source, TimestampKind};
use ringside_netdev::NetDevice;
use ringside_pfring::{CAPLEN_MAX, Device, Library, PfRingError, Ring, RingOptions};
use ringside_sys::packet::CaptureDirection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of a frame beyond its interface's MTU: Ethernet's header and three tags.
const HEADER_BYTES: u32 = 14 + 3 * 4;

/// Most members of a cluster (MAX_CLUSTER_QUEUES of PF_RING).
const MEMBERS_MAX: u64 = 64;

/// Opens the lanes of a device by `library`; they receive once they are started.
pub(in crate::backend) fn open_by(
    library: Library,
    request: &OpenRequest,
) -> Result<OpenedLanes, BackendError> {
    let name = request.interface.as_str();
    within("the snapshot length", request.snaplen_bytes.into(), 1, FRAME_BYTES_MAX.into())?;
    let lanes = request.lanes.unwrap_or(1);
    within("the number of lanes", lanes.into(), 1, MEMBERS_MAX.min(LANES_MAX as u64))?;
    let filter = filter(request)?;
    let device = Device::named(name);
    let kernel = device.interface().map(find_up);
    // Of a card that a ZC driver has the library may know more than the kernel.
    let kernel =
        if device.is_zero_copy() { kernel.and_then(Result::ok) } else { kernel.transpose()? };
    let warnings = kernel.as_ref().and_then(|kernel| merge_warning(&kernel.name));
    let options = options(request, kernel.as_ref());
    let refused = |source: PfRingError| BackendError::PfRing { name: name.to_owned(), source };
    let (rings, spread) = rings(library, &device, lanes, options).map_err(refused)?;
    let interface = kernel.map(|kernel| KernelInterface::new(kernel, request.promiscuous));
    let interface = interface.transpose()?.map(Arc::new);
    let way = format!("PF_RING {}, {spread}", library.release());
    Ok(OpenedLanes {
        lanes: sources(request, &device, filter, interface.as_ref(), rings),
        way: Some(way),
        warnings: warnings.map(OpenWarning::Merges).into_iter().collect(),
        ..OpenedLanes::default()
    })
}

fn options(request: &OpenRequest, kernel: Option<&NetDevice>) -> RingOptions {
    // The filter looks at whole frames; what is kept of them is cut afterwards.
    let longest = kernel.map(|kernel| kernel.mtu_bytes.saturating_add(HEADER_BYTES));
    RingOptions {
        caplen: longest.unwrap_or(CAPLEN_MAX).min(CAPLEN_MAX),
        // Of an interface the kernel is asked, which takes it back by itself.
        promiscuous: request.promiscuous && kernel.is_none(),
        hardware_stamps: request.stamps == Stamps::Hardware,
        sent_too: request.direction != CaptureDirection::Inbound,
        cluster: None,
    }
}

/// One ring for each lane, and how the frames are spread over them.
fn rings(
    library: Library,
    device: &Device,
    lanes: u16,
    options: RingOptions,
) -> Result<(Vec<Ring>, &'static str), PfRingError> {
    let first = Ring::open(library, device, &options)?;
    if lanes == 1 {
        return Ok((vec![first], "one ring"));
    }
    let has_channels = first.channels() == lanes && !device.has_channel();
    drop(first);
    if has_channels {
        let ring = |queue| Ring::open(library, &device.channel(queue), &options);
        return Ok(((0..lanes).map(ring).collect::<Result<_, _>>()?, "one ring a receive queue"));
    }
    let options = RingOptions { cluster: Some(cluster()), ..options };
    let ring = |_| Ring::open(library, device, &options);
    Ok(((0..lanes).map(ring).collect::<Result<_, _>>()?, "a cluster by flow"))
}

/// A number that no other cluster of this process has, and hardly one of another.
fn cluster() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = std::process::id() as u16;
    number.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x101)).max(1)
}

fn sources(
    request: &OpenRequest,
    device: &Device,
    filter: Option<ringside_filter::Prepared>,
    interface: Option<&Arc<KernelInterface>>,
    rings: Vec<Ring>,
) -> Vec<Lane> {
    let stamped_by = match (request.stamps, device.is_zero_copy()) {
        (Stamps::Hardware, _) => TimestampKind::Hardware,
        (_, true) => TimestampKind::Poll,
        (_, false) => TimestampKind::Kernel,
    };
    // A card drops where it has no room; the kernel's ring is another place.
    let losses = if device.is_zero_copy() { Cause::InterfaceDrop } else { Cause::KernelRingFull };
    let mut described =
        described(&request.interface, request.snaplen_bytes, request.filter.as_ref());
    described.description = stamped_by.remark().to_owned();
    let direction = match request.direction {
        CaptureDirection::Inbound => Direction::Inbound,
        _ => Direction::Unknown,
    };
    let source = |(queue, ring): (u16, Ring)| {
        let counts_losses = ring.statistics().is_ok();
        let source = PolledSource::new(Parts {
            supply: PfRingLane::new(ring, &request.interface, stamped_by),
            interface: interface.cloned(),
            losses: counts_losses.then_some(losses),
            hold_ns: MERGE_HOLD_NS,
            filter: filter.clone(),
            snaplen_bytes: request.snaplen_bytes,
            meta: FrameMeta {
                interface: request.interface_id,
                queue: QueueId(queue),
                direction,
                ..FrameMeta::default()
            },
            waiting: request.waiting,
            described: described.clone(),
        });
        (Box::new(source) as Box<dyn Source>, None)
    };
    (0u16..).zip(rings).map(source).collect()
}
