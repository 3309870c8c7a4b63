//! `ringside bench rules`: how fast frames are dropped by rules in the driver, and received through
//! rules, next to peers: by how many rules there are.

mod contender;
pub(super) mod marks;
mod results;
pub(super) mod sets;

use self::contender::{Dropper, Filter};
use self::results::{DropRow, Dropped, FilterRow, Results};
use super::failures;
use super::flood::{self, Pages};
use super::load::{self, FrameSizes, LoadSpec};
use super::measure::Sample;
use super::network::{NetworkKey, Networks, Placement, Standing};
use super::output::OutputArgs;
use super::place::Workspace;
use super::receiver::{self, Receiver};
use clap::Args;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes of a frame.
const FRAME_BYTES: u16 = 64;

/// Arguments of `bench rules`.
#[derive(Args)]
pub(super) struct RulesBench {
    /// What drops; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "xdp-drop,ringside-1,xdp-filter-port,ringside-address,xdp-filter,\
                         ringside-100,xdp-filter-100,ringside-set,xdp-filter-10000,\
                         ringside-110000,nft-1,nft-set,no-defence")]
    droppers: Vec<Dropper>,

    /// What receives through a filter.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "tcpdump,ringside-af-packet")]
    filters: Vec<Filter>,

    /// Addresses in those filters; 0 is no filter. tcpdump may think about 1000 for a minute, and
    /// refuse them then.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "0,10,100,1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000))]
    terms: Vec<u32>,

    /// Rounds; in each, every tool runs once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &RulesBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let files = Workspace::in_memory()?;
    let networks = Networks::default();
    let mut bench = Bench { networks, files: &files, args, stop: &stop };
    let results = bench.measure()?;
    args.output.put(&results)?;
    Ok(failures::status(&results.failures))
}

/// The rows to be filled.
#[derive(Default)]
struct Rows {
    drops: Vec<(Dropper, DropRow)>,
    filters: Vec<(Filter, FilterRow)>,
}

/// A row for each of what is installed.
fn rows(args: &RulesBench) -> Rows {
    let absent = |name: &str| say::message(format_args!("{name}: absent, not run"));
    let mut rows = Rows::default();
    for &dropper in &args.droppers {
        let (name, holds) = (dropper.name(), dropper.holds());
        if !dropper.is_installed() {
            absent(&name);
            continue;
        }
        let is_limit = dropper == Dropper::XdpDrop;
        rows.drops.push((dropper, DropRow { name, holds, is_limit, samples: Vec::new() }));
    }
    for &filter in &args.filters {
        let name = filter.name();
        if !filter.is_installed() {
            absent(&name);
            continue;
        }
        rows.filters.extend(args.terms.iter().map(|&terms| {
            let row = FilterRow { name: name.clone(), terms, samples: Vec::new(), refusal: None };
            (filter, row)
        }));
    }
    rows
}

/// The networks, and what is asked for.
struct Bench<'a> {
    networks: Networks,
    /// For rule files.
    files: &'a Workspace,
    args: &'a RulesBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn measure(&mut self) -> anyhow::Result<Results> {
        let mut rows = rows(self.args);
        let mut failed = Vec::new();
        for round in 1..=self.args.rounds {
            say::message(format_args!("round {round} of {}", self.args.rounds));
            for (dropper, row) in &mut rows.drops {
                match self.drop_frames(*dropper) {
                    Ok(sample) => row.samples.push(sample),
                    Err(error) => {
                        let text = format!("{}: {error:#}", row.name);
                        failures::note(&mut failed, text, self.stop)?;
                    }
                }
            }
            let wanted = rows.filters.iter_mut().filter(|(_, row)| row.refusal.is_none());
            for (filter, row) in wanted {
                match self.receive(*filter, row) {
                    Ok(()) => {}
                    Err(error) => {
                        let text = format!("{}: {error:#}", row.name);
                        failures::note(&mut failed, text, self.stop)?;
                    }
                }
            }
        }
        let drops = rows.drops.into_iter().map(|(_, row)| row).collect();
        let filters = rows.filters.into_iter().map(|(_, row)| row).collect();
        Ok(Results { drops, filters, failures: failed })
    }

    fn drop_frames(&mut self, dropper: Dropper) -> anyhow::Result<Dropped> {
        load::check(self.stop)?;
        let (placement, standing) = (Placement::Own, dropper.standing());
        let lab = self.networks.get(NetworkKey { placement, pairs: 1, standing, is_host: true })?;
        let start = Instant::now();
        let defence = dropper.defend(lab, self.files, self.stop)?;
        let ready = start.elapsed().saturating_sub(defence.waited());
        let reached_before = flood::reached_the_host(lab)?;
        let report =
            flood::send(lab, Pages::Written, None, self.args.duration, &|| self.stop.is_set())?;
        let reached = flood::reached_the_host(lab)? - reached_before;
        load::check(self.stop)?;
        defence.end()?;
        Ok(Dropped {
            taken_per_sec: report.handed_per_sec(),
            host_per_sec: reached as f64 * 1e9 / report.elapsed_ns as f64,
            ready_seconds: ready.as_secs_f64(),
        })
    }

    /// Adds a sample to `row`, or the tool's refusal.
    fn receive(&mut self, filter: Filter, row: &mut FilterRow) -> anyhow::Result<()> {
        load::check(self.stop)?;
        let (placement, standing) = (Placement::Own, Standing::Root);
        let lab =
            self.networks.get(NetworkKey { placement, pairs: 1, standing, is_host: false })?;
        let program = filter.program(row.terms, self.files)?;
        let start = Instant::now();
        let namespace = &lab.status().receiver_namespace;
        let receiver = match Receiver::start(namespace, program, &[], self.stop) {
            Ok(receiver) => receiver,
            Err(error) => {
                load::check(self.stop)?;
                // Of many lines the last says why.
                let said = error.to_string();
                let said = said.lines().last().unwrap_or_default().to_owned();
                row.refusal = Some((start.elapsed().as_secs_f64(), said));
                return Ok(());
            }
        };
        let ready = start.elapsed().saturating_sub(receiver::AFTER_START);
        let sizes = &FrameSizes::fixed(FRAME_BYTES)?;
        let duration = self.args.duration;
        let flows = load::FLOWS;
        let spec = LoadSpec { sizes, flows, rate_per_sec: None, duration, frames_max: u64::MAX };
        let report = load::send(lab, spec, self.stop)?;
        let received = receiver.finish(Instant::now())?;
        row.samples.push((ready.as_secs_f64(), Sample::unstored(&report, &received)));
        Ok(())
    }
}
