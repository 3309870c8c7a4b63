//! `ringside bench xdp`: what one core does with frames inside the driver, next to DPDK and to the
//! host's stack, in the form of the evaluation of the paper on XDP (Høiland-Jørgensen and others,
//! "The eXpress Data Path", 2018): dropping, the CPU's part at fixed rates, sending back and on,
//! routing, times under way, and its third use, the balancer.

mod contender;
mod draw;
mod part;
mod prefixes;
mod results;
mod site;

use self::contender::{End, Kind};
use self::part::{Case, Part};
use self::results::{Delays, Lost, Results, Row, Sample};
use self::site::{Counters, Site, Sites};
use super::awake::Awake;
use super::defence::Defence;
use super::flood;
use super::link;
use super::load;
use super::output::{DrawArgs, OutputArgs};
use super::pages::HugePages;
use super::place::Workspace;
use super::receiver::Summary;
use super::{TOOL_CPU, failures, testpmd};
use anyhow::ensure;
use clap::Args;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest load of a rate so low that its frames would be too few.
const FRAMES_MIN: u64 = 200;
/// Starts and ends around a load, for the estimate.
const AROUND_A_LOAD: Duration = Duration::from_millis(1200);
/// Making the networks and the large table, for the estimate.
const NETWORKS: Duration = Duration::from_secs(30);

/// Arguments of `bench xdp`.
#[derive(Args)]
pub(super) struct XdpBench {
    /// Parts of the evaluation.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "drop,cpu,tx,redirect,route,latency,pass,balance")]
    parts: Vec<Part>,

    /// Of the part `cpu`: frames a second.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "100000,500000,1000000,2000000,4000000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rates: Vec<u64>,

    /// Of the part `route`: routes of the large table, one for each destination at least.
    #[arg(long, value_name = "NUMBER", default_value_t = 750_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(4_000..=2_000_000))]
    routes: u32,

    /// Rounds; in each, everything is measured once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &XdpBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    ensure!(!args.parts.is_empty(), "name a part");
    let cases = args.parts.iter().flat_map(|part| part.cases(&args.rates, args.routes));
    let mut rows: Vec<Row> = cases.map(Row::new).collect();
    let present = rows.iter().filter(|row| row.absence.is_none());
    let ports = present.clone().map(|row| row.case.kind.ports()).max().unwrap_or(0);
    let loads = present.count() as u32;
    let estimate = (args.duration + AROUND_A_LOAD) * loads * args.rounds + NETWORKS;
    say::message(format_args!(
        "{} rounds of {loads} loads: about {} minutes",
        args.rounds,
        estimate.as_secs().div_ceil(60)
    ));
    let files = Workspace::in_memory()?;
    let pages = if ports > 0 { testpmd::huge_pages(ports) } else { 0 };
    let (sites, huge_pages) = (Sites::default(), HugePages::new());
    let mut bench = Bench { sites, huge_pages, pages, files: &files, args, stop: &stop };
    let mut failed = Vec::new();
    for round in 1..=args.rounds {
        say::message(format_args!("round {round} of {}", args.rounds));
        for row in rows.iter_mut().filter(|row| row.absence.is_none()) {
            if let Err(error) = bench.measure(row) {
                failures::note(&mut failed, format!("{}: {error:#}", row.case), &stop)?;
            }
        }
    }
    let results = Results { rows, failures: failed };
    args.output.put(&results)?;
    args.drawn.draw(|dir| results.draw(dir))?;
    Ok(failures::status(&results.failures))
}

/// The networks, the system's settings and what is asked for.
struct Bench<'a> {
    sites: Sites,
    huge_pages: HugePages,
    /// Huge pages that are free whenever testpmd starts.
    pages: u64,
    /// For rules and configurations.
    files: &'a Workspace,
    args: &'a XdpBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    /// One load.
    fn measure(&mut self, row: &mut Row) -> anyhow::Result<()> {
        load::check(self.stop)?;
        let case = row.case;
        let site = self.sites.get(case.site())?;
        let pages = if case.kind.ports() > 0 { self.pages } else { 0 };
        let stand = || case.kind.stand(site, self.files, self.stop);
        let stands = self.huge_pages.start(pages, stand)?;
        let sample = load_once(site, &case, stands, self.args.duration, self.stop)?;
        let lost = sample.unaccounted();
        row.samples.push(sample);
        ensure!(lost == 0, "{lost} of the frames are not accounted for");
        Ok(())
    }
}

/// Sends to what stands there, and takes it away.
fn load_once(
    site: &Site,
    case: &Case,
    stands: Vec<Defence>,
    duration: Duration,
    stop: &StopSignal,
) -> anyhow::Result<Sample> {
    let before = site.counters()?;
    if let Some(meter) = &site.meter {
        meter.clear()?;
    }
    let long_enough = |rate: u64| Duration::from_secs_f64(FRAMES_MIN as f64 / rate.max(1) as f64);
    let duration = duration.max(case.rate_per_sec.map_or(Duration::ZERO, long_enough));
    let awake = Awake::start(TOOL_CPU)?;
    let mut shape = site.shape(case.aim())?;
    // A rate is kept, whether there is room or not.
    if case.rate_per_sec.is_none() {
        shape.await_room();
    }
    let report =
        flood::send_shape(&site.lab, shape, case.rate_per_sec, duration, &|| stop.is_set())?;
    let busy_share = awake.end()?;
    let sent = Instant::now();
    load::check(stop)?;
    site.settled()?;
    let mut by_rule = None;
    for one in &stands {
        by_rule = by_rule.or(one.counted()?);
    }
    let mut by_process = None;
    for one in stands {
        by_process = by_process.or(one.finish(sent)?);
    }
    let counted = site.settled()? - before;
    let delays = match &site.meter {
        Some(meter) => Some(Delays::of(&link::histogram(&meter.read()?)?)),
        None => None,
    };
    let (out, lost) = account(case.kind, &counted, by_rule, by_process);
    Ok(Sample {
        seconds: report.elapsed_ns as f64 / 1e9,
        offered: report.offered,
        taken: report.handed,
        out,
        lost,
        busy_share,
        delays,
    })
}

/// Frames that ended where they should, and the others by where they were lost.
fn account(
    kind: Kind,
    counted: &Counters,
    by_rule: Option<u64>,
    by_process: Option<Summary>,
) -> (u64, Lost) {
    let unsent = match by_process {
        Some(summary) if kind.ports() > 0 && kind.end() != End::Process => summary.lost,
        _ => None,
    };
    let mut lost = Lost {
        ring: counted.refused,
        interface: counted.lost,
        host: counted.host,
        other: unsent.unwrap_or(0),
    };
    let out = match kind.end() {
        End::Driver => counted.dropped,
        End::Rule => by_rule.unwrap_or(0),
        End::Process => by_process.map_or(0, |summary| summary.frames),
        End::Back => counted.back,
        End::Out => counted.out,
        End::Host => {
            // What the other core's queue had no room for is not counted by the kernel.
            lost.other = counted.redirected.saturating_sub(counted.host);
            std::mem::take(&mut lost.host)
        }
    };
    (out, lost)
}
