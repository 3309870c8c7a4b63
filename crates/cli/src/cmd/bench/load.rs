//! The network of the measurements and what is sent through it.

use anyhow::ensure;
use ringside_lab::{Lab, LabConfig};
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, Sizes};
use std::time::Duration;

/// CPU of the generator, and of the receiving kernel path with it (see `Napi::Softirq`).
const SENDER_CPU: usize = 0;
/// Flows of the generator.
const FLOWS: u32 = 1000;
/// tcpdump hands a part-filled block back up to 2 s late; stopped earlier it would count loss that
/// is none.
pub(super) const SETTLE: Duration = Duration::from_millis(2300);

/// A private network, with the receiving end's NAPI on the generator's CPU.
pub(super) fn lab() -> anyhow::Result<Lab> {
    ensure!(
        std::thread::available_parallelism()?.get() >= 2,
        "the measurement needs two CPUs: one sends, one receives"
    );
    let config = LabConfig { name: "bench".into(), mtu: 3400, ..LabConfig::default() };
    Ok(Lab::up(&config)?)
}

/// Sends for `duration`, at `rate_per_sec` or as fast as it goes.
pub(super) fn send(
    lab: &Lab,
    sizes: Sizes,
    rate_per_sec: Option<u64>,
    duration: Duration,
) -> anyhow::Result<Report> {
    let job = Job {
        sender: SenderKind::Live,
        wire: lab.wire(),
        load: Load::Numbered(Shape::new(sizes, FLOWS)?),
        cpus: vec![SENDER_CPU],
        rate_per_sec,
        limits: Limits::new(None, Some(duration))?,
    };
    Ok(ringside_transmit::run(&job, &|| false)?)
}
