//! `ringside http`: HTTP transactions, as logs.

mod heads;
mod outputs;

use crate::inputs::Inputs;
use crate::record::{self, Addition, RunArgs};
use anyhow::ensure;
use clap::Args;
use outputs::HttpArgs;
use ringside_http::{HttpMonitor, MonitorHandle};
use ringside_inspect::Observer;
use ringside_report::{flows, http, stdout::WatchedStdout};
use ringside_session::{KeepOptions, Origin, RulesFrom, RunReport, check_output};
use ringside_terminal::{BottomLine, say};
use std::io;
use std::path::PathBuf;
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
    if args.inputs.open.list_interfaces(args.run.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    if args.inputs.is_stored() {
        return stored(&args);
    }
    ringside_keeper::supervised(&args.run.keeper_options(None), |link| {
        let mut logger = Logger::new(&args);
        record::run(&args.run, link, &mut logger, || args.origin())
    })
}

/// Reads files, directories and standard input to their end, or to the order to stop.
fn stored(args: &HttpCommandArgs) -> anyhow::Result<ExitCode> {
    let logs = args.http.files();
    logs.iter().try_for_each(|log| check_output(&args.inputs.open.read, log))?;
    let mut stored = args.inputs.stored(&args.run)?;
    if args.http.headers_only() {
        stored.judge_by(heads::rules(false));
    }
    let stdout = WatchedStdout::default();
    let mut monitor = args.http.monitor(&stdout, args.run.json)?;
    let handle = monitor.handle();
    let mut look = || stdout.check().and_then(|()| handle.check_logs());
    let read = stored.show(&mut monitor, &mut look);
    let status = handle.status();
    // What was read before an error is shown all the same.
    let is_whole = http::finish(&status, args.is_json(), read.as_ref().ok().copied())?;
    stored.tell_notices();
    let read = read?;
    stdout.check()?;
    ensure!(is_whole, "a log is not whole, or the account does not balance");
    Ok(stored.exit_code(read))
}

impl HttpCommandArgs {
    /// Refuses what does not go together, in every process alike.
    fn check(&self) -> anyhow::Result<()> {
        self.inputs.check("http", &self.run)?;
        ensure!(
            !self.http.headers_only() || !self.inputs.is_attached(),
            "--headers-only is for interfaces and files: what a shared ring holds is there already"
        );
        self.http.check(self.run.json)
    }

    /// True if standard output is data for programs, one JSON object a line.
    fn is_json(&self) -> bool {
        self.run.json
    }

    fn origin(&self) -> anyhow::Result<Origin> {
        let in_driver = self.http.rules_in_driver();
        let set = self.http.headers_only().then(|| heads::rules(in_driver));
        let rules = set.map(|set| RulesFrom::Set("--headers-only", set));
        let keep = KeepOptions { rules, rules_in_driver: in_driver, ..KeepOptions::default() };
        self.inputs.origin(&self.run, keep)
    }
}

/// What transactions add to a run.
struct Logger<'a> {
    args: &'a HttpCommandArgs,
    /// From the start of the run on.
    handle: Option<MonitorHandle>,
    stdout: WatchedStdout,
    /// It was said that a log is not written any more.
    is_said: bool,
}

impl<'a> Logger<'a> {
    fn new(args: &'a HttpCommandArgs) -> Logger<'a> {
        Logger { args, handle: None, stdout: WatchedStdout::default(), is_said: false }
    }

    fn monitor(&mut self) -> anyhow::Result<HttpMonitor> {
        let monitor = self.args.http.monitor(&self.stdout, self.args.run.json)?;
        self.handle = Some(monitor.handle());
        Ok(monitor)
    }
}

impl Addition for Logger<'_> {
    fn observers(&mut self) -> anyhow::Result<Vec<Box<dyn Observer>>> {
        Ok(vec![Box::new(self.monitor()?)])
    }

    fn files(&self) -> Vec<PathBuf> {
        self.args.http.files()
    }

    fn has_stdout(&self) -> bool {
        true
    }

    fn each_second(&mut self, _bottom: &BottomLine) -> io::Result<()> {
        self.stdout.check()?;
        let Some(handle) = self.handle.as_ref().filter(|_| !self.is_said) else { return Ok(()) };
        let Err(error) = handle.check_logs() else { return Ok(()) };
        self.is_said = true;
        // What is recorded can be read again.
        if self.args.run.write.paths.is_empty() {
            return Err(error);
        }
        say::message(format_args!("ringside: {error}"));
        Ok(())
    }

    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let Some(handle) = &self.handle else { return Ok(true) };
        let delivered = flows::delivered(&report.ledger);
        let is_whole = http::finish(&handle.status(), self.args.is_json(), delivered)?;
        self.stdout.check()?;
        Ok(is_whole)
    }
}
