//! The live sender: frames made inside the kernel by `bpf/generate.bpf.c`.

use crate::{Error, Shape, Wire};
use ringside_core::SinkCounters;
use ringside_ebpf::{Anchor, Generator, LIVE_FRAME_BYTES_MAX, attached_program, redirect_reaches};
use ringside_netdev::{NetDevice, Watch};
use std::fmt;

/// Frames of one call of the kernel: about two milliseconds, so that limits and signals are seen
/// soon, and a thousand times what the call itself costs.
pub(crate) const CALL_FRAMES_MAX: u64 = 16_384;

/// Refuses what live frames cannot carry.
pub(crate) fn check_sizes(shape: &Shape) -> Result<(), Error> {
    let bytes = shape.sizes.longest();
    if usize::from(bytes) > LIVE_FRAME_BYTES_MAX { Err(Error::LiveSize { bytes }) } else { Ok(()) }
}

/// Whether live frames sent through `wire` arrive: if its driver takes redirected frames, and the
/// far end of a veth pair has a NAPI. Where the kernel does not tell (before 6.3), a far end that
/// is known is looked at, and else it is unknown (`None`).
///
/// # Errors
/// There is no such interface, or the kernel refused.
fn known_to_reach(wire: &Wire) -> Result<Option<bool>, Error> {
    let told = wire.sender.inside(|| Ok(redirect_reaches(wire.sender.device()?.ifindex)?))?;
    match (told, &wire.receiver) {
        (None, Some(end)) => {
            end.inside(|| Ok(Some(attached_program(end.device()?.ifindex)?.is_some())))
        }
        (told, _) => Ok(told),
    }
}

/// Refuses what redirected frames would not cross, by `vanish`, or what is unknown.
pub(crate) fn check_reach(wire: &Wire, vanish: impl FnOnce() -> Error) -> Result<(), Error> {
    judge(known_to_reach(wire)?, wire, vanish)
}

fn judge(reach: Option<bool>, wire: &Wire, vanish: impl FnOnce() -> Error) -> Result<(), Error> {
    match reach {
        Some(true) => Ok(()),
        Some(false) => Err(vanish()),
        None => Err(Error::LiveUnknown { interface: wire.sender.place() }),
    }
}

/// Why no live frames go through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveObstacle {
    /// They would vanish: the driver takes no redirected frames, or the far end of a veth pair has
    /// no NAPI.
    Driver,
    /// The kernel does not tell, and the far end is not known.
    Unknown,
    /// An XDP program, this id, has the place that the sending one needs.
    Program(u32),
}

impl fmt::Display for LiveObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveObstacle::Driver => f.write_str("its driver takes no redirected frames"),
            LiveObstacle::Unknown => {
                f.write_str("nobody knows if its driver takes redirected frames")
            }
            LiveObstacle::Program(id) => write!(f, "XDP program {id} is on it"),
        }
    }
}

/// What prevents live frames through `wire`, if anything.
///
/// # Errors
/// There is no such interface, or the kernel refused.
pub fn live_obstacle(wire: &Wire) -> Result<Option<LiveObstacle>, Error> {
    match known_to_reach(wire)? {
        Some(true) => {}
        Some(false) => return Ok(Some(LiveObstacle::Driver)),
        None => return Ok(Some(LiveObstacle::Unknown)),
    }
    let program = wire.sender.inside(|| Ok(attached_program(wire.sender.device()?.ifindex)?))?;
    Ok(program.map(LiveObstacle::Program))
}

/// Refuses to start when redirected frames would vanish.
pub(crate) fn check_receiver(wire: &Wire) -> Result<(), Error> {
    check_reach(wire, || {
        let receiver = wire.receiver.as_ref().map_or("the other end", |end| &end.interface);
        let (sender, receiver) = (wire.sender.place(), receiver.to_string());
        Error::NoReceiver { sender, receiver }
    })
}

/// The generator of a run.
pub(crate) struct Live {
    generator: Generator,
    interface: String,
    ifindex: u32,
    is_veth: bool,
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
        let NetDevice { ifindex, name: interface, kind, .. } = wire.sender.device()?;
        let is_veth = kind.as_deref() == Some("veth");
        let generator = shape.generator(ifindex, cpus, rate_per_sec)?;
        let anchor = generator.anchor()?;
        Ok(Live { generator, interface, ifindex, is_veth, _anchor: anchor })
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
        if shape.awaits_room && live.is_veth {
            live.generator.await_room(cpu)?;
        }
        Ok(LiveSender { live, watch, shape, cpu, offered: 0, bytes: 0 })
    }

    /// Has the kernel make `frames` frames; returns how many it made.
    ///
    /// A signal ends the call early; the program's own count says how far it came. No call says
    /// that the frames were not taken, so the interface is looked at after each.
    pub fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let generator = &self.live.generator;
        let run = generator.run_live(frames as u32);
        let made = generator.state(self.cpu)?.next_sequence;
        let new = made.saturating_sub(self.offered);
        self.bytes += self.shape.sizes.bytes_of(self.offered..made);
        self.offered = made;
        run?;
        match self.watch.is_up()? {
            Some(true) => Ok(new),
            Some(false) => Err(Error::Down { interface: self.live.interface.clone() }),
            None => Err(Error::Removed { interface: self.live.interface.clone() }),
        }
    }

    /// What was made, also by a call that failed.
    pub fn counters(&self) -> SinkCounters {
        let (offered, offered_bytes) = (self.offered, self.bytes);
        SinkCounters { offered, offered_bytes, ..SinkCounters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::End;

    #[test]
    fn a_far_end_that_nobody_knows_has_an_error_of_its_own() {
        let sender = End { namespace: None, interface: "x0".into() };
        let wire = Wire { sender, receiver: None };
        let vanish = || Error::LiveVanishes { interface: "x0".into() };
        let said = |reach| judge(reach, &wire, vanish).err().map(|error| error.to_string());
        assert_eq!(said(Some(true)), None);
        assert!(said(Some(false)).unwrap().contains("vanish"));
        let unknown = said(None).unwrap();
        assert!(unknown.contains("does not say") && unknown.contains("another way"), "{unknown}");
    }
}
