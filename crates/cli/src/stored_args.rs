//! What `read` and `find` have in common: inputs, a span of time, a filter, and where packets go.

use crate::filter_args::FilterOptions;
use crate::open_args::stdout_stream;
use crate::print_args::PrintArgs;
use crate::range_args::RangeArgs;
use crate::record::FormatArg;
use anyhow::bail;
use clap::Args;
use ringside_core::Shown;
use ringside_print::{Printer, Style};
use ringside_search::{Copier, Output};
use ringside_store::{Format, StoreError, is_input};
use ringside_terminal::{say, units};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// Options by which stored packets are chosen and handed on.
#[derive(Args)]
pub struct StoredArgs {
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

    #[command(flatten)]
    pub range: RangeArgs,

    #[command(flatten)]
    print: PrintArgs,

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

impl StoredArgs {
    /// What is read, and the filter.
    pub fn inputs(&self) -> anyhow::Result<(Vec<PathBuf>, String)> {
        let is_input = |word: &&String| !is_keyword(word) && Path::new(word).exists();
        let count = self.words.iter().take_while(is_input).count();
        let (named, filter) = self.words.split_at(count);
        if let Some(word) = filter.first().filter(|w| Format::of_path(Path::new(w)).is_some()) {
            bail!("cannot open {word}: there is no such file, and it is no filter");
        }
        let inputs = self.read.iter().cloned().chain(named.iter().map(PathBuf::from));
        let words = [filter, &self.filter].concat().join(" ");
        let filter = match self.filter_options.expression() {
            Some(text) if words.is_empty() => text,
            Some(_) => bail!("-F and -f hold the whole filter: leave out '{words}'"),
            None => words,
        };
        Ok((inputs.collect(), filter))
    }

    /// Where the packets go; printed ones as objects, if they are to be `json`.
    pub fn output(&self, inputs: &[PathBuf], json: bool) -> anyhow::Result<Box<dyn Output>> {
        let Some(path) = &self.write else {
            let style = if json { Style::Json } else { Style::Lines(self.print.options()) };
            return Ok(Box::new(Printer::new(BufWriter::new(io::stdout()), style)));
        };
        let format = match self.format {
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

    /// After a signal: says what a copy holds, unless its input had ended too. Printed packets show
    /// themselves.
    pub fn say_ended_early(&self, copied: u64, is_finished: bool) {
        let Some(path) = self.write.as_ref().filter(|_| !is_finished) else { return };
        let (shown, packets) = (path.shown().to_string(), units::counted(copied, "packet"));
        let to = if is_stdout(path) { "standard output" } else { &shown };
        say::message(format_args!("ringside: ended by a signal: {packets} copied to {to}"));
    }
}

/// True for a word with which an expression of pcap-filter(7) may begin.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: &str = "not src dst host net port portrange proto gateway ether fddi tr wlan \
        ip ip6 arp rarp atalk aarp decnet iso stp ipx netbeui lat sca moprc mopdl tcp udp sctp \
        icmp icmp6 igmp igrp pim ah esp vrrp carp ppp slip link less greater broadcast multicast \
        inbound outbound ifname on vlan mpls pppoed pppoes geneve vxlan vpi vci len esis isis clnp";
    KEYWORDS.split_whitespace().any(|keyword| keyword == word)
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// True if the program behind the pipe had enough.
pub fn is_pipe_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let store = cause.downcast_ref::<StoreError>();
        io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            || store.is_some_and(StoreError::is_pipe_closed)
    })
}
