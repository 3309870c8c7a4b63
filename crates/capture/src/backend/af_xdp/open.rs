//! Opening the lanes of an interface.

use super::depth::Depth;
use super::frames::FrameRules;
use super::lane::{AfXdpSource, FillEnd, Lane, Supply};
use crate::backend::in_driver::{
    Interface, Stamping, State, described, program_refused, refused, stripped_tags,
};
use crate::backend::wait::{Sweep, Waiter, Waiting};
use crate::backend::{BackendError, find_device, within};
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANE_THREADS_MAX, LANES_MAX};
use ringside_core::profile::BATCH_CLASSES;
use ringside_core::{InterfaceId, LinkType, QueueId, SourceInterface, Timestamp};
use ringside_ebpf::capture::{CaptureConfig, CaptureProgram, Metadata, Mode, QueueCounters};
use ringside_netdev::{self as netdev, NetDevice};
use ringside_sys::clock;
use ringside_sys::xsk::{
    BindStep, BusyPoll, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNKS_PER_LANE_MAX, HEADROOM_BYTES,
    Umem, UmemLayout, XskConfig, XskEnds, XskSocket, XskStatistics,
};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Ethernet header and two VLAN tags: what a frame has beyond the MTU.
const BEYOND_MTU_BYTES: u32 = 22;

/// Unit in which some cards know the room of a chunk (E1000_SRRCTL_BSIZEPKT_SHIFT of
/// drivers/net/ethernet/intel/igb).
const CARD_UNIT_BYTES: u32 = 1024;

/// Room for joined frames of each thread: a batch of eight of the longest, and more of others.
const ARENA_BYTES: usize = 1 << 20;

/// How long busy polling polls, in microseconds, and most frames of a round: the values that
/// drivers' own tests use.
const BUSY_POLL: BusyPoll = BusyPoll { time_us: 20, budget: 64 };

/// Frames between two sleeps: at most a quarter of the least depth.
const SWEEP_FRAMES: Sweep = 256..=1024;

/// Which frames are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// All, by the program in the driver.
    On,
    /// All, by the interface itself, which was set to; by the program where it gives none.
    Hardware,
    /// None: their time is 0. For counting only.
    Off,
}

/// What to receive and how.
#[derive(Clone, Debug)]
pub struct AfXdpConfig {
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// Its id within the run.
    pub interface_id: InterfaceId,
    /// Lanes: this number of receive queues from the first on; the frames of others pass. `None`
    /// stands for all.
    pub lanes: Option<u16>,
    /// Threads of each lane.
    pub threads: usize,
    /// Memory of each lane's frames, in bytes; rounded down to a power of two of chunks.
    pub memory_bytes: u64,
    /// Bytes kept of each frame, for the description; frames are lent whole.
    pub snaplen_bytes: u32,
    /// Receive frames for other stations too, until the sources are dropped.
    pub promiscuous: bool,
    /// Program of the filter, for the frame as on the wire, and the expression it came from. What
    /// it does not accept goes to the host.
    pub filter: Option<(ClassicProgram, String)>,
    /// Which frames are stamped.
    pub stamps: Stamps,
    /// What a worker does while its ring is empty.
    pub waiting: Waiting,
}

/// The lanes of an interface.
pub struct Opened {
    /// One source per lane.
    pub sources: Vec<AfXdpSource>,
    /// How frames come: `native, copy with multi-buffer`.
    pub way: String,
    /// What was refused on the way there, each a sentence with its reason.
    pub notes: Vec<String>,
}

/// Opens all lanes of an interface. They receive nothing until they are started.
///
/// # Errors
/// No such interface, or it is down or not Ethernet; a privilege is missing; a setting is beyond
/// its limit; somebody else's XDP program is there, or another socket on a queue.
pub fn open(config: &AfXdpConfig) -> Result<Opened, BackendError> {
    within("the snapshot length", u64::from(config.snaplen_bytes), 1, u64::from(FRAME_BYTES_MAX))?;
    within("the number of threads of a lane", config.threads as u64, 1, LANE_THREADS_MAX as u64)?;
    let device = find_device(&config.interface)?;
    if !device.is_up() {
        return Err(BackendError::InterfaceDown { name: device.name });
    }
    let queues = netdev::queues(&device.name).map_or(device.rx_queues_max, |queues| queues.rx);
    let queues = queues.clamp(1, LANES_MAX as u32);
    let lanes = config.lanes.map_or(queues, u32::from);
    within("the number of lanes (receive queues)", lanes.into(), 1, queues.into())?;
    let program = open_program(config, &device, queues)?;
    let mut notes: Vec<String> = program.notes().to_vec();
    if lanes < queues {
        notes.push(format!(
            "frames of the queues {lanes} to {} of {} pass to the host",
            queues - 1,
            device.name
        ));
    }
    let metadata = program.metadata();
    let (bound, step) = bind_lanes(config, &device, lanes, program.mode(), &mut notes)?;
    for (queue, (socket, _)) in (0..).zip(&bound) {
        program.set_socket(queue, socket.as_fd()).map_err(|e| program_refused(&device.name, e))?;
    }
    let way =
        format!("{}, {step}", if program.mode() == Mode::Native { "native" } else { "generic" });
    let interface = Interface::new(&device, program, lanes, queues, config.promiscuous)?;
    let interface = Arc::new(interface);
    let filter = config.filter.as_ref();
    let described = described(&config.interface, config.snaplen_bytes, filter);
    let sources = (0..).zip(bound).filter_map(|(queue, (socket, ends))| {
        let rules =
            FrameRules { interface: config.interface_id, queue: QueueId(queue as u16), metadata };
        let lane = new_lane(config, &interface, rules, (socket, ends, step), &described);
        AfXdpSource::new(Arc::new(lane))
    });
    Ok(Opened { sources: sources.collect(), way, notes })
}

fn open_program(
    config: &AfXdpConfig,
    device: &NetDevice,
    queues: u32,
) -> Result<CaptureProgram, BackendError> {
    CaptureProgram::open(&CaptureConfig {
        interface: &device.name,
        ifindex: device.ifindex,
        queues,
        metadata: wanted_metadata(config, device),
        filter: config.filter.as_ref().map(|(program, _)| program),
        link_type: LinkType::ETHERNET,
        generic_allowed: true,
    })
    .map_err(|error| program_refused(&device.name, error))
}

/// What is to stand before a frame. All that the driver knows is asked for only where something
/// would be missing without: each question costs time for every frame.
fn wanted_metadata(config: &AfXdpConfig, device: &NetDevice) -> Metadata {
    let features = netdev::xdp_features(device.ifindex).ok().flatten().unwrap_or_default();
    let tells_of_tags = features.metadata_vlan_tag;
    let takes_tags_out = stripped_tags(&device.name).is_ok_and(|features| !features.is_empty());
    match config.stamps {
        Stamps::Off => Metadata::None,
        Stamps::Hardware => Metadata::Full,
        Stamps::On if tells_of_tags && takes_tags_out => Metadata::Full,
        Stamps::On => Metadata::Stamp,
    }
}

type Bound = Vec<(XskSocket, XskEnds)>;

/// Binds a socket to each queue, all in the best way that the first one gets.
fn bind_lanes(
    config: &AfXdpConfig,
    device: &NetDevice,
    lanes: u32,
    mode: Mode,
    notes: &mut Vec<String>,
) -> Result<(Bound, BindStep), BackendError> {
    let name = &device.name;
    let layout = layout(config, device, lanes)?;
    let umem = Arc::new(Umem::new(layout).map_err(|error| refused(name, error))?);
    let mut bound: Bound = Vec::new();
    let mut step = BindStep::Copy;
    for queue in 0..lanes {
        let socket_config =
            XskConfig { ifindex: device.ifindex, queue, rx_entries: layout.chunks_per_lane };
        let first = bound.first().map(|(socket, _)| socket);
        let (socket, mut ends) = XskSocket::open(&umem, queue as usize, first, socket_config)
            .map_err(|error| refused(name, error))?;
        // Before the binding, at which a driver without a copy looks for chunks: one that finds
        // none waits for a system call to look again.
        while ends.fill.refill() > 0 {}
        match first {
            None => step = bind_first(name, &socket, mode, notes)?,
            Some(first) => {
                let shared = socket.bind(step, Some(first));
                shared.map_err(|error| not_bound(name, queue, &error))?;
            }
        }
        if config.waiting == Waiting::BusyPoll {
            socket.set_busy_poll(BUSY_POLL).map_err(|error| refused(name, error))?;
        }
        bound.push((socket, ends));
    }
    Ok((bound, step))
}

/// Climbs down the ladder to the first step that the kernel takes.
fn bind_first(
    name: &str,
    socket: &XskSocket,
    mode: Mode,
    notes: &mut Vec<String>,
) -> Result<BindStep, BackendError> {
    let mut last = None;
    for step in BindStep::LADDER {
        if mode == Mode::Generic && step.is_zero_copy() {
            continue;
        }
        match socket.bind(step, None) {
            Ok(()) => return Ok(step),
            Err(error) => {
                notes.push(format!("{name}: {step} was refused: {}", explained(&error)));
                let is_final = matches!(errno(&error), Some(Errno::BUSY | Errno::PERM));
                last = Some(error);
                if is_final {
                    break;
                }
            }
        }
    }
    Err(not_bound(name, 0, &last.unwrap_or_else(|| std::io::ErrorKind::Unsupported.into())))
}

fn errno(error: &std::io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// What the kernel means by its refusal of a binding.
fn explained(error: &std::io::Error) -> String {
    match errno(error) {
        Some(Errno::OPNOTSUPP) => "the driver cannot".into(),
        Some(Errno::INVAL) => "the driver cannot with these sizes".into(),
        _ => error.to_string(),
    }
}

fn not_bound(name: &str, queue: u32, error: &std::io::Error) -> BackendError {
    let reason = match errno(error) {
        Some(Errno::BUSY) => "another AF_XDP socket has it: end the other program".to_owned(),
        _ => error.to_string(),
    };
    BackendError::AfXdp { name: name.to_owned(), reason: format!("queue {queue}: {reason}") }
}

/// Bytes of a chunk that holds a frame of the interface's MTU, or of the largest there is.
fn chunk_bytes(mtu_bytes: u32, zero_copy: bool) -> u32 {
    let mut room = CHUNK_BYTES_MIN - HEADROOM_BYTES;
    if zero_copy {
        // The card writes, and igb and the first ixgbe take the room in whole KiB: the rest of a
        // longer frame would come in the next chunk, as a frame of its own.
        room -= room % CARD_UNIT_BYTES;
    }
    let fits = mtu_bytes.saturating_add(BEYOND_MTU_BYTES) <= room;
    if fits { CHUNK_BYTES_MIN } else { CHUNK_BYTES_MAX }
}

/// Sizes of the memory.
fn layout(
    config: &AfXdpConfig,
    device: &NetDevice,
    lanes: u32,
) -> Result<UmemLayout, BackendError> {
    // Who cannot be asked may do it.
    let features = netdev::xdp_features(device.ifindex).ok().flatten();
    let zero_copy = features.is_none_or(|features| features.zero_copy);
    let chunk_bytes = chunk_bytes(device.mtu_bytes, zero_copy);
    let least = 64 * u64::from(chunk_bytes);
    let most = u64::from(CHUNKS_PER_LANE_MAX) * u64::from(chunk_bytes);
    within("the memory of a lane", config.memory_bytes, least, most)?;
    let chunks = config.memory_bytes / u64::from(chunk_bytes);
    Ok(UmemLayout {
        lanes: lanes as usize,
        chunks_per_lane: 1 << chunks.ilog2(),
        chunk_bytes,
        arena_bytes: config.threads * ARENA_BYTES,
    })
}

/// Readies the ends for what the socket was bound to.
fn prepare(mut ends: XskEnds, step: BindStep) -> XskEnds {
    if step.has_parts() {
        ends.rx.expect_parts();
    }
    ends
}

fn new_lane(
    config: &AfXdpConfig,
    interface: &Arc<Interface>,
    rules: FrameRules,
    (socket, ends, step): (XskSocket, XskEnds, BindStep),
    described: &SourceInterface,
) -> Lane {
    let XskEnds { rx, fill, arena } = prepare(ends, step);
    let now = Instant::now();
    let chunks = socket.umem().layout().chunks_per_lane;
    let depth = Depth::new(chunks, step.is_zero_copy(), now);
    Lane {
        supply: Mutex::new(Supply {
            rx,
            waiter: Waiter::new(config.waiting, SWEEP_FRAMES),
            depth,
            stamping: Stamping { tai_offset_ns: clock::tai_offset_ns(), ..Stamping::default() },
            state: State::Ready,
            low_water: Timestamp(0),
            watched: now,
            batches: [0; BATCH_CLASSES],
            lent: 0,
            damaged: 0,
            statistics: XskStatistics::default(),
            counted: QueueCounters::default(),
        }),
        fill: Mutex::new(FillEnd { ring: fill, returned: 0, returns: 0 }),
        interface: interface.clone(),
        queue: u32::from(rules.queue.0),
        zero_copy: step.is_zero_copy(),
        waiting: config.waiting,
        rules,
        arenas: Mutex::new(arena.split(config.threads)),
        described: [described.clone()],
        socket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_lies_in_one_chunk_also_where_the_card_counts_in_kib() {
        for (mtu_bytes, zero_copy, chunk) in [
            (1500, false, CHUNK_BYTES_MIN),
            (1770, false, CHUNK_BYTES_MIN),
            (1771, false, CHUNK_BYTES_MAX),
            (1002, true, CHUNK_BYTES_MIN),
            (1003, true, CHUNK_BYTES_MAX),
            (1500, true, CHUNK_BYTES_MAX),
            (9000, true, CHUNK_BYTES_MAX),
            (u32::MAX, false, CHUNK_BYTES_MAX),
        ] {
            assert_eq!(chunk_bytes(mtu_bytes, zero_copy), chunk, "{mtu_bytes} {zero_copy}");
        }
    }
}
