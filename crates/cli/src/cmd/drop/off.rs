//! What protects which interface, and its end.

use crate::control::{Client, Command, Found, Status};
use crate::units::grouped;
use crate::{columns, say};
use clap::Args;
use ringside_core::Cause;
use std::process::ExitCode;

/// What `drop` is called in a status.
pub(super) const KIND: &str = "drop";

/// Arguments of `drop status`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside drop status
  sudo ringside drop status -i eth1 --json")]
pub struct StatusArgs {
    /// Only this interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: Option<String>,

    /// One JSON object a line on standard output for each interface.
    #[arg(long)]
    json: bool,
}

/// Arguments of `drop off`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside drop off -i eth1")]
pub struct OffArgs {
    /// Interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: String,
}

/// Prints what is dropped where; 1 if nothing is.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let found = running(args.interface.as_deref());
    if args.json {
        for (client, status) in &found {
            say::data(serde_json::json!({ "socket": client.path(), "status": status }))?;
        }
    } else if !found.is_empty() {
        let line = |status: &Status| {
            let ledger = &status.ledger;
            let cause = |cause| grouped(ledger.dropped.get(&cause).copied().unwrap_or_default());
            vec![
                status.interfaces.join(" "),
                status.pid.to_string(),
                status.started.clone(),
                grouped(ledger.received.unwrap_or_default()),
                grouped(ledger.passed),
                cause(Cause::ByRule),
                cause(Cause::SourceLimit),
            ]
        };
        let lines: Vec<Vec<String>> = found.iter().map(|(_, status)| line(status)).collect();
        let head = ["interface", "process", "since", "received", "passed", "dropped", "limited"];
        say::data(columns::text(&head, &lines).trim_end())?;
    }
    if found.is_empty() {
        say::message("nothing is dropped");
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends what protects an interface, and waits until it has; 1 if nothing does.
pub(super) fn off(args: &OffArgs) -> anyhow::Result<ExitCode> {
    let found = running(Some(&args.interface));
    if found.is_empty() {
        say::message(format_args!("nothing is dropped on {}", args.interface));
        return Ok(ExitCode::from(1));
    }
    for (mut client, status) in found {
        client.ask(&Command::Stop {})?;
        client.wait_for_end();
        say::message(format_args!("process {} has ended", status.pid));
    }
    Ok(ExitCode::SUCCESS)
}

/// Those that run, of an interface.
fn running(interface: Option<&str>) -> Vec<(Client, Status)> {
    let mut found = Found::at(None);
    for error in found.errors.drain(..) {
        say::message(format_args!("ringside: {error:#}"));
    }
    let asked = found.clients.into_iter().filter_map(|mut client| {
        let status = *client.ask(&Command::Status {}).ok()?.status?;
        Some((client, status))
    });
    let is_meant = |status: &Status| {
        status.output.kind == KIND
            && interface.is_none_or(|name| status.interfaces.iter().any(|one| one == name))
    };
    asked.filter(|(_, status)| is_meant(status)).collect()
}
