//! Opening the lanes of an interface.

use super::{AfPacketSource, LaneFilter, State};
use crate::backend::{BackendError, OpenWarning, find_device, merge_warning, within};
use crate::interface::device_link_type;
pub use crate::interface::link_type;
use crate::keep::{InterfacePreFilter, PreFilterRequest};
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX};
use ringside_core::{InterfaceId, LinkType, QueueId, SourceInterface, Timestamp};
use ringside_ebpf::socket_filter::{Behind, FilterCounters, SocketFilter, SocketFilterError};
use ringside_filter::Prepared;
use ringside_netdev::NetDevice;
use ringside_rules::pre_filter::{PreFilter, QUESTIONS_MAX};
use ringside_sys::bpf::BpfError;
use ringside_sys::packet::{CaptureDirection, Fanout, FanoutMode, PacketConfig, PacketRing};
use ringside_sys::{SysError, clock};
use std::time::Instant;

/// Wanted size of a ring's block: a frame of FRAME_BYTES_MAX fits, and a block is handed over
/// often enough that the reader works while the kernel fills.
const BLOCK_BYTES: u64 = 1 << 20;
/// A small ring still has this number of blocks: one is filled, one is read, the others are the
/// reserve.
const BLOCKS_MIN: u64 = 8;
/// Smallest block that the kernel's pages allow everywhere.
const BLOCK_BYTES_MIN: u64 = 64 << 10;

/// Most questions of a pre-filter: fewer are tried where the kernel does not take that many, or a
/// socket may not hold them.
const PRE_FILTER_QUESTIONS: [usize; 3] = [QUESTIONS_MAX, QUESTIONS_MAX / 4, QUESTIONS_MAX / 16];

/// Blocks of this size hold whatever Ethernet hardware receives, merged frames included.
const FRAMES_FIT_BYTES: u32 = 128 << 10;

/// What to receive and how.
#[derive(Clone, Debug)]
pub struct AfPacketConfig {
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// Its id within the run.
    pub interface_id: InterfaceId,
    /// Lanes: members of a fanout group, if more than one.
    pub lanes: u16,
    /// How frames are spread over the lanes.
    pub fanout: FanoutMode,
    /// Memory of each lane's ring, in bytes; rounded down to whole blocks.
    pub ring_bytes: u64,
    /// How long the kernel holds frames back to fill a block, in milliseconds.
    pub block_timeout_ms: u32,
    /// Bytes kept of each frame, VLAN tags included.
    pub snaplen_bytes: u32,
    /// Receive frames for other stations too, until the sources are dropped.
    pub promiscuous: bool,
    /// Which way frames must cross the interface.
    pub direction: CaptureDirection,
    /// Program of the filter, for the frame as on the wire, and the expression it came from.
    pub filter: Option<(ClassicProgram, String)>,
    /// Use the interface's own time stamps, which were switched on for every received frame.
    pub hardware_timestamps: bool,
    /// The rules that the frames will be judged by: the kernel turns away what these surely drop.
    pub pre_filter: Option<PreFilterRequest>,
}

impl AfPacketConfig {
    /// One lane of `interface`, 32 MiB, 50 ms, everything that it receives.
    pub fn new(interface: &str) -> AfPacketConfig {
        AfPacketConfig {
            interface: interface.to_owned(),
            interface_id: InterfaceId(0),
            lanes: 1,
            fanout: FanoutMode::Hash,
            ring_bytes: 32 << 20,
            block_timeout_ms: 50,
            snaplen_bytes: FRAME_BYTES_MAX,
            promiscuous: true,
            direction: CaptureDirection::Inbound,
            filter: None,
            hardware_timestamps: false,
            pre_filter: None,
        }
    }
}

/// The lanes of an interface.
pub struct Opened {
    /// One source per lane.
    pub sources: Vec<AfPacketSource>,
    /// What costs frames or parts of them.
    pub warnings: Vec<OpenWarning>,
    /// What became of the pre-filter, if one was asked for.
    pub pre_filter: Option<InterfacePreFilter>,
}

/// Opens all lanes of an interface. They receive nothing until they are started
/// ([`Source::start`](ringside_core::Source::start)).
///
/// # Errors
/// No such interface, or it is down; a privilege is missing; a setting is beyond its limit; the
/// filter is no valid program.
pub fn open(config: &AfPacketConfig) -> Result<Opened, BackendError> {
    let lanes_max = LANES_MAX as u64;
    within("the number of lanes", u64::from(config.lanes), 1, lanes_max)?;
    within("the snapshot length", u64::from(config.snaplen_bytes), 1, u64::from(FRAME_BYTES_MAX))?;
    let device = find_device(&config.interface)?;
    if !device.is_up() {
        return Err(BackendError::InterfaceDown { name: device.name });
    }
    let link_type = device_link_type(&device)?;
    let (filters, pre_filter) = load_filters(config, link_type)?;
    let opened = open_lanes(config, &device, link_type, filters)?;
    Ok(Opened { pre_filter, ..opened })
}

/// As [`open`], with the filters of the lanes; none stands for no filter.
pub(super) fn open_lanes(
    config: &AfPacketConfig,
    device: &NetDevice,
    link_type: LinkType,
    mut filters: Vec<LaneFilter>,
) -> Result<Opened, BackendError> {
    let merges = merge_warning(&device.name).map(OpenWarning::Merges);
    let mut warnings: Vec<OpenWarning> = merges.into_iter().collect();
    let mut sources = Vec::with_capacity(usize::from(config.lanes));
    let mut group = None;
    for queue in 0..config.lanes {
        let ring = open_ring(config, device, link_type, QueueId(queue), group)?;
        group = ring.fanout_group();
        let filter = filters.pop().unwrap_or(LaneFilter::None);
        sources.push(new_source(config, ring, filter, link_type));
    }
    let (block_bytes, _) = blocks(config.ring_bytes)?;
    if u64::from(block_bytes) < u64::from(config.snaplen_bytes) && block_bytes < FRAMES_FIT_BYTES {
        warnings.push(OpenWarning::ShortBlocks { block_bytes });
    }
    Ok(Opened { sources, warnings, pre_filter: None })
}

fn new_source(
    config: &AfPacketConfig,
    ring: PacketRing,
    filter: LaneFilter,
    link_type: LinkType,
) -> AfPacketSource {
    let expression = config.filter.as_ref().map_or("", |(_, text)| text.as_str());
    AfPacketSource {
        ring,
        filter,
        interfaces: [SourceInterface {
            name: config.interface.clone(),
            link_type,
            snaplen_bytes: config.snaplen_bytes,
            description: String::new(),
            filter: expression.to_owned(),
        }],
        state: State::Ready,
        block_timeout_ns: u64::from(config.block_timeout_ms) * 1_000_000,
        snaplen_bytes: config.snaplen_bytes,
        low_water: Timestamp(0),
        newest_seen: clock::realtime_now(),
        statistics_read: Instant::now(),
        gap_reported: false,
        hardware_stamped: config.hardware_timestamps,
    }
}

fn open_ring(
    config: &AfPacketConfig,
    device: &NetDevice,
    link_type: LinkType,
    queue: QueueId,
    group: Option<u16>,
) -> Result<PacketRing, BackendError> {
    let (block_bytes, block_count) = blocks(config.ring_bytes)?;
    let fanout = (config.lanes > 1).then_some(Fanout { group, mode: config.fanout });
    let settings = PacketConfig {
        ifindex: device.ifindex,
        interface: config.interface_id,
        queue,
        block_bytes,
        block_count,
        block_timeout_ms: config.block_timeout_ms,
        fanout,
        promiscuous: config.promiscuous,
        direction: config.direction,
        hardware_timestamps: config.hardware_timestamps,
        // The kernel would compute it in software for every frame, and nothing reads it.
        receive_hash: false,
        snaplen_bytes: config.snaplen_bytes,
        ethernet: link_type == LinkType::ETHERNET,
    };
    let name = device.name.clone();
    PacketRing::open(&settings).map_err(|error| match error {
        SysError::InterfaceDown { .. } => BackendError::InterfaceDown { name },
        SysError::Limit { what, value, limit } => BackendError::Limit { what, value, limit },
        error if error.is_permission_denied() => {
            BackendError::Privilege { context: format!("interface {name}: {error}") }
        }
        source => BackendError::System { name, source },
    })
}

/// Size and number of a ring's blocks.
fn blocks(ring_bytes: u64) -> Result<(u32, u32), BackendError> {
    let least = BLOCK_BYTES_MIN * 2;
    within("the size of a kernel ring", ring_bytes, least, u64::from(u32::MAX))?;
    let mut block_bytes = BLOCK_BYTES;
    while block_bytes > BLOCK_BYTES_MIN && ring_bytes / block_bytes < BLOCKS_MIN {
        block_bytes /= 2;
    }
    Ok((block_bytes as u32, (ring_bytes / block_bytes) as u32))
}

/// One filter per lane, so that each lane has its own counters. All are of one kind.
fn load_filters(
    config: &AfPacketConfig,
    link_type: LinkType,
) -> Result<(Vec<LaneFilter>, Option<InterfacePreFilter>), BackendError> {
    let asked = config.pre_filter.as_ref();
    let pre_filter = match asked.map(|asked| load_pre_filtered(config, asked, link_type)) {
        Some(Ok((filters, installed))) => return Ok((filters, Some(installed))),
        Some(Err(reason)) => Some(InterfacePreFilter::none(reason)),
        None => None,
    };
    Ok((load_plain(config, link_type)?, pre_filter))
}

/// The same without a pre-filter.
fn load_plain(
    config: &AfPacketConfig,
    link_type: LinkType,
) -> Result<Vec<LaneFilter>, BackendError> {
    let Some((program, expression)) = &config.filter else { return Ok(Vec::new()) };
    let load = |_| SocketFilter::load(program, link_type, config.snaplen_bytes);
    match (0..config.lanes).map(load).collect::<Result<Vec<_>, _>>() {
        Ok(filters) => Ok(in_kernel(filters)),
        Err(error) => {
            let prepared = Prepared::new(program).map_err(|e| BackendError::Filter {
                expression: expression.clone(),
                reason: e.to_string(),
            })?;
            tracing::warn!(
                "the filter cannot run in the kernel ({error}); frames are filtered by the \
                 worker instead: counts are as exact, but it is slower"
            );
            Ok((0..config.lanes).map(|_| LaneFilter::User(prepared.clone())).collect())
        }
    }
}

fn in_kernel(filters: Vec<SocketFilter>) -> Vec<LaneFilter> {
    let lane = |filter| LaneFilter::Kernel { filter, last: FilterCounters::default() };
    filters.into_iter().map(lane).collect()
}

/// The same with a pre-filter of the rules, as large as sockets may hold it; or why there is none.
fn load_pre_filtered(
    config: &AfPacketConfig,
    asked: &PreFilterRequest,
    link_type: LinkType,
) -> Result<(Vec<LaneFilter>, InterfacePreFilter), String> {
    let snaplen = config.snaplen_bytes;
    let filter = config.filter.as_ref().map(|(program, _)| program.clone());
    let filter = filter.unwrap_or_else(SocketFilter::accept_all);
    let mut refused = String::new();
    for questions_max in PRE_FILTER_QUESTIONS {
        let pre_filter = PreFilter::new(&asked.set, link_type, snaplen, questions_max);
        let pre_filter = pre_filter.map_err(|reason| reason.to_string())?;
        let switch = asked.switch.as_ref()?;
        let behind = Behind { program: pre_filter.program(), switch };
        let load = |_| SocketFilter::load_before(&filter, behind, link_type, snaplen);
        match (0..config.lanes).map(load).collect::<Result<Vec<_>, _>>() {
            Ok(filters) => {
                let meters = filters.iter().map(|filter| filter.meter().clone());
                let installed = InterfacePreFilter::installed(pre_filter, meters);
                return Ok((in_kernel(filters), installed));
            }
            Err(error @ SocketFilterError::Bpf(BpfError::NotPermitted { .. })) => {
                return Err(error.to_string());
            }
            Err(error) => refused = error.to_string(),
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_cut_into_blocks() {
        for (ring_bytes, expected) in [
            (32 << 20, (1 << 20, 32)),
            (8 << 20, (1 << 20, 8)),
            (1 << 20, (128 << 10, 8)),
            (128 << 10, (64 << 10, 2)),
            ((32 << 20) + 5, (1 << 20, 32)),
        ] {
            assert_eq!(blocks(ring_bytes).unwrap(), expected, "{ring_bytes}");
        }
        let error = blocks(1000).unwrap_err().to_string();
        assert!(error.contains("1000") && error.contains("131072"), "{error}");
    }

    #[test]
    fn a_missing_interface_brings_names_that_were_meant() {
        let error = open(&AfPacketConfig::new("lo0")).err().unwrap().to_string();
        assert!(error.contains("no interface lo0 (did you mean lo?)"), "{error}");
    }

    #[test]
    fn settings_beyond_their_limits_are_refused() {
        for config in [
            AfPacketConfig { lanes: 0, ..AfPacketConfig::new("lo") },
            AfPacketConfig { lanes: 257, ..AfPacketConfig::new("lo") },
            AfPacketConfig { snaplen_bytes: 0, ..AfPacketConfig::new("lo") },
        ] {
            assert!(matches!(open(&config), Err(BackendError::Limit { .. })), "{config:?}");
        }
    }
}
