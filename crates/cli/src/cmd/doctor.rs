//! `ringside doctor`: what this machine and its interfaces can do, what is in the way, and what
//! mends it.

mod check;
mod clock;
mod interface;
mod machine;
mod polling;

use check::{Check, State};
use clap::Args;
use ringside_keeper::Request;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `doctor`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside doctor                     the machine
  sudo ringside doctor -i eth1             and an interface: what is in the way, and the mend
  sudo ringside doctor -i eth1 --fix       mend what can be mended
  sudo ringside doctor --undo              as it was before

Without --fix and --undo nothing is changed. What --fix turns stays until --undo or the next start
of the system. Settings for which many drivers start an interface anew (queues, ring sizes) are not
touched where the host uses it. Exit status: 0 all good, 1 something is in the way, 2 could not.")]
pub struct DoctorArgs {
    /// Interface to look at; may be given several times.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interfaces: Vec<String>,

    /// Network namespace of the interfaces: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Mend what can be mended.
    #[arg(long)]
    fix: bool,

    /// Put back what --fix has turned.
    #[arg(long, conflicts_with = "fix")]
    undo: bool,

    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct Report {
    checks: Vec<Check>,
    /// What --fix has turned now, or --undo has put back.
    done: Vec<String>,
    /// What --fix could not turn, or --undo not put back.
    failed: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    // The interfaces are looked at from there; not all of the machine's settings are seen there.
    let namespace = args.netns.as_deref().map_or_else(Namespace::current, Namespace::open)?;
    let mut report = Report::default();
    if args.undo {
        // What is in the way again is how it was wanted: nothing is judged.
        (report.done, report.failed) = ringside_keeper::put_back_what_stays()?;
    } else {
        report.checks = look(&args.interfaces, &namespace)?;
        if args.fix {
            fix(&namespace, &mut report)?;
            report.checks = look(&args.interfaces, &namespace)?;
        }
    }
    if args.json {
        say::data(serde_json::to_string(&report)?)?;
    } else {
        say::data(text(&report).trim_end())?;
    }
    let in_the_way = report.checks.iter().any(|check| check.state == State::InTheWay);
    Ok(match (report.failed.is_empty(), in_the_way) {
        (false, _) => ExitCode::from(2),
        (true, true) => ExitCode::from(1),
        (true, false) => ExitCode::SUCCESS,
    })
}

fn look(interfaces: &[String], namespace: &Namespace) -> anyhow::Result<Vec<Check>> {
    let mut checks = machine::checks();
    for name in interfaces {
        checks.extend(ringside_keeper::in_namespace(namespace, || interface::checks(name))?);
    }
    Ok(checks)
}

/// Mends what can be mended, each check for itself: one that fails holds up no other.
fn fix(namespace: &Namespace, report: &mut Report) -> anyhow::Result<()> {
    report.done.extend(ringside_keeper::put_back_of_the_dead());
    let requests = report.checks.iter().flat_map(|check| &check.requests);
    let requests: Vec<Request> = requests.cloned().collect();
    if requests.is_empty() {
        return Ok(());
    }
    for result in ringside_keeper::turn_for_good(&requests, namespace)? {
        match result {
            Ok(names) => {
                report.done.extend(names.into_iter().map(|name| format!("{name}: turned")));
            }
            Err(error) => report.failed.push(format!("{error:#}")),
        }
    }
    Ok(())
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for note in &report.done {
        let _ = writeln!(out, "{note}");
    }
    for note in &report.failed {
        // What --undo could not do says so in its own words.
        let prefix = if report.checks.is_empty() { "" } else { "not mended: " };
        let _ = writeln!(out, "{prefix}{note}");
    }
    let mut subject = "";
    for check in &report.checks {
        if check.subject != subject {
            subject = &check.subject;
            let _ = writeln!(out, "{subject}");
        }
        let _ = writeln!(out, "  {:<16} {:<28} {}", check.state.text(), check.name, check.found);
        if check.state != State::Good {
            let _ = writeln!(out, "  {:<16} {:<28} {}", "", "  why", check.why);
        }
        if let Some(mend) = &check.mend {
            let by_fix = if check.fixable { "" } else { "   (not by --fix)" };
            let _ = writeln!(out, "  {:<16} {:<28} {mend}{by_fix}", "", "  mend");
        }
    }
    out
}
