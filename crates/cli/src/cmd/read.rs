//! `ringside read`: print packets like tcpdump, or copy them.

use crate::filter_args::FilterArgs;
use crate::frame_filter::FrameFilter;
use crate::open;
use crate::print::{PacketText, PrintArgs, Style};
use crate::record::FormatArg;
use crate::{say, units};
use anyhow::bail;
use clap::Args;
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_store::writer::create_copy;
use ringside_store::{Format, FrameWriter, StoreError, StoredSource, is_input};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long one step waits for input; matters for a pipe only.
const WAIT: Duration = Duration::from_millis(200);

/// Arguments of `read`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside read -r /data/eth1                          a recording: all lanes, in order of time
  ringside read -r /disk1/eth1 -r /disk2/eth1          a recording on two disks
  ringside read -r trace.pcap -n -v 'tcp port 80'      print what matches
  ringside read -r a.pcapng -r b.pcap -w both.pcapng   merge two files by time
  ringside read -r /data/eth1 -w - | wireshark -k -i - look at it in Wireshark
  ringside read -r trace.pcap --json | jq .tcp         one object a packet")]
pub struct ReadArgs {
    /// File (pcap or pcapng), directory of a recording, or `-` for standard input; several are
    /// merged by time. A recording that lies in several directories is read from all of them.
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-", required = true)]
    read: Vec<PathBuf>,

    /// Copy the packets to FILE.pcapng, FILE.pcap or standard output (`-`) instead of printing.
    #[arg(short = 'w', long = "write", value_name = "FILE|-")]
    write: Option<PathBuf>,

    /// Format of the copy, where its name does not tell.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "write")]
    format: Option<FormatArg>,

    /// Stop after this many packets.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    print: PrintArgs,

    /// One JSON object a packet.
    #[arg(long, conflicts_with_all = ["write", "hex", "hex_ascii", "ascii"])]
    json: bool,

    #[command(flatten)]
    filter: FilterArgs,
}

/// Runs the subcommand.
pub fn run(args: ReadArgs) -> anyhow::Result<ExitCode> {
    let mut source = ringside_store::open(&args.read)?;
    let mut filter = FrameFilter::new(args.filter.expression());
    // A wrong filter is refused before anything is made.
    for interface in source.interfaces() {
        filter.prepare(interface.link_type)?;
    }
    let mut output = output(&args)?;
    let matched = copy(&mut *source, &mut filter, &mut *output, args.count.unwrap_or(u64::MAX))
        .and_then(|matched| output.finish().map(|()| matched));
    let status = match matched {
        Ok(0) => Ok(ExitCode::from(1)),
        Ok(_) => Ok(ExitCode::SUCCESS),
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

/// Moves up to `count_max` frames that match; returns how many.
fn copy(
    source: &mut dyn StoredSource,
    filter: &mut FrameFilter,
    output: &mut dyn Output,
    count_max: u64,
) -> anyhow::Result<u64> {
    let mut matched = 0;
    let mut known = 0;
    while !source.is_finished() {
        let Some(batch) = source.next_batch(WAIT)? else {
            output.idle()?;
            continue;
        };
        // A file may name interfaces while it is read; the copy must know them all.
        for interface in &batch.interfaces()[known..] {
            output.add_interface(interface)?;
        }
        known = batch.interfaces().len();
        for frame in batch.iter() {
            let interface = batch.interfaces().get(frame.meta.interface.0 as usize);
            let link_type = interface.map_or(LinkType::ETHERNET, |found| found.link_type);
            if filter.accepts(&frame, link_type)? {
                output.put(&frame)?;
                matched += 1;
                if matched == count_max {
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

fn output(args: &ReadArgs) -> anyhow::Result<Box<dyn Output>> {
    let Some(path) = &args.write else {
        return Ok(Box::new(Printer::new(args)));
    };
    let format = match args.format {
        Some(FormatArg::Pcap) => Format::Pcap,
        Some(FormatArg::Pcapng) => Format::Pcapng,
        None => Format::of_path(path).unwrap_or(Format::Pcapng),
    };
    let is_stdout = path == Path::new("-") || path == Path::new("/dev/stdout");
    let file = if is_stdout {
        let stdout = File::from(open::stdout_stream()?);
        if is_input(&args.read, &stdout)? {
            bail!("standard output is a file that is read at once: name another file");
        }
        stdout
    } else {
        create_copy(path, &args.read)?
    };
    let cut = match is_stdout || !file.metadata()?.is_file() {
        true => None,
        false => Some((path.clone(), file.try_clone()?)),
    };
    Ok(Box::new(Copier { writer: format.writer(file, &[])?, cut }))
}

/// Writes a capture file or stream.
struct Copier {
    writer: Box<dyn FrameWriter>,
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
        let packets = match self.writer.frames_written() {
            1 => "the 1 packet".into(),
            count => format!("the {} packets", units::grouped(count)),
        };
        error.context(format!("{} holds {packets} before this error", path.display()))
    }
}

/// Prints lines, or JSON.
struct Printer {
    out: BufWriter<io::Stdout>,
    text: PacketText,
    link_types: Vec<LinkType>,
    /// The text of one packet: its memory is used again.
    bytes: Vec<u8>,
}

impl Printer {
    fn new(args: &ReadArgs) -> Printer {
        let style = if args.json { Style::Json } else { Style::Lines(args.print.options()) };
        Printer {
            out: BufWriter::new(io::stdout()),
            text: PacketText::new(style),
            link_types: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl Output for Printer {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.link_types.push(interface.link_type);
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let index = frame.meta.interface.0 as usize;
        let link_type = self.link_types.get(index).copied().unwrap_or(LinkType::ETHERNET);
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
