//! A handle of a device of ours: what libpcap does for its own, without its pointers.

use crate::child::{Capture, Wishes};
use crate::device::Device;
use crate::real::PcapT;
use ringside_client::{Attachment, ClientError, ReadOptions, Reader};
use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_core::{Direction, Frame, LinkType};
use ringside_filter::Prepared;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of an error text of libpcap, with its NUL (PCAP_ERRBUF_SIZE).
pub(crate) const ERROR_BYTES: usize = 256;
/// Bytes of a frame that libpcap keeps if nothing is said (MAXIMUM_SNAPLEN).
pub(crate) const SNAPLEN_MAX: u32 = 262_144;
/// How long a wait may take before breakloop is looked at.
const TURN: Duration = Duration::from_millis(20);
/// Frames that are not asked for in a row, after which the clock is looked at.
const TURN_FRAMES: u32 = 1024;
/// How often a descriptor says that there may be frames: the ring's owner wakes no reader.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Why an activation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoSuchDevice,
    NotPermitted,
    Other,
}

/// What is set before activation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) snaplen_bytes: u32,
    pub(crate) is_promiscuous: bool,
    /// How long a read waits for frames; none: as long as it takes.
    pub(crate) timeout: Option<Duration>,
    pub(crate) has_nanoseconds: bool,
}

/// Which frames are read, by where they went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    Both,
    In,
    Out,
}

/// A frame that was read; its bytes are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) time_ns: u64,
    pub(crate) captured_bytes: u32,
    pub(crate) wire_bytes: u32,
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Frame(Header),
    Timeout,
    /// Somebody called breakloop.
    Broken,
    /// The capture has ended, and all of it was read.
    Ended,
    NotActivated,
}

/// What is counted, for signal handlers too, which may find the state in use.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Frames that the filter accepted.
    pub(crate) accepted: AtomicU64,
    /// Frames that this reader was too slow for.
    pub(crate) missed: AtomicU64,
    /// Frames that were lost before the ring, since the handle was activated.
    pub(crate) dropped_before: AtomicU64,
}

/// One handle.
pub(crate) struct Handle {
    device: Result<Device, String>,
    state: Mutex<State>,
    broken: AtomicBool,
    active: AtomicBool,
    pub(crate) counts: Counts,
    /// The last error, as C reads it.
    error: [AtomicU8; ERROR_BYTES],
    timer: Option<OwnedFd>,
    /// A handle of libpcap with the link type, the snapshot length and the precision of this one:
    /// it compiles filters and opens files. Null before activation.
    pub(crate) inner: AtomicPtr<PcapT>,
}

struct State {
    options: Options,
    ways: Ways,
    is_nonblocking: bool,
    filter: Option<Prepared>,
    live: Option<Live>,
    /// The frame of the last `pcap_next`.
    held: Vec<u8>,
}

struct Live {
    reader: Reader,
    link: LinkType,
    /// By the number of the interface.
    links: Vec<LinkType>,
    dropped_at_start: u64,
    _capture: Option<Capture>,
}

impl Handle {
    pub(crate) fn new(device: Result<Device, String>) -> Handle {
        let options = Options {
            snaplen_bytes: SNAPLEN_MAX,
            is_promiscuous: false,
            timeout: None,
            has_nanoseconds: false,
        };
        let (ways, is_nonblocking) = (Ways::Both, false);
        let state =
            State { options, ways, is_nonblocking, filter: None, live: None, held: Vec::new() };
        Handle {
            device,
            state: Mutex::new(state),
            broken: AtomicBool::new(false),
            active: AtomicBool::new(false),
            counts: Counts::default(),
            error: [const { AtomicU8::new(0) }; ERROR_BYTES],
            timer: ticking().ok(),
            inner: AtomicPtr::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once it reads.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// True if the capture has ended, and all of it was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().live.as_ref().is_some_and(|live| live.reader.is_finished())
    }

    /// Changes what is asked for; false if that is too late.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Options)) -> bool {
        let is_early = !self.is_active();
        if is_early {
            change(&mut self.state().options);
        }
        is_early
    }

    pub(crate) fn options(&self) -> Options {
        self.state().options
    }

    /// Attaches to the ring, of a capture that is started first if need be.
    pub(crate) fn activate(&self) -> Result<LinkType, (Refusal, String)> {
        let device = self.device.clone().map_err(|why| (Refusal::NoSuchDevice, why))?;
        let mut state = self.state();
        let (capture, attachment) = open(&device, state.options)?;
        let interfaces = &attachment.hello().interfaces;
        let links: Vec<LinkType> = interfaces.iter().map(|it| it.link_type).collect();
        let Some(&link) = links.first() else {
            return Err((Refusal::Other, "the capture has no interface".into()));
        };
        let reader = Reader::new(&attachment, &ReadOptions::default());
        let dropped_at_start = reader.dropped_before();
        let live = Live { reader, link, links, dropped_at_start, _capture: capture };
        state.live = Some(live);
        self.active.store(true, Ordering::Release);
        Ok(link)
    }

    /// Link type of the frames; that of others of the capture is another one, and they are left
    /// out.
    pub(crate) fn link(&self) -> Option<LinkType> {
        self.state().live.as_ref().map(|live| live.link)
    }

    /// Reads only what a program accepts from now on.
    pub(crate) fn set_filter(&self, instructions: Vec<Instruction>) -> Result<(), String> {
        let prepared = Prepared::new(&ClassicProgram { instructions });
        self.state().filter = Some(prepared.map_err(|error| error.to_string())?);
        Ok(())
    }

    pub(crate) fn set_ways(&self, ways: Ways) {
        self.state().ways = ways;
    }

    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.state().is_nonblocking = is_nonblocking;
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.state().is_nonblocking
    }

    /// A descriptor that is readable when it is worth a look.
    pub(crate) fn timer(&self) -> Option<&OwnedFd> {
        self.timer.as_ref()
    }

    /// Ends the reading that is under way, or the next one.
    pub(crate) fn break_loop(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// True if it was to end, which is done by that.
    pub(crate) fn take_break(&self) -> bool {
        self.broken.swap(false, Ordering::AcqRel)
    }

    /// The first frame of a read: waits for it as long as the handle's time-out says.
    pub(crate) fn first(&self, bytes: &mut Vec<u8>) -> Step {
        let (timeout, is_nonblocking) = {
            let state = self.state();
            (state.options.timeout, state.is_nonblocking)
        };
        let deadline = match (is_nonblocking, timeout) {
            (true, _) => Some(Instant::now()),
            (false, timeout) => timeout.map(|timeout| Instant::now() + timeout),
        };
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match self.next(bytes, left.unwrap_or(TURN).min(TURN)) {
                Step::Timeout if left.is_none_or(|left| !left.is_zero()) => {}
                Step::Timeout => {
                    self.rest();
                    return Step::Timeout;
                }
                step => return step,
            }
        }
    }

    /// There is nothing to read: the descriptor becomes readable with the next tick. As long as
    /// there is, it stays so, for programs that read one frame after each look at it.
    fn rest(&self) {
        if let Some(timer) = &self.timer {
            let _ = rustix::io::read(timer, &mut [0_u8; 8]);
        }
    }

    /// A further frame, if it is there.
    pub(crate) fn further(&self, bytes: &mut Vec<u8>) -> Step {
        self.next(bytes, Duration::ZERO)
    }

    /// The next frame, within about `wait`.
    fn next(&self, bytes: &mut Vec<u8>, wait: Duration) -> Step {
        let mut state = self.state();
        let State { options, ways, filter, live, .. } = &mut *state;
        let Some(live) = live else { return Step::NotActivated };
        for _ in 0..TURN_FRAMES {
            if self.take_break() {
                return Step::Broken;
            }
            let Some(frame) = live.reader.next_frame(wait) else {
                self.note_losses(live);
                return if live.reader.is_finished() { Step::Ended } else { Step::Timeout };
            };
            let is_meant = live.links.get(frame.meta.interface.0 as usize) == Some(&live.link);
            let kept = is_meant.then(|| kept(&frame, filter.as_ref(), *ways)).flatten();
            let Some(kept) = kept else { continue };
            let captured = frame.bytes.len().min(kept as usize);
            let captured = captured.min(options.snaplen_bytes as usize);
            bytes.clear();
            bytes.extend_from_slice(&frame.bytes[..captured]);
            self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            return Step::Frame(Header {
                time_ns: frame.meta.timestamp.0,
                captured_bytes: captured as u32,
                wire_bytes: frame.meta.wire_bytes,
            });
        }
        Step::Timeout
    }

    fn note_losses(&self, live: &Live) {
        self.counts.missed.store(live.reader.missed(), Ordering::Relaxed);
        let dropped = live.reader.dropped_before().saturating_sub(live.dropped_at_start);
        self.counts.dropped_before.store(dropped, Ordering::Relaxed);
    }

    /// Brings the losses up to date, where the state is not in use.
    pub(crate) fn count_losses(&self) {
        if let Ok(state) = self.state.try_lock()
            && let Some(live) = &state.live
        {
            self.note_losses(live);
        }
    }

    /// The bytes of the last `pcap_next`, to be written over and given back.
    pub(crate) fn take_held(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().held)
    }

    /// Keeps the bytes of a frame until the next one; where they lie.
    pub(crate) fn hold(&self, bytes: Vec<u8>) -> *const u8 {
        let mut state = self.state();
        state.held = bytes;
        state.held.as_ptr()
    }

    /// Keeps an error for [`error`](Handle::error).
    pub(crate) fn fail(&self, text: &str) {
        let text = cut(text);
        for (place, byte) in self.error.iter().zip(text.bytes().chain([0])) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// The last error, ended by a NUL.
    pub(crate) fn error(&self) -> &[AtomicU8; ERROR_BYTES] {
        &self.error
    }
}

/// As much of a text as an error has room for, without NULs.
pub(crate) fn cut(text: &str) -> String {
    let mut cut = text.replace('\0', "");
    let end = (0..=cut.len().min(ERROR_BYTES - 1)).rev().find(|&at| cut.is_char_boundary(at));
    cut.truncate(end.unwrap_or(0));
    cut
}

/// Bytes that are to be kept of a frame; none if it is not asked for.
fn kept(frame: &Frame<'_>, filter: Option<&Prepared>, ways: Ways) -> Option<u32> {
    let is_outbound = frame.meta.direction == Direction::Outbound;
    let is_way = match ways {
        Ways::Both => true,
        Ways::In => !is_outbound,
        Ways::Out => is_outbound,
    };
    let accepted =
        filter.map_or(u32::MAX, |filter| filter.evaluate(frame.bytes, frame.meta.wire_bytes));
    (is_way && accepted > 0).then_some(accepted)
}

fn open(
    device: &Device,
    options: Options,
) -> Result<(Option<Capture>, Attachment), (Refusal, String)> {
    match device {
        Device::Shared(socket) => {
            let attached = Attachment::connect(socket).map_err(|error| {
                let refusal = match &error {
                    ClientError::Connect { source, .. } => match source.kind() {
                        ErrorKind::PermissionDenied => Refusal::NotPermitted,
                        _ => Refusal::NoSuchDevice,
                    },
                    _ => Refusal::Other,
                };
                (refusal, error.to_string())
            });
            attached.map(|attachment| (None, attachment))
        }
        Device::Live { backend, interface } => {
            let Options { snaplen_bytes, is_promiscuous, .. } = options;
            let wishes = Wishes { snaplen_bytes, is_promiscuous };
            let started = Capture::start(backend, interface, wishes);
            let (capture, attachment) = started.map_err(|why| (Refusal::Other, why))?;
            Ok((Some(capture), attachment))
        }
    }
}

fn ticking() -> rustix::io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as _ };
    let each = Itimerspec { it_interval: tick, it_value: tick };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &each)?;
    Ok(timer)
}
