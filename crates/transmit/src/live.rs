//! The live sender: frames made inside the kernel by `bpf/generate.bpf.c`.

use crate::job::FrameSender;
use crate::{Error, Shape, Wire};
use ringside_ebpf::{Anchor, Generator, LIVE_FRAME_BYTES_MAX, attached_program, redirect_reaches};

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
pub fn live_reaches(wire: &Wire) -> Result<bool, Error> {
    Ok(known_to_reach(wire)?.unwrap_or(false))
}

/// As [`live_reaches`]; `None` if the kernel does not tell and the far end is not known.
fn known_to_reach(wire: &Wire) -> Result<Option<bool>, Error> {
    let told = wire.sender.inside(|| Ok(redirect_reaches(wire.sender.device()?.ifindex)?))?;
    match (told, &wire.receiver) {
        (None, Some(end)) => {
            end.inside(|| Ok(Some(attached_program(end.device()?.ifindex)?.is_some())))
        }
        (told, _) => Ok(told),
    }
}

/// Refuses what redirected frames would not cross, by `vanish`, or what nobody knows.
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
        let generator = shape.generator(wire.sender.device()?.ifindex, cpus, rate_per_sec)?;
        let anchor = generator.anchor()?;
        Ok(Live { generator, _anchor: anchor })
    }
}

/// One thread of it.
pub(crate) struct LiveSender<'l> {
    generator: &'l Generator,
    shape: &'l Shape,
    cpu: usize,
    offered: u64,
    /// Their bytes, which the program does not count: added up call by call.
    bytes: u64,
}

impl<'l> LiveSender<'l> {
    /// For the calling thread, which is pinned to `cpu` and in the sender's namespace.
    pub fn new(live: &'l Live, shape: &'l Shape, cpu: usize) -> LiveSender<'l> {
        LiveSender { generator: &live.generator, shape, cpu, offered: 0, bytes: 0 }
    }
}

impl FrameSender for LiveSender<'_> {
    fn call_frames_max(&self) -> u64 {
        CALL_FRAMES_MAX
    }

    /// A signal ends the call early; the program's own count says how far it came.
    fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let run = self.generator.run_live(frames as u32);
        let made = self.generator.state(self.cpu)?.next_sequence;
        let new = made.saturating_sub(self.offered);
        self.bytes += self.shape.sizes.bytes_of(self.offered..made);
        self.offered = made;
        run?;
        Ok(new)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn refused(&self) -> u64 {
        0
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
