//! Opening the rings of a port.

use super::lane::NetmapLane;
use crate::backend::in_driver::described;
use crate::backend::opening::{Lane, OpenRequest, OpenWarning, OpenedLanes};
use crate::backend::polled::{KernelInterface, Parts, PolledSource, filter, find_up};
use crate::backend::{BackendError, merge_warning, within};
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX};
use ringside_core::{Direction, FrameMeta, QueueId, Source, TimestampKind};
use ringside_sys::SysError;
use ringside_sys::netmap::{Control, Port, ReceiveRing, RingChoice, Rings};
use std::sync::Arc;

/// Gives a new handle of the kernel's.
pub(in crate::backend) type Controls<'c> =
    dyn FnMut() -> Result<Box<dyn Control>, BackendError> + 'c;

/// Opens the rings of a port by handles of `controls`; what they receive before they are started is
/// thrown away.
pub(in crate::backend) fn open_by(
    request: &OpenRequest,
    controls: &mut Controls<'_>,
) -> Result<OpenedLanes, BackendError> {
    let name = request.interface.as_str();
    within("the snapshot length", request.snaplen_bytes.into(), 1, FRAME_BYTES_MAX.into())?;
    let lanes = request.lanes.unwrap_or(1);
    within("the number of lanes", lanes.into(), 1, LANES_MAX as u64)?;
    let filter = filter(request)?;
    let port = Port::named(name);
    let kernel = port.interface().map(find_up).transpose()?;
    let warnings = kernel.as_ref().and_then(|kernel| merge_warning(&kernel.name));
    let refused =
        |error: SysError| BackendError::Netmap { name: name.to_owned(), reason: error.to_string() };
    let choices = choices(&port, lanes, name, controls)?;
    let ring = |ring| ReceiveRing::take(controls()?, &port.name, ring).map_err(refused);
    let rings: Vec<ReceiveRing> = choices.into_iter().map(ring).collect::<Result<_, _>>()?;
    let notes = kernel.iter().map(|kernel| {
        format!("{} is netmap's until the end: the host receives nothing by it", kernel.name)
    });
    let notes = notes.collect();
    let interface = kernel.map(|kernel| KernelInterface::new(kernel, request.promiscuous));
    let interface = interface.transpose()?.map(Arc::new);
    let sources = rings.into_iter().enumerate().map(|(queue, ring)| {
        source(request, filter.clone(), interface.clone(), (queue as u16, ring))
    });
    Ok(OpenedLanes {
        lanes: sources.collect(),
        way: Some("rings of netmap's".to_owned()),
        notes,
        warnings: warnings.map(OpenWarning::Merges).into_iter().collect(),
        ..OpenedLanes::default()
    })
}

/// The rings that are taken: all that are meant, since frames of the others would be lost.
fn choices(
    port: &Port,
    lanes: u16,
    name: &str,
    controls: &mut Controls<'_>,
) -> Result<Vec<RingChoice>, BackendError> {
    if let Rings::One(one) = port.rings {
        within("the number of lanes", lanes.into(), 1, 1)?;
        return Ok(vec![one]);
    }
    let info = controls()?.info(&port.name).map_err(|error| BackendError::Netmap {
        name: name.to_owned(),
        reason: format!("{error}; netmap has no such port"),
    })?;
    let is_host = port.rings == Rings::Host;
    let count = if is_host { info.host_rx_rings } else { info.rx_rings };
    within("the number of lanes", lanes.into(), count.into(), count.into())?;
    Ok((0..count).map(|ring| port.ring(ring)).collect())
}

fn source(
    request: &OpenRequest,
    filter: Option<ringside_filter::Prepared>,
    interface: Option<Arc<KernelInterface>>,
    (queue, ring): (u16, ReceiveRing),
) -> Lane {
    let mut described =
        described(&request.interface, request.snaplen_bytes, request.filter.as_ref());
    described.description = TimestampKind::Poll.remark().to_owned();
    let source = PolledSource::new(Parts {
        supply: NetmapLane { ring },
        interface,
        // No counter of netmap's says what was lost.
        losses: None,
        hold_ns: 0,
        filter,
        snaplen_bytes: request.snaplen_bytes,
        meta: FrameMeta {
            interface: request.interface_id,
            queue: QueueId(queue),
            direction: Direction::Unknown,
            ..FrameMeta::default()
        },
        waiting: request.waiting,
        described,
    });
    (Box::new(source) as Box<dyn Source>, None)
}
