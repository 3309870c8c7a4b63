//! What becomes of records: options, and the sinks that they stand for.

use super::collectors::CollectorArgs;
use crate::open_args::stdout_stream;
use crate::outlet_args::OutletArgs;
use crate::record::free_bytes;
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_flow::{
    Field, FlowMonitor, FlowTable, Limits, LineFormat, Lines, Names, Rank, Record, TopOptions,
};
use ringside_report::{flows::Shown, outputs::Outputs};
use ringside_terminal::units;
use std::io::BufWriter;
use std::time::Duration;

/// Groups that a table shows unless asked otherwise: a screen.
const TOP: usize = 20;

/// What records are called in servers.
const KIND: &str = "flows";

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

    #[command(flatten)]
    outlets: OutletArgs,
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

    /// Prints the tables of servers, if that is what was asked for; true if so.
    pub fn print_tables(&self) -> anyhow::Result<bool> {
        self.outlets.print_tables::<Record>(KIND)
    }

    /// Refuses what does not go together.
    pub fn check(&self, shown: Shown) -> anyhow::Result<()> {
        ensure!(
            self.names == Names::Ringside || matches!(shown, Shown::Records(_)),
            "--names is for records: with --json or --csv, and without --group"
        );
        self.collectors.check()?;
        self.outlets.check(KIND)?;
        self.limits().check().context("--idle, --active or --flow-memory")
    }

    /// The table.
    pub fn top(&self) -> TopOptions {
        TopOptions { fields: self.fields(), rank: self.by, count: self.top as usize }
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
        let table = FlowTable::new(self.limits())?;
        let mut outputs = Outputs::default();
        let mut sinks = self.collectors.open(is_stored, &mut outputs)?;
        for (name, outlet) in self.outlets.open::<Record>(KIND, is_stored, &mut outputs)? {
            sinks.push((name, Box::new(outlet)));
        }
        if let Shown::Records(format) = shown {
            let output = BufWriter::new(outputs.writer(stdout_stream()?));
            sinks.push(("lines".into(), Box::new(Lines::new(output, format, self.names))));
        }
        let is_grouped = matches!(shown, Shown::Table | Shown::Groups);
        let monitor = FlowMonitor::new(table, sinks, is_grouped.then(|| self.top()));
        Ok((monitor, outputs))
    }
}

fn ranks() -> impl TypedValueParser<Value = Rank> {
    PossibleValuesParser::new(Rank::ALL.map(Rank::name)).try_map(|name| name.parse::<Rank>())
}

fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(Names::ALL.map(Names::name)).try_map(|name| name.parse::<Names>())
}
