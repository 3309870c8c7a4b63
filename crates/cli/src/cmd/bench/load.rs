//! The network of the measurements and what is sent through it.

use crate::signals::StopSignal;
use anyhow::{bail, ensure};
use ringside_lab::{Lab, LabConfig};
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, Sizes};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// CPU of the generator, and of the receiving kernel path with it (see `Napi::Softirq`).
const SENDER_CPU: usize = 0;
/// Flows of the generator.
const FLOWS: u32 = 1000;
/// MTU of the network: the longest live frame and a little more.
const MTU: u32 = 3400;

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
    /// As fast as it goes if none.
    pub(super) rate_per_sec: Option<u64>,
    pub(super) duration: Duration,
    /// Ends the load early, so that what is recorded cannot fill the disk.
    pub(super) frames_max: u64,
}

/// A private network, with the receiving end's NAPI on the generator's CPU.
pub(super) fn lab(name: &str) -> anyhow::Result<Lab> {
    ensure!(
        std::thread::available_parallelism()?.get() >= 2,
        "the measurement needs two CPUs: one sends, one receives"
    );
    Ok(Lab::up(&LabConfig { name: name.into(), mtu: MTU, ..LabConfig::default() })?)
}

/// Sends; an error if the user stops it.
pub(super) fn send(lab: &Lab, load: LoadSpec<'_>, stop: &StopSignal) -> anyhow::Result<Report> {
    let job = Job {
        sender: SenderKind::Live,
        wire: lab.wire(),
        load: Load::Numbered(Shape::new(load.sizes.table.clone(), FLOWS)?),
        cpus: vec![SENDER_CPU],
        rate_per_sec: load.rate_per_sec,
        limits: Limits::new(Some(load.frames_max), Some(load.duration))?,
    };
    let report = ringside_transmit::run(&job, &|| stop.is_set())?;
    check(stop)?;
    Ok(report)
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
