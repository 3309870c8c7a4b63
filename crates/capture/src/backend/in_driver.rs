//! What the backends share that take frames inside a driver: the program there, and who looks after
//! it and its interface.

use super::BackendError;
use ringside_core::bpf::ClassicProgram;
use ringside_core::{LinkType, SourceError, SourceInterface, Timestamp};
use ringside_ebpf::capture::{CaptureHandles, CaptureProgram, QueueCounters};
use ringside_netdev::{self as netdev, NetDevice, Watch};
use ringside_sys::SysError;
use ringside_sys::packet::{InterfaceEvent, Promiscuous};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How often an idle interface is looked at.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// The lane that also counts the frames of queues without a lane, which all pass.
pub(super) const FIRST_QUEUE: u32 = 0;

/// What the lanes of an interface share.
pub(super) struct Interface {
    pub name: String,
    /// What takes frames inside a driver answers no question about interfaces.
    watch: Watch,
    program: Mutex<CaptureProgram>,
    /// The program's counters of queues without a lane, and of those that it does not know.
    pub other_queues: Range<u32>,
    /// Keeps the interface promiscuous.
    _promiscuous: Option<Promiscuous>,
}

/// Where a lane is in its life.
pub(super) enum State {
    Ready,
    Live,
    /// Stopped, because it was asked for or because of the event.
    Draining(Option<InterfaceEvent>),
    Finished,
}

impl Interface {
    /// `lanes` of its `queues` have one. With `promiscuous` it receives frames for other stations
    /// too.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn new(
        device: &NetDevice,
        program: CaptureProgram,
        lanes: u32,
        queues: u32,
        promiscuous: bool,
    ) -> Result<Interface, BackendError> {
        let promiscuous = promiscuous.then(|| Promiscuous::keep(device.ifindex));
        Ok(Interface {
            name: device.name.clone(),
            watch: Watch::new(device.ifindex).map_err(|error| refused(&device.name, error))?,
            program: Mutex::new(program),
            // Behind the counters of all queues stand those of queues that came later.
            other_queues: lanes..queues + 1,
            _promiscuous: promiscuous.transpose().map_err(|error| refused(&device.name, error))?,
        })
    }

    /// Frames are taken from now on, if they were not.
    pub fn start(&self) -> Result<(), SourceError> {
        lock(&self.program).start().map_err(|error| program_error(&error))
    }

    /// No frame is taken any more.
    pub fn stop(&self) -> Result<(), SourceError> {
        lock(&self.program).stop().map_err(|error| program_error(&error))
    }

    /// What has happened to the interface, if it receives no more.
    pub fn event(&self) -> Option<InterfaceEvent> {
        match self.watch.is_up() {
            Ok(Some(false)) => Some(InterfaceEvent::SetDown),
            Ok(None) => Some(InterfaceEvent::Removed),
            Ok(Some(true)) | Err(_) => None,
        }
    }

    /// The end of a lane because of an event.
    pub fn gone(&self, event: InterfaceEvent) -> SourceError {
        SourceError::InterfaceGone { name: self.name.clone(), event: event.to_string() }
    }

    /// At the end of a lane: what its program counts as put there must have been found.
    ///
    /// # Errors
    /// It was not.
    pub fn check_steered(&self, queue: u32, steered: u64, found: u64) -> Result<(), SourceError> {
        if steered == found {
            return Ok(());
        }
        let context = format!(
            "{} queue {queue}: the program in the driver counted {steered} frames for the lane, of \
             which {found} were found",
            self.name
        );
        Err(SourceError::Io { context, source: io::ErrorKind::InvalidData.into() })
    }

    /// It may be that the kernel has taken the program out.
    pub fn look_after_program(&self) {
        match lock(&self.program).put_back_if_gone() {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "{}: the kernel had taken the capture's program out, after another capture's end; \
                 frames passed until now",
                self.name
            ),
            Err(error) => tracing::warn!("{}: {error}", self.name),
        }
    }

    /// What the program has counted on `queue`; the first lane counts the queues without one too.
    pub fn counters(&self, queue: u32) -> Option<QueueCounters> {
        let program = lock(&self.program);
        let mut counted = program.counters(queue).ok()?;
        if queue == FIRST_QUEUE {
            let others = self.other_queues.clone();
            for entry in others {
                let other = program.counters_at(entry).ok()?;
                counted.seen += other.seen;
                counted.passed += other.passed;
            }
        }
        Some(counted)
    }

    /// The program and the counters that go with a lane, for a process that is to outlive this one:
    /// the first lane's has them.
    pub fn handles(&self, queue: u32) -> io::Result<(Option<CaptureHandles>, Range<u32>)> {
        if queue != FIRST_QUEUE {
            return Ok((None, 0..0));
        }
        let handles = lock(&self.program).handles().map_err(io::Error::other)?;
        Ok((Some(handles), self.other_queues.clone()))
    }
}

/// A thread that panicked with the lock left what every other one can go on with: each step leaves
/// the rings whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The kernel's refusal of a program's order.
fn program_error(error: &ringside_ebpf::Error) -> SourceError {
    SourceError::Io {
        context: "the program in the driver".to_owned(),
        source: io::Error::other(error.to_string()),
    }
}

/// The stamps of a lane so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamping {
    /// Seconds that TAI is ahead of UTC, in nanoseconds.
    pub tai_offset_ns: u64,
    pub last: Timestamp,
    pub newest: Timestamp,
    /// Frames stamped earlier than the one before.
    pub inversions: u64,
}

impl Stamping {
    #[inline]
    pub fn note(&mut self, stamp: Timestamp) {
        self.inversions += u64::from(stamp < self.last);
        self.last = stamp;
        self.newest = self.newest.max(stamp);
    }

    /// UTC of what the program wrote.
    #[inline]
    pub fn utc(&self, tai_ns: u64) -> Timestamp {
        Timestamp(tai_ns.saturating_sub(self.tai_offset_ns))
    }
}

/// The feature (`ethtool -k`) by which a driver takes VLAN tags out of frames.
pub const VLAN_STRIPPING: &str = "rx-vlan-hw-parse";

/// The same for service tags (802.1ad).
const SERVICE_TAG_STRIPPING: &str = "rx-vlan-stag-hw-parse";

/// Features that are on by which the driver of the interface takes tags out of frames.
///
/// # Errors
/// There is no such interface, or the kernel does not say.
pub fn stripped_tags(name: &str) -> Result<Vec<&'static str>, SysError> {
    let active = netdev::features(name)?.active;
    let all = [VLAN_STRIPPING, SERVICE_TAG_STRIPPING];
    Ok(all.into_iter().filter(|feature| active.contains(*feature)).collect())
}

/// An interface, as recordings name it.
pub(super) fn described(
    name: &str,
    snaplen_bytes: u32,
    filter: Option<&(ClassicProgram, String)>,
) -> SourceInterface {
    SourceInterface {
        name: name.to_owned(),
        link_type: LinkType::ETHERNET,
        snaplen_bytes,
        description: String::new(),
        filter: filter.map_or_else(String::new, |(_, text)| text.clone()),
    }
}

/// The kernel's refusal of a program.
pub(super) fn program_refused(name: &str, source: ringside_ebpf::Error) -> BackendError {
    BackendError::Program { name: name.to_owned(), source }
}

/// The system's refusal of something on an interface.
pub(super) fn refused(name: &str, error: SysError) -> BackendError {
    match error {
        SysError::Limit { what, value, limit } => BackendError::Limit { what, value, limit },
        error if error.is_permission_denied() => {
            BackendError::Privilege { context: format!("interface {name}: {error}") }
        }
        source => BackendError::System { name: name.to_owned(), source },
    }
}
