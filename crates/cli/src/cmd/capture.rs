//! `ringside capture`: receive, count or record, and end with the ledger.

use crate::keep_args::KeepArgs;
use crate::open_args::OpenArgs;
use crate::print_args::PrintArgs;
use crate::record::{self, Printing, RunArgs};
use anyhow::ensure;
use clap::Args;
use ringside_capture::config;
use ringside_print::Style;
use ringside_session::{CaptureOptions, TriggerOptions};
use ringside_terminal::units;
use std::path::PathBuf;
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
    if args.open.list_interfaces(args.run.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    ringside_keeper::supervised(&args.run.keeper_options(args.share.as_deref()), |link| {
        let mut printing = Printing(args.print_style()?);
        record::run(&args.run, link, &mut printing, || Ok(args.options()?.into()))
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
    fn ring_bytes(&self) -> usize {
        let prints_alone = self.prints() && !self.goes_elsewhere();
        if prints_alone { config::RING_BYTES } else { config::DISK_RING_BYTES }
    }

    /// What a session is to take.
    fn options(&self) -> anyhow::Result<CaptureOptions> {
        self.keep.check_digests(&self.run)?;
        let surround = |filter: &String| {
            let (filter, before, after) = (filter.clone(), self.before, self.after);
            TriggerOptions { filter, before, after }
        };
        Ok(CaptureOptions {
            open: self.open.options(self.print.is_verbose()),
            keep: self.keep.options()?,
            trigger: self.on.as_ref().map(surround),
            share: self.share.clone(),
            ring_bytes: self.ring_bytes(),
        })
    }
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
        let print = config::RING_BYTES;
        let cases: [(&[&str], usize); 5] = [
            (&[], print),
            (&["--print"], print),
            (&["--print", "-w", "x"], config::DISK_RING_BYTES),
            (&["--print", "--share", "x"], config::DISK_RING_BYTES),
            (&["-w", "x"], config::DISK_RING_BYTES),
        ];
        for (args, bytes) in cases {
            let line = Line::parse_from([&["capture", "-i", "eth1"], args].concat());
            assert_eq!(line.capture.ring_bytes(), bytes, "{args:?}");
        }
    }
}
