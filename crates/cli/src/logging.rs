//! Runs that write a line for each record that they find: of interfaces, of files, of a capture
//! that runs.

mod log_args;
mod record_args;

use crate::inputs::Inputs;
use crate::record::{self, Addition, RunArgs};
use anyhow::ensure;
pub use log_args::{LogArgs, Sinks, possible_names};
pub use record_args::RecordArgs;
use ringside_inspect::Observer;
use ringside_logs::{Logged, Monitor, MonitorHandle, Watched};
use ringside_report::{flows, logs::Account, outputs::Outputs};
use ringside_rules::language::RuleSet;
use ringside_session::{KeepOptions, RunReport, check_output};
use ringside_terminal::{BottomLine, say};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// A subcommand that finds records.
pub trait Finder {
    /// Finds them.
    type Observer: Watched + 'static;

    /// What it finds.
    type Record: Logged;

    /// What it is called, and its records in servers.
    const NAME: &'static str;

    /// Where packets come from.
    fn inputs(&self) -> &Inputs;

    /// Options of a run.
    fn run_args(&self) -> &RunArgs;

    /// Where lines go.
    fn logs(&self) -> &LogArgs;

    /// Refuses what does not go together in its own options.
    fn check(&self) -> anyhow::Result<()>;

    /// What finds the records, and writes them.
    fn observer(&self, run: &mut LogRun) -> anyhow::Result<Self::Observer>;

    /// Rules by which packets of files are taken.
    fn rules(&self) -> Option<RuleSet> {
        None
    }

    /// What is taken of interfaces.
    fn keep(&self) -> KeepOptions {
        KeepOptions::default()
    }

    /// What was found so far, to be shown.
    fn account(status: &<Self::Observer as Watched>::Status) -> Account<'_>;

    /// What is wrong with what was found, though nothing is missing: a check that failed.
    fn problem(status: &<Self::Observer as Watched>::Status) -> Option<String> {
        let _ = status;
        None
    }
}

/// What logs are opened for.
pub struct LogRun {
    /// What the records are called.
    pub kind: &'static str,
    /// Packets come from files.
    pub is_stored: bool,
    /// `--json` was given.
    pub json: bool,
    /// How the outputs fare.
    pub outputs: Outputs,
}

impl LogRun {
    fn new<F: Finder>(args: &F) -> LogRun {
        LogRun {
            kind: F::NAME,
            is_stored: args.inputs().is_stored(),
            json: args.run_args().json,
            outputs: Outputs::default(),
        }
    }
}

/// Says what is wrong with what was found, if something is; true if so.
fn tell_problem<F: Finder>(status: &<F::Observer as Watched>::Status) -> bool {
    let problem = F::problem(status);
    problem.inspect(|problem| say::message(format_args!("ringside: {problem}"))).is_some()
}

/// Runs a subcommand.
pub fn run<F: Finder>(args: &F) -> anyhow::Result<ExitCode> {
    if args.inputs().open.list_interfaces(args.run_args().json)? {
        return Ok(ExitCode::SUCCESS);
    }
    if args.logs().outlets.print_tables::<F::Record>(F::NAME)? {
        return Ok(ExitCode::SUCCESS);
    }
    args.inputs().check(F::NAME, args.run_args())?;
    args.logs().outlets.check(F::NAME)?;
    args.check()?;
    if args.inputs().is_stored() {
        return stored(args);
    }
    ringside_keeper::supervised(&args.run_args().keeper_options(None), |link| {
        let mut logger = Logger::new(args);
        let code = record::run(args.run_args(), link, &mut logger, || {
            args.inputs().origin(args.run_args(), args.keep())
        })?;
        let has_failed = logger.has_problem && code == ExitCode::SUCCESS;
        Ok(if has_failed { ExitCode::FAILURE } else { code })
    })
}

/// Reads files, directories and standard input to their end, or to the order to stop.
fn stored<F: Finder>(args: &F) -> anyhow::Result<ExitCode> {
    let logs = args.logs().files();
    logs.iter().try_for_each(|log| check_output(&args.inputs().open.read, log))?;
    let mut stored = args.inputs().stored(args.run_args())?;
    if let Some(rules) = args.rules() {
        stored.judge_by(rules);
    }
    let mut run = LogRun::new(args);
    let mut monitor = Monitor::new(args.observer(&mut run)?);
    let handle = monitor.handle();
    let mut look = || run.outputs.look().and_then(|()| handle.check_logs());
    let read = stored.show(&mut monitor, &mut look);
    let status = handle.status();
    // What was read before an error is shown all the same.
    let is_whole = F::account(&status).finish(args.run_args().json, read.as_ref().ok().copied())?;
    let has_problem = tell_problem::<F>(&status);
    stored.tell_notices();
    let read = read?;
    let all_arrived = run.outputs.finish()?;
    ensure!(is_whole, "a log is not whole, or the account does not balance");
    ensure!(all_arrived, "a server did not get all records");
    Ok(if has_problem { ExitCode::FAILURE } else { stored.exit_code(read) })
}

/// What records add to a run.
struct Logger<'a, F: Finder> {
    args: &'a F,
    /// From the start of the run on.
    handle: Option<MonitorHandle<<F::Observer as Watched>::Status>>,
    run: LogRun,
    /// It was said that a log is not written any more.
    is_said: bool,
    /// It was said what is wrong with what was found.
    has_problem: bool,
}

impl<'a, F: Finder> Logger<'a, F> {
    fn new(args: &'a F) -> Logger<'a, F> {
        let run = LogRun::new(args);
        Logger { args, handle: None, run, is_said: false, has_problem: false }
    }
}

impl<F: Finder> Addition for Logger<'_, F> {
    fn observers(&mut self) -> anyhow::Result<Vec<Box<dyn Observer>>> {
        let monitor = Monitor::new(self.args.observer(&mut self.run)?);
        self.handle = Some(monitor.handle());
        Ok(vec![Box::new(monitor)])
    }

    fn files(&self) -> Vec<PathBuf> {
        self.args.logs().files()
    }

    fn has_stdout(&self) -> bool {
        true
    }

    fn each_second(&mut self, _bottom: &BottomLine) -> io::Result<()> {
        self.run.outputs.look()?;
        if let Some(handle) = self.handle.as_ref().filter(|_| !self.has_problem) {
            self.has_problem = tell_problem::<F>(&handle.status());
        }
        let Some(handle) = self.handle.as_ref().filter(|_| !self.is_said) else { return Ok(()) };
        let Err(error) = handle.check_logs() else { return Ok(()) };
        self.is_said = true;
        // What is recorded can be read again.
        if self.args.run_args().write.paths.is_empty() {
            return Err(error);
        }
        say::message(format_args!("ringside: {error}"));
        Ok(())
    }

    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let Some(handle) = &self.handle else { return Ok(true) };
        let delivered = flows::delivered(&report.ledger);
        let status = handle.status();
        let is_whole = F::account(&status).finish(self.args.run_args().json, delivered)?;
        self.has_problem = self.has_problem || tell_problem::<F>(&status);
        self.run.outputs.finish().map(|all_arrived| all_arrived && is_whole)
    }
}
