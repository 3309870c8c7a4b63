//! Bulk payload as segments: large buffers in, frames of the link's size out (seed: packet segment
//! offload; only headers are written, the payload stays where it is).
//!
//! | way | a system call for | payload |
//! |---|---|---|
//! | [`Way::Calls`] | each segment | copied by the kernel, segment by segment |
//! | [`Way::Copies`] | many segments (AF_XDP) | copied behind each header |
//! | [`Way::Chains`] | many segments (AF_XDP) | stays: a chain joins header and pieces |
//! | [`Way::Kernel`] | 64 KiB | copied by the kernel, which cuts it (GSO) |
//! | [`Way::Live`] | 1,024 segments | stays: a program inside the driver fetches it |
//!
//! All five make the same frames of one plan ([`ringside_segment`]). Where a driver copies what it
//! is given, a chain costs it a page and a copy for every piece, and a frame in one piece may be
//! faster: [`Way::Fastest`] tries both on the first buffers, goes on with the faster, and says so.

mod calls;
mod ends;
mod kernel;
mod live;
mod over_sink;
mod payload;

use crate::sink::SinkConfig;
use crate::wait::{DRAIN, Patience, SLEEP_MAX, Until};
use crate::{Error, Pacer};
pub use ends::{Ends, EndsError, GivenEnds};
use kernel::KernelCut;
use live::LiveStream;
use over_sink::{Cutting, SinkStream};
pub use payload::{Carried, Payload};
use ringside_core::SinkCounters;
use ringside_segment::{Cut, Position, SegPlan, Segmenter, Settings, Template};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Payload bytes of one buffer. What the kernel takes in one packet is a little less; a buffer is
/// then cut by two plans, whichever way it is sent.
pub const BUFFER_BYTES: usize = 64 << 10;

/// Bursts of a paced stream; as many as [`Pacer`] grants.
const BURSTS_PER_SEC: u64 = 2_000;

/// How segments are made and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// AF_XDP, by chains or copies, whichever is faster here.
    Fastest,
    /// One system call and one copy a segment, through a packet socket.
    Calls,
    /// AF_XDP, each frame in one piece.
    Copies,
    /// AF_XDP, headers by themselves, chained to the payload in place.
    Chains,
    /// The kernel cuts (PACKET_VNET_HDR).
    Kernel,
    /// Live frames inside the driver, headers made here. One stream at a time on an interface.
    Live,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 6] =
        [Way::Fastest, Way::Calls, Way::Copies, Way::Chains, Way::Kernel, Way::Live];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Way::Fastest => "fastest",
            Way::Calls => "calls",
            Way::Copies => "copies",
            Way::Chains => "chains",
            Way::Kernel => "kernel",
            Way::Live => "live",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        let found = Way::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| {
            format!("there is no way {text}; there are {}", Way::ALL.map(Way::name).join(", "))
        })
    }
}

/// What a stream is.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Interface in the calling thread's network namespace.
    pub interface: String,
    /// Transmit queue of AF_XDP.
    pub queue: u32,
    /// How.
    pub way: Way,
    /// Headers of the first frame.
    pub template: Template,
    /// Sizes.
    pub settings: Settings,
    /// Buffers of [`BUFFER_BYTES`]: one that is in flight cannot be filled.
    pub buffers: usize,
}

/// Where the buffers of a stream lie, and who makes frames of them: user space, which hands them to
/// a sink ([`SinkStream`]), or the kernel ([`KernelCut`], [`LiveStream`]).
trait Segments {
    /// Lets `write` fill the buffer, in parts from its start to `bytes`. False if a frame that is
    /// in flight needs it.
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error>;

    /// Sends the frames of `plan`, whose payload begins at byte `from` of the buffer. False if
    /// `until` came while it waited for room: the rest was not offered.
    fn send(
        &mut self,
        buffer: usize,
        from: usize,
        plan: &SegPlan<'_>,
        until: &Until,
    ) -> Result<bool, Error>;

    /// Hands over what waits.
    fn flush(&mut self) -> Result<(), Error>;

    /// The account so far, in frames.
    fn counters(&mut self) -> SinkCounters;

    /// Ends it: the whole account, which balances, and what went wrong if something did.
    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<Error>);

    /// What was found out about it, for the user.
    fn notes(&mut self) -> Vec<String>;
}

/// A stream of payload to one place.
pub struct Stream {
    segments: Box<dyn Segments>,
    segmenter: Segmenter,
    position: Position,
    /// Payload bytes of one plan: what the kernel takes in one packet, in whole segments.
    plan_bytes: usize,
    plan_segments_max: usize,
    buffers: usize,
    /// By payload bytes a second, and since when.
    pacer: Option<(Pacer, Instant)>,
    bytes_per_sec: Option<u64>,
    until: Until,
    interface: String,
}

impl Stream {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such interface, it is down, the sizes do not fit it, or what was asked for
    /// cannot be had.
    pub fn open(config: &StreamConfig) -> Result<Stream, Error> {
        if config.settings.cut != Cut::Segments {
            return Err(Error::StreamOfFragments);
        }
        let segmenter = Segmenter::new(&config.template, config.settings)?;
        let buffers = config.buffers.max(1);
        let sink = SinkConfig {
            interface: config.interface.clone(),
            queue: config.queue,
            payload_bytes: buffers * BUFFER_BYTES,
        };
        let segments: Box<dyn Segments> = match config.way {
            Way::Calls => Box::new(SinkStream::calls(&sink)?),
            Way::Kernel => Box::new(KernelCut::open(&sink, &config.template, buffers)?),
            Way::Live => Box::new(LiveStream::open(&sink, &segmenter, buffers)?),
            Way::Chains => Box::new(SinkStream::xdp(&sink, &segmenter, Cutting::Chains)?),
            Way::Copies => Box::new(SinkStream::xdp(&sink, &segmenter, Cutting::Copies)?),
            Way::Fastest => Box::new(SinkStream::xdp(&sink, &segmenter, Cutting::trying())?),
        };
        let mss = segmenter.mss_bytes();
        let room = ringside_segment::MTU_BYTES_MAX - segmenter.header_bytes_max();
        // The kernel makes no more datagrams of one packet than that.
        let whole = (room / mss).clamp(1, ringside_sys::packet_gso::DATAGRAMS_MAX);
        let position = Position::default();
        let (plan_bytes, plan_segments_max) = (whole * mss, whole);
        Ok(Stream {
            segments,
            segmenter,
            position,
            plan_bytes,
            plan_segments_max,
            buffers,
            pacer: None,
            bytes_per_sec: None,
            until: Until::default(),
            interface: config.interface.clone(),
        })
    }

    /// Has every wait end once `is_over` says so; it is asked every few milliseconds of a wait.
    pub fn end_when(&mut self, is_over: impl Fn() -> bool + 'static) {
        self.until = Until::when(is_over);
    }

    /// Sends at most `bytes_per_sec` payload bytes, in bursts of half a millisecond, or of one
    /// segment where that is more.
    pub fn pace(&mut self, bytes_per_sec: u64) {
        // A plan goes at once, so that it must not be longer than a burst.
        let mss = self.segmenter.mss_bytes();
        let burst = usize::try_from(bytes_per_sec / BURSTS_PER_SEC).unwrap_or(usize::MAX);
        self.plan_bytes = (burst / mss).clamp(1, self.plan_segments_max) * mss;
        self.pacer = Some((Pacer::new(bytes_per_sec, 0), Instant::now()));
        self.bytes_per_sec = Some(bytes_per_sec);
    }

    /// Payload bytes of a segment. What is sent at once is best a multiple of it; else the last
    /// segment is shorter.
    pub fn mss_bytes(&self) -> usize {
        self.segmenter.mss_bytes()
    }

    /// How many buffers there are.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// Lets `write` fill the first `bytes` of a buffer, in parts, and waits until no frame that is
    /// in flight needs what stands there. False if the [end](Self::end_when) came before:
    /// nothing was written.
    ///
    /// # Errors
    /// The interface failed, or nothing moved for a second.
    ///
    /// # Panics
    /// There is no such buffer, or it has fewer bytes.
    pub fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        mut write: impl FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        assert!(buffer < self.buffers && bytes <= BUFFER_BYTES, "a place of a buffer");
        let mut patience = Patience::default();
        if self.segments.fill(buffer, bytes, &mut write)? {
            return Ok(true);
        }
        loop {
            self.segments.flush()?;
            if self.segments.fill(buffer, bytes, &mut write)? {
                return Ok(true);
            }
            let counters = self.segments.counters();
            if !patience.goes_on(&self.until, &counters, &self.interface)? {
                return Ok(false);
            }
        }
    }

    /// Sends the first `bytes` of a buffer, which stays as it is and may be sent again. False if
    /// the [end](Self::end_when) came while it waited: of the rest nothing was offered.
    ///
    /// # Errors
    /// The interface failed, or had no room for a second in which nothing moved.
    ///
    /// # Panics
    /// There is no such buffer, or it has fewer bytes.
    pub fn send(&mut self, buffer: usize, bytes: usize) -> Result<bool, Error> {
        assert!(buffer < self.buffers && bytes <= BUFFER_BYTES, "a place of a buffer");
        let mut from = 0;
        while from < bytes {
            let piece = self.plan_bytes.min(bytes - from);
            if !self.wait_for_turn(piece as u64)? {
                return Ok(false);
            }
            let plan = self.segmenter.plan(self.position, piece)?;
            if !self.segments.send(buffer, from, &plan, &self.until)? {
                return Ok(false);
            }
            self.position = plan.end();
            from += piece;
        }
        Ok(true)
    }

    /// Waits until `bytes` may be sent. False if the end came before.
    fn wait_for_turn(&mut self, bytes: u64) -> Result<bool, Error> {
        let Some((pacer, start)) = &mut self.pacer else { return Ok(true) };
        let mut missing = bytes;
        while missing > 0 {
            match pacer.grant(start.elapsed().as_nanos() as u64) {
                Ok(granted) => {
                    pacer.give_back(granted.saturating_sub(missing));
                    missing = missing.saturating_sub(granted);
                }
                Err(wait_ns) => {
                    self.segments.flush()?;
                    if self.until.has_come() {
                        return Ok(false);
                    }
                    std::thread::sleep(Duration::from_nanos(wait_ns).min(SLEEP_MAX));
                }
            }
        }
        Ok(true)
    }

    /// Frames so far.
    pub fn counters(&mut self) -> SinkCounters {
        self.segments.counters()
    }

    /// What was found out, since the last call.
    pub fn notes(&mut self) -> Vec<String> {
        self.segments.notes()
    }

    /// Sends the rest, and ends the stream: the account, in which nothing is in flight any more,
    /// and what went wrong at the end if something did.
    pub fn finish(mut self) -> (SinkCounters, Option<Error>) {
        self.segments.drain(DRAIN)
    }
}
