//! `ringside control`: gives an order to a running capture.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use ringside_control::{Client, Command};
use ringside_report::status;
use ringside_terminal::{ledger_text, say, units};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `control`.
#[derive(Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Examples:
  sudo ringside control rotate             the one capture that runs begins new files
  sudo ringside control /run/ringside/capture-4711.sock stop
  sudo ringside control flows --idle 30s   the flows of `ringside flows` end by another time-out
  sudo ringside control ledger --json      one JSON line, as the socket gives it"
)]
pub struct ControlCommandArgs {
    /// Control socket; may be left out if one capture runs.
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,

    /// What to do.
    #[arg(value_enum, value_name = "ORDER")]
    order: Order,

    /// With `flows`: a flow is over when no packet came for so long.
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    idle: Option<Duration>,

    /// With `flows`: a flow that goes on has a record for each such time.
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    active: Option<Duration>,

    /// With `flows`: entries of the kernel's cache that may be used, of all CPUs, in eighths of
    /// what there is.
    #[arg(long, value_name = "N")]
    cache_entries: Option<u64>,

    /// The reply as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// Orders by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// What the run is, and how it goes.
    Status,
    /// The ledger so far.
    Ledger,
    /// The account of flows; with --idle or --active they end by other time-outs from now on.
    Flows,
    /// Begin new files.
    Rotate,
    /// End the run as Ctrl-C does, and wait until it has ended.
    Stop,
}

impl ControlCommandArgs {
    fn command(&self) -> Command {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match self.order {
            Order::Flows => Command::Flows {
                idle_ms: self.idle.map(milliseconds),
                active_ms: self.active.map(milliseconds),
                cache_entries: self.cache_entries,
            },
            Order::Status => Command::Status {},
            Order::Ledger => Command::Ledger {},
            Order::Rotate => Command::Rotate {},
            Order::Stop => Command::Stop {},
        }
    }
}

/// Runs the subcommand.
pub fn run(args: ControlCommandArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        args.order == Order::Flows
            || args.idle.or(args.active).is_none() && args.cache_entries.is_none(),
        "--idle, --active and --cache-entries are for flows: ringside control flows --idle 30s"
    );
    let Some(mut client) = Client::only(args.socket.as_deref())? else {
        say::message("no capture runs there");
        return Ok(ExitCode::from(1));
    };
    let reply = client.ask(&args.command())?;
    if args.json {
        say::data(serde_json::json!(reply))?;
    } else if let Some(of_run) = &reply.status {
        say::data(status::table(std::iter::once(&**of_run)))?;
    } else if let Some(flows) = &reply.flows {
        say::data(serde_json::to_string_pretty(flows)?)?;
    } else if let Some(ledger) = &reply.ledger {
        say::data(ledger_text::so_far(ledger).trim_end())?;
    }
    if args.order == Order::Stop {
        client.wait_for_end();
    }
    Ok(ExitCode::SUCCESS)
}
