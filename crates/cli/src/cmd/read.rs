//! `ringside read`: print packets like tcpdump, or copy them.

use crate::filter_args::FilterOptions;
use crate::frame_filter::FrameFilter;
use crate::open_args::stdout_stream;
use crate::print_args::PrintArgs;
use crate::range_args::RangeArgs;
use crate::record::FormatArg;
use anyhow::bail;
use clap::Args;
use ringside_core::{Frame, Shown, SourceInterface};
use ringside_print::{PacketText, Style};
use ringside_store::writer::create_copy;
use ringside_store::{
    Format, FrameWriter, Packing, Query, StoreError, StoredSource, Tally, is_input,
};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long one step waits for input; matters for a pipe only.
const WAIT: Duration = Duration::from_millis(200);
/// What of a compressed copy waits for more at most: small members compress badly.
const PACKED_WAIT_MAX: Duration = Duration::from_secs(1);
/// After a signal so long is read on from a pipe, unless it pauses: Ctrl-C is also for the writer,
/// which hands over what it still has.
const DRAIN_MAX: Duration = Duration::from_secs(1);

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
    let mut filter = FrameFilter::new(filter);
    // A wrong filter is refused before anything is made.
    for interface in source.interfaces() {
        filter.prepare(interface.link_type)?;
    }
    // Until here a signal to end does so at once: no packet has come yet.
    let stop = StopSignal::install()?;
    let mut output = output(&args, &inputs)?;
    let limits = Limits {
        count_max: args.count.unwrap_or(u64::MAX),
        is_stream: inputs.iter().any(|path| !path.is_file() && !path.is_dir()),
        stop: &stop,
        statistics: &statistics,
    };
    let matched = copy(&mut *source, &mut filter, &mut *output, &limits)
        .and_then(|matched| output.finish().map(|()| matched));
    if let Ok(matched) = matched
        && args.range.is_given()
    {
        let mut tally = source.tally();
        tally.bytes_read += asked.bytes_read;
        say_range(matched, &tally, args.json);
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
        Err(error) => Err(output.abandon(error)),
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

/// Says what was read for a range of time.
fn say_range(packets: u64, tally: &Tally, json: bool) {
    let Tally { bytes_read, frames_outside, blocks_passed, .. } = *tally;
    if json {
        let read = serde_json::json!({
            "packets": packets,
            "packets_outside": frames_outside,
            "bytes_read": bytes_read,
            "ring_blocks_passed": blocks_passed,
        });
        return say::message(serde_json::json!({ "read": read }));
    }
    let (packets, outside) = (units::counted(packets, "packet"), units::grouped(frames_outside));
    let bytes = units::counted(bytes_read, "byte");
    let blocks = units::counted(blocks_passed, "ring block");
    say::message(format_args!(
        "{packets} of the range, {outside} outside; {bytes} read, {blocks} passed by"
    ));
}

/// After a signal: says what a copy holds, unless its input had ended too. Printed packets show
/// themselves.
fn say_ended_early(args: &ReadArgs, copied: u64, is_finished: bool) {
    let Some(path) = args.write.as_ref().filter(|_| !is_finished) else { return };
    let (shown, packets) = (path.shown().to_string(), units::counted(copied, "packet"));
    let to = if is_stdout(path) { "standard output" } else { &shown };
    say::message(format_args!("ringside: ended by a signal: {packets} copied to {to}"));
}

/// When the reading ends before its inputs do.
struct Limits<'a> {
    count_max: u64,
    /// Some input is no file: it may pause, and what it has given by then is to be seen.
    is_stream: bool,
    stop: &'a StopSignal,
    statistics: &'a Wanted,
}

/// Moves frames that match; returns how many.
fn copy(
    source: &mut dyn StoredSource,
    filter: &mut FrameFilter,
    output: &mut dyn Output,
    limits: &Limits<'_>,
) -> anyhow::Result<u64> {
    let (mut read, mut matched, mut known) = (0, 0, 0);
    // A stream is waited for only after what it has given is handed on.
    let mut timeout = WAIT;
    let mut stopped_at: Option<Instant> = None;
    while !source.is_finished() {
        if limits.statistics.take() {
            let (read, matched) = (units::grouped(read), units::grouped(matched));
            say::message(format_args!("{read} packets read, {matched} of them match"));
        }
        if limits.stop.is_set() {
            let since = *stopped_at.get_or_insert_with(Instant::now);
            if !limits.is_stream || since.elapsed() >= DRAIN_MAX {
                return Ok(matched);
            }
        }
        let Some(batch) = source.next_batch(timeout)? else {
            output.idle()?;
            if timeout == WAIT && stopped_at.is_some() {
                return Ok(matched);
            }
            timeout = WAIT;
            continue;
        };
        if limits.is_stream {
            timeout = Duration::ZERO;
        }
        read += batch.frame_count() as u64;
        // A file may name interfaces while it is read; the copy must know them all.
        for interface in &batch.interfaces()[known..] {
            output.add_interface(interface)?;
        }
        known = batch.interfaces().len();
        for frame in batch.iter() {
            let link_type = batch.interface_of(&frame.meta)?.link_type;
            if filter.accepts(&frame, link_type)? {
                output.put(&frame)?;
                matched += 1;
                if matched == limits.count_max {
                    return Ok(matched);
                }
            }
        }
    }
    // Interfaces without a packet are part of the file too.
    for interface in &source.interfaces()[known..] {
        output.add_interface(interface)?;
    }
    Ok(matched)
}

/// Where packets go.
trait Output {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()>;
    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()>;
    /// The input pauses: what is buffered should be seen.
    fn idle(&mut self) -> anyhow::Result<()>;
    fn finish(&mut self) -> anyhow::Result<()>;
    /// Ends the output after `error`, with what was put before it. Returns the error, with what
    /// the output now holds.
    fn abandon(&mut self, error: anyhow::Error) -> anyhow::Error;
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
        return Ok(Box::new(Printer::new(args)));
    };
    let format = match args.format {
        Some(FormatArg::Pcap) => Format::Pcap,
        Some(FormatArg::Pcapng) => Format::Pcapng,
        None => Format::of_path(path).unwrap_or(Format::Pcapng),
    };
    let file = if is_stdout(path) {
        let stdout = File::from(stdout_stream()?);
        if is_input(inputs, &stdout)? {
            bail!("standard output is a file that is read at once: name another file");
        }
        stdout
    } else {
        create_copy(path, inputs)?
    };
    let cut = match is_stdout(path) || !file.metadata()?.is_file() {
        true => None,
        false => Some((path.clone(), file.try_clone()?)),
    };
    let packing = Packing::of_path(path).filter(|_| cut.is_some());
    let writer = match packing {
        Some(packing) => packing.writer(format, file, &[])?,
        None => format.writer(file, &[])?,
    };
    Ok(Box::new(Copier { writer, packed_at: packing.map(|_| Instant::now()), cut }))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// Writes a capture file or stream.
struct Copier {
    writer: Box<dyn FrameWriter>,
    /// When the last pause of the input was made use of, if the copy is compressed.
    packed_at: Option<Instant>,
    /// A file's name, and the handle by which it is cut; none for a stream.
    cut: Option<(PathBuf, File)>,
}

impl Output for Copier {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.writer.add_interface(interface)?;
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        Ok(self.writer.write(frame)?)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        if let Some(at) = &mut self.packed_at {
            if at.elapsed() < PACKED_WAIT_MAX {
                return Ok(());
            }
            *at = Instant::now();
        }
        Ok(self.writer.flush()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.writer.finish(&[])?)
    }

    fn abandon(&mut self, error: anyhow::Error) -> anyhow::Error {
        // It does nothing after a refused write; another error would hide the first.
        let _ = self.writer.finish(&[]);
        let Some((path, file)) = &self.cut else { return error };
        if file.set_len(self.writer.bytes_written()).is_err() {
            return error;
        }
        let packets = units::counted(self.writer.frames_written(), "packet");
        error.context(format!("{} holds the {packets} before this error", path.shown()))
    }
}

/// Prints lines, or JSON.
struct Printer {
    out: BufWriter<io::Stdout>,
    text: PacketText,
    interfaces: Vec<SourceInterface>,
    /// The text of one packet: its memory is used again.
    bytes: Vec<u8>,
}

impl Printer {
    fn new(args: &ReadArgs) -> Printer {
        let style = if args.json { Style::Json } else { Style::Lines(args.print.options()) };
        Printer {
            out: BufWriter::new(io::stdout()),
            text: PacketText::new(style),
            interfaces: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl Output for Printer {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.interfaces.push(interface.clone());
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let link_type = SourceInterface::of(&frame.meta, &self.interfaces)?.link_type;
        self.bytes.clear();
        self.text.append(&mut self.bytes, frame, link_type);
        Ok(self.out.write_all(&self.bytes)?)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn abandon(&mut self, error: anyhow::Error) -> anyhow::Error {
        // Another error would hide the first.
        let _ = self.out.flush();
        error
    }
}

fn is_pipe_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let store = cause.downcast_ref::<StoreError>();
        io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            || store.is_some_and(StoreError::is_pipe_closed)
    })
}
