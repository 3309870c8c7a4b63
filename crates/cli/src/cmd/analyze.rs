//! `ringside analyze`: what an analyzer of the user's own finds.

use crate::inputs::Inputs;
use crate::logging::{self, Finder, LogArgs, LogRun, RecordArgs};
use crate::record::RunArgs;
use anyhow::Context;
use clap::Args;
use ringside_extension::{ExtensionObserver, ExtensionStatus, read_extension, text, trial};
use ringside_report::{extension, logs::Account};
use std::path::PathBuf;
use std::process::ExitCode;

/// The one argument by which this program becomes the child that tries an object.
pub const OBJECT_CHILD: &str = "object-child";

/// Tries an object from standard input, bounded, then exits.
pub fn try_object() -> ExitCode {
    let code = trial::child_main(std::io::stdin().lock(), std::io::stdout().lock());
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}

/// Arguments of `analyze`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside analyze --extension syns.wat -r trace.pcap             its records, a line each
  ringside analyze --extension tftp.wasm -r /data/eth1 --json 'udp port 69'
  sudo ringside analyze --extension syns.wat -i eth1 --for 1m     of an interface
  sudo ringside analyze --extension syns.wat -i eth1 -w /data/eth1   record the packets as well
  ringside analyze --extension syns.wat --attach /run/eth1.share  of a capture that runs (--share)
  sudo ringside analyze --extension syns.o -r trace.pcap          an eBPF object, run by the kernel

An extension sees packets and makes records, and can do nothing else: it has no files, no sockets
and no clock. How to write one: docs/extensions.md. With a packet that takes it too long, or at
which it gives up, it goes on with the next; after 100 of them it is stopped, what is recorded goes
on, and the exit status is 1.
Signals: SIGINT and SIGTERM end it in order, with what it says at its end.")]
pub struct AnalyzeArgs {
    /// The extension: a WebAssembly module (.wasm), its text (.wat), or an eBPF object (.o).
    #[arg(long, value_name = "FILE")]
    extension: PathBuf,

    #[command(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    records: RecordArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub fn run(args: AnalyzeArgs) -> anyhow::Result<ExitCode> {
    logging::run(&args)
}

impl Finder for AnalyzeArgs {
    type Observer = ExtensionObserver;
    type Record = ringside_extension::Found;

    const NAME: &'static str = "analyze";

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

    fn observer(&self, run: &mut LogRun) -> anyhow::Result<ExtensionObserver> {
        let path = || format!("--extension {}", self.extension.display());
        let file = read_extension(&self.extension).with_context(path)?;
        let name = self.extension.file_stem().unwrap_or_default().to_string_lossy();
        let exe = std::env::current_exe().context("finding this program, to try an object")?;
        trial::try_in_child(&file, &exe, &[OBJECT_CHILD.into()]).with_context(path)?;
        let sinks = self.records.sinks(text, run)?;
        ExtensionObserver::new(&name, &file, sinks).with_context(path)
    }

    fn account(status: &ExtensionStatus) -> Account<'_> {
        extension::account(status)
    }

    fn problem(status: &ExtensionStatus) -> Option<String> {
        status.problem()
    }
}
