//! `ringside http`: HTTP transactions, as logs.

mod heads;
mod outputs;

use crate::inputs::Inputs;
use crate::logging::{self, Finder, LogArgs, LogRun};
use crate::record::RunArgs;
use anyhow::ensure;
use clap::Args;
use outputs::HttpArgs;
use ringside_http::{HttpObserver, HttpStatus};
use ringside_report::{http, logs::Account};
use ringside_rules::language::RuleSet;
use ringside_session::{KeepOptions, RulesFrom};
use std::process::ExitCode;

/// Arguments of `http`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside http -i eth1                              a line for each, as Apache writes
  sudo ringside http -i eth1 --log-format squid 'tcp port 3128'
  sudo ringside http -i eth1 --log /var/log/ringside/http.log --log-size 100MB --log-keep 9
  sudo ringside http -i eth1 --log w3c.log --log-format w3c --log-time 1d
  sudo ringside http -i eth1 -w /data/eth1                record the packets as well
  sudo ringside http -i eth1 --headers-only               only packets with heads are taken
  ringside http --attach /run/eth1.share --json           of a capture that runs (--share)
  ringside http -r /data/eth1 --last 10m                  of the ten minutes up to the newest packet
  ringside http -r trace.pcap --json --names ecs          in the words of Elastic
  ringside http -r trace.pcap --log-format zeek > http.log    as Zeek's own log
  ringside http -r trace.pcap | goaccess --log-format=COMBINED -
  sudo ringside http -i eth1 --outlet otlp://logs.example --outlet-spool /var/spool/ringside

Passwords, cookies and secrets in URLs are hidden unless --credentials asks for them.
Signals: SIGINT and SIGTERM end it in order, with the transactions that are not over.")]
pub struct HttpCommandArgs {
    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    http: HttpArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: HttpCommandArgs) -> anyhow::Result<ExitCode> {
    logging::run(&args)
}

impl Finder for HttpCommandArgs {
    type Observer = HttpObserver<'static>;
    type Record = ringside_http::Transaction;

    const NAME: &'static str = "http";

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn logs(&self) -> &LogArgs {
        &self.http.logs
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.http.headers_only() || !self.inputs.is_attached(),
            "--headers-only is for interfaces and files: what a shared ring holds is there already"
        );
        self.http.check(self.run.json)
    }

    fn observer(&self, run: &mut LogRun) -> anyhow::Result<HttpObserver<'static>> {
        self.http.observer(run)
    }

    fn rules(&self) -> Option<RuleSet> {
        self.http.headers_only().then(|| heads::rules(false))
    }

    fn keep(&self) -> KeepOptions {
        let in_driver = self.http.rules_in_driver();
        let set = self.http.headers_only().then(|| heads::rules(in_driver));
        let rules = set.map(|set| RulesFrom::Set("--headers-only", set));
        KeepOptions { rules, rules_in_driver: in_driver, ..KeepOptions::default() }
    }

    fn account(status: &HttpStatus) -> Account<'_> {
        http::account(status)
    }
}
