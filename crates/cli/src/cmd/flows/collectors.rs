//! Collectors of records: options, and the outlets that they stand for.

use anyhow::ensure;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_export::{Address, Options, Outlet, SpoolOptions, State, Watch};
use ringside_flow::{Format, RecordSink};
use ringside_terminal::say;
use ringside_terminal::units::{self, counted};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Datagrams a second of what is read from files, which comes faster than collectors take it: a
/// socket of the system's default size holds 150, and at 10,000 a second nfcapd lost some.
const STORED_DATAGRAMS_PER_SECOND: u32 = 2_000;

/// Where records are sent.
#[derive(Args)]
pub struct CollectorArgs {
    /// Send records to a collector: udp:HOST:PORT, tcp:HOST:PORT or file:PATH. Several times for
    /// several. Without a port it is 4739 for IPFIX, 2055 for NetFlow.
    #[arg(long, value_name = "COLLECTOR")]
    export: Vec<Address>,

    /// Format of the messages to collectors. TCP and files carry those of IPFIX.
    #[arg(long, value_name = "FORMAT", default_value = Format::Ipfix.name(), requires = "export")]
    #[arg(value_parser = formats())]
    export_format: Format,

    /// Keep messages in a directory while a collector by TCP is away or slow; they are sent in
    /// order when it is back, also by a later run.
    #[arg(long, value_name = "DIR", requires = "export")]
    spool: Option<PathBuf>,

    /// Most bytes of the spool, for each collector. When it is full the oldest messages are lost.
    #[arg(long, value_name = "SIZE", value_parser = units::file_bytes, default_value = "1GiB")]
    #[arg(requires = "spool")]
    spool_limit: u64,
}

impl CollectorArgs {
    /// Refuses what does not go together.
    pub fn check(&self) -> anyhow::Result<()> {
        let names: BTreeSet<_> = self.export.iter().map(Address::to_string).collect();
        ensure!(names.len() == self.export.len(), "--export names a collector twice");
        let is_by_tcp = |address: &Address| matches!(address, Address::Tcp(_));
        ensure!(
            self.spool.is_none() || self.export.iter().any(is_by_tcp),
            "--spool is for collectors by TCP: of a datagram nobody says whether it arrived"
        );
        self.export.iter().try_for_each(|address| Ok(Outlet::check(address, self.export_format)?))
    }

    /// The outlets, with their names; of records that are read from files, or come as they do.
    pub fn open(&self, is_stored: bool) -> anyhow::Result<Outlets> {
        let mut outlets = Outlets::default();
        for address in &self.export {
            let outlet =
                Outlet::open(address, self.export_format, &self.options(address, is_stored))?;
            outlets.watched.push(Watched { watch: outlet.watch(), state: State::Connecting });
            outlets.sinks.push((address.to_string(), Box::new(outlet)));
        }
        Ok(outlets)
    }

    fn options(&self, address: &Address, is_stored: bool) -> Options {
        let spool = match (&self.spool, address) {
            // One directory each, so that collectors may come and go.
            (Some(folder), Address::Tcp(host)) => Some(SpoolOptions {
                folder: folder.join(host.to_string().replace('/', "_")),
                bytes_max: self.spool_limit,
            }),
            _ => None,
        };
        let datagrams_per_second = is_stored.then_some(STORED_DATAGRAMS_PER_SECOND);
        Options { spool, waits_for_room: is_stored, datagrams_per_second, ..Options::default() }
    }
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

/// Sinks to be filled, and what shows how they fare.
#[derive(Default)]
pub struct Outlets {
    pub sinks: Vec<(String, Box<dyn RecordSink>)>,
    pub watched: Vec<Watched>,
}

/// An outlet that is looked at from outside.
pub struct Watched {
    watch: Watch,
    /// As it was said.
    state: State,
}

impl Watched {
    /// Says when the collector goes away, and when it is back.
    pub fn look(&mut self) {
        let status = self.watch.status();
        if status.state == self.state {
            return;
        }
        let before = std::mem::replace(&mut self.state, status.state);
        let to = &status.collector;
        match status.state {
            State::Away => {
                let why = status.error.unwrap_or_default();
                say::message(format_args!("ringside: {to} is away: {why}"));
            }
            State::Open if before == State::Away => {
                say::message(format_args!("ringside: {to} is back"));
            }
            _ => {}
        }
    }

    /// Says what the collector did not get; true if that is nothing.
    pub fn finish(&self) -> bool {
        let status = self.watch.status();
        let (to, counts) = (&status.collector, &status.counts);
        let why: Vec<_> = status.error.iter().chain(&status.spool_error).cloned().collect();
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        if status.spool_damaged_bytes > 0 {
            let bytes = counted(status.spool_damaged_bytes, "byte");
            say::message(format_args!("ringside: {to}: {bytes} of the spool could not be read"));
        }
        if counts.spooled.records > 0 {
            let records = counted(counts.spooled.records, "record");
            say::message(format_args!("ringside: {to}: {records} stay in the spool{why}"));
        }
        let lost = counts.lost().records;
        if lost > 0 {
            let records = counted(lost, "record");
            say::message(format_args!("ringside: {to}: {records} did not get there{why}"));
        }
        lost == 0
    }
}
