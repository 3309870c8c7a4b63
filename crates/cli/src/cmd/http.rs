//! `ringside http`: HTTP transactions, as logs.

mod heads;
mod outputs;

use super::attach::yield_to_capture;
use crate::open_args::OpenArgs;
use crate::range_args::RangeArgs;
use crate::record::{self, Addition, RunArgs};
use crate::stored::Stored;
use anyhow::ensure;
use clap::Args;
use outputs::HttpArgs;
use ringside_capture::config;
use ringside_http::{HttpMonitor, MonitorHandle};
use ringside_inspect::Observer;
use ringside_report::{flows, http, stdout::WatchedStdout};
use ringside_session::{AttachOptions, CaptureOptions, KeepOptions, Origin, RulesFrom, RunReport};
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
    open: OpenArgs,

    /// Read a running capture along: the socket that `ringside capture --share` made.
    #[arg(long, value_name = "SOCKET", group = "elsewhere")]
    attach: Option<PathBuf>,

    #[command(flatten)]
    range: RangeArgs,

    #[command(flatten)]
    http: HttpArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: HttpCommandArgs) -> anyhow::Result<ExitCode> {
    if args.open.list_interfaces(args.run.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    if !args.open.read.is_empty() {
        return stored(&args);
    }
    ringside_keeper::supervised(&args.run.keeper_options(None), |link| {
        let mut logger = Logger::new(&args);
        record::run(&args.run, link, &mut logger, || args.origin())
    })
}

/// Reads files, directories and standard input to their end, or to the order to stop.
fn stored(args: &HttpCommandArgs) -> anyhow::Result<ExitCode> {
    let mut stored = Stored::open(&args.open, &args.range, args.run.packets())?;
    if args.http.headers_only() {
        stored.judge_by(heads::rules(false));
    }
    let stdout = WatchedStdout::default();
    let mut monitor = args.http.monitor(&stdout, args.run.json)?;
    let read = stored.show(&mut monitor, &mut || stdout.check());
    let status = monitor.handle().status();
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
        ensure!(
            !self.run.write.is_stdout(),
            "-w - is not for http: its lines want standard output; write packets to a file or \
             directory"
        );
        let is_stored = !self.open.read.is_empty();
        ensure!(
            !is_stored || (self.run.write.paths.is_empty() && self.run.duration().is_none()),
            "-w and --for are for interfaces; packets of files are copied by `ringside read -w`"
        );
        let is_live = !is_stored && self.attach.is_none();
        ensure!(
            !is_live || !self.range.is_given(),
            "--from, --to and --last are for files, and --from and --last for --attach"
        );
        ensure!(
            !self.http.headers_only() || self.attach.is_none(),
            "--headers-only is for interfaces and files: what a shared ring holds is there already"
        );
        self.http.check(self.run.json)
    }

    /// True if standard output is data for programs, one JSON object a line.
    fn is_json(&self) -> bool {
        self.run.json
    }

    fn origin(&self) -> anyhow::Result<Origin> {
        if let Some(socket) = &self.attach {
            yield_to_capture();
            let (ago, filter) = (self.range.ago()?, self.open.filter());
            return Ok(AttachOptions { socket: socket.clone(), ago, filter }.into());
        }
        let records = !self.run.write.paths.is_empty();
        let in_driver = self.http.rules_in_driver();
        let set = self.http.headers_only().then(|| heads::rules(in_driver));
        let rules = set.map(|set| RulesFrom::Set("--headers-only", set));
        Ok(CaptureOptions {
            open: self.open.options(false),
            keep: KeepOptions { rules, rules_in_driver: in_driver, ..KeepOptions::default() },
            ring_bytes: if records { config::DISK_RING_BYTES } else { config::RING_BYTES },
            ..CaptureOptions::default()
        }
        .into())
    }
}

/// What transactions add to a run.
struct Logger<'a> {
    args: &'a HttpCommandArgs,
    /// From the start of the run on.
    handle: Option<MonitorHandle>,
    stdout: WatchedStdout,
}

impl<'a> Logger<'a> {
    fn new(args: &'a HttpCommandArgs) -> Logger<'a> {
        Logger { args, handle: None, stdout: WatchedStdout::default() }
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

    fn each_second(&mut self, _bottom: &ringside_terminal::BottomLine) -> io::Result<()> {
        self.stdout.check()
    }

    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let Some(handle) = &self.handle else { return Ok(true) };
        let delivered = flows::delivered(&report.ledger);
        let is_whole = http::finish(&handle.status(), self.args.is_json(), delivered)?;
        self.stdout.check()?;
        Ok(is_whole)
    }
}
