//! `ringside doctor`: what this machine and its interfaces can do, the problems, and their fixes.

use clap::Args;
use ringside_doctor::Report;
use ringside_report::doctor::text;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use std::process::ExitCode;

/// Arguments of `doctor`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside doctor                     the machine
  sudo ringside doctor -i eth1             and an interface: problems, and their fixes
  sudo ringside doctor -i eth1 --fix       fix what can be fixed
  sudo ringside doctor --undo              as it was before

Without --fix and --undo nothing is changed. What --fix turns stays until --undo or the next start
of the system. Settings for which many drivers start an interface anew (queues, ring sizes) are not
touched where the host uses it. Exit status: 0 no problem, 1 a problem was found, 2 could not.")]
pub struct DoctorArgs {
    /// Interface to look at; may be given several times.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interfaces: Vec<String>,

    /// Network namespace of the interfaces: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Fix what can be fixed.
    #[arg(long)]
    fix: bool,

    /// Put back what --fix has turned.
    #[arg(long, conflicts_with = "fix")]
    undo: bool,

    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let namespace = args.netns.as_deref().map_or_else(Namespace::current, Namespace::open)?;
    let report = match (args.undo, args.fix) {
        (true, _) => Report::undone()?,
        (false, true) => Report::fixed(&args.interfaces, &namespace)?,
        (false, false) => Report::of(&args.interfaces, &namespace)?,
    };
    if args.json {
        say::data(serde_json::to_string(&report)?)?;
    } else {
        say::data(text(&report).trim_end())?;
    }
    Ok(match (report.failed.is_empty(), report.has_problem()) {
        (false, _) => ExitCode::from(2),
        (true, true) => ExitCode::from(1),
        (true, false) => ExitCode::SUCCESS,
    })
}
