//! The live sender: frames made inside the kernel by `bpf/generate.bpf.c`.

use crate::job::FrameSender;
use crate::{Error, Shape, Wire};
use ringside_ebpf::{Anchor, Generator, LIVE_FRAME_BYTES_MAX, attached_program, redirect_reaches};
use ringside_sys::netdev::{NetDevice, Watch};
use std::fmt;

/// Frames of one call of the kernel: about two milliseconds, so that limits and signals are seen
/// soon, and a thousand times what the call itself costs.
const CALL_FRAMES_MAX: u64 = 16_384;

/// Refuses what live frames cannot carry.
pub(crate) fn check_sizes(shape: &Shape) -> Result<(), Error> {
    let bytes = shape.sizes.longest();
    if usize::from(bytes) > LIVE_FRAME_BYTES_MAX { Err(Error::LiveSize { bytes }) } else { Ok(()) }
}

/// True if live frames sent through `wire` arrive: its driver takes redirected frames, and the far
/// end of a veth pair has a NAPI. Where the kernel does not tell (before 6.3), a far end that is
/// known is looked at.
///
/// # Errors
/// There is no such interface, or the kernel refused.
pub(crate) fn live_reaches(wire: &Wire) -> Result<bool, Error> {
    let told = wire.sender.inside(|| Ok(redirect_reaches(wire.sender.device()?.ifindex)?))?;
    match (told, &wire.receiver) {
        (Some(reaches), _) => Ok(reaches),
        (None, Some(end)) => end.inside(|| Ok(attached_program(end.device()?.ifindex)?.is_some())),
        (None, None) => Ok(false),
    }
}

/// Why no live frames go through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveObstacle {
    /// They would vanish: the driver takes no redirected frames, or the far end of a veth pair has
    /// no NAPI.
    Driver,
    /// An XDP program, this id, has the place that the sending one needs.
    Program(u32),
}

impl fmt::Display for LiveObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveObstacle::Driver => f.write_str("its driver takes no redirected frames"),
            LiveObstacle::Program(id) => write!(f, "XDP program {id} is on it"),
        }
    }
}

/// What stands in the way of live frames through `wire`, if anything.
///
/// # Errors
/// There is no such interface, or the kernel refused.
pub fn live_obstacle(wire: &Wire) -> Result<Option<LiveObstacle>, Error> {
    if !live_reaches(wire)? {
        return Ok(Some(LiveObstacle::Driver));
    }
    let program = wire.sender.inside(|| Ok(attached_program(wire.sender.device()?.ifindex)?))?;
    Ok(program.map(LiveObstacle::Program))
}

/// Refuses to start when redirected frames would vanish.
pub(crate) fn check_receiver(wire: &Wire) -> Result<(), Error> {
    if live_reaches(wire)? {
        return Ok(());
    }
    let receiver = wire.receiver.as_ref().map_or("the other end", |end| &end.interface);
    let (sender, receiver) = (wire.sender.place(), receiver.to_string());
    Err(Error::NoReceiver { sender, receiver })
}

/// The generator of a run.
pub(crate) struct Live {
    generator: Generator,
    interface: String,
    ifindex: u32,
    _anchor: Anchor,
}

impl Live {
    /// For sending threads on `cpus`, each the stream of its place and each at `rate_per_sec` if
    /// that is given; the calling thread is in the sender's namespace.
    pub fn new(
        wire: &Wire,
        shape: &Shape,
        cpus: &[usize],
        rate_per_sec: Option<u64>,
    ) -> Result<Live, Error> {
        let NetDevice { ifindex, name: interface, .. } = wire.sender.device()?;
        let generator = shape.generator(ifindex, cpus, rate_per_sec)?;
        let anchor = generator.anchor()?;
        Ok(Live { generator, interface, ifindex, _anchor: anchor })
    }
}

/// One thread of it.
pub(crate) struct LiveSender<'l> {
    live: &'l Live,
    watch: Watch,
    shape: &'l Shape,
    cpu: usize,
    offered: u64,
    /// Their bytes, which the program does not count: added up call by call.
    bytes: u64,
}

impl<'l> LiveSender<'l> {
    /// For the calling thread, which is pinned to `cpu` and in the sender's namespace.
    pub fn new(live: &'l Live, shape: &'l Shape, cpu: usize) -> Result<LiveSender<'l>, Error> {
        let watch = Watch::new(live.ifindex)?;
        Ok(LiveSender { live, watch, shape, cpu, offered: 0, bytes: 0 })
    }
}

impl FrameSender for LiveSender<'_> {
    fn call_frames_max(&self) -> u64 {
        CALL_FRAMES_MAX
    }

    /// A signal ends the call early; the program's own count says how far it came. No call says
    /// that nobody took the frames, so the interface is looked at after each.
    fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let generator = &self.live.generator;
        let run = generator.run_live(frames as u32);
        let made = generator.state(self.cpu)?.next_sequence;
        let new = made.saturating_sub(self.offered);
        self.bytes += self.shape.sizes.bytes_of(self.offered..made);
        self.offered = made;
        run?;
        match self.watch.is_up()? {
            Some(_) => Ok(new),
            None => Err(Error::Removed { interface: self.live.interface.clone() }),
        }
    }

    fn offered(&self) -> u64 {
        self.offered
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn refused(&self) -> u64 {
        0
    }
}
