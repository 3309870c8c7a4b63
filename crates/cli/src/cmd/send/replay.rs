//! `ringside send -r`: replay of captures.

use super::{TargetArgs, To, single, single_mac};
use crate::words;
use anyhow::bail;
use clap::{Args, ValueEnum};
use ringside_core::{Frame, LinkType, TimeRange, Timestamp};
use ringside_report::send::replay as report;
use ringside_session::filters::frame_filter;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{progress, say, units};
use ringside_transmit::replay::{CutFrames, Ended, Filter, ReplayReport, Speed, Tempo};
use ringside_transmit::{AddressMap, AddressRule, Replay, Rewrite, VlanChange, VlanId};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is replayed, when, and what is changed.
#[derive(Args)]
#[command(next_help_heading = "Replay")]
pub struct ReplayArgs {
    /// File (pcap or pcapng), directory of a recording, or `-` for standard input; several are
    /// merged by time.
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-")]
    read: Vec<PathBuf>,

    /// X times as fast as recorded: 0.5, 10.
    #[arg(long, value_name = "X", conflicts_with = "rate")]
    speed: Option<Speed>,

    /// One frame after the other instead, as fast as it goes.
    #[arg(long, conflicts_with_all = ["speed", "max_gap", "rate"])]
    fast: bool,

    /// Shorten longer waits between two frames to this, as 1s or 10ms.
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    #[arg(conflicts_with = "rate")]
    max_gap: Option<Duration>,

    /// Send it N times, one after the other.
    #[arg(long = "loop", value_name = "N", default_value_t = 1)]
    loops: u64,

    /// Only frames from this moment on: 2026-03-01T12:00:00Z, or seconds since 1970.
    #[arg(long, value_name = "TIME", value_parser = units::moment)]
    from: Option<Timestamp>,

    /// Take all VLAN tags off.
    #[arg(long, conflicts_with = "vlan")]
    no_vlan: bool,

    /// Let two prefixes of IP addresses of the same length change places, in both directions of
    /// every flow; checksums follow. May be given several times.
    #[arg(long, value_name = "A/LEN=B/LEN")]
    address_map: Vec<AddressRule>,

    /// What becomes of frames that the capture cut short.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CutArg::Refuse)]
    cut: CutArg,

    /// Leave frames out that cannot be sent, and count them; else a capture that holds one is
    /// refused.
    #[arg(long)]
    skip_unsendable: bool,

    /// Do not read files before the first frame is sent to see whether all can be: what cannot
    /// then ends the replay where it stands. So it is with standard input always.
    #[arg(long)]
    no_scan: bool,

    /// Offer a frame for which the driver has no room until it has; else it is counted as refused
    /// and left behind.
    #[arg(long)]
    retry: bool,

    /// pcap-filter(7) expression, which frames are asked as they were recorded.
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CutArg {
    /// They cannot be sent.
    Refuse,
    /// What there is of them is sent.
    Send,
    /// They are filled up with zeros to what they were.
    Pad,
}

/// Runs the mode.
pub(super) fn run(target: &TargetArgs, args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let job = job(target, &args)?;
    let mut filter = frame_filter(&args.filter.join(" "), words::say_note)?;
    // A wrong filter is refused before anything is opened.
    filter.prepare(LinkType::ETHERNET)?;
    target.enter()?;
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    let accepts: Filter = Box::new(move |frame: &Frame<'_>, link_type| {
        filter.accepts(frame, link_type).map_err(|error| format!("{error:#}"))
    });
    let bar = progress::line_bar();
    if job.scan {
        bar.set_message("looking whether all can be sent (--no-scan begins at once)");
    }
    let mut begun = None;
    let done =
        ringside_transmit::replay(&job, accepts, &|| stop.is_set(), &mut |so_far, planned| {
            let begun = begun.get_or_insert_with(Instant::now);
            let line = report::line(so_far, planned, begun.elapsed());
            progress::tell_wanted(&statistics, &bar, || line.clone());
            bar.set_message(line);
        });
    bar.finish_and_clear();
    let done = done?;
    for notice in &done.notices {
        say::message(format_args!("ringside: {notice}"));
    }
    if target.json {
        say::data(serde_json::json!({ "sent": done }))?;
    } else {
        say::message(report::text(&done, &job.interface).trim_end());
    }
    if let Some(failure) = &done.failure {
        say::message(format_args!("ringside: {failure}"));
    }
    Ok(status(&done))
}

/// 0 if all that was to be sent was taken, 1 if some or nothing was, 2 if an error ended it.
fn status(done: &ReplayReport) -> ExitCode {
    match done.ended {
        Ended::Failed => ExitCode::from(2),
        _ if done.accepted == 0 || !done.is_whole() => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    }
}

fn job(target: &TargetArgs, args: &ReplayArgs) -> anyhow::Result<Replay> {
    let tempo = match (target.rate, args.fast) {
        (Some(rate), _) => Tempo::Rate(rate),
        (None, true) => Tempo::Fast,
        (None, false) => {
            let speed = args.speed.unwrap_or(Speed::RECORDED);
            Tempo::Recorded { speed, gap_max: args.max_gap }
        }
    };
    let to = match target.to {
        None => None,
        Some(To::Moment(moment)) => Some(moment),
        Some(To::Place(..)) => bail!("--to of a capture is a moment, as 2026-03-01T12:00:00Z"),
    };
    Ok(Replay {
        inputs: args.read.clone(),
        interface: target.interface.clone(),
        sink: target.sink,
        tempo,
        loops: args.loops,
        range: TimeRange { from: args.from, to },
        count: target.count,
        duration: target.duration,
        rewrite: rewrite(target, args)?,
        cut: match args.cut {
            CutArg::Refuse => CutFrames::Refuse,
            CutArg::Send => CutFrames::Send,
            CutArg::Pad => CutFrames::Pad,
        },
        skip_unsendable: args.skip_unsendable,
        scan: !args.no_scan,
        retry: args.retry,
        cpu: target.one_cpu("a capture")?,
    })
}

fn rewrite(target: &TargetArgs, args: &ReplayArgs) -> anyhow::Result<Rewrite> {
    let what = "a capture";
    let vlan = target.vlan.map(|range| single(range, what)).transpose()?;
    let vlan = match (vlan.and_then(|id| VlanId::new(id as u16)), args.no_vlan) {
        (Some(id), _) => VlanChange::Set(id),
        (None, true) => VlanChange::Strip,
        (None, false) => VlanChange::Keep,
    };
    let (source, destination) =
        (single_mac(target.mac_src, what)?, single_mac(target.mac_dst, what)?);
    Ok(Rewrite::new(source, destination, vlan, AddressMap::new(&args.address_map)?))
}
