//! `ringside top`: the running captures on a terminal.

use anyhow::ensure;
use clap::Args;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `top`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside top                                  the running captures
  sudo ringside top /run/ringside/capture-4711.sock  one of them

Keys: q ends, space freezes, left and right choose the capture, h shows the keys. It looks only;
`ringside control` gives orders. For programs `ringside status --watch --json` says the same.

Exit status: 0 ended by a key, 1 no capture runs, 2 could not.")]
pub struct TopArgs {
    /// Control socket of one capture; by default all in /run/ringside and
    /// $XDG_RUNTIME_DIR/ringside.
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: TopArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        io::stdout().is_terminal(),
        "standard output is no terminal: `ringside status --watch --json` says the same to programs"
    );
    let stop = StopSignal::install()?;
    let first = ringside_top::ask(args.socket.as_deref());
    if first.captures.is_empty() {
        first.errors.iter().for_each(|error| say::message(format_args!("ringside: {error}")));
        say::message("no capture runs");
        return Ok(ExitCode::from(if first.errors.is_empty() { 1 } else { 2 }));
    }
    ringside_top::run(args.socket, first, &|| stop.is_set())?;
    Ok(ExitCode::SUCCESS)
}
