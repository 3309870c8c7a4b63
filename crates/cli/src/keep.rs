//! Options that say which frames a capture keeps, and what of each.

use crate::driver_rules::RulesAhead;
use crate::open::{self, Backend, OpenArgs, Opened};
use crate::record::RunArgs;
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_capture::config::{FileFormat, Output};
use ringside_capture::keep::{
    AdaptiveBounds, CAP_BYTES_MIN, DigestOutput, FlowCutoff, Mirrors, Rules, RulesError, Selection,
    Wishes,
};
use ringside_core::Shown;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_filter::Prepared;
use ringside_keeper::filter_child::filter_compiler;
use ringside_netdev as netdev;
use ringside_rules::language::{self, Verdict};
use ringside_terminal::{say, units};
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
    /// Make room in the driver for so many exact rules and as many others, if those of the start
    /// need less: `rules load` and `add` cannot make more.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "rules_in_driver")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=ROOM_MAX as i64))]
    rules_room: u32,

    /// Keep this many bytes of each payload that is no text; text protocols are kept whole.
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=FRAME_BYTES_MAX as i64))]
    cap_binary: Option<u32>,

    /// Keep only headers of a flow after so many bytes of its payload (as 20k), or, with `tls`,
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
    /// The rules, checked: `None` without some.
    pub fn rules(&self) -> anyhow::Result<Option<Rules>> {
        let Some(path) = &self.rules else { return Ok(None) };
        let set = language::load(path)?;
        let rules = Rules::new(set, filter_compiler()?);
        let rules = rules.with_context(|| path.shown().to_string())?;
        if let (Some(id), None) = (rules.digests(), &self.digests) {
            return Err(RulesError::Digest { id }).with_context(|| path.shown().to_string());
        }
        if self.rules_in_driver {
            rules.expect_drivers();
        }
        Ok(Some(rules))
    }

    /// The rules in the drivers of interfaces, if that is asked for.
    pub fn ahead(
        &self,
        rules: Option<&Rules>,
        interfaces: &[String],
    ) -> anyhow::Result<Option<RulesAhead>> {
        let Some(rules) = rules.filter(|_| self.rules_in_driver) else { return Ok(None) };
        ensure!(
            !interfaces.is_empty(),
            "--rules-in-driver is for interfaces that are received in the driver: add --backend \
             af-xdp or xdp-ring, or leave it out"
        );
        let mut ahead = RulesAhead::new(rules.clone(), self.rules_room as usize);
        for name in interfaces {
            let device = netdev::by_name(name)?.with_context(|| format!("{name} is gone"))?;
            ahead.add_interface(name, device.ifindex)?;
        }
        Ok(Some(ahead))
    }

    /// Where records are written.
    fn digests(&self) -> anyhow::Result<Option<DigestOutput>> {
        Ok(match &self.digests {
            None => None,
            Some(path) if is_stdout(path) => Some(DigestOutput::Stream(open::stdout_stream()?)),
            Some(path) => Some(DigestOutput::File(path.clone())),
        })
    }

    /// True if records go to standard output.
    pub fn digests_to_stdout(&self) -> bool {
        self.digests.as_deref().is_some_and(is_stdout)
    }

    /// Refuses records where something else is read or written.
    pub fn check_digests(&self, inputs: &[PathBuf], run: &RunArgs) -> anyhow::Result<()> {
        let Some(path) = &self.digests else { return Ok(()) };
        if is_stdout(path) {
            ensure!(
                !run.json && !run.write.is_stdout(),
                "--digests - and {} both want standard output; write the records to a file",
                if run.json { "--json" } else { "-w -" }
            );
            return Ok(());
        }
        let shown = path.shown();
        ensure!(!run.write.paths.contains(path), "-w and --digests both name {shown}");
        open::files::check_output(inputs, path)
    }

    /// What is to be done with the frames of what was opened, to whose interfaces it may add some;
    /// `None` if all are to be kept as they are. `filters` are asked first. Each lane has so many
    /// threads.
    pub fn selection(
        &self,
        rules: Option<Rules>,
        filters: Vec<Prepared>,
        threads: usize,
        opened: &mut Opened,
    ) -> anyhow::Result<Option<Selection>> {
        let KeepArgs { cap_binary: binary_cap, flow_cutoff, adaptive_cap, .. } = *self;
        let is_idle = (binary_cap, flow_cutoff, adaptive_cap) == (None, None, None);
        if is_idle && rules.is_none() && filters.is_empty() {
            return Ok(None);
        }
        let sends = rules.as_ref().filter(|rules| !rules.mirrors().is_empty());
        let threads = threads * opened.lanes.len();
        let mirrors = sends.map(|rules| Mirrors::open(rules, &opened.interfaces, threads));
        let mirrors = mirrors.transpose()?;
        let digests = self.digests()?;
        let wishes =
            Wishes { rules, mirrors, digests, filters, binary_cap, flow_cutoff, adaptive_cap };
        Ok(Some(Selection::new(wishes, &mut opened.interfaces)?))
    }

    /// Refuses threads among which the frames of a flow would be lost sight of.
    pub fn check_threads(&self, threads: u16) -> anyhow::Result<()> {
        if self.flow_cutoff.is_some() && threads > 1 {
            bail!(
                "--flow-cutoff counts the bytes of each flow, and --threads {threads} shares flows \
                 among threads: use --queues {threads}, or leave out --threads"
            );
        }
        Ok(())
    }
}

/// Refuses rules that send copies of frames where there are none to send, or not whole ones.
pub fn check_mirrors(rules: &Rules, args: &OpenArgs) -> anyhow::Result<()> {
    let mirrors = rules.mirrors();
    let Some((id, name)) = mirrors.first() else { return Ok(()) };
    ensure!(
        args.read.is_empty(),
        "rule {id}: `mirror {name}` sends frames on while they are received, and -r reads what \
         was: leave it out, or receive from an interface (-i)"
    );
    let snaplen = args.snaplen_bytes();
    ensure!(
        snaplen == FRAME_BYTES_MAX,
        "rule {id}: `mirror {name}` sends whole frames, and -s {snaplen} has them cut before: \
         leave out -s, and write `cap {snaplen}` in the rules"
    );
    Ok(())
}

/// Refuses rules that leave frames to the host where it does not get them.
pub fn check_backend(rules: &Rules, backend: Backend, name: &str) -> anyhow::Result<()> {
    if rules.has_drivers() {
        return Ok(());
    }
    if backend.is_in_driver() {
        rules.forbid_pass();
    }
    ensure!(
        !rules.pass_some() || !backend.is_in_driver(),
        "{name}: `pass` leaves a frame to the host, and {} has taken it away before the rules are \
         asked: write `default drop` and no `pass` in the rules, name what is to be taken as a \
         filter, add --rules-in-driver, or use --backend af-packet",
        backend.name()
    );
    Ok(())
}

/// Says what becomes of frames of an interface that no rule can match, if the default drops them.
pub fn tell_pre_filter(rules: &Rules, interface: &str) {
    let set = rules.set();
    let statuses = rules.pre_filters();
    let status = statuses.iter().find(|(name, _)| name == interface);
    if let Some((_, status)) = status.filter(|_| set.default == Verdict::Drop) {
        let text = status.text(set.rules.len());
        say::message(format_args!("ringside: {interface}: pre-filter: {text}"));
    }
}

/// Refuses what an output cannot say of a frame.
pub fn check_output(
    selection: &Selection,
    output: &Output,
    has_trigger: bool,
) -> anyhow::Result<()> {
    if !selection.keeps_pieces() {
        return Ok(());
    }
    let is_pcap = matches!(
        output,
        Output::File { format: FileFormat::Pcap, .. }
            | Output::Stream { format: FileFormat::Pcap, .. }
    );
    ensure!(
        !is_pcap,
        "pcap cannot say which bytes of a frame `keep` has kept: write pcapng (-w FILE.pcapng or \
         --format pcapng), or use `cap` in the rules"
    );
    ensure!(
        !has_trigger,
        "--on looks at frames as they are kept, and `keep` moves their bytes: use `cap` in the \
         rules, or leave out --on"
    );
    Ok(())
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
