//! `ringside read`: print packets like tcpdump, or copy them.

use crate::stored_args::{StoredArgs, is_pipe_closed};
use crate::words;
use clap::Args;
use ringside_report::read as report;
use ringside_search::{CopyLimits, copy};
use ringside_session::filters::frame_filter;
use ringside_store::Query;
use ringside_terminal::say;
use ringside_terminal::signals::{StopSignal, Wanted};
use std::process::ExitCode;

/// Arguments of `read`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside read -r /data/eth1                          a recording: all lanes, in order of time
  ringside read -r /disk1/eth1 -r /disk2/eth1          a recording on two disks
  ringside read -r trace.pcap -n -v 'tcp port 80'      print what matches
  ringside read -r a.pcapng b.pcap -w both.pcapng      merge two files by time
  ringside read -r *.pcap -- host 10.0.0.1             all of them, filtered
  ringside read -r /data/eth1 -w - | wireshark -k -i - look at it in Wireshark
  ringside read -r trace.pcap --json | jq .tcp         one object a packet
  ringside read -r /data/eth1 --last 10m 'port 53'     of the ten minutes up to the newest packet
  ringside read -r /data/eth1 --from 2026-03-01T12:00:00Z --to 2026-03-01T12:05:00Z -w five.pcapng

With --from, --to or --last a line on standard error says at the end what was read for it (with
--json an object).

Exit status: 0 if packets were found and the input is whole; 1 if none was found, or the input ends
within a packet, was never ended by its recorder or lacks a part, which is said on standard error;
2 if it could not be read or written.

Signals: SIGINT, SIGTERM and SIGHUP end it in order, with all that had come, also from a pipe, and
with -w it says how many packets it copied; SIGUSR1 says how many packets were read so far. Both on
standard error.")]
pub struct ReadArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// Stop after this many packets.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// One JSON object a packet.
    #[arg(long, conflicts_with_all = ["write", "hex", "hex_ascii", "ascii"])]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: ReadArgs) -> anyhow::Result<ExitCode> {
    let (inputs, filter) = args.stored.inputs()?;
    // Before a pipe is opened, which waits for its first bytes: the question would end the process.
    let statistics = Wanted::statistics()?;
    let asked = args.stored.range.resolve(&inputs)?;
    let mut source = Query { inputs: inputs.clone(), range: asked.range }.open()?;
    let mut filter = frame_filter(&filter, words::say_note)?;
    // A wrong filter is refused before anything is made.
    for interface in source.interfaces() {
        filter.prepare(interface.link_type)?;
    }
    // Until here a signal to end does so at once: no packet has come yet.
    let stop = StopSignal::install()?;
    let mut output = args.stored.output(&inputs, args.json)?;
    let limits = CopyLimits {
        count_max: args.count.unwrap_or(u64::MAX),
        is_stream: inputs.iter().any(|path| !path.is_file() && !path.is_dir()),
        is_stopped: &|| stop.is_set(),
        look: &|read, matched| {
            if statistics.take() {
                say::message(report::so_far(read, matched));
            }
        },
    };
    let matched = copy(&mut *source, &mut filter, &mut *output, &limits)
        .and_then(|matched| output.finish().map(|()| matched));
    if let Ok(matched) = matched
        && args.stored.range.is_given()
    {
        let mut tally = source.tally();
        tally.bytes_read += asked.bytes_read;
        report::range(matched, &tally, args.json);
    }
    let status = match matched {
        // Who ended it early did not wait for something to be found, nor for the input's end.
        Ok(copied) if stop.is_set() => {
            args.stored.say_ended_early(copied, source.is_finished());
            Ok(ExitCode::SUCCESS)
        }
        Ok(0) => Ok(ExitCode::from(1)),
        Ok(_) => {
            let is_whole = !source.notices().iter().any(|notice| notice.condition.is_loss());
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        // The program behind the pipe had enough.
        Err(error) if is_pipe_closed(&error) => return Ok(ExitCode::SUCCESS),
        Err(error) => Err(match output.abandon() {
            Some((path, packets)) => error.context(report::held(&path, packets)),
            None => error,
        }),
    };
    let said = status.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    for notice in source.notices().iter().map(ToString::to_string) {
        // Damage that ended the reading is in the error already.
        if !said.contains(&notice) {
            say::message(format_args!("ringside: {notice}"));
        }
    }
    status
}
