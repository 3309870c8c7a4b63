//! The pcap backend: libpcap, for every device that it knows ("any", USB, tunnels of all kinds).
//! One lane.
//!
//! libpcap lends one packet at a time, so frames are copied into a buffer of this source to make
//! a batch: one copy more than the other backends.
//!
//! The filter is compiled and set by libpcap, with libpcap's meaning on Linux: it runs on the frame
//! without the VLAN tag that the kernel took out, so `ether proto` sees what is behind the tag,
//! where the other backends see the tag. What it rejects is counted nowhere, so with a filter
//! `received` and `filtered` are unknown. Without one, `received` is `ps_recv` (which includes
//! `ps_drop`) plus `ps_ifdrop`.
//!
//! To be exact at both ends: a filter that rejects everything is set and the ring emptied before
//! the real one, so that nothing of before the start is lent; and after `detach` exactly those
//! frames are lent that libpcap had counted by then. Sent frames are left out by the packet socket
//! where there is one: libpcap's own direction setting skips them after they were counted, and its
//! filter `inbound` rejects everything in the blocks that it filters in user space at first.

mod description;
mod stamped;

use self::stamped::stamped_by;
use super::{BackendError, find_device, not_read_for};
use ::pcap::{Active, Capture, Linktype, Precision, Stat};
pub use description::PCAP;
use ringside_core::limits::{FRAME_BYTES_MAX, MERGE_HOLD_NS};
use ringside_core::{
    Batch, Cause, Direction, FrameMeta, FrameSlot, InterfaceId, LinkType, Source, SourceCounters,
    SourceError, SourceInterface, Timestamp, TimestampKind,
};
use ringside_netdev as netdev;
use ringside_sys::clock;
use ringside_sys::packet::{self, CaptureDirection, InterfaceEvent, ReadingTimes};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Frames of a batch: 64 of the longest frames are 16 MiB of copies.
const BATCH_FRAMES: usize = 64;

/// libpcap's name of all interfaces together.
pub const ANY: &str = "any";

/// Frames that begin with the index of their interface. The number is that of files, too.
const SLL2: Linktype = Linktype(LinkType::LINUX_SLL2.0 as i32);

/// Rejects every frame, and libpcap's optimiser does not see through it.
const REJECT_ALL: &str = "len < 1";

/// How often an empty device is looked at. Not every device has a descriptor to wait on (D-Bus,
/// RDMA), and a blocking read may wait for ever on a quiet link. A ring of 32 MiB holds what
/// 10 Gb/s bring in five times this long.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How often an idle interface is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// How long a detached source waits, beyond the block time-out and without progress, for frames
/// that libpcap has counted: a virtual CPU may be stopped for a while.
const DRAIN_MARGIN: Duration = Duration::from_secs(4);

/// The same with a filter: libpcap runs it once more on the first blocks, where what only the
/// kernel knows (`inbound`, `ifindex`) makes it reject frames that it has counted.
const DRAIN_MARGIN_FILTERED: Duration = Duration::from_millis(200);

/// Rounds of emptying the ring before the start; each reads what is there at once, and nothing
/// comes in after the rejecting filter is set, so few are needed.
const DISCARD_ROUNDS_MAX: usize = 100_000;

/// What to receive and how.
#[derive(Clone, Debug)]
pub struct PcapConfig {
    /// Device as libpcap names it.
    pub device: String,
    /// Its id within the run.
    pub interface_id: InterfaceId,
    /// Memory of libpcap's ring, in bytes.
    pub ring_bytes: u64,
    /// How long libpcap holds frames back to fill a block, in milliseconds.
    pub block_timeout_ms: u32,
    /// Bytes kept of each frame.
    pub snaplen_bytes: u32,
    /// Receive frames for other stations too.
    pub promiscuous: bool,
    /// Which way frames must cross the interface.
    pub direction: CaptureDirection,
    /// Expression of the filter. libpcap compiles it in this process: try it with the bounded
    /// compiler of `ringside-filter` before, its optimiser can take minutes.
    pub filter: Option<String>,
}

impl PcapConfig {
    /// Everything that `device` receives: 32 MiB, 50 ms.
    pub fn new(device: &str) -> PcapConfig {
        PcapConfig {
            device: device.to_owned(),
            interface_id: InterfaceId(0),
            ring_bytes: 32 << 20,
            block_timeout_ms: 50,
            snaplen_bytes: FRAME_BYTES_MAX,
            promiscuous: true,
            direction: CaptureDirection::Inbound,
            filter: None,
        }
    }
}

/// A libpcap handle as a source.
pub struct PcapSource {
    capture: Capture<Active>,
    interfaces: [SourceInterface; 1],
    interface_id: InterfaceId,
    stamped_by: TimestampKind,
    direction: Direction,
    countable: bool,
    block_timeout_ns: u64,
    memory: Vec<u8>,
    slots: Vec<FrameSlot>,
    counted: Counted,
    lent: u64,
    inversions: u64,
    last_stamp: Timestamp,
    low_water: Timestamp,
    /// When the interface was looked at; `None` if the device is none.
    watched: Option<Instant>,
    state: State,
}

enum State {
    Live,
    /// Detached, because it was asked for or because of `event`, when libpcap had put `accepted`
    /// frames into its ring. `since` is when the last ones came out.
    Draining {
        accepted: u64,
        event: Option<InterfaceEvent>,
        since: Instant,
    },
    Finished,
}

/// libpcap's 32-bit counters, added up since the start.
#[derive(Clone, Copy, Default)]
struct Counted {
    last: Option<Stat>,
    read: ReadingTimes,
    received: u64,
    dropped: u64,
    interface_dropped: u64,
}

impl Counted {
    fn add(&mut self, now: Stat) {
        self.read.note(clock::monotonic_ns());
        let before = self.last.replace(now).unwrap_or(now);
        self.received += u64::from(now.received.wrapping_sub(before.received));
        self.dropped += u64::from(now.dropped.wrapping_sub(before.dropped));
        let interface = now.if_dropped.wrapping_sub(before.if_dropped);
        self.interface_dropped += u64::from(interface);
    }
}

/// How frames of a device begin: what a filter for it must be compiled for.
///
/// # Errors
/// As [`open`].
pub fn link_type(device: &str) -> Result<LinkType, BackendError> {
    let config = PcapConfig { promiscuous: false, ..PcapConfig::new(device) };
    device_link_type(&activate(&config)?, device)
}

/// Opens a device; when this returns, frames are counted.
///
/// # Errors
/// libpcap does not know the device, the filter does not compile, or a privilege is missing.
pub fn open(config: &PcapConfig) -> Result<PcapSource, BackendError> {
    let name = config.device.as_str();
    let failed = |e| pcap_error(name, e);
    let mut capture = activate(config)?.setnonblock().map_err(failed)?;
    let link_type = device_link_type(&capture, name)?;
    let countable = choose_direction(&capture, config)? && config.filter.is_none();
    discard_early_frames(&mut capture, config)?;
    let mut counted = Counted::default();
    counted.add(capture.stats().map_err(failed)?);
    let expression = config.filter.as_deref().unwrap_or("");
    capture.filter(expression, true).map_err(|e| BackendError::Filter {
        expression: expression.to_owned(),
        reason: e.to_string(),
    })?;
    Ok(PcapSource {
        capture,
        interfaces: [SourceInterface {
            name: config.device.clone(),
            link_type,
            snaplen_bytes: config.snaplen_bytes,
            description: stamped_by(name).remark().to_owned(),
            filter: config.filter.clone().unwrap_or_default(),
        }],
        interface_id: config.interface_id,
        stamped_by: stamped_by(name),
        direction: match config.direction {
            CaptureDirection::Inbound => Direction::Inbound,
            CaptureDirection::Both => Direction::Unknown,
        },
        countable,
        block_timeout_ns: u64::from(config.block_timeout_ms) * 1_000_000,
        memory: Vec::new(),
        slots: Vec::with_capacity(BATCH_FRAMES),
        counted,
        lent: 0,
        inversions: 0,
        last_stamp: Timestamp(0),
        low_water: Timestamp(0),
        watched: find_device(name).is_ok().then(Instant::now),
        state: State::Live,
    })
}

fn activate(config: &PcapConfig) -> Result<Capture<Active>, BackendError> {
    let name = config.device.as_str();
    let ring_bytes = i32::try_from(config.ring_bytes).map_err(|_| BackendError::Limit {
        what: "the size of libpcap's ring",
        value: config.ring_bytes,
        limit: format!("up to {}", i32::MAX),
    })?;
    let capture = Capture::from_device(name)
        .map_err(|e| pcap_error(name, e))?
        .snaplen(config.snaplen_bytes.min(FRAME_BYTES_MAX) as i32)
        .promisc(config.promiscuous)
        .timeout(config.block_timeout_ms.min(i32::MAX as u32) as i32)
        .immediate_mode(false)
        .buffer_size(ring_bytes)
        .precision(Precision::Nano);
    let opened = capture.open().map_err(|e| match find_device(name) {
        Err(missing @ BackendError::NoSuchInterface { .. }) if says(&e, "No such device") => {
            missing
        }
        Ok(device) if !device.is_up() => BackendError::InterfaceDown { name: device.name },
        _ if says(&e, "permission") || says(&e, "not permitted") => {
            BackendError::Privilege { context: format!("interface {name}: {e}") }
        }
        _ => pcap_error(name, e),
    });
    let mut capture = opened?;
    // Of all interfaces together each frame says from which it came, where libpcap (1.10) can.
    if name == ANY && capture.list_datalinks().is_ok_and(|links| links.contains(&SLL2)) {
        capture.set_datalink(SLL2).map_err(|e| pcap_error(name, e))?;
    }
    Ok(capture)
}

fn says(error: &::pcap::Error, words: &str) -> bool {
    error.to_string().contains(words)
}

fn pcap_error(name: &str, error: ::pcap::Error) -> BackendError {
    BackendError::Pcap { name: name.to_owned(), reason: error.to_string() }
}

fn device_link_type(capture: &Capture<Active>, name: &str) -> Result<LinkType, BackendError> {
    // DLT_RAW is 12 here and LINKTYPE_RAW 101 in files; the others that live devices have agree.
    let number = match capture.get_datalink().0 {
        12 => i32::from(LinkType::RAW.0),
        number => number,
    };
    u16::try_from(number).map(LinkType).map_err(|_| BackendError::Pcap {
        name: name.to_owned(),
        reason: format!("link type {number} does not fit a capture file"),
    })
}

/// Sets a filter that rejects everything, and throws away what came in before.
fn discard_early_frames(
    capture: &mut Capture<Active>,
    config: &PcapConfig,
) -> Result<(), BackendError> {
    let failed = |e| pcap_error(&config.device, e);
    capture.filter(REJECT_ALL, false).map_err(failed)?;
    let mut quiet_since = Instant::now();
    // The block that the kernel was filling is handed over within the block time-out.
    let quiet = Duration::from_millis(2 * u64::from(config.block_timeout_ms) + 20);
    for _ in 0..DISCARD_ROUNDS_MAX {
        let count = capture.dispatch(Some(BATCH_FRAMES), |_| {}).map_err(failed)?;
        if count > 0 {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() >= quiet {
            return Ok(());
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Leaves out what this host sends, if asked to; false if libpcap counts frames that it then skips.
fn choose_direction(capture: &Capture<Active>, config: &PcapConfig) -> Result<bool, BackendError> {
    let loops = config.device == "lo" || config.device == ANY;
    match config.direction {
        // What the loopback device sends libpcap skips, because it also receives it.
        CaptureDirection::Both => Ok(!loops),
        CaptureDirection::Inbound if packet::ignore_outgoing(capture).is_ok() => Ok(true),
        // Not a packet socket. A device without directions only receives.
        CaptureDirection::Inbound => Ok(capture.direction(::pcap::Direction::In).is_err()),
    }
}

impl PcapSource {
    /// Copies the next frames; false if there are none now.
    fn fill(&mut self) -> Result<bool, SourceError> {
        self.slots.clear();
        self.memory.clear();
        let left = match self.state {
            State::Draining { accepted, .. } => accepted.saturating_sub(self.lent),
            _ => u64::MAX,
        };
        let count = left.min(BATCH_FRAMES as u64) as usize;
        let (memory, slots, interface) = (&mut self.memory, &mut self.slots, self.interface_id);
        let (direction, stamped_by) = (self.direction, self.stamped_by);
        let (mut last, mut inversions) = (self.last_stamp, 0);
        let copied = self.capture.dispatch(Some(count), |packet| {
            let seconds = u64::try_from(packet.header.ts.tv_sec).unwrap_or(0);
            let nanos = u32::try_from(packet.header.ts.tv_usec).unwrap_or(0);
            let timestamp = Timestamp::from_parts(seconds, nanos);
            inversions += u64::from(timestamp < last);
            last = timestamp;
            let meta = FrameMeta {
                timestamp,
                timestamp_kind: stamped_by,
                wire_bytes: packet.header.len,
                interface,
                direction,
                ..FrameMeta::default()
            };
            slots.push(FrameSlot::new(memory.len(), packet.data.len() as u32, meta));
            memory.extend_from_slice(packet.data);
        });
        self.last_stamp = last;
        self.low_water = self.low_water.max(last);
        self.inversions += inversions;
        self.lent += self.slots.len() as u64;
        match copied {
            Ok(_) => Ok(!self.slots.is_empty()),
            // What was copied before the error is lent first; the error comes again.
            Err(_) if !self.slots.is_empty() => Ok(true),
            Err(error) => self.interrupted(&error).map(|()| false),
        }
    }

    /// What follows from an error of libpcap while reading. It tells of an interface that went
    /// away before it gives out what its ring still holds, so that is not the end.
    fn interrupted(&mut self, error: &::pcap::Error) -> Result<(), SourceError> {
        // The two messages of pcap-linux.c.
        let event = if says(error, "disappeared") {
            InterfaceEvent::Removed
        } else if says(error, "went down") {
            InterfaceEvent::SetDown
        } else {
            return Err(self.failed(error));
        };
        match self.state {
            State::Live => self.drain(Some(event)),
            _ => Ok(()),
        }
    }

    /// Ends the source with libpcap's message.
    fn failed(&mut self, error: &::pcap::Error) -> SourceError {
        self.read_statistics();
        self.finish();
        let context = format!("libpcap on {}", self.interfaces[0].name);
        SourceError::Io { context, source: std::io::Error::other(error.to_string()) }
    }

    fn gone(&self, event: InterfaceEvent) -> SourceError {
        let name = self.interfaces[0].name.clone();
        SourceError::InterfaceGone { name, event: event.to_string() }
    }

    /// Looks now and then whether the interface is still there and up: libpcap waits silently for
    /// one that was set down.
    fn watch_interface(&mut self) -> Result<(), SourceError> {
        let due = self.watched.is_some_and(|last| last.elapsed() >= WATCH_INTERVAL);
        if !due || !matches!(self.state, State::Live) {
            return Ok(());
        }
        self.watched = Some(Instant::now());
        match netdev::is_up_by(&self.capture, &self.interfaces[0].name) {
            Ok(Some(false)) => self.drain(Some(InterfaceEvent::SetDown)),
            Ok(None) => self.drain(Some(InterfaceEvent::Removed)),
            Ok(Some(true)) | Err(_) => Ok(()),
        }
    }

    fn drain(&mut self, event: Option<InterfaceEvent>) -> Result<(), SourceError> {
        let stat = self.capture.stats().map_err(|error| self.failed(&error))?;
        self.counted.add(stat);
        let accepted = self.counted.received.saturating_sub(self.counted.dropped);
        self.state = State::Draining { accepted, event, since: Instant::now() };
        Ok(())
    }

    fn finish(&mut self) {
        self.state = State::Finished;
        self.low_water = Timestamp::MAX;
    }

    /// After the detach the counters stand still, as the ledger wants them.
    fn read_statistics(&mut self) {
        if let State::Live = self.state
            && let Ok(now) = self.capture.stats()
        {
            self.counted.add(now);
        }
    }

    fn finish_if_drained(&mut self) -> Result<bool, SourceError> {
        let State::Draining { accepted, event, since } = self.state else { return Ok(false) };
        let margin = if self.countable { DRAIN_MARGIN } else { DRAIN_MARGIN_FILTERED };
        let wait_max = Duration::from_nanos(self.block_timeout_ns) + margin;
        if self.lent < accepted && since.elapsed() < wait_max {
            return Ok(false);
        }
        self.finish();
        let left = accepted.saturating_sub(self.lent);
        if left > 0 && self.countable {
            let context = format!("{left} frames that libpcap had counted never came");
            let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(SourceError::Io { context, source });
        }
        event.map_or(Ok(true), |event| Err(self.gone(event)))
    }
}

impl Source for PcapSource {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let start = Instant::now();
        while !self.is_finished() {
            if self.finish_if_drained()? {
                return Ok(None);
            }
            let now = clock::realtime_now();
            if self.fill()? {
                if let State::Draining { since, .. } = &mut self.state {
                    *since = Instant::now();
                }
                return Ok(Some(Batch::new(&self.memory, &self.slots)));
            }
            let hold_ns = self.block_timeout_ns + MERGE_HOLD_NS;
            let idle = Timestamp(now.0.saturating_sub(hold_ns));
            self.low_water = self.low_water.max(idle);
            self.watch_interface()?;
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        Ok(None)
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        self.read_statistics();
        let counted = &self.counted;
        let gone_round = counted.read.too_long();
        if let Some(time) = gone_round.filter(|_| std::mem::replace(&mut self.countable, false)) {
            tracing::warn!("{}", not_read_for(&self.interfaces[0].name, time));
        }
        let received = counted.received + counted.interface_dropped;
        let dropped: BTreeMap<Cause, u64> = [
            (Cause::KernelRingFull, counted.dropped),
            (Cause::InterfaceDrop, counted.interface_dropped),
        ]
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .collect();
        SourceCounters {
            received: self.countable.then_some(received),
            filtered: self.interfaces[0].filter.is_empty().then_some(0),
            passed: 0,
            dropped,
            // libpcap does not tell what lies in its ring.
            in_flight: self.is_finished().then_some(0),
            inversions: self.inversions,
        }
    }

    fn low_water(&self) -> Timestamp {
        self.low_water
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        if matches!(self.state, State::Live) { self.drain(None) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
