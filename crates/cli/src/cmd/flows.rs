//! `ringside flows`: packets added up by conversation.

mod cached;
mod collectors;
mod outputs;
mod stored;

use crate::inputs::Inputs;
use crate::record::{self, Addition, RunArgs};
use anyhow::ensure;
use cached::CacheArgs;
use clap::Args;
use outputs::FlowArgs;
use ringside_flow::{FlowMonitor, FlowStatus, MonitorHandle};
use ringside_inspect::Observer;
use ringside_report::flows::{self, Shown};
use ringside_report::outputs::Outputs;
use ringside_session::{KeepOptions, MeteringReport, RunReport};
use ringside_terminal::{BottomLine, Screen};
use std::io;
use std::process::ExitCode;

/// Arguments of `flows`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside flows -i eth1                            the largest conversations, until Ctrl-C
  sudo ringside flows -i eth1 --group src --by packets   who sends most
  sudo ringside flows -i eth1 --json > flows.jsonl       a record a line, as flows end
  sudo ringside flows -i eth1 -w /data/eth1              record the packets as well
  sudo ringside flows -i eth1 --cache kernel             added up in the kernel, next to the host
  ringside flows --attach /run/eth1.share                of a capture that runs (--share)
  ringside flows -r /data/eth1 --last 10m                of the ten minutes up to the newest packet
  ringside flows -r trace.pcap --group src/24,dst_port --top 50
  ringside flows -r trace.pcap --csv --names zeek 'tcp'  in the words of Zeek's conn.log
  sudo ringside flows -i eth1 --export udp:192.0.2.7     to a collector, as IPFIX
  sudo ringside flows -i eth1 --export udp:192.0.2.7:9995 --export-format netflow9
  sudo ringside flows -i eth1 --export tcp:nms.example --spool /var/spool/ringside
  ringside flows -r trace.pcap --export file:flows.ipfix a file of RFC 5655
  sudo ringside flows -i eth1 --outlet clickhouse://db.example/net --outlet-spool /var/spool/rs
  sudo ringside flows -i eth1 --store /data/records      records as Parquet, for DuckDB and others

Signals: SIGINT and SIGTERM end it in order, with the records of all flows that are there.")]
pub struct FlowsArgs {
    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    flows: FlowArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: FlowsArgs) -> anyhow::Result<ExitCode> {
    if args.inputs.open.list_interfaces(args.run.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    if args.flows.print_tables()? {
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    if args.inputs.is_stored() {
        return stored::run(&args);
    }
    if args.cache.is_in_kernel() {
        return cached::run(&args);
    }
    ringside_keeper::supervised(&args.run.keeper_options(None), |link| {
        let mut meter = Meter::new(&args);
        let origin = || args.inputs.origin(&args.run, KeepOptions::default());
        record::run(&args.run, link, &mut meter, origin)
    })
}

impl FlowsArgs {
    /// Refuses what does not go together, in every process alike.
    fn check(&self) -> anyhow::Result<()> {
        self.inputs.check("flows", &self.run)?;
        ensure!(
            !self.cache.is_in_kernel() || self.run.packets().is_none(),
            "-c and -a packets:N are not for --cache: no frame is counted one by one; use --for"
        );
        self.flows.check(self.shown())
    }

    /// What standard output shows.
    fn shown(&self) -> Shown {
        self.flows.shown(self.run.json)
    }
}

/// What flows add to a run.
struct Meter<'a> {
    args: &'a FlowsArgs,
    /// The table, on a terminal.
    screen: Option<Screen>,
    /// From the start of the run on.
    handle: Option<MonitorHandle>,
    before: Option<FlowStatus>,
    outputs: Outputs,
}

impl<'a> Meter<'a> {
    fn new(args: &'a FlowsArgs) -> Meter<'a> {
        let outputs = Outputs::default();
        Meter { args, screen: None, handle: None, before: None, outputs }
    }

    /// Opens the outputs.
    fn monitor(&mut self) -> anyhow::Result<FlowMonitor> {
        let shown = self.args.shown();
        let (monitor, outputs) = self.args.flows.monitor(shown, false)?;
        self.outputs = outputs;
        self.handle = Some(monitor.handle());
        if shown == Shown::Table {
            self.screen = Screen::of_stdout();
        }
        Ok(monitor)
    }
}

impl Addition for Meter<'_> {
    fn observers(&mut self) -> anyhow::Result<Vec<Box<dyn Observer>>> {
        Ok(vec![Box::new(self.monitor()?)])
    }

    fn flows(&self) -> Option<MonitorHandle> {
        self.handle.clone()
    }

    fn has_stdout(&self) -> bool {
        true
    }

    fn each_second(&mut self, bottom: &BottomLine) -> io::Result<()> {
        self.outputs.look()?;
        let (Some(handle), Some(screen)) = (&self.handle, &mut self.screen) else { return Ok(()) };
        let status = handle.status();
        handle.ask();
        let rows = screen.rows().saturating_sub(flows::AROUND_TABLE);
        let fields = self.args.flows.fields();
        let table = flows::table(&fields, &status, self.before.as_ref(), rows);
        screen.show(&table, bottom);
        self.before = Some(status);
        Ok(())
    }

    fn ended(&mut self) {
        self.screen.iter_mut().for_each(Screen::clear);
    }

    fn finish_metered(&mut self, report: &MeteringReport) -> io::Result<bool> {
        let (top, shown) = (self.args.flows.top(), self.args.shown());
        let balances = flows::tell_metered(&top, shown, report)?;
        self.outputs.finish().map(|all| all && balances)
    }

    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let Some(handle) = &self.handle else { return Ok(true) };
        let status = handle.status();
        let (top, shown) = (self.args.flows.top(), self.args.shown());
        let delivered = flows::delivered(&report.ledger);
        let balances = flows::finish(&top, shown, &status, delivered)?;
        self.outputs.finish().map(|all| all && balances)
    }
}
