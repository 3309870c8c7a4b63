//! `ringside calls`: SIP calls with the quality of their media.

mod one;

use crate::inputs::Inputs;
use crate::open_args::stdout_stream;
use crate::record::{self, Addition, RunArgs};
use anyhow::ensure;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use one::OneCall;
use ringside_calls::{CallFormat, CallLog, CallSink, CallsMonitor, Limits, MonitorHandle, Options};
use ringside_inspect::Observer;
use ringside_record::Names;
use ringside_report::{calls, flows, stdout::WatchedStdout};
use ringside_session::{KeepOptions, RunReport};
use ringside_terminal::BottomLine;
use std::io::{self, BufWriter};
use std::process::ExitCode;

/// Arguments of `calls`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside calls -i eth1                           a line for each call and each stream
  sudo ringside calls -i eth1 --json -w /data/eth1      record the packets as well
  ringside calls --attach /run/eth1.share --json        of a capture that runs (--share)
  ringside calls -r /data/eth1 --last 10m               of the ten minutes up to the newest packet
  ringside calls -r trace.pcap --rtp-heuristic          media too that no call announced
  ringside calls -r trace.pcap --ladder 1-42@10.0.0.1   who said what to whom in this call
  ringside calls -r trace.pcap --save 1-42@10.0.0.1 call.pcapng    its signalling and its media
  ringside calls -r trace.pcap --audio 1-42@10.0.0.1 call.wav      what was said, of G.711

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
    /// How a call is written [default: text, or json with --json]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    log_format: Option<CallFormat>,

    /// What the fields are called in json and csv.
    #[arg(long, value_name = "SCHEME", default_value = Names::Ringside.name())]
    #[arg(value_parser = names())]
    names: Names,

    /// Find RTP too that no call announced: three packets with consecutive numbers.
    #[arg(long)]
    rtp_heuristic: bool,

    #[command(flatten)]
    one: OneCall,
}

/// Runs the subcommand.
pub fn run(args: CallsCommandArgs) -> anyhow::Result<ExitCode> {
    if args.inputs.open.list_interfaces(args.run.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    if args.inputs.is_stored() {
        return match args.calls.one.is_given() {
            true => args.calls.one.run(&args.inputs, &args.run),
            false => stored(&args),
        };
    }
    ringside_keeper::supervised(&args.run.keeper_options(None), |link| {
        let mut logger = Logger::new(&args);
        let origin = || args.inputs.origin(&args.run, KeepOptions::default());
        record::run(&args.run, link, &mut logger, origin)
    })
}

/// Reads files, directories and standard input to their end, or to the order to stop.
fn stored(args: &CallsCommandArgs) -> anyhow::Result<ExitCode> {
    let mut stored = args.inputs.stored(&args.run)?;
    let stdout = WatchedStdout::default();
    let mut monitor = args.monitor(&stdout)?;
    let handle = monitor.handle();
    let mut look = || stdout.check().and_then(|()| handle.check());
    let read = stored.show(&mut monitor, &mut look);
    // What was read before an error is shown all the same.
    let is_whole = calls::finish(&handle.status(), args.run.json, read.as_ref().ok().copied())?;
    stored.tell_notices();
    let read = read?;
    stdout.check()?;
    ensure!(is_whole, "the account of calls does not balance");
    Ok(stored.exit_code(read))
}

impl CallsCommandArgs {
    /// Refuses what does not go together, in every process alike.
    fn check(&self) -> anyhow::Result<()> {
        self.inputs.check("calls", &self.run)?;
        ensure!(
            self.inputs.is_stored() || !self.calls.one.is_given(),
            "--ladder, --save and --audio are for files: record with -w, and read that with -r"
        );
        let format = self.format();
        ensure!(
            !self.run.json || format == CallFormat::Json,
            "--json makes standard output JSON: leave out --log-format {}",
            format.name()
        );
        ensure!(
            self.calls.names == Names::Ringside
                || matches!(format, CallFormat::Json | CallFormat::Csv),
            "--names is for --log-format json and csv: the others have names of their own"
        );
        Ok(())
    }

    fn format(&self) -> CallFormat {
        let usual = if self.run.json { CallFormat::Json } else { CallFormat::Text };
        self.calls.log_format.unwrap_or(usual)
    }

    fn monitor(&self, stdout: &WatchedStdout) -> anyhow::Result<CallsMonitor> {
        let output = BufWriter::new(stdout.writer(stdout_stream()?));
        let log = CallLog::new(output, self.format(), self.calls.names);
        let options = Options {
            limits: Limits::default(),
            finds_unannounced: self.calls.rtp_heuristic,
            ladder: None,
        };
        let sink: Box<dyn CallSink> = Box::new(log);
        Ok(CallsMonitor::new(options, Some(sink)))
    }
}

/// What calls add to a run.
struct Logger<'a> {
    args: &'a CallsCommandArgs,
    /// From the start of the run on.
    handle: Option<MonitorHandle>,
    stdout: WatchedStdout,
}

impl<'a> Logger<'a> {
    fn new(args: &'a CallsCommandArgs) -> Logger<'a> {
        Logger { args, handle: None, stdout: WatchedStdout::default() }
    }
}

impl Addition for Logger<'_> {
    fn observers(&mut self) -> anyhow::Result<Vec<Box<dyn Observer>>> {
        let monitor = self.args.monitor(&self.stdout)?;
        self.handle = Some(monitor.handle());
        Ok(vec![Box::new(monitor)])
    }

    fn has_stdout(&self) -> bool {
        true
    }

    fn each_second(&mut self, _bottom: &BottomLine) -> io::Result<()> {
        self.stdout.check()
    }

    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let Some(handle) = &self.handle else { return Ok(true) };
        let delivered = flows::delivered(&report.ledger);
        let is_whole = calls::finish(&handle.status(), self.args.run.json, delivered)?;
        self.stdout.check()?;
        Ok(is_whole)
    }
}

fn formats() -> impl TypedValueParser<Value = CallFormat> {
    PossibleValuesParser::new(CallFormat::ALL.map(CallFormat::name)).map(|name| {
        let found = CallFormat::ALL.into_iter().find(|format| format.name() == name);
        found.expect("one of the possible values")
    })
}

fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(Names::ALL.map(Names::name)).try_map(|name| name.parse::<Names>())
}
