//! A real changed while its balancer runs.

use crate::running;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use ringside_control::{BALANCE_KIND, BalanceCommand, Command, SetState};
use ringside_sys::netns::Namespace;
use ringside_terminal::{say, units};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How long a change may take: with all VIPs and reals that there may be it takes seconds.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Arguments of `balance set`.
#[derive(Args)]
#[command(after_help = "What is set counts until the file says something else of that real, or the
process ends; with --save it is written into the file too.

Examples:
  sudo ringside balance set --vip web --real 10.0.0.1 --state draining --drain 10m
  sudo ringside balance set --vip web --real 10.0.0.1 --state down
  sudo ringside balance set --vip web --real 10.0.0.1 --state file      as the file says
  sudo ringside balance set -i eth1 --vip web --real 10.0.0.2 --weight 3 --save")]
pub struct SetArgs {
    /// Interface of the balancer; may be left out if one runs.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: Option<String>,

    /// Network namespace of the interface: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Name of the VIP.
    #[arg(long, value_name = "NAME")]
    vip: String,

    /// Address of the real.
    #[arg(long, value_name = "ADDRESS")]
    real: IpAddr,

    /// The state that it is to have.
    #[arg(long, value_enum, required_unless_present = "weight")]
    state: Option<State>,

    /// How long a real that drains keeps its flows [default: 5 minutes].
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    drain: Option<Duration>,

    /// The weight that it is to have, 0 to 65535.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,

    /// Write it into the configuration file, too.
    #[arg(long)]
    save: bool,
}

/// States by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// New flows and old ones.
    Up,
    /// Old flows until a deadline.
    Draining,
    /// None.
    Down,
    /// What the file says, of the weight too.
    File,
}

/// Has a running balancer change a real; 1 if none runs.
pub(super) fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let wanted = args.netns.as_deref().map(Namespace::open).transpose()?;
    let wanted = wanted.map(|namespace| namespace.identity()).transpose()?;
    let mut found = running::of_kind(BALANCE_KIND, args.interface.as_deref());
    found.retain(|(_, status)| wanted.is_none() || running::namespace_of(status) == wanted);
    ensure!(found.len() < 2, "{} balancers run; name the interface of one with -i", found.len());
    let Some((mut client, _)) = found.pop() else {
        running::tell_nothing("no balancer runs");
        return Ok(ExitCode::from(1));
    };
    let command = Command::Balance(BalanceCommand::Set {
        vip: args.vip.clone(),
        real: args.real,
        state: args.state.map(|state| match state {
            State::Up => SetState::Up,
            State::Draining => SetState::Draining,
            State::Down => SetState::Down,
            State::File => SetState::File,
        }),
        drain_s: args.drain.map(whole_seconds),
        weight: args.weight,
        save: args.save,
    });
    client.ask_for(&command, CHANGE_WAIT_MAX)?;
    let saved = if args.save { ", and in the file" } else { "" };
    say::message(format_args!("{} of {} is set{saved}", args.real, args.vip));
    Ok(ExitCode::SUCCESS)
}

/// At least as long: a real that is to drain a moment is not to drain for no time.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs().saturating_add((time.subsec_nanos() > 0).into());
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_is_one() {
        let of = |ms| whole_seconds(Duration::from_millis(ms));
        assert_eq!([0, 1, 900, 1_000, 1_001].map(of), [0, 1, 1, 1, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }
}
