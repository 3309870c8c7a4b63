//! `ringside read`: print packets like tcpdump, or copy them.

use crate::filter_args::FilterOptions;
use crate::open_args::stdout_stream;
use crate::print_args::PrintArgs;
use crate::range_args::RangeArgs;
use crate::record::FormatArg;
use crate::words;
use anyhow::bail;
use clap::Args;
use ringside_core::Shown;
use ringside_print::Style;
use ringside_report::read as report;
use ringside_session::filters::FrameFilter;
use ringside_session::stored_copy::{Copier, CopyLimits, Output, Printer, copy};
use ringside_store::{Format, Query, StoreError, is_input};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
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
    /// File (pcap or pcapng, also compressed by gzip or zstd), directory of a recording, or `-` for
    /// standard input; several are merged by time. A recording that lies in several directories is
    /// read from all of them.
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-", required = true)]
    read: Vec<PathBuf>,

    /// Copy the packets to FILE.pcapng, FILE.pcap or standard output (`-`) instead of printing;
    /// compressed with .gz or .zst behind. A file that another process writes is refused.
    #[arg(short = 'w', long = "write", value_name = "FILE|-")]
    write: Option<PathBuf>,

    /// Format of the copy, where its name does not tell.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "write")]
    format: Option<FormatArg>,

    /// Stop after this many packets.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    range: RangeArgs,

    #[command(flatten)]
    print: PrintArgs,

    /// One JSON object a packet.
    #[arg(long, conflicts_with_all = ["write", "hex", "hex_ascii", "ascii"])]
    json: bool,

    #[command(flatten)]
    filter_options: FilterOptions,

    /// More files or directories to read, then a pcap-filter(7) expression. A word names an input
    /// as long as all words before it did and it exists, unless it is a word of the filter language
    /// alone (`ip`; write `./ip` for a file of that name).
    #[arg(value_name = "FILE|FILTER")]
    words: Vec<String>,

    /// What follows `--` is all filter.
    #[arg(value_name = "FILTER", last = true)]
    filter: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: ReadArgs) -> anyhow::Result<ExitCode> {
    let (inputs, filter) = inputs(&args)?;
    // Before a pipe is opened, which waits for its first bytes: the question would end the process.
    let statistics = Wanted::statistics()?;
    let asked = args.range.resolve(&inputs)?;
    let mut source = Query { inputs: inputs.clone(), range: asked.range }.open()?;
    let mut filter = FrameFilter::new(filter, words::say_note);
    // A wrong filter is refused before anything is made.
    for interface in source.interfaces() {
        filter.prepare(interface.link_type)?;
    }
    // Until here a signal to end does so at once: no packet has come yet.
    let stop = StopSignal::install()?;
    let mut output = output(&args, &inputs)?;
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
        && args.range.is_given()
    {
        let mut tally = source.tally();
        tally.bytes_read += asked.bytes_read;
        report::range(matched, &tally, args.json);
    }
    let status = match matched {
        // Who ended it early did not wait for something to be found, nor for the input's end.
        Ok(copied) if stop.is_set() => {
            say_ended_early(&args, copied, source.is_finished());
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

/// After a signal: says what a copy holds, unless its input had ended too. Printed packets show
/// themselves.
fn say_ended_early(args: &ReadArgs, copied: u64, is_finished: bool) {
    let Some(path) = args.write.as_ref().filter(|_| !is_finished) else { return };
    let (shown, packets) = (path.shown().to_string(), units::counted(copied, "packet"));
    let to = if is_stdout(path) { "standard output" } else { &shown };
    say::message(format_args!("ringside: ended by a signal: {packets} copied to {to}"));
}

/// What is read, and the filter.
fn inputs(args: &ReadArgs) -> anyhow::Result<(Vec<PathBuf>, String)> {
    let is_input = |word: &&String| !is_keyword(word) && Path::new(word).exists();
    let count = args.words.iter().take_while(is_input).count();
    let (named, filter) = args.words.split_at(count);
    if let Some(word) = filter.first().filter(|word| Format::of_path(Path::new(word)).is_some()) {
        bail!("cannot open {word}: there is no such file, and it is no filter");
    }
    let inputs = args.read.iter().cloned().chain(named.iter().map(PathBuf::from));
    let words = [filter, &args.filter].concat().join(" ");
    let filter = match args.filter_options.expression() {
        Some(text) if words.is_empty() => text,
        Some(_) => bail!("-F and -f hold the whole filter: leave out '{words}'"),
        None => words,
    };
    Ok((inputs.collect(), filter))
}

/// True for a word with which an expression of pcap-filter(7) may begin.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: &str = "not src dst host net port portrange proto gateway ether fddi tr wlan \
        ip ip6 arp rarp atalk aarp decnet iso stp ipx netbeui lat sca moprc mopdl tcp udp sctp \
        icmp icmp6 igmp igrp pim ah esp vrrp carp ppp slip link less greater broadcast multicast \
        inbound outbound ifname on vlan mpls pppoed pppoes geneve vxlan vpi vci len esis isis clnp";
    KEYWORDS.split_whitespace().any(|keyword| keyword == word)
}

fn output(args: &ReadArgs, inputs: &[PathBuf]) -> anyhow::Result<Box<dyn Output>> {
    let Some(path) = &args.write else {
        let style = if args.json { Style::Json } else { Style::Lines(args.print.options()) };
        return Ok(Box::new(Printer::new(BufWriter::new(io::stdout()), style)));
    };
    let format = match args.format {
        Some(FormatArg::Pcap) => Format::Pcap,
        Some(FormatArg::Pcapng) => Format::Pcapng,
        None => Format::of_path(path).unwrap_or(Format::Pcapng),
    };
    if !is_stdout(path) {
        return Ok(Box::new(Copier::to_file(path, format, inputs)?));
    }
    let stdout = File::from(stdout_stream()?);
    if is_input(inputs, &stdout)? {
        bail!("standard output is a file that is read at once: name another file");
    }
    Ok(Box::new(Copier::to_stream(stdout, format)?))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

fn is_pipe_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let store = cause.downcast_ref::<StoreError>();
        io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            || store.is_some_and(StoreError::is_pipe_closed)
    })
}
