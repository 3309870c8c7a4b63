//! `ringside calls`: SIP calls with the quality of their media.

mod kernel;
mod one;

use crate::inputs::Inputs;
use crate::logging::{self, Finder, LogArgs, LogRun, RecordArgs};
use crate::record::RunArgs;
use anyhow::ensure;
use clap::Args;
use kernel::Counted;
use one::OneCall;
use ringside_calls::{CallsObserver, CallsStatus, Options, text};
use ringside_report::{calls, logs::Account};
use std::process::ExitCode;

/// Arguments of `calls`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside calls -i eth1                           a line for each call and each stream
  sudo ringside calls -i eth1 --json -w /data/eth1      record the packets as well
  sudo ringside calls -i eth1 --rtp kernel              media counted in the driver, and discarded
  sudo ringside calls -i eth1 --log /var/log/ringside/calls.log --log-size 100MB --log-keep 9
  ringside calls --attach /run/eth1.share --json        of a capture that runs (--share)
  ringside calls -r /data/eth1 --last 10m               of the ten minutes up to the newest packet
  ringside calls -r trace.pcap --rtp-heuristic          media too that no call announced
  ringside calls -r trace.pcap --ladder 1-42@10.0.0.1   who said what to whom in this call
  ringside calls -r trace.pcap --save 1-42@10.0.0.1 call.pcapng    its signalling and its media
  ringside calls -r trace.pcap --audio 1-42@10.0.0.1 call.wav      what was said, of G.711
  ringside calls --outlet clickhouse://db.example/net --outlet-ddl    its table, to be created

A number that was not seen is absent, and none stands in its place.
Signals: SIGINT and SIGTERM end it in order, with the calls that are not over.")]
pub struct CallsCommandArgs {
    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    calls: CallsArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// What is made of calls.
#[derive(Args)]
struct CallsArgs {
    #[command(flatten)]
    records: RecordArgs,

    /// Find RTP too that no call announced: three packets with consecutive numbers.
    #[arg(long)]
    rtp_heuristic: bool,

    /// Where packets of media are counted.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Counted::User)]
    rtp: Counted,

    #[command(flatten)]
    one: OneCall,
}

/// Runs the subcommand.
pub fn run(args: CallsCommandArgs) -> anyhow::Result<ExitCode> {
    if !args.calls.one.is_given() {
        return logging::run(&args);
    }
    args.inputs.check(CallsCommandArgs::NAME, &args.run)?;
    ensure!(
        args.inputs.is_stored(),
        "--ladder, --save and --audio are for files: record with -w, and read that with -r"
    );
    args.calls.one.run(&args.inputs, &args.run)
}

impl Finder for CallsCommandArgs {
    type Observer = CallsObserver<'static>;
    type Record = ringside_calls::Call;

    const NAME: &'static str = "calls";

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn logs(&self) -> &LogArgs {
        &self.calls.records.logs
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.calls.rtp == Counted::User
                || !(self.inputs.is_stored() || self.inputs.is_attached()),
            "--rtp kernel is for interfaces: of files and of a capture that runs packets are here \
             already, leave it out"
        );
        self.calls.records.check(self.run.json)
    }

    fn observer(&self, run: &mut LogRun) -> anyhow::Result<CallsObserver<'static>> {
        let sinks = self.calls.records.sinks(text, run)?;
        let finds_unannounced = self.calls.rtp_heuristic;
        let kernel = match self.calls.rtp {
            Counted::User => None,
            Counted::Kernel => Some(kernel::media(&self.inputs.open)?),
        };
        let options = Options { finds_unannounced, kernel, ..Options::default() };
        Ok(CallsObserver::new(options, sinks))
    }

    fn account(status: &CallsStatus) -> Account<'_> {
        calls::account(status)
    }
}
