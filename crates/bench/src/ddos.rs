//! `ringside bench ddos`: what is left of a host's service under a flood, with and without a
//! defence, in the form of figure 5 of the paper on XDP (Høiland-Jørgensen and others, "The eXpress
//! Data Path", 2018): transactions over TCP by the strength of a flood of UDP on the same queue.

mod contender;
mod exchange;
mod results;

use self::contender::Kind;
use self::exchange::Exchange;
use self::results::{Level, Results, Sample};
use super::failures;
use super::flood::{self, Pages};
use super::load;
use super::network::{NetworkKey, Networks, Placement, Standing};
use super::output::OutputArgs;
use super::place::Workspace;
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_lab::Lab;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use ringside_transmit::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From the start of a flood until transactions are counted: a lost segment is sent again after
/// 200 ms.
const LEAD: Duration = Duration::from_millis(400);
/// Longest flood beyond what is counted, should the thread that ends it be held up.
const SLACK: Duration = Duration::from_secs(5);
/// Loads that say what XDP_DROP takes. One more before them makes the network and is not counted.
const LIMIT_LOADS: u32 = 5;
/// Connecting and ending, and starting a contender, for the estimate.
const AROUND_A_STEP: Duration = Duration::from_millis(300);
const AROUND_A_CONTENDER: Duration = Duration::from_millis(1500);

/// Arguments of `bench ddos`.
#[derive(Args)]
pub(super) struct DdosBench {
    /// Defences; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "unprotected,ringside-drop,ringside-drop-cpu,xdp-filter,nft-ingress,\
                         nft-prerouting,xdp-drop-port")]
    tools: Vec<Kind>,

    /// Floods, in per cent of what XDP_DROP takes in this placement, which is measured first; or
    /// full, as fast as the generator goes.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "0,5,10,20,30,40,50,60,70,80,90,100,full")]
    floods: Vec<Level>,

    /// TCP connections, each with one request under way.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,

    /// Rounds; in each, every defence stands against every flood once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long transactions are counted under each flood.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,

    /// Also draw the figure, as this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &DdosBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let is_here = |kind: &Kind| {
        let is_here = kind.is_installed();
        if !is_here {
            say::message(format_args!("{}: absent, not run", kind.name()));
        }
        is_here
    };
    let kinds: Vec<Kind> = args.tools.iter().copied().filter(is_here).collect();
    ensure!(!kinds.is_empty(), "none of the tools is installed");
    let steps = kinds.len() as u32 * args.floods.len() as u32;
    let step = args.duration + LEAD + AROUND_A_STEP;
    let round = step * steps + AROUND_A_CONTENDER * kinds.len() as u32;
    let estimate = round * args.rounds + (args.duration + AROUND_A_STEP) * (LIMIT_LOADS + 1);
    say::message(format_args!(
        "{} rounds of {steps} floods: about {} minutes",
        args.rounds,
        estimate.as_secs().div_ceil(60)
    ));
    let files = Workspace::in_memory()?;
    let mut bench = Bench { networks: Networks::default(), files: &files, args, stop: &stop };
    let results = bench.measure(&kinds)?;
    args.output.put(&results)?;
    if let Some(path) = &args.svg {
        results.draw(path)?;
    }
    Ok(failures::status(&results.failures))
}

/// The networks, and what is asked for.
struct Bench<'a> {
    networks: Networks,
    /// For rule files.
    files: &'a Workspace,
    args: &'a DdosBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn measure(&mut self, kinds: &[Kind]) -> anyhow::Result<Results> {
        let mut results = Results::default();
        self.limit()?;
        for _ in 0..LIMIT_LOADS {
            results.limits_per_sec.push(self.limit()?);
        }
        for round in 1..=self.args.rounds {
            for &kind in kinds {
                say::message(format_args!(
                    "round {round} of {}: {}",
                    self.args.rounds,
                    kind.name()
                ));
                if let Err(error) = self.contend(kind, &mut results) {
                    let text = format!("{}: {error:#}", kind.name());
                    failures::note(&mut results.failures, text, self.stop)?;
                }
            }
        }
        Ok(results)
    }

    /// Frames a second that XDP_DROP takes of a flood as fast as it goes.
    fn limit(&mut self) -> anyhow::Result<f64> {
        load::check(self.stop)?;
        let (placement, standing) = (Placement::Shared, Standing::Drop);
        let lab = self.networks.get(NetworkKey { placement, pairs: 1, standing, is_host: true })?;
        let report =
            flood::send(lab, Pages::Kept, None, self.args.duration, &|| self.stop.is_set())?;
        load::check(self.stop)?;
        Ok(report.handed_per_sec())
    }

    /// All floods against one defence.
    fn contend(&mut self, kind: Kind, results: &mut Results) -> anyhow::Result<()> {
        load::check(self.stop)?;
        let lab = self.networks.get(kind.network())?;
        let defence = kind.defend(lab, self.files, self.stop)?;
        for &level in &self.args.floods {
            load::check(self.stop)?;
            let sample = step(lab, level, results.limit_per_sec(), self.args, self.stop)
                .with_context(|| format!("a flood of {level}"))?;
            results.add(kind, level, sample);
        }
        defence.end()
    }
}

/// Counts transactions under one flood.
fn step(
    lab: &Lab,
    level: Level,
    limit_per_sec: f64,
    args: &DdosBench,
    stop: &StopSignal,
) -> anyhow::Result<Sample> {
    let exchange = Exchange::start(lab, args.connections)?;
    let reached_before = flood::reached_the_host(lab)?;
    let is_over = AtomicBool::new(false);
    let is_stopped = || is_over.load(Ordering::Relaxed) || stop.is_set();
    let rate_per_sec = level.rate_per_sec(limit_per_sec);
    let longest = LEAD + args.duration + SLACK;
    let (transactions_per_sec, report) = std::thread::scope(|scope| {
        let send = || flood::send(lab, Pages::Kept, rate_per_sec, longest, &is_stopped);
        let sender = (!level.is_none()).then(|| scope.spawn(send));
        std::thread::sleep(LEAD);
        let (before, start) = (exchange.transactions(), Instant::now());
        std::thread::sleep(args.duration);
        let counted = exchange.transactions() - before;
        let per_sec = counted as f64 / start.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        let report = sender.map(|sender| sender.join().unwrap_or_else(|_| bail!("a bug")));
        (per_sec, report.transpose())
    });
    let report: Option<Report> = report?;
    load::check(stop)?;
    exchange.finish()?;
    let reached = flood::reached_the_host(lab)? - reached_before;
    let seconds = report.as_ref().map_or(f64::INFINITY, |report| report.elapsed_ns as f64 / 1e9);
    Ok(Sample {
        offered_per_sec: report.as_ref().map_or(0.0, Report::offered_per_sec),
        handed_per_sec: report.as_ref().map_or(0.0, Report::handed_per_sec),
        host_per_sec: reached as f64 / seconds,
        transactions_per_sec,
    })
}
