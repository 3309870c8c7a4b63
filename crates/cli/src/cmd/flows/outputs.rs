//! What becomes of records: options, and the sinks that they stand for.

use super::collectors::{CollectorArgs, Outlets, Watched};
use crate::open_args::stdout_stream;
use crate::record::free_bytes;
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_flow::{
    Field, FlowMonitor, FlowTable, Limits, LineFormat, Lines, Names, Rank, TopOptions,
};
use ringside_terminal::units;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Groups that a table shows unless asked otherwise: a screen.
const TOP: usize = 20;

/// What flows are, and what becomes of their records.
#[derive(Args)]
pub struct FlowArgs {
    /// Fields that packets of one row have in common, as src,dst_port or src/24; records have
    /// more [default: protocol,src,src_port,dst,dst_port]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    group: Vec<Field>,

    /// What the rows of the table are ordered by.
    #[arg(long, value_name = "WHAT", default_value = Rank::Bytes.name(), value_parser = ranks())]
    by: Rank,

    /// Rows of the table.
    #[arg(long, value_name = "N", default_value_t = TOP as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    top: u32,

    /// Records as comma-separated values on standard output.
    #[arg(long, conflicts_with_all = ["json", "group"])]
    csv: bool,

    /// What the fields of records are called in --json and --csv.
    #[arg(long, value_name = "SCHEME", default_value = Names::Ringside.name())]
    #[arg(value_parser = names())]
    names: Names,

    /// A flow is over when no packet came for so long.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "15s")]
    idle: Duration,

    /// A flow that goes on has a record for each such time.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "60s")]
    active: Duration,

    /// Memory of the flow table. One that is full gives up a flow for each that comes, which its
    /// record says [default: a sixteenth of what is free, from 64MiB to 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = free_bytes)]
    flow_memory: Option<usize>,

    #[command(flatten)]
    collectors: CollectorArgs,
}

/// What standard output shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The largest groups.
    Table,
    /// The same as JSON, at the end.
    Groups,
    /// Records.
    Records(LineFormat),
}

impl FlowArgs {
    /// What standard output shows, with or without `--json`.
    pub fn shown(&self, json: bool) -> Shown {
        match json {
            true if !self.group.is_empty() => Shown::Groups,
            true => Shown::Records(LineFormat::Json),
            false if self.csv => Shown::Records(LineFormat::Csv),
            false => Shown::Table,
        }
    }

    /// Refuses what does not go together.
    pub fn check(&self, shown: Shown) -> anyhow::Result<()> {
        ensure!(
            self.names == Names::Ringside || matches!(shown, Shown::Records(_)),
            "--names is for records: with --json or --csv, and without --group"
        );
        self.collectors.check()?;
        self.limits().check().context("--idle, --active or --flow-memory")
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.top as usize
    }

    /// The fields of a row.
    pub fn fields(&self) -> Vec<Field> {
        if self.group.is_empty() { Field::conversation() } else { self.group.clone() }
    }

    fn limits(&self) -> Limits {
        let memory_bytes = self
            .flow_memory
            .unwrap_or_else(|| Limits::memory_of_free(ringside_sys::memory::available_bytes()));
        Limits { memory_bytes, idle: self.idle, active: self.active }
    }

    /// The monitor with its sinks, of packets that are read from files or come as they do, and how
    /// the outputs fare.
    pub fn monitor(&self, shown: Shown, is_stored: bool) -> anyhow::Result<(FlowMonitor, Outputs)> {
        let (table, failure) = (FlowTable::new(self.limits())?, Failure::default());
        let Outlets { mut sinks, watched } = self.collectors.open(is_stored)?;
        if let Shown::Records(format) = shown {
            let stdout = File::from(stdout_stream()?);
            let output = BufWriter::new(Stdout { stdout, failure: failure.clone() });
            sinks.push(("lines".into(), Box::new(Lines::new(output, format, self.names))));
        }
        let options = TopOptions { fields: self.fields(), rank: self.by, count: self.rows() };
        let is_grouped = matches!(shown, Shown::Table | Shown::Groups);
        let monitor = FlowMonitor::new(table, sinks, is_grouped.then_some(options));
        Ok((monitor, Outputs { failure, watched }))
    }
}

impl Shown {
    /// True if standard output is data for programs, one JSON object a line.
    pub fn is_json(self) -> bool {
        matches!(self, Shown::Groups | Shown::Records(LineFormat::Json))
    }
}

/// How the outputs fare, which are written in other threads than the one that ends the run.
#[derive(Default)]
pub struct Outputs {
    failure: Failure,
    watched: Vec<Watched>,
}

impl Outputs {
    /// Says what changed of collectors.
    ///
    /// # Errors
    /// Standard output cannot be written: what would come reaches no reader.
    pub fn look(&mut self) -> io::Result<()> {
        self.watched.iter_mut().for_each(Watched::look);
        self.failure.check()
    }

    /// After the end: says what did not get where it should; true if everything did.
    ///
    /// # Errors
    /// Standard output could not be written.
    pub fn finish(&self) -> io::Result<bool> {
        let lossy = self.watched.iter().filter(|watched| !watched.finish()).count();
        self.failure.check().map(|()| lossy == 0)
    }
}

/// Why records could not be written to standard output, by the system's number.
#[derive(Clone, Default)]
struct Failure(Arc<OnceLock<i32>>);

impl Failure {
    /// The first error of writing.
    fn check(&self) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |&number| Err(io::Error::from_raw_os_error(number)))
    }
}

/// Standard output, with the first error of writing to it.
struct Stdout {
    stdout: File,
    failure: Failure,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes).inspect_err(|error| {
            // An interrupted write is made again.
            if let Some(number) = error.raw_os_error()
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.failure.0.get_or_init(|| number);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

fn ranks() -> impl TypedValueParser<Value = Rank> {
    PossibleValuesParser::new(Rank::ALL.map(Rank::name)).try_map(|name| name.parse::<Rank>())
}

fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(Names::ALL.map(Names::name)).try_map(|name| name.parse::<Names>())
}
