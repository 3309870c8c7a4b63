//! `ringside tls`: TLS handshakes, a line each.

use crate::inputs::Inputs;
use crate::logging::{self, Finder, LogArgs, LogRun, RecordArgs};
use crate::record::RunArgs;
use clap::Args;
use ringside_report::{logs::Account, tls};
use ringside_tls::{TlsObserver, TlsStatus, text};
use std::process::ExitCode;

/// Arguments of `tls`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside tls -i eth1                               a line for each handshake
  sudo ringside tls -i eth1 --json 'tcp port 443'         all fields, as JSON
  sudo ringside tls -i eth1 --log /var/log/ringside/tls.log --log-size 100MB --log-keep 9
  sudo ringside tls -i eth1 -w /data/eth1                 record the packets as well
  ringside tls --attach /run/eth1.share                   of a capture that runs (--share)
  ringside tls -r /data/eth1 --last 10m                   of the ten minutes up to the newest packet
  ringside tls -r trace.pcap --json --names ecs           in the words of Elastic
  ringside tls -r trace.pcap --log-format zeek > ssl.log  as Zeek's own log
  sudo ringside tls -i eth1 --outlet otlp://logs.example --outlet-spool /var/spool/ringside

Over TCP and QUIC; nothing is decrypted but the first packets of QUIC, whose keys lie open.
Handshakes that are not answered are lines too, with the reason.
Signals: SIGINT and SIGTERM end it in order, with the handshakes that are not over.")]
pub struct TlsArgs {
    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    records: RecordArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: TlsArgs) -> anyhow::Result<ExitCode> {
    logging::run(&args)
}

impl Finder for TlsArgs {
    type Observer = TlsObserver<'static>;
    type Record = ringside_tls::Handshake;

    const NAME: &'static str = "tls";

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

    fn observer(&self, run: &mut LogRun) -> anyhow::Result<TlsObserver<'static>> {
        let sinks = self.records.sinks(text, run)?;
        Ok(TlsObserver::new(ringside_streams::Limits::default(), sinks))
    }

    fn account(status: &TlsStatus) -> Account<'_> {
        tls::account(status)
    }
}
