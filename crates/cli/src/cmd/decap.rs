//! `ringside decap`: the end of a balancer's tunnels, on a server behind it.

mod kept;
mod unpacking;

use crate::in_driver::{LastAccount, Locked, tell};
use crate::in_driver_args::InDriverArgs;
use crate::pinned::{OffArgs, StatusArgs};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use ringside_balance::Prefix;
use ringside_balancer::{DecapLedger, DecapOptions, DriverDecap};
use ringside_control::{DECAP_KIND, Desk, OutputStatus, StatusParts};
use ringside_report::balance as report;
use ringside_terminal::say;
use std::net::IpAddr;
use std::process::ExitCode;

/// Arguments of `decap`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "What comes in a tunnel from the balancers' prefix to an address of this server \
is handed to the host as if it had come by itself: IPv4 in IPv4, IPv4 or IPv6 in IPv6, and the \
same in UDP (GUE). The host must have the VIP's address, as with `ip addr add 192.0.2.1/32 dev \
lo`. docs/balance.md describes both ends.

Examples:
  sudo ringside decap -i eth1 --to 10.0.0.1 --from 10.9.0.0/16
  sudo ringside decap -i eth1 --to 10.0.0.1 --to fd00::1 --from 10.9.0.0/16 --from fd09::/64
  sudo ringside decap -i eth1 --to 10.0.0.1 --from 10.9.0.0/16 --pin --detach
  sudo ringside decap status
  sudo ringside decap off -i eth1

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says what came so far, on
standard error."
)]
pub struct DecapArgs {
    #[command(subcommand)]
    command: Option<DecapCommand>,

    /// Interface that tunnels come by.
    #[arg(short = 'i', long = "interface", value_name = "IF", required = true)]
    interface: Option<String>,

    /// Address of this server at which tunnels end: the real's in the balancer's configuration. Up
    /// to 8.
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<IpAddr>,

    /// Prefix in which tunnels begin: source_v4 or source_v6 of the balancer's configuration; one
    /// for each version of IP.
    #[arg(long, value_name = "PREFIX", required = true)]
    from: Vec<Prefix>,

    /// UDP port of tunnels by GUE: gue_port of the balancer's configuration.
    #[arg(long, value_name = "PORT", default_value_t = 6080)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    gue_port: u16,

    /// Use the kernel's generic path where the driver has no XDP.
    #[arg(long)]
    generic: bool,

    /// Tunnels end here when this process ends or is killed, until `decap off`; one that is pinned
    /// already is replaced.
    #[arg(long)]
    pin: bool,

    #[command(flatten)]
    run: InDriverArgs,
}

#[derive(Subcommand)]
enum DecapCommand {
    /// What came out of tunnels; 1 if none end here.
    #[command(after_help = "Examples:
  sudo ringside decap status
  sudo ringside decap status -i eth1 --json")]
    Status(StatusArgs),
    /// End the end of tunnels.
    #[command(after_help = "Examples:
  sudo ringside decap off -i eth1
  sudo ringside decap off -i eth1 --netns server1")]
    Off(OffArgs),
}

/// Runs the subcommand.
pub fn run(args: DecapArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(DecapCommand::Status(args)) => kept::ENDS.status(args),
        Some(DecapCommand::Off(args)) => kept::ENDS.off(args),
        None => decap(&args),
    }
}

fn decap(args: &DecapArgs) -> anyhow::Result<ExitCode> {
    let course = args.run.begin()?;
    let options = options(args)?;
    let control = args.run.control(DECAP_KIND)?;
    let (end, notes) = DriverDecap::open(&options)?;
    tell(&notes);
    let (name, pinned) = (&options.interface, if args.pin { ", pinned" } else { "" });
    say::message(format_args!("listening on {name}: tunnels end here{pinned}"));
    if args.run.detach {
        kept::ENDS.tell_stay(name, args.run.netns.as_deref());
        return Ok(ExitCode::SUCCESS);
    }
    let output = OutputStatus { kind: DECAP_KIND.to_owned(), paths: Vec::new() };
    let parts = StatusParts::new(format!("{name}, in the driver"), vec![name.clone()], output);
    course.run(control, Desk::new(parts, Locked::new(end)), |end| {
        end.lock().stop()?;
        finish(args, &end.lock().ledger())?;
        if args.pin {
            kept::ENDS.tell_stay(name, args.run.netns.as_deref());
        }
        Ok(())
    })
}

fn options(args: &DecapArgs) -> anyhow::Result<DecapOptions> {
    let one_of = |is_v4: bool| {
        let mut of_version = args.from.iter().filter(|from| from.address().is_ipv4() == is_v4);
        match (of_version.next(), of_version.next()) {
            (Some(_), Some(second)) => bail!("--from {second}: one prefix for each version of IP"),
            (first, _) => Ok(first.copied()),
        }
    };
    Ok(DecapOptions {
        interface: args.interface.clone().context("name an interface with -i")?,
        addresses: args.to.clone(),
        source_v4: one_of(true)?,
        source_v6: one_of(false)?,
        gue_port: args.gue_port,
        generic_allowed: args.generic,
        is_pinned: args.pin,
    })
}

/// Says what was done; an error if frames are missing in the account.
fn finish(args: &DecapArgs, ledger: &DecapLedger) -> anyhow::Result<()> {
    let last = LastAccount {
        kind: DECAP_KIND,
        account: serde_json::json!(ledger),
        lanes: report::decap_lanes(ledger),
        text: report::decap_text(ledger),
        balance: ledger.balance(),
    };
    last.tell(args.run.json, args.pin)
}
