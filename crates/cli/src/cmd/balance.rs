//! `ringside balance`: packets to VIPs go to the reals behind, inside the driver.

mod balancing;
mod kept;
mod set;

use crate::in_driver::{LastAccount, Locked, tell};
use crate::in_driver_args::InDriverArgs;
use crate::pinned::{OffArgs, StatusArgs};
use anyhow::Context;
use clap::{Args, Subcommand};
use ringside_balancer::{BalancerError, ConfigFile, DriverBalancer, Ledger, Options};
use ringside_control::{BALANCE_KIND, Desk, OutputStatus, StatusParts};
use ringside_report::balance as report;
use ringside_terminal::{say, units};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `balance`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "docs/balance.md describes the configuration. The file is read anew when it \
changes; one with a mistake changes nothing. On the servers behind, `ringside decap` takes packets \
out of the tunnels.

Examples:
  ringside balance --config balance.toml --check         is it right, and what does it take?
  sudo ringside balance -i eth1 --config balance.toml    until Ctrl-C
  sudo ringside balance -i eth1 --config balance.toml --pin    stays when this process ends
  sudo ringside balance -i eth1 --config balance.toml --pin --detach
  sudo ringside balance status
  sudo ringside balance set --vip web --real 10.0.0.1 --state draining
  sudo ringside balance off -i eth1

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says what was sent so far, on
standard error."
)]
pub struct BalanceArgs {
    #[command(subcommand)]
    command: Option<BalanceCommand>,

    /// Interface that packets to VIPs come by.
    #[arg(short = 'i', long = "interface", value_name = "IF", required_unless_present = "check")]
    interface: Option<String>,

    /// Configuration: VIPs and their reals, in TOML. It is not followed with --detach.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    /// Check the configuration, say what it takes, and end.
    #[arg(long)]
    check: bool,

    /// Use the kernel's generic path where the driver has no XDP.
    #[arg(long)]
    generic: bool,

    /// Packets are balanced on when this process ends or is killed, until `balance off`. One that
    /// is pinned already goes on, with what it counted and remembers.
    #[arg(long)]
    pin: bool,

    #[command(flatten)]
    run: InDriverArgs,
}

#[derive(Subcommand)]
enum BalanceCommand {
    /// What went to which real, and what did not and why; 1 if nothing is balanced.
    #[command(after_help = "Examples:
  sudo ringside balance status
  sudo ringside balance status -i eth1 --json")]
    Status(StatusArgs),
    /// Change state or weight of a real while a balancer runs.
    Set(set::SetArgs),
    /// End a balancer.
    #[command(after_help = "Examples:
  sudo ringside balance off -i eth1
  sudo ringside balance off -i eth1 --netns edge")]
    Off(OffArgs),
}

/// Runs the subcommand.
pub fn run(args: BalanceArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(BalanceCommand::Status(args)) => kept::BALANCERS.status(args),
        Some(BalanceCommand::Set(args)) => set::set(args),
        Some(BalanceCommand::Off(args)) => kept::BALANCERS.off(args),
        None if args.check => check(config(&args)?),
        None => balance(&args),
    }
}

fn config(args: &BalanceArgs) -> anyhow::Result<&Path> {
    args.config.as_deref().context("name a configuration with --config")
}

/// Says what a configuration takes; 1 if it is wrong.
fn check(path: &Path) -> anyhow::Result<ExitCode> {
    match ConfigFile::new(path).read() {
        Ok(config) => {
            let plan = report::plan(&config, ringside_balancer::memory_bytes(&config)?);
            say::data(plan.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ BalancerError::Config { .. }) => {
            say::message(format_args!("ringside: {error}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}

fn balance(args: &BalanceArgs) -> anyhow::Result<ExitCode> {
    let course = args.run.begin()?;
    let config = config(args)?.to_owned();
    let name = args.interface.as_deref().context("name an interface with -i")?;
    let options = Options {
        interface: name.to_owned(),
        config,
        generic_allowed: args.generic,
        is_pinned: args.pin,
        is_detached: args.run.detach,
    };
    let control = args.run.control(BALANCE_KIND)?;
    let (balancer, notes) = DriverBalancer::open(&options)?;
    tell(&notes);
    let memory = units::scaled(balancer.memory_bytes() as f64);
    let pinned = if args.pin { ", pinned" } else { "" };
    let what = format!("{} in {memory}B{pinned}", balancer.summary());
    say::message(format_args!("listening on {name}: {what}"));
    if args.run.detach {
        kept::BALANCERS.tell_stay(name, args.run.netns.as_deref());
        return Ok(ExitCode::SUCCESS);
    }
    let output = OutputStatus { kind: BALANCE_KIND.to_owned(), paths: Vec::new() };
    let parts = StatusParts::new(format!("{name}, in the driver"), vec![name.into()], output);
    course.run(control, Desk::new(parts, Locked::new(balancer)), |balancer| {
        balancer.lock().stop()?;
        finish(args, &balancer.lock().ledger())?;
        if args.pin {
            kept::BALANCERS.tell_stay(name, args.run.netns.as_deref());
        }
        Ok(())
    })
}

/// Says what was done; an error if frames are missing in the account.
fn finish(args: &BalanceArgs, ledger: &Ledger) -> anyhow::Result<()> {
    let last = LastAccount {
        kind: BALANCE_KIND,
        account: serde_json::json!(ledger),
        lanes: report::lanes(ledger),
        text: report::text(ledger),
        balance: ledger.balance(),
    };
    last.tell(args.run.json, args.pin)
}
