//! `ringside balance`: packets to VIPs go to the reals behind, inside the driver.

mod file;
mod report;

use crate::running;
use anyhow::{Context, bail};
use clap::Args;
use file::ConfigFile;
use ringside_balance::{Config, Tables};
use ringside_ebpf::balance::{BalanceAttachmentConfig, BalanceProgram, BalanceRoom};
use ringside_sys::clock::monotonic_ns;
use ringside_sys::netns::Namespace;
use ringside_terminal::progress::tell_wanted;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use ringside_wire::MacAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often the file is looked at, and a JSON line is given.
const INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `balance`.
#[derive(Args)]
#[command(
    after_help = "docs/balance.md describes the configuration. The file is read anew when it \
changes; one with a mistake changes nothing.

Examples:
  ringside balance --config balance.toml --check         is it right, and what does it take?
  sudo ringside balance -i eth1 --config balance.toml    until Ctrl-C

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says what was sent so far, on
standard error."
)]
pub struct BalanceArgs {
    /// Interface that packets to VIPs come by.
    #[arg(short = 'i', long = "interface", value_name = "IF", required_unless_present = "check")]
    interface: Option<String>,

    /// Configuration: VIPs and their reals, in TOML.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Check the configuration, say what it takes, and end.
    #[arg(long)]
    check: bool,

    /// Use the kernel's generic path where the driver has no XDP.
    #[arg(long)]
    generic: bool,

    /// Network namespace of the interface: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// End after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// JSON lines on standard output: the account each second, and last.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: BalanceArgs) -> anyhow::Result<ExitCode> {
    let mut file = ConfigFile::new(&args.config);
    let config = match file.read() {
        Ok(config) => config,
        Err(error) if args.check => {
            say::message(format_args!("ringside: {error:#}"));
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    if args.check {
        say::data(report::plan(&config).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    balance(&args, &mut file, &config)?;
    Ok(ExitCode::SUCCESS)
}

/// A balancer at work.
struct Running {
    program: BalanceProgram,
    tables: Tables,
}

fn balance(args: &BalanceArgs, file: &mut ConfigFile, config: &Config) -> anyhow::Result<()> {
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    if let Some(name) = &args.netns {
        Namespace::open(name)?.enter()?;
    }
    let name = args.interface.as_deref().context("name an interface with -i")?;
    let device = running::interface_that_is_up(name)?;
    let Ok(mac) = <[u8; 6]>::try_from(&device.hardware_address[..]) else {
        bail!("{name} is no Ethernet interface; balancing needs one");
    };
    let tables = Tables::new(config, monotonic_ns());
    let room = BalanceRoom::twice(&tables, config.flows_per_cpu);
    let (interface, ifindex, generic_allowed) = (name, device.ifindex, args.generic);
    let place = BalanceAttachmentConfig { interface, ifindex, generic_allowed };
    let program = BalanceProgram::open(&place, &tables, &room, MacAddr(mac))?;
    for note in program.notes() {
        say::message(format_args!("ringside: {name}: {note}"));
    }
    let vips = units::counted(config.vips.len() as u64, "VIP");
    let memory = units::scaled(program.memory_bytes() as f64);
    say::message(format_args!("listening on {name}: {vips} in {memory}B"));
    for line in report::forwarding_is_off(name, config) {
        say::message(format_args!("ringside: {line}"));
    }
    let mut running = Running { program, tables };
    let watched = watch(args, (&stop, &statistics), file, &mut running);
    running.program.stop()?;
    let account = report::Account::of(&running.program, &running.tables);
    match args.json {
        true => say::data(account.json())?,
        false => say::message(account.text().trim_end()),
    }
    watched
}

/// Until the end is asked for.
fn watch(
    args: &BalanceArgs,
    (stop, statistics): (&StopSignal, &Wanted),
    file: &mut ConfigFile,
    running: &mut Running,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut looked_at = started;
    let line = indicatif::ProgressBar::hidden();
    while !stop.is_set() {
        let left = args.duration.map(|duration| duration.saturating_sub(started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        std::thread::sleep(left.map_or(TICK, |left| left.min(TICK)));
        let account = |running: &Running| report::Account::of(&running.program, &running.tables);
        tell_wanted(statistics, &line, || account(running).line());
        if looked_at.elapsed() < INTERVAL {
            continue;
        }
        looked_at = Instant::now();
        if file.has_changed() {
            match change(file, running) {
                Ok(said) => say::message(said),
                Err(error) => say::message(format_args!("ringside: nothing changed: {error:#}")),
            }
        }
        if args.json {
            say::data(account(running).json())?;
        }
    }
    Ok(())
}

/// Goes on with what the file says now.
fn change(file: &mut ConfigFile, running: &mut Running) -> anyhow::Result<String> {
    let config = file.read()?;
    let now_ns = monotonic_ns();
    let tables = running.tables.next(&config, now_ns);
    running.program.change(&tables, now_ns)?;
    running.tables = tables;
    let vips = units::counted(config.vips.len() as u64, "VIP");
    let reals = config.vips.iter().map(|vip| vip.reals.len() as u64).sum();
    Ok(format!("changed: {vips}, {}", units::counted(reals, "real")))
}
