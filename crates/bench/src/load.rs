//! The network of the measurements and what is sent through it.

use anyhow::{Context, bail, ensure};
use ringside_lab::{Lab, LabConfig};
use ringside_terminal::signals::StopSignal;
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, Sizes, Wire};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// CPU of the generator, and of the receiving kernel path with it (see `Napi::Softirq`).
pub(super) const SENDER_CPU: usize = 0;
/// The address that generated frames go to (`ringside_transmit::Shape`).
pub(super) const GENERATED_ADDRESS: &str = "198.18.0.1";
/// Flows of the generator where their number is not what is measured.
pub(super) const FLOWS: u32 = 1000;
/// MTU of the network: the longest live frame and a little more.
const MTU: u32 = 3400;

/// Longest wait of one sender for the others.
const TOGETHER_MAX: Duration = Duration::from_secs(5);

/// Frame sizes of one load, by the name that people gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameSizes {
    name: String,
    table: Sizes,
}

impl FrameSizes {
    /// All frames of `bytes` bytes.
    pub(super) fn fixed(bytes: u16) -> anyhow::Result<FrameSizes> {
        Ok(FrameSizes { name: bytes.to_string(), table: Sizes::fixed(bytes)? })
    }

    /// The size that all frames have, unless it is a mix.
    pub(super) fn single(&self) -> Option<u16> {
        match self.table.table() {
            [bytes] => Some(*bytes),
            _ => None,
        }
    }

    /// The mean, in bytes.
    pub(super) fn mean_bytes(&self) -> f64 {
        let table = self.table.table();
        table.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / table.len().max(1) as f64
    }
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl FromStr for FrameSizes {
    type Err = ringside_transmit::Error;

    fn from_str(text: &str) -> Result<FrameSizes, ringside_transmit::Error> {
        Ok(FrameSizes { name: text.trim().to_lowercase(), table: text.parse()? })
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadSpec<'a> {
    pub(super) sizes: &'a FrameSizes,
    /// Flows that the frames belong to in turn.
    pub(super) flows: u32,
    /// As fast as it goes if none.
    pub(super) rate_per_sec: Option<u64>,
    pub(super) duration: Duration,
    /// Ends the load early, so that what is recorded cannot fill the disk.
    pub(super) frames_max: u64,
}

/// A private network, with the receiving end's NAPI on the generator's CPU.
pub(super) fn lab(name: &str) -> anyhow::Result<Lab> {
    check_cpus()?;
    Ok(Lab::up(&LabConfig { name: name.into(), mtu: MTU, ..LabConfig::default() })?)
}

/// An error on a machine that cannot send and receive at once.
pub(super) fn check_cpus() -> anyhow::Result<()> {
    ensure!(
        std::thread::available_parallelism()?.get() >= 2,
        "the measurement needs two CPUs: one sends, one receives"
    );
    Ok(())
}

/// Sends through every pair of the network, all at once; an error if the user stops it.
pub(super) fn send(lab: &Lab, load: LoadSpec<'_>, stop: &StopSignal) -> anyhow::Result<Report> {
    send_shape(lab, load, Shape::new(load.sizes.table.clone(), load.flows)?, stop)
}

/// The same; frames wait until the far end has room for them ([`Shape::await_room`]).
pub(super) fn send_with_room(
    lab: &Lab,
    load: LoadSpec<'_>,
    stop: &StopSignal,
) -> anyhow::Result<Report> {
    let mut shape = Shape::new(load.sizes.table.clone(), load.flows)?;
    shape.await_room();
    send_shape(lab, load, shape, stop)
}

fn send_shape(
    lab: &Lab,
    load: LoadSpec<'_>,
    shape: Shape,
    stop: &StopSignal,
) -> anyhow::Result<Report> {
    let wires = lab.wires();
    let count = wires.len() as u64;
    let mut job = Job {
        sender: SenderKind::Live,
        wire: lab.wire(),
        load: Load::Numbered(shape),
        cpus: vec![SENDER_CPU],
        rate_per_sec: load.rate_per_sec.map(|rate| (rate / count).max(1)),
        limits: Limits::new(Some(load.frames_max / count), Some(load.duration))?,
    };
    let report = if wires.len() == 1 {
        ringside_transmit::run(&job, &|| stop.is_set())?
    } else {
        // Each ends by the common clock; its own limit is for one that waits in vain.
        let limit = load.duration + 2 * TOGETHER_MAX;
        job.limits = Limits::new(Some(load.frames_max / count), Some(limit))?;
        together(&job, wires, load.duration, stop)?
    };
    check(stop)?;
    Ok(report)
}

/// Does `job` on every wire at once, for `duration` from the moment when all are ready.
fn together(
    job: &Job,
    wires: Vec<Wire>,
    duration: Duration,
    stop: &StopSignal,
) -> anyhow::Result<Report> {
    let waiting = AtomicUsize::new(wires.len());
    let line = StartLine { waiting, start: OnceLock::new(), ended_ns: AtomicU64::new(0) };
    let one = |wire: Wire| {
        let has_started = AtomicBool::new(false);
        let is_over = || {
            // A sender asks before its first frame.
            if !has_started.swap(true, Ordering::Relaxed) {
                line.wait(stop);
            }
            stop.is_set() || line.elapsed() >= duration
        };
        ringside_transmit::run(&Job { wire, ..job.clone() }, &is_over)
    };
    let reports = std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> =
            wires.into_iter().map(|wire| scope.spawn(move || one(wire))).collect();
        let join = |handle: ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(report) => Ok(report?),
            Err(_) => bail!("a sender's thread died"),
        };
        handles.into_iter().map(join).collect::<anyhow::Result<Vec<Report>>>()
    })?;
    let sum = |value: fn(&Report) -> u64| reports.iter().map(value).sum::<u64>();
    let first = reports.first().context("a network without pairs")?;
    Ok(Report {
        offered: sum(|report| report.offered),
        handed: sum(|report| report.handed),
        refused_ring_full: sum(|report| report.refused_ring_full),
        refused_before_ring: sum(|report| report.refused_before_ring),
        received_by_interface: Some(sum(|report| report.received_by_interface.unwrap_or(0))),
        offered_bytes: sum(|report| report.offered_bytes),
        elapsed_ns: line.ended_ns.into_inner(),
        ..first.clone()
    })
}

/// Where senders wait for each other, and their common clock.
struct StartLine {
    waiting: AtomicUsize,
    start: OnceLock<Instant>,
    /// When the clock was last asked: the end of the last sender's last frame.
    ended_ns: AtomicU64,
}

impl StartLine {
    /// Time since all were here; without end if one of them did not come.
    fn elapsed(&self) -> Duration {
        let elapsed = self.start.get().map_or(Duration::MAX, Instant::elapsed);
        self.ended_ns.fetch_max(elapsed.as_nanos() as u64, Ordering::Relaxed);
        elapsed
    }

    /// Returns when all are here, or one of them does not come.
    fn wait(&self, stop: &StopSignal) {
        let arrived = Instant::now();
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.start.get_or_init(Instant::now);
        }
        while self.start.get().is_none() && arrived.elapsed() < TOGETHER_MAX && !stop.is_set() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// An error if the user wants to stop.
pub(super) fn check(stop: &StopSignal) -> anyhow::Result<()> {
    if stop.is_set() {
        bail!("stopped by a signal; the network and the recordings are removed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_name() {
        let imix: FrameSizes = "IMIX".parse().unwrap();
        assert_eq!((imix.to_string().as_str(), imix.single()), ("imix", None));
        assert!((imix.mean_bytes() - (7.0 * 60.0 + 4.0 * 590.0 + 1514.0) / 12.0).abs() < 1e-9);
        let fixed: FrameSizes = "512".parse().unwrap();
        assert_eq!((fixed.single(), fixed.mean_bytes()), (Some(512), 512.0));
        assert_eq!(fixed, FrameSizes::fixed(512).unwrap());
        assert!("many".parse::<FrameSizes>().is_err());
    }
}
