//! Options that say which frames a capture keeps, and what of each.

use crate::open_args::stdout_stream;
use crate::record::RunArgs;
use anyhow::ensure;
use clap::Args;
use ringside_capture::keep::CAP_BYTES_MIN;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_session::{AdaptiveBounds, DigestOutput, FlowCutoff, KeepOptions, RulesFrom};
use ringside_terminal::units;
use std::path::{Path, PathBuf};

/// Most rules that room is made for: as many as may be exact.
const ROOM_MAX: u32 = 1 << 20;

/// The options that have to do with what is kept.
#[derive(Args)]
#[command(next_help_heading = "What is kept")]
pub struct KeepArgs {
    /// Judge each frame by these rules (docs/rules.md), after the filter.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Have the driver drop and pass what it can decide by the rules; the rest is handed up and
    /// judged here. With --backend af-xdp or xdp-ring, and for every capture on the interface.
    #[arg(long, requires = "rules", conflicts_with_all = ["filter", "read"])]
    rules_in_driver: bool,

    /// Write the records that rules with `digest` ask for here: one JSON object a line
    /// (docs/formats/digests.md); `-` is standard output.
    #[arg(long, value_name = "FILE|-", requires = "rules")]
    pub digests: Option<PathBuf>,
    /// Make room in the driver for N exact rules and N others, if those of the start
    /// need less: `rules load` and `add` cannot make more.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "rules_in_driver")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=ROOM_MAX as i64))]
    rules_room: u32,

    /// Keep this many bytes of each payload that is no text; text protocols are kept whole.
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=FRAME_BYTES_MAX as i64))]
    cap_binary: Option<u32>,

    /// Keep only headers of a flow after SIZE bytes of its payload (as 20k), or, with `tls`,
    /// where its application data begins.
    #[arg(long, value_name = "SIZE|tls", value_parser = flow_cutoff)]
    flow_cutoff: Option<FlowCutoff>,

    /// Keep MAX bytes of each frame, and the fuller the ring is the less, down to MIN. Headers are
    /// kept in any case. Needs -w.
    #[arg(long, value_name = "MIN-MAX", value_parser = adaptive_bounds)]
    #[arg(requires = "paths", conflicts_with = "on")]
    adaptive_cap: Option<AdaptiveBounds>,
}

impl KeepArgs {
    /// What a session is to keep.
    ///
    /// # Errors
    /// Standard output cannot be had as a stream of our own.
    pub fn options(&self) -> anyhow::Result<KeepOptions> {
        Ok(KeepOptions {
            rules: self.rules.clone().map(RulesFrom::File),
            rules_in_driver: self.rules_in_driver,
            rules_room: self.rules_room as usize,
            digests: match &self.digests {
                None => None,
                Some(path) if is_stdout(path) => Some(DigestOutput::Stream(stdout_stream()?)),
                Some(path) => Some(DigestOutput::File(path.clone())),
            },
            binary_cap: self.cap_binary,
            flow_cutoff: self.flow_cutoff,
            adaptive_cap: self.adaptive_cap,
        })
    }

    /// True if records go to standard output.
    pub fn digests_to_stdout(&self) -> bool {
        self.digests.as_deref().is_some_and(is_stdout)
    }

    /// Refuses records where something else is written to standard output.
    pub fn check_digests(&self, run: &RunArgs) -> anyhow::Result<()> {
        ensure!(
            !self.digests_to_stdout() || !run.json && !run.write.is_stdout(),
            "--digests - and {} both want standard output; write the records to a file",
            if run.json { "--json" } else { "-w -" }
        );
        Ok(())
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn flow_cutoff(text: &str) -> Result<FlowCutoff, String> {
    if text == "tls" {
        return Ok(FlowCutoff::Tls);
    }
    units::bytes(text)
        .map(FlowCutoff::Bytes)
        .map_err(|error| format!("{error}; or write tls, for what follows the handshake"))
}

fn adaptive_bounds(text: &str) -> Result<AdaptiveBounds, String> {
    let number = |text: &str| text.parse::<u32>().ok();
    let bounds = text.split_once('-').and_then(|(min, max)| number(min).zip(number(max)));
    match bounds {
        Some((min, max)) if (CAP_BYTES_MIN..max).contains(&min) && max <= FRAME_BYTES_MAX => {
            Ok(AdaptiveBounds { min, max })
        }
        _ => Err(format!(
            "write two numbers of bytes from {CAP_BYTES_MIN} to {FRAME_BYTES_MAX}, the smaller \
             first, as 96-1514"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_cutoffs() {
        assert_eq!(adaptive_bounds("64-1514"), Ok(AdaptiveBounds { min: 64, max: 1514 }));
        for wrong in ["63-100", "100-100", "200-100", "96", "-96", "96-", "64-262145", "a-b", ""] {
            assert!(adaptive_bounds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(flow_cutoff("tls"), Ok(FlowCutoff::Tls));
        assert_eq!(flow_cutoff("20k"), Ok(FlowCutoff::Bytes(20_000)));
        assert_eq!(flow_cutoff("1M"), Ok(FlowCutoff::Bytes(1_000_000)));
        assert_eq!(flow_cutoff("0"), Ok(FlowCutoff::Bytes(0)));
        assert!(flow_cutoff("ssl").is_err());
    }
}
