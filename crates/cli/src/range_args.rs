//! The span of recorded time that is asked for: `--from`, `--to`, `--last`.

use anyhow::bail;
use clap::Args;
use ringside_search::{ResolvedSpan, Span};
use ringside_terminal::units::{self, When};
use std::path::PathBuf;
use std::time::Duration;

/// Options by which packets are chosen by their time.
#[derive(Args)]
pub struct RangeArgs {
    /// Only packets from this moment on: 2026-03-01T12:00:00Z, 2026-03-01T12:00:00+01:00, without a
    /// zone in the local one, seconds since 1970, or as -10m before the newest packet.
    #[arg(long, value_name = "TIME", value_parser = units::when, allow_hyphen_values = true)]
    from: Option<When>,

    /// Only packets before this moment, written as for --from.
    #[arg(long, value_name = "TIME", value_parser = units::when, allow_hyphen_values = true)]
    to: Option<When>,

    /// Only packets of so long, as 10m, up to the newest: time is that of the packets, so it counts
    /// from the newest time stamp of the inputs, not from now.
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    #[arg(conflicts_with_all = ["from", "to"])]
    last: Option<Duration>,
}

impl RangeArgs {
    /// True if a range was asked for.
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.last.is_some()
    }

    /// How long before now, for what goes on; `None` for now.
    ///
    /// # Errors
    /// Anything else than `--from -DURATION` or `--last`: what is to come has no other range.
    pub fn ago(&self) -> anyhow::Result<Option<Duration>> {
        match (self.from.or(self.last.map(When::BeforeNewest)), self.to) {
            (Some(When::BeforeNewest(ago)), None) => Ok(Some(ago)),
            (None, None) => Ok(None),
            _ => bail!("a capture that goes on is read from now or from so long ago: --from -30s"),
        }
    }

    /// The range, for which the inputs are looked through if it depends on the newest packet.
    pub fn resolve(&self, inputs: &[PathBuf]) -> anyhow::Result<ResolvedSpan> {
        self.span().resolve(inputs, None)
    }

    /// The span that is asked for.
    pub fn span(&self) -> Span {
        Span { from: self.from.or(self.last.map(When::BeforeNewest)), to: self.to }
    }
}
