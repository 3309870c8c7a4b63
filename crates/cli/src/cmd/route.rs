//! `ringside route`: packets from interface to interface inside the driver, by the kernel's routes.

mod explain;
mod forwarding;
mod kept;

use crate::in_driver::{LastAccount, Locked, tell};
use crate::in_driver_args::InDriverArgs;
use crate::pinned::{OffArgs, StatusArgs};
use clap::{Args, Subcommand};
use ringside_control::{Desk, OutputStatus, ROUTE_KIND, StatusParts};
use ringside_report::route as report;
use ringside_route::{ANSWER_AGE_MIN, Options, Router};
use ringside_terminal::{say, units};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The shortest time between two questions to a neighbour: it must have time to answer.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// The longest time for which the kernel's tables are not asked about a flow: a change is not to
/// wait longer.
const ROUTE_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Arguments of `route`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "docs/route.md describes what is forwarded and what is left to the host. Routes,
rules, next hops and neighbours are the kernel's: `ip route`, `ip rule`, `ip neighbour`. Netfilter,
connection tracking and tc do not see what is forwarded here.

Examples:
  sudo ringside route -i eth1 -i eth2                          until Ctrl-C
  sudo ringside route -i eth1 -i eth2 -i eth3 --json --for 1h
  sudo ringside route -i eth1 -i eth2 --explain trace.pcap     why is nothing forwarded?
  sudo ringside route -i eth1 -i eth2 --pin                    stays when this process ends
  sudo ringside route -i eth1 -i eth2 --pin --detach           begin to forward, and return
  sudo ringside route status
  sudo ringside route off -i eth1

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says what was forwarded so far,
on standard error."
)]
pub struct RouteArgs {
    #[command(subcommand)]
    command: Option<RouteCommand>,

    /// Interface of the router; at least two. What leads out of others is left to the host.
    #[arg(short = 'i', long = "interface", value_name = "IF", required = true)]
    interfaces: Vec<String>,

    /// Forward nothing: say of each frame of a capture what would become of it if it came in by the
    /// first -i, and why; with --json a line for each. Status 1 if none would be forwarded.
    #[arg(long, value_name = "FILE|DIR|-")]
    #[arg(conflicts_with_all = ["duration", "control", "no_control", "ask_neighbours"])]
    #[arg(conflicts_with_all = ["ask_routes", "pin"])]
    explain: Vec<PathBuf>,

    /// How often a neighbour in use is asked whether it is still there; one that has a new address
    /// in the link layer and has not said so gets its packets at most this and 0.3 s later.
    #[arg(long, value_name = "DURATION", default_value = "400ms", value_parser = asking)]
    ask_neighbours: Duration,

    /// How often the kernel's tables are asked about a flow: a change of routes, rules or
    /// neighbours is noticed at most this much later. `always`: for each packet.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = asking_routes)]
    ask_routes: Duration,

    /// Forwarding goes on when this process ends or is killed, until `route off`; a router that is
    /// pinned on the interfaces already is replaced. Without a process no changes of interfaces are
    /// followed, and neighbours are kept as fresh as the kernel keeps its own.
    #[arg(long)]
    pin: bool,

    #[command(flatten)]
    run: InDriverArgs,
}

#[derive(Subcommand)]
enum RouteCommand {
    /// What is forwarded where, and what is left to the host for what reason; 1 if nothing is.
    #[command(after_help = "Examples:
  sudo ringside route status
  sudo ringside route status -i eth1 --json")]
    Status(StatusArgs),
    /// End a router.
    #[command(after_help = "Examples:
  sudo ringside route off -i eth1
  sudo ringside route off -i eth1 --netns edge")]
    Off(OffArgs),
}

/// Runs the subcommand.
pub fn run(args: RouteArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(RouteCommand::Status(args)) => kept::ROUTERS.status(args),
        Some(RouteCommand::Off(args)) => kept::ROUTERS.off(args),
        None => route(&args),
    }
}

fn route(args: &RouteArgs) -> anyhow::Result<ExitCode> {
    let course = args.run.begin()?;
    if !args.explain.is_empty() {
        return explain::explain(args, course.stop());
    }
    let options = Options {
        interfaces: args.interfaces.clone(),
        probe_interval: args.ask_neighbours,
        answer_age_max: args.ask_routes,
        is_pinned: args.pin,
    };
    let (mut router, notes) = Router::open(&options)?;
    tell(&notes);
    let names = args.interfaces.join(", ");
    let pinned = if args.pin { ", pinned" } else { "" };
    if args.run.detach {
        router.start()?;
        say::message(format_args!("forwarding between {names}{pinned}"));
        kept::ROUTERS.tell_stay(&args.interfaces[0], args.run.netns.as_deref());
        return Ok(ExitCode::SUCCESS);
    }
    let control = args.run.control(ROUTE_KIND)?;
    let output = OutputStatus { kind: ROUTE_KIND.to_owned(), paths: Vec::new() };
    let source = format!("{names}, in the driver");
    let parts = StatusParts::new(source, args.interfaces.clone(), output);
    router.start()?;
    say::message(format_args!("forwarding between {names}{pinned}"));
    course.run(control, Desk::new(parts, Locked::new(router)), |router| {
        router.lock().stop()?;
        finish(args, &mut router.lock())?;
        if args.pin {
            kept::ROUTERS.tell_stay(&args.interfaces[0], args.run.netns.as_deref());
        }
        Ok(())
    })
}

/// Says what was done; an error if frames are missing in the account.
fn finish(args: &RouteArgs, router: &mut Router) -> anyhow::Result<()> {
    router.read_devices()?;
    let ledger = router.ledger()?;
    let last = LastAccount {
        kind: ROUTE_KIND,
        account: serde_json::json!(ledger),
        lanes: report::lanes(&ledger),
        text: report::text(&ledger),
        balance: ledger.balance(),
    };
    last.tell(args.run.json, args.pin)
}

fn asking(text: &str) -> Result<Duration, String> {
    let duration = units::duration(text)?;
    if duration < PROBE_INTERVAL_MIN {
        let least = PROBE_INTERVAL_MIN.as_millis();
        return Err(format!("a neighbour needs time to answer: at least {least}ms"));
    }
    Ok(duration)
}

fn asking_routes(text: &str) -> Result<Duration, String> {
    if text == "always" {
        return Ok(Duration::ZERO);
    }
    let duration = units::duration(text)?;
    if !(ANSWER_AGE_MIN..=ROUTE_INTERVAL_MAX).contains(&duration) {
        let (least, most) = (ANSWER_AGE_MIN.as_millis(), ROUTE_INTERVAL_MAX.as_secs());
        return Err(format!("write {least}ms to {most}s, or always"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_asked_now_and_then_or_always() {
        assert_eq!(asking_routes("always"), Ok(Duration::ZERO));
        assert_eq!(asking_routes("34ms"), Ok(Duration::from_millis(34)));
        assert_eq!(asking_routes("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["33ms", "0", "11s", "never"] {
            assert!(asking_routes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn neighbours_have_time_to_answer() {
        assert_eq!(asking("400ms"), Ok(Duration::from_millis(400)));
        assert_eq!(asking("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["100ms", "0", "x"] {
            assert!(asking(wrong).is_err(), "{wrong}");
        }
    }
}
