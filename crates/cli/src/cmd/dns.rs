//! `ringside dns`: DNS transactions, a line each.

use crate::inputs::Inputs;
use crate::logging::{self, Finder, LogArgs, LogRun, RecordArgs};
use crate::record::RunArgs;
use clap::Args;
use ringside_dns::{DnsObserver, DnsStatus, Limits, text};
use ringside_report::{dns, logs::Account};
use std::process::ExitCode;

/// Arguments of `dns`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside dns -i eth1                               a line for each query with its answer
  sudo ringside dns -i eth1 --json 'port 53'              all fields, as JSON
  sudo ringside dns -i eth1 --log /var/log/ringside/dns.log --log-size 100MB --log-keep 9
  sudo ringside dns -i eth1 -w /data/eth1                 record the packets as well
  ringside dns --attach /run/eth1.share                   of a capture that runs (--share)
  ringside dns -r /data/eth1 --last 10m                   of the ten minutes up to the newest packet
  ringside dns -r trace.pcap --json --names ecs           in the words of Elastic
  ringside dns -r trace.pcap --log-format zeek > dns.log  as Zeek's own log
  sudo ringside dns -i eth1 --outlet clickhouse://db.example/net --outlet-create

Queries without an answer, and answers without a query, are lines too, with the reason.
Signals: SIGINT and SIGTERM end it in order, with the queries that wait for an answer.")]
pub struct DnsArgs {
    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    records: RecordArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: DnsArgs) -> anyhow::Result<ExitCode> {
    logging::run(&args)
}

impl Finder for DnsArgs {
    type Observer = DnsObserver<'static>;
    type Record = ringside_dns::Transaction;

    const NAME: &'static str = "dns";

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn logs(&self) -> &LogArgs {
        &self.records.logs
    }

    fn check(&self) -> anyhow::Result<()> {
        self.records.check(self.run.json)
    }

    fn observer(&self, run: &mut LogRun) -> anyhow::Result<DnsObserver<'static>> {
        let sinks = self.records.sinks(text, run)?;
        Ok(DnsObserver::new(Limits::default(), sinks))
    }

    fn account(status: &DnsStatus) -> Account<'_> {
        dns::account(status)
    }
}
