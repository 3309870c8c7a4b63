//! Options of tcpdump and dumpcap that end a run or a file, in the words of our own.

use crate::starter_args::StarterArgs;
use clap::Args;
use ringside_terminal::units;
use std::convert::Infallible;
use std::time::Duration;

/// Bytes of dumpcap's kB.
const KILOBYTE: u64 = 1_000;

/// When a run ends.
#[derive(Args)]
pub struct EndArgs {
    /// End as dumpcap does: duration:SECONDS is --for, packets:N is -c.
    #[arg(short = 'a', value_name = "WHEN:N", value_parser = end)]
    ends: Vec<End>,

    #[command(flatten)]
    starter: StarterArgs,
}

/// When a file ends.
#[derive(Args)]
pub struct SwitchArgs {
    /// Begin new files as dumpcap does: duration:SECONDS is -G, filesize:KB is -C.
    #[arg(short = 'b', value_name = "WHEN:N", value_parser = switch, requires = "paths")]
    switches: Vec<Switch>,

    /// tcpdump's number of files, in place of which there is --limit-bytes.
    #[arg(short = 'W', value_name = "N", value_parser = file_count, hide = true)]
    file_count: Option<Infallible>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Duration(Duration),
    Packets(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Interval(Duration),
    Bytes(u64),
}

impl EndArgs {
    /// True if the run is to end, because the program that started it has closed its end or is
    /// gone.
    pub fn is_left_alone(&self) -> bool {
        self.starter.is_gone()
    }

    /// The time after which the run ends, the last that was named.
    pub fn duration(&self) -> Option<Duration> {
        self.ends.iter().rev().find_map(|end| match end {
            End::Duration(duration) => Some(*duration),
            End::Packets(_) => None,
        })
    }

    /// The frames after which the run ends, the last that were named.
    pub fn packets(&self) -> Option<u64> {
        self.ends.iter().rev().find_map(|end| match end {
            End::Packets(packets) => Some(*packets),
            End::Duration(_) => None,
        })
    }
}

impl SwitchArgs {
    /// The time after which a file ends.
    pub fn interval(&self) -> Option<Duration> {
        self.switches.iter().rev().find_map(|switch| match switch {
            Switch::Interval(interval) => Some(*interval),
            Switch::Bytes(_) => None,
        })
    }

    /// The size at which a file ends.
    pub fn bytes(&self) -> Option<u64> {
        self.switches.iter().rev().find_map(|switch| match switch {
            Switch::Bytes(bytes) => Some(*bytes),
            Switch::Interval(_) => None,
        })
    }
}

fn end(text: &str) -> Result<End, String> {
    match text.split_once(':') {
        Some(("duration", value)) => units::duration(value).map(End::Duration),
        Some(("packets", value)) => number(value).map(End::Packets),
        Some(("filesize" | "files", _)) => Err("a run does not end by the size or number of its \
            files: --limit-bytes SIZE keeps the latest within a size, -c N ends after N frames"
            .into()),
        _ => Err("write duration:SECONDS or packets:N".into()),
    }
}

fn switch(text: &str) -> Result<Switch, String> {
    match text.split_once(':') {
        Some(("duration" | "interval", value)) => units::period(value).map(Switch::Interval),
        Some(("filesize", value)) => Ok(Switch::Bytes(number(value)?.saturating_mul(KILOBYTE))),
        Some(("files", value)) => file_count(value).map(|never| match never {}),
        _ => Err("write duration:SECONDS or filesize:KB".into()),
    }
}

/// A number of files is no promise about a disk.
fn file_count(_: &str) -> Result<Infallible, String> {
    Err("files are not limited by their number: use --limit-bytes SIZE, which keeps the latest of \
         a directory within a size"
        .into())
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is no number of 1 or more")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumpcaps_words_become_ours_or_name_ours() {
        assert_eq!(end("duration:10"), Ok(End::Duration(Duration::from_secs(10))));
        assert_eq!(end("packets:7"), Ok(End::Packets(7)));
        assert_eq!(switch("duration:60"), Ok(Switch::Interval(Duration::from_secs(60))));
        assert_eq!(switch("filesize:20"), Ok(Switch::Bytes(20_000)));
        for (refused, words) in [
            (end("filesize:1").unwrap_err(), "--limit-bytes"),
            (end("files:1").unwrap_err(), "--limit-bytes"),
            (end("packets:0").unwrap_err(), "1 or more"),
            (end("10").unwrap_err(), "duration:"),
            (switch("files:5").unwrap_err(), "--limit-bytes"),
            (switch("filesize:x").unwrap_err(), "1 or more"),
            (switch("5").unwrap_err(), "filesize:"),
            (file_count("5").unwrap_err(), "--limit-bytes"),
        ] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}
