//! Collectors of records: options, and the outlets that they stand for.

use anyhow::ensure;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_export::{Address, Options, Outlet, SpoolOptions};
use ringside_flow::{Format, RecordSink};
use ringside_report::outputs::Outputs;
use ringside_terminal::units;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Datagrams a second of what is read from files, which comes faster than collectors take it: a
/// socket of the system's default size holds 150, and at 10,000 a second nfcapd lost some.
const STORED_DATAGRAMS_PER_SECOND: u32 = 2_000;

/// Sinks by their names.
pub type Sinks = Vec<(String, Box<dyn RecordSink>)>;

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

    /// The outlets with their names, of records that are read from files, or come as they do.
    /// `outputs` says how they fare.
    pub fn open(&self, is_stored: bool, outputs: &mut Outputs) -> anyhow::Result<Sinks> {
        let mut sinks = Sinks::new();
        for address in &self.export {
            let outlet =
                Outlet::open(address, self.export_format, &self.options(address, is_stored))?;
            outputs.add_collector(outlet.watch());
            sinks.push((address.to_string(), Box::new(outlet)));
        }
        Ok(sinks)
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
