//! `ringside capture`: receive, count or record, and end with the ledger.

use crate::keep::{self, KeepArgs};
use crate::open::{self, OpenArgs, Opened};
use crate::print_args::PrintArgs;
use crate::record::{self, Extras, RunArgs};
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_capture::config;
use ringside_capture::share::ShareSocket;
use ringside_capture::trigger::TriggerConfig;
use ringside_control::ControlSocket;
use ringside_core::SourceInterface;
use ringside_filter::Prepared;
use ringside_keeper::Knobs;
use ringside_keeper::filter_child::compile;
use ringside_print::Style;
use ringside_terminal::units;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `capture`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside capture -i eth1 'tcp port 443'           print what matches until Ctrl-C
  sudo ringside capture -i eth1 --count --for 1m         count for a minute
  sudo ringside capture -i eth1 -w /data/eth1 -G 1h      record, a new file each hour
  sudo ringside capture -i eth1 -w /ssd0 -w /ssd1        one recording on two disks
  sudo ringside capture -i eth1 -w /data --limit-bytes 500GB   keep the latest
  sudo ringside capture -i eth1 -w /data --on 'icmp' --before 30s --after 60s
                                                         only what surrounds a hit
  sudo ringside capture -i eth1 --share /run/eth1.share  let `ringside attach` read along
  sudo ringside capture -i eth1 -i eth2 -w two.pcapng    two interfaces, merged by time
  sudo ringside capture -i eth1 --queues 4 -w /data      four lanes in parallel
  sudo ringside capture -i eth1 -w small.pcapng.zst      compressed: .gz or .zst
  sudo ringside capture -i eth1 -w 'cap-%Y%m%d-%H%M%S.pcapng' -G 60   named by local time
  sudo ringside capture -i eth1 -w - 'udp port 53' | tshark -r -
  sudo ringside capture -i eth1 -w /data --print         record, and print as well
  sudo ringside capture -i eth1 --json icmp | jq .src    an object a packet, then the ledger
  sudo ringside capture -i eth1 --count --for 10s --json | tail -1 | jq .ledger
  sudo ringside capture -i eth1 -w /data --rules web.rules  what the rules take, cut as they say
  sudo ringside capture -i eth1 --rules dns.rules --digests dns.jsonl  records of what they digest
  sudo ringside capture -i eth1 -w /data --adaptive-cap 96-1514  less of each frame, but all frames
  sudo ringside capture -i eth1 -w /data --flow-cutoff 20k   the beginning of each flow
  sudo ringside capture -i eth2 --backend af-xdp --rules web.rules --rules-in-driver
  ringside capture -r trace.pcap --rules web.rules       as if it were received now

Signals: SIGINT and SIGTERM end the run in order, SIGHUP too, but where files rotate (-C, -G,
limits) it begins new ones; SIGUSR1 says what was taken so far, on standard error.")]
pub struct CaptureArgs {
    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    keep: KeepArgs,

    #[command(flatten)]
    print: PrintArgs,

    #[command(flatten)]
    run: RunArgs,

    /// Count only: nothing is printed, and frames are not even copied.
    #[arg(long, conflicts_with_all = ["paths", "print_too"])]
    count: bool,

    /// Print packets also where they are recorded (-w), shared or digested. A standard output that
    /// is too slow misses packets then, which are counted; the recording misses none for it.
    #[arg(id = "print_too", long = "print", conflicts_with = "on")]
    print_too: bool,

    /// Let other processes read the capture's memory (`ringside attach`): a socket of mode 0600.
    #[arg(long, value_name = "SOCKET")]
    share: Option<PathBuf>,

    /// Write only what surrounds the frames that match this pcap-filter(7) expression.
    #[arg(long, value_name = "FILTER", requires = "paths")]
    on: Option<String>,

    /// How long before a hit, as far as the memory (--ring-size) reaches back.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "30s")]
    #[arg(requires = "on")]
    before: Duration,

    /// How long after a hit.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "60s")]
    #[arg(requires = "on")]
    after: Duration,
}

/// Runs the subcommand.
pub fn run(args: CaptureArgs) -> anyhow::Result<ExitCode> {
    if args.open.lists_interfaces() {
        args.open.enter_namespace()?;
        open::interfaces::print(args.run.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    ringside_keeper::supervised(&args.run.wishes(args.share.as_deref()), |link| {
        record::run(&args.run, link, |knobs| open(&args, knobs))
    })
}

impl CaptureArgs {
    /// True if packets are printed: unless they are only counted, or something else is done with
    /// them.
    fn prints(&self) -> bool {
        !self.count && (self.print_too || !self.goes_elsewhere())
    }

    /// True if something else is done with packets than to print or count them.
    fn goes_elsewhere(&self) -> bool {
        !self.run.write.paths.is_empty() || self.share.is_some() || self.keep.digests.is_some()
    }

    /// How packets are printed; `None` if they are not.
    ///
    /// # Errors
    /// Standard output is wanted for something else.
    fn print_style(&self) -> anyhow::Result<Option<Style>> {
        if !self.prints() {
            return Ok(None);
        }
        ensure!(
            !self.run.write.is_stdout() && !self.keep.digests_to_stdout(),
            "--print and {} both want standard output; write to a file, or leave out --print",
            if self.run.write.is_stdout() { "-w -" } else { "--digests -" }
        );
        Ok(Some(if self.run.json { Style::Json } else { Style::Lines(self.print.options()) }))
    }

    /// The capture ring: a printer keeps up, or nothing helps it.
    fn ring_bytes(&self) -> u64 {
        let prints_alone = self.prints() && !self.goes_elsewhere();
        if prints_alone { config::RING_BYTES as u64 } else { config::DISK_RING_BYTES as u64 }
    }
}

fn open(args: &CaptureArgs, knobs: &Knobs<'_>) -> anyhow::Result<(Opened, Extras)> {
    if args.on.is_some() && !args.run.write.is_directory() {
        bail!("--on writes to a directory: name one with -w");
    }
    let print = args.print_style()?;
    args.keep.check_threads(args.open.threads)?;
    let rules = args.keep.rules()?;
    rules.as_ref().map_or(Ok(()), |rules| keep::check_mirrors(rules, &args.open))?;
    let (inputs, outputs) = (&args.open.read, &args.run.write.paths);
    outputs.iter().try_for_each(|output| open::files::check_output(inputs, output))?;
    args.keep.check_digests(inputs, &args.run)?;
    let directories = if args.run.write.is_directory() { &outputs[..] } else { &[] };
    let verbose = args.print.is_verbose();
    let mut opened = open::open(&args.open, rules.as_ref(), directories, knobs, verbose)?;
    let filters = match args.open.read.is_empty() {
        true => Vec::new(),
        false => filters(&args.open.expression(), &opened.interfaces)?,
    };
    // Before it is known what of frames is kept: a hit is looked for in whole ones.
    let trigger = trigger(args, &opened.interfaces)?;
    let ahead = args.keep.ahead(rules.as_ref(), &opened.in_driver)?;
    let threads = usize::from(args.open.threads);
    let extras = Extras {
        ahead,
        selection: args.keep.selection(rules, filters, threads, &mut opened)?,
        snaplen: args.open.snaplen_bytes(),
        threads,
        ring_bytes: args.ring_bytes(),
        trigger,
        share: args.share.as_deref().map(share).transpose()?,
        print,
    };
    Ok((opened, extras))
}

fn trigger(
    args: &CaptureArgs,
    interfaces: &[SourceInterface],
) -> anyhow::Result<Option<TriggerConfig>> {
    let Some(expression) = &args.on else { return Ok(None) };
    let filters = filters(expression, interfaces)?;
    if filters.is_empty() {
        bail!("--on needs a filter that is not empty");
    }
    Ok(Some(TriggerConfig { filters, before: args.before, after: args.after }))
}

/// A filter for each interface; none of an empty expression.
fn filters(expression: &str, interfaces: &[SourceInterface]) -> anyhow::Result<Vec<Prepared>> {
    let mut filters: Vec<Prepared> = Vec::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let link = interface.link_type;
        let known = interfaces[..index].iter().position(|before| before.link_type == link);
        let Some(program) = known.is_none().then(|| compile(expression, link)).transpose()? else {
            filters.extend(known.and_then(|known| filters.get(known)).cloned());
            continue;
        };
        filters.extend(program.as_ref().map(Prepared::new).transpose()?);
    }
    Ok(filters)
}

fn share(path: &Path) -> anyhow::Result<ShareSocket> {
    let socket = ControlSocket::bind(path)?;
    let listener = socket.listener().context("the socket for readers")?;
    ShareSocket::new(listener, socket).context("the socket for readers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        capture: CaptureArgs,
    }

    #[test]
    fn the_ring_is_small_where_packets_are_only_printed() {
        let print = config::RING_BYTES as u64;
        let cases: [(&[&str], u64); 5] = [
            (&[], print),
            (&["--print"], print),
            (&["--print", "-w", "x"], config::DISK_RING_BYTES as u64),
            (&["--print", "--share", "x"], config::DISK_RING_BYTES as u64),
            (&["-w", "x"], config::DISK_RING_BYTES as u64),
        ];
        for (args, bytes) in cases {
            let line = Line::parse_from([&["capture", "-i", "eth1"], args].concat());
            assert_eq!(line.capture.ring_bytes(), bytes, "{args:?}");
        }
    }
}
