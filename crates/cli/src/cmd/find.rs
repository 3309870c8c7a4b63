//! `ringside find`: packets found again in recordings and other captures, by their indexes.

use crate::stored_args::{StoredArgs, is_pipe_closed};
use crate::words;
use clap::Args;
use ringside_core::{LinkType, Source};
use ringside_report::find as report;
use ringside_report::read::{held, so_far};
use ringside_search::{Answer, CopyLimits, Counter, Deduplicator, End, Output, Search, copy};
use ringside_session::Note;
use ringside_session::filters::programs;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `find`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside find -r /data/eth1 --last 1h host 10.0.0.1           print what there was of it
  ringside find -r /data/eth1 -w - port 53 | wireshark -k -i -  look at it in Wireshark
  ringside find -r /data/eth1 --from 2026-03-01T12:00:00Z --to 2026-03-01T12:05:00Z \\
      -w five.pcapng 'net 192.0.2.0/24 and tcp'                 copy it
  ringside find -r /disk1/eth1 -r /disk2/eth1 --count vlan 7    only how many
  ringside find -r trace.pcap --count --json icmp               with the plan, as JSON
  ringside find -r /data/span --dedup -w once.pcapng tcp        without what a mirror port doubled

An index says which blocks of a file can hold such packets, and only these are read: a recorder
makes it, or `ringside index DIR`. What has no index, or was recorded after it was built, is read
whole, so the answer is always that of `ringside read`, also while the recording goes on.

At the end standard error says how many files and blocks there are, were passed by and were read,
when the recorder lost packets of the span of time that is asked for, and whether the answer is
complete.

Exit status: 0 if packets were found and the answer is complete; 1 if none was found, or the input
ends within a packet, was never ended by its recorder or lacks a part, or a signal ended the search;
2 if it could not be read or written.

Signals: SIGINT, SIGTERM and SIGHUP end it in order: a copy is whole, and holds what was found so
far. SIGUSR1 says how many packets were read so far.")]
pub struct FindArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// Only say how many packets match, on standard output.
    #[arg(long, conflicts_with_all = ["write", "hex", "hex_ascii", "ascii"])]
    count: bool,

    /// Leave out packets that equal one before, as a mirror port gives them: the same bytes from
    /// the link header on, the same length on the wire, at most WINDOW (50ms) apart in time.
    #[arg(long, value_name = "WINDOW", value_parser = units::duration)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "50ms")]
    dedup: Option<Duration>,

    /// Packets that are printed, the plan and the account as JSON objects.
    #[arg(long, conflicts_with_all = ["hex", "hex_ascii", "ascii"])]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: FindArgs) -> anyhow::Result<ExitCode> {
    let (inputs, expression) = args.stored.inputs()?;
    // Before a pipe is opened, which waits for its first bytes: the question would end the process.
    let statistics = Wanted::statistics()?;
    let programs = programs(&expression)?;
    // Most captures are of Ethernet. Starting the child takes as long as opening their indexes.
    programs.compile_ahead(LinkType::ETHERNET)?;
    let search = Search { inputs: inputs.clone(), span: args.stored.range.span(), programs };
    // A wrong filter is refused before anything is made.
    let mut opened =
        search.open(|instructions| words::say_note(Note::Unoptimised { instructions }))?;
    let stop = StopSignal::install()?;
    let output: Box<dyn Output> = match args.count {
        true => Box::new(Counter),
        false => args.stored.output(&inputs, args.json)?,
    };
    let mut output = Deduplicator::new(output, args.dedup);
    let limits = CopyLimits {
        count_max: u64::MAX,
        is_stream: inputs.iter().any(|path| !path.is_file() && !path.is_dir()),
        is_stopped: &|| stop.is_set(),
        look: &|read, matched| {
            if statistics.take() {
                say::message(so_far(read, matched));
            }
        },
    };
    let copied = copy(&mut opened.source, &mut opened.filter, &mut output, &limits)
        .and_then(|found| output.finish().map(|()| found));
    let found = match copied {
        Ok(found) => found,
        // The program behind the pipe had enough.
        Err(error) if is_pipe_closed(&error) => return Ok(ExitCode::SUCCESS),
        Err(error) => {
            let held = output.abandon().map(|(path, packets)| held(&path, packets));
            return Err(held.into_iter().fold(error, |error, held| error.context(held)));
        }
    };
    let duplicates = output.duplicates();
    let found = found - duplicates.map_or(0, |duplicates| duplicates.packets);
    let is_stopped = stop.is_set() && !opened.source.is_finished();
    if is_stopped {
        args.stored.say_ended_early(found, false);
    }
    let answer = Answer { duplicates, ..opened.answer(found, is_stopped) };
    report::print(&answer, args.count, args.json)?;
    let is_whole = answer.end == End::Complete && found > 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
