//! `ringside send --relay`: what one interface receives goes out of another, cut where it is too
//! long.

use super::TargetArgs;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use ringside_capture::backend::af_packet::{self, AfPacketConfig};
use ringside_netdev as netdev;
use ringside_report::send::relay as report;
use ringside_sys::netns::Namespace;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{ledger_text, progress, say};
use ringside_transmit::relay::{Fragmenting, MTU_BYTES_MIN, RelayConfig, RelayReport, relay};
use ringside_transmit::replay::Ended;
use ringside_transmit::sink::{self, SinkConfig};
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::Instant;

/// How long the kernel may hold a frame back to fill a block: it adds to every frame's way.
const BLOCK_TIMEOUT_MS: u32 = 1;

/// What is relayed, and how it is cut.
#[derive(Args)]
#[command(next_help_heading = "Relay")]
pub struct RelayArgs {
    /// Send on what this interface receives, one way. What fits the sending interface goes as it
    /// is; longer TCP is cut into segments, longer UDP into fragments.
    #[arg(long, value_name = "INTERFACE")]
    relay: Option<String>,

    /// Network namespace of the receiving interface, if it is not that of the sending one.
    #[arg(long, value_name = "NAME")]
    relay_netns: Option<String>,

    /// Largest packet that goes out, in bytes without Ethernet and its VLAN tags; by default the
    /// MTU of the sending interface, which is also the most.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// Which UDP is cut into fragments.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = FragmentArg::Ipv4)]
    fragment: FragmentArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FragmentArg {
    /// None.
    None,
    /// Over IPv4 without DF, as routers do.
    Ipv4,
    /// Over IPv6 too, which routers do not.
    All,
}

/// Runs the mode.
pub(super) fn run(target: &TargetArgs, args: &RelayArgs) -> anyhow::Result<ExitCode> {
    let name = args.relay.as_deref().context("--relay names the receiving interface")?;
    let is_one_namespace = share_namespace(target, args)?;
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    target.enter_relayed(args)?;
    if is_one_namespace {
        check_ends(name, &target.interface)?;
    }
    let opened = af_packet::open(&AfPacketConfig {
        block_timeout_ms: BLOCK_TIMEOUT_MS,
        ..AfPacketConfig::new(name)
    })?;
    opened.warnings.iter().for_each(|warning| say::message(format_args!("ringside: {warning}")));
    let mut source = opened.sources.into_iter().next().context("af-packet opened no lane")?;
    target.enter()?;
    target.check_interface()?;
    let config = config(target, args)?;
    let sink = sink::open(Some(target.sink), &SinkConfig::new(&target.interface))?;
    sink.notes.iter().for_each(|note| say::message(format_args!("ringside: {note}")));
    let mut sink = sink.sink;
    let (bar, mut shown, mut has_begun) = (progress::line_bar(), Instant::now(), false);
    let done = relay(&mut source, &mut sink, &config, &|| stop.is_set(), &mut |so_far| {
        progress::tell_wanted(&statistics, &bar, || report::line(so_far));
        if !std::mem::replace(&mut has_begun, true) {
            say::message(format_args!("listening on {name}, sending on {}", target.interface));
        } else if shown.elapsed() >= progress::INTERVAL {
            shown = Instant::now();
            bar.set_message(report::line(so_far));
        }
    });
    bar.finish_and_clear();
    tell(target, &done?)
}

impl TargetArgs {
    /// Moves the calling thread to where frames are received.
    fn enter_relayed(&self, args: &RelayArgs) -> anyhow::Result<()> {
        match &args.relay_netns {
            Some(name) => Ok(Namespace::open(name)?.enter()?),
            None => self.enter(),
        }
    }
}

/// True if both interfaces are in one namespace.
fn share_namespace(target: &TargetArgs, args: &RelayArgs) -> anyhow::Result<bool> {
    let identity = |name: &Option<String>| match name {
        Some(name) => Namespace::open(name)?.identity(),
        None => Namespace::current()?.identity(),
    };
    Ok(args.relay_netns.is_none() || identity(&args.relay_netns)? == identity(&target.netns)?)
}

/// Refuses two ends in one namespace between which frames would go round and round.
fn check_ends(receiving: &str, sending: &str) -> anyhow::Result<()> {
    ensure!(
        receiving != sending,
        "{receiving} would be sent what it received: name two interfaces (-i OUT --relay IN)"
    );
    let (Some(from), Some(to)) = (netdev::by_name(receiving)?, netdev::by_name(sending)?) else {
        return Ok(());
    };
    let are_pair = from.link == Some(to.ifindex) && to.link == Some(from.ifindex);
    ensure!(
        !are_pair || from.link_is_elsewhere || to.link_is_elsewhere,
        "{receiving} and {sending} are the two ends of one link: {receiving} would receive again \
         what {sending} sends, without an end"
    );
    Ok(())
}

fn config(target: &TargetArgs, args: &RelayArgs) -> anyhow::Result<RelayConfig> {
    let name = &target.interface;
    let device = netdev::by_name(name)?.with_context(|| format!("{name} went away"))?;
    let (least, most) = (MTU_BYTES_MIN as u32, device.mtu_bytes);
    let mtu = args.mtu.unwrap_or(most.min(ringside_segment::MTU_BYTES_MAX as u32));
    ensure!(
        (least..=most).contains(&mtu),
        "--mtu {mtu}: {name} takes packets of {least} to {most} bytes; `ip link set {name} mtu N` \
         allows longer ones, where it can"
    );
    Ok(RelayConfig {
        mtu_bytes: mtu as usize,
        fragmenting: match args.fragment {
            FragmentArg::None => Fragmenting::None,
            FragmentArg::Ipv4 => Fragmenting::Ipv4,
            FragmentArg::All => Fragmenting::All,
        },
        // Keys of hash tables are random, by the system's own generator.
        fragment_id: RandomState::new().hash_one(mtu) as u32,
        count: target.count,
        duration: target.duration,
    })
}

/// The accounts; the status is 0 if all that was received was sent, 1 if not, 2 after an error.
fn tell(target: &TargetArgs, done: &RelayReport) -> anyhow::Result<ExitCode> {
    let ledger = done.ledger();
    if target.json {
        say::data(serde_json::json!({ "sent": done }))?;
        say::data(ledger_text::json(&ledger))?;
    } else {
        say::message(ledger_text::text(&ledger).trim_end());
        say::message(report::text(done, &target.interface).trim_end());
    }
    if let Some(failure) = &done.failure {
        say::message(format_args!("ringside: {failure}"));
    }
    Ok(match done.ended {
        Ended::Failed => ExitCode::from(2),
        _ if !done.is_complete() => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}
