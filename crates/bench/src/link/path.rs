//! The two interfaces, and one load through them.

use super::super::load::{self, SENDER_CPU};
use super::super::network::{self, Attached};
use anyhow::bail;
use ringside_ebpf::{Latencies, LatencyMeter};
use ringside_terminal::signals::StopSignal;
use ringside_transmit::{
    End, Job, Limits, Load, Numbering, Range, SenderKind, Shape, Sizes, Stack, Template, Wire,
};
use std::time::{Duration, Instant};

/// Flows of the load: what spreads frames over the queues of a path has something to spread.
const SOURCES: &str = "10.16.0.0-10.16.0.255";
/// Frames that are under way are waited for until none came for so long.
const QUIET: Duration = Duration::from_millis(100);
/// Longest wait for them.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Longest time of a burst beyond what it needs, should something hold the sender up.
const BURST_MAX: Duration = Duration::from_secs(60);

/// How fast, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drive {
    /// Evenly spaced: frames a second, for a time.
    Even(f64, Duration),
    /// As fast as it goes, for a time.
    Full(Duration),
    /// This number of frames, as fast as it goes.
    Burst(u64),
}

/// What one load gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Frames that the generator made.
    pub(super) offered: u64,
    pub(super) offered_per_sec: f64,
    /// Frames that came out at the far end.
    pub(super) arrived: Latencies,
}

impl Trial {
    /// Frames that did not come out.
    pub(super) fn lost(&self) -> u64 {
        self.offered.saturating_sub(self.arrived.frames)
    }

    pub(super) fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.offered.max(1) as f64
    }
}

/// Where frames go in, and where they come out and are counted.
pub(super) struct Path {
    wire: Wire,
    receiver: End,
    meter: LatencyMeter,
    _attached: Attached,
}

impl Path {
    /// Puts the counting program on the receiving interface.
    ///
    /// # Errors
    /// An interface is missing, its driver has no XDP, or another program is on it.
    pub(super) fn open(sender: End, receiver: End) -> anyhow::Result<Path> {
        let name = &receiver.interface;
        let attach = || Ok(LatencyMeter::attach(network::ifindex(name)?)?);
        let (meter, _attached) = Attached::by(receiver.namespace.as_deref(), attach)?;
        // Frames are counted by the program: what is lost on the way is a figure, not an error.
        let wire = Wire { sender, receiver: None };
        Ok(Path { wire, receiver, meter, _attached })
    }

    /// Sends and counts.
    ///
    /// # Errors
    /// The interfaces are gone, the frames do not fit them, or a signal came.
    pub(super) fn load(
        &self,
        sizes: &Sizes,
        numbering: Numbering,
        drive: Drive,
        stop: &StopSignal,
    ) -> anyhow::Result<Trial> {
        load::check(stop)?;
        let (rate, count, duration) = match drive {
            Drive::Even(rate, duration) => (Some((rate.round() as u64).max(1)), None, duration),
            Drive::Full(duration) => (None, None, duration),
            Drive::Burst(count) => (None, Some(count), BURST_MAX),
        };
        let job = Job {
            sender: if rate.is_some() { SenderKind::Even } else { SenderKind::Live },
            wire: self.wire.clone(),
            load: Load::Numbered(shape(sizes, numbering)?),
            cpus: vec![SENDER_CPU],
            rate_per_sec: rate,
            limits: Limits::new(count, Some(duration))?,
        };
        self.meter.clear()?;
        let report = ringside_transmit::run(&job, &|| stop.is_set())?;
        load::check(stop)?;
        settle(&self.meter, report.offered)?;
        let arrived = self.meter.read()?;
        if arrived.frames > report.offered {
            bail!(
                "{} frames came out of {}, more than the {} that were sent: another generator \
                 sends, or the path doubles frames",
                arrived.frames,
                self.receiver.interface,
                report.offered
            );
        }
        Ok(Trial { offered: report.offered, offered_per_sec: report.offered_per_sec(), arrived })
    }
}

/// Waits for what is under way: until `meter` has counted `offered` frames, or no more come.
fn settle(meter: &LatencyMeter, offered: u64) -> anyhow::Result<()> {
    let start = Instant::now();
    let (mut seen, mut since) = (meter.frames()?, Instant::now());
    while seen < offered && since.elapsed() < QUIET && start.elapsed() < SETTLE_MAX {
        std::thread::sleep(Duration::from_millis(1));
        let now = meter.frames()?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    Ok(())
}

fn shape(sizes: &Sizes, numbering: Numbering) -> anyhow::Result<Shape> {
    let ranges = vec![Range::parse(ringside_transmit::Field::SourceAddress, SOURCES)?];
    let flows = Shape::different_flows(&ranges);
    let template = Template::of(Stack::default());
    Ok(Shape::like(template, ranges, numbering, sizes.clone(), flows)?)
}
