//! `ringside bench record`: how fast each tool records, to memory and to a disk, at full load and
//! without loss.

use super::failures;
use super::load::{self, FrameSizes};
use super::measure::{self, Bench, Destination, Sample, Setup};
use super::output::DrawArgs;
use super::place::{self, Workspace};
use super::results::Results;
use super::search::{self, Probe};
use super::tools::{MEMORY_BYTES_MIN, Tool};
use super::{plot, raw_disk};
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Snapshot lengths of figure 4.6, in addition to whole frames.
const SNAPLENS: [u32; 3] = [18, 64, 200];
/// Loads that a search for the rate without loss takes: about 6 rates, half of them twice.
const LOADS_OF_A_SEARCH: u32 = 9;
/// Start, idleness, end and removal around a load, for the estimate.
const AROUND_A_LOAD: Duration = Duration::from_millis(1200);
/// Rate at which memory is touched before a load, for the estimate: 0.4 GB/s if the host must give
/// it, 10 GB/s if it has.
const PREFAULT_BYTES_PER_SEC: f64 = 3e9;

/// Arguments of `bench record`.
#[derive(Args)]
pub(super) struct RecordBench {
    /// What to measure; figures by their number in the description of HPCAP's recorder.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "load,zero-loss,4.5,4.6")]
    figure: Vec<Figure>,

    /// Tools; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "ringside,ringside-af-xdp,ringside-xdp-ring,tcpdump,dumpcap,\
                         netsniff-ng,stenotype")]
    tools: Vec<Tool>,

    /// Frame sizes in bytes, or imix.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "64,128,256,512,1024,1514,imix")]
    sizes: Vec<FrameSizes>,

    /// Rounds; in each, every tool runs once at every size.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "4s")]
    duration: Duration,

    /// Frame sizes of the search for the highest rate without loss.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "64,1514")]
    zero_loss_sizes: Vec<FrameSizes>,

    /// Rounds of that search.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    zero_loss_rounds: u32,

    /// Length of one load of that search; by default as --for. What is in the rings at its end
    /// was not written in time: the shorter, the higher the rate that seems to be without loss.
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    zero_loss_for: Option<Duration>,

    /// How near to each other the rates without and with loss are at its end, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    resolution: f64,

    /// Memory for frames that each tool gets: its kernel ring and, of ours, the capture ring. Short
    /// loads of small frames fit into much of it and show nothing.
    #[arg(long, value_name = "SIZE", value_parser = memory, default_value = "544MiB")]
    memory: u64,

    /// Keep each recording within this size, in a ring of files whose oldest goes for the next:
    /// the memory or the disk is used again, and loads may be of any length. Tools that cannot do
    /// so are left out.
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    limit_bytes: Option<u64>,

    /// Before each load have the tool fill its files once, at a rate that all keep: measured is a
    /// recorder that has run for a while.
    #[arg(long, requires = "limit_bytes")]
    filled: bool,

    /// Record to a tmpfs whose files lie in huge pages (`mount -o huge=within_size`), made for the
    /// measurement, in place of /dev/shm.
    #[arg(long)]
    huge_tmpfs: bool,

    /// Make recordings in this directory of a disk; each is removed after its load. By default in
    /// the current directory, or in /var/tmp.
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,

    /// Only these places.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "LIST",
        default_value = "tmpfs,disk"
    )]
    to: Vec<DestinationArg>,

    /// Also write the medians to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Parts of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// Every tool at full load.
    Load,
    /// Every tool at its highest rate without loss.
    ZeroLoss,
    /// Discarding against storing, by frame size.
    #[value(name = "4.5")]
    Discard,
    /// Rate by frame size with a snapshot length of 18, 64 and 200 bytes, and whole frames.
    #[value(name = "4.6")]
    Snaplen,
}

/// Places by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DestinationArg {
    /// New files on /dev/shm.
    Tmpfs,
    /// New files on a disk.
    Disk,
}

impl From<DestinationArg> for Destination {
    fn from(destination: DestinationArg) -> Destination {
        match destination {
            DestinationArg::Tmpfs => Destination::Memory,
            DestinationArg::Disk => Destination::Disk,
        }
    }
}

impl RecordBench {
    /// Length of one load of a search.
    fn search_duration(&self) -> Duration {
        self.zero_loss_for.unwrap_or(self.duration)
    }
}

fn memory(text: &str) -> Result<u64, String> {
    match units::bytes(text)? {
        bytes if bytes >= MEMORY_BYTES_MIN => Ok(bytes),
        _ => Err(format!("must be {MEMORY_BYTES_MIN} bytes at least")),
    }
}

/// A file of each tool holds some ring blocks of ours.
fn limit(text: &str) -> Result<u64, String> {
    const LEAST_BYTES: u64 = 256 << 20;
    match units::bytes(text)? {
        bytes if bytes >= LEAST_BYTES => Ok(bytes),
        _ => Err(format!("must be {LEAST_BYTES} bytes at least")),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.1..=50.0).contains(&percent) => Ok(percent),
        _ => Err("must be a number from 0.1 to 50".into()),
    }
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &RecordBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let keeps = |tool: &Tool| args.limit_bytes.is_none() || tool.keeps_limits();
    let tools = installed(&args.tools.iter().copied().filter(keeps).collect::<Vec<_>>());
    ensure!(!tools.is_empty(), "none of the tools is installed");
    let plan = Plan::new(args, &tools);
    let memory = match args.huge_tmpfs {
        true => Workspace::in_huge_pages()?,
        false => Workspace::in_memory()?,
    };
    let disk = match plan.destinations.contains(&Destination::Disk) {
        true => Some(Workspace::on_disk(args.disk.as_deref())?),
        false => None,
    };
    plan.check_room(&memory, disk.as_ref())?;
    plan.announce(disk.as_ref());
    let lab = load::lab(&format!("bench{}", std::process::id()))?;
    let bench = Bench {
        lab: &lab,
        memory: Some(&memory),
        disk: disk.as_ref(),
        stop: &stop,
        memory_bytes: args.memory,
        limit_bytes: args.limit_bytes,
        filled: args.filled,
    };
    let results = plan.measure(&bench)?;
    say::data(results.text().trim_end())?;
    if let Some(path) = &args.csv {
        std::fs::write(path, results.csv())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    args.drawn.draw(|dir| plot::draw(&results, dir))?;
    Ok(failures::status(&results.failures))
}

/// The tools of `wanted` that are here; says which are and how each treats its files.
fn installed(wanted: &[Tool]) -> Vec<Tool> {
    let mut tools = Vec::new();
    for &tool in wanted {
        match tool.version() {
            Some(version) => {
                say::message(format_args!(
                    "{} {version}: files recycled: {}",
                    tool.name(),
                    tool.recycling()
                ));
                tools.push(tool);
            }
            None => say::message(format_args!("{}: absent, not run", tool.name())),
        }
    }
    tools
}

/// What will be run.
struct Plan<'a> {
    args: &'a RecordBench,
    destinations: Vec<Destination>,
    /// At full load, in every round, in this order.
    loads: Vec<(Setup, &'a FrameSizes)>,
    searches: Vec<(Setup, &'a FrameSizes)>,
}

impl<'a> Plan<'a> {
    fn new(args: &'a RecordBench, tools: &[Tool]) -> Plan<'a> {
        let has = |figure| args.figure.contains(&figure);
        let destinations: Vec<Destination> =
            args.to.iter().map(|&destination| destination.into()).collect();
        let whole = |tool, destination| Setup { tool, destination, snaplen: None };
        let recorders: Vec<Setup> = destinations
            .iter()
            .flat_map(|&destination| tools.iter().map(move |&tool| whole(tool, destination)))
            .collect();
        let mut setups = Vec::new();
        if has(Figure::Load) {
            setups.extend(&recorders);
        }
        if has(Figure::Discard) {
            let all = [Destination::Nowhere].into_iter().chain(destinations.iter().copied());
            setups.extend(all.map(|destination| whole(Tool::Ringside, destination)));
        }
        if has(Figure::Snaplen) {
            let lengths = SNAPLENS.into_iter().map(Some).chain([None]);
            setups.extend(
                lengths
                    .map(|snaplen| Setup { snaplen, ..whole(Tool::Ringside, Destination::Memory) }),
            );
        }
        let mut loads = Vec::new();
        for sizes in &args.sizes {
            for &setup in &setups {
                // Figures share what they have in common.
                if !loads.contains(&(setup, sizes)) {
                    loads.push((setup, sizes));
                }
            }
        }
        let mut searches = Vec::new();
        if has(Figure::ZeroLoss) {
            for sizes in &args.zero_loss_sizes {
                searches.extend(recorders.iter().map(|&setup| (setup, sizes)));
            }
        }
        Plan { args, destinations, loads, searches }
    }

    /// Refuses what would fill a place.
    fn check_room(&self, memory: &Workspace, disk: Option<&Workspace>) -> anyhow::Result<()> {
        let loads = self.loads.iter().map(|load| (load, self.args.duration));
        let searches = self.searches.iter().map(|search| (search, self.args.search_duration()));
        for ((setup, sizes), duration) in loads.chain(searches) {
            let workspace = match setup.destination {
                Destination::Nowhere => None,
                Destination::Memory | Destination::MergedFile => Some(memory),
                Destination::Disk => disk,
            };
            if let Some(workspace) = workspace.filter(|_| self.args.limit_bytes.is_none()) {
                let most = setup.tool.frames_per_sec_max();
                workspace.check_room(most, sizes.mean_bytes(), duration)?;
            }
        }
        Ok(())
    }

    /// Says what is coming and how long it takes.
    fn announce(&self, disk: Option<&Workspace>) {
        if let Some(disk) = disk {
            say::message(format_args!("disk: {}", disk.path().display()));
        }
        let (loads, searches) = (self.loads.len(), self.searches.len());
        let (rounds, zero_rounds) = (self.args.rounds, self.args.zero_loss_rounds);
        say::message(format_args!(
            "{rounds} rounds of {loads} loads of {:?}, {zero_rounds} of {searches} searches with \
             loads of {:?}: about {} minutes",
            self.args.duration,
            self.args.search_duration(),
            self.estimate().as_secs().div_ceil(60)
        ));
    }

    /// How long it will take; searches that find a tool at the generator's limit are shorter.
    fn estimate(&self) -> Duration {
        let length = |list: &[(Setup, &FrameSizes)], load: Duration| -> Duration {
            let one = |(setup, sizes): &(Setup, &FrameSizes)| {
                let most = setup.tool.frames_per_sec_max();
                let bytes = place::recording_bytes(most, sizes.mean_bytes(), load);
                let prefault = Duration::from_secs_f64(bytes / PREFAULT_BYTES_PER_SEC);
                let fill = self.args.limit_bytes.filter(|_| self.args.filled);
                let fill =
                    fill.map_or(Duration::ZERO, |limit| measure::fill_duration(limit, sizes));
                load + prefault + fill + setup.tool.settle() + AROUND_A_LOAD
            };
            list.iter().map(one).sum()
        };
        let loads = length(&self.loads, self.args.duration);
        let searches = length(&self.searches, self.args.search_duration());
        loads * self.args.rounds
            + searches * (self.args.zero_loss_rounds * LOADS_OF_A_SEARCH)
            + raw_disk::LENGTH * self.args.rounds
    }

    fn measure(&self, bench: &Bench<'_>) -> anyhow::Result<Results> {
        let steps = self.loads.len() as u64 * u64::from(self.args.rounds)
            + self.searches.len() as u64 * u64::from(self.args.zero_loss_rounds);
        let bar = ProgressBar::new(steps);
        let style = "{elapsed_precise} {bar:24} {pos}/{len} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
        let mut results = Results::default();
        let measured = self
            .measure_loads(bench, &bar, &mut results)
            .and_then(|()| self.search_all(bench, &bar, &mut results));
        bar.finish_and_clear();
        measured.map(|()| results)
    }

    fn measure_loads(
        &self,
        bench: &Bench<'_>,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        for round in 1..=self.args.rounds {
            if let Some(disk) = bench.disk.filter(|_| !self.loads.is_empty()) {
                load::check(bench.stop)?;
                bar.set_message("raw speed of the disk");
                results.raw_mb_per_s.extend(raw_disk::mb_per_s(disk)?);
            }
            for &(setup, sizes) in &self.loads {
                let what = describe(setup, sizes);
                bar.set_message(format!("round {round}: {what}"));
                // Once is enough to see that a tool counts what it writes.
                let verify = round == 1;
                match bench.measure(setup, sizes, None, self.args.duration, verify) {
                    Ok(sample) => results.add(setup, sizes, sample),
                    Err(error) => failed(bench, bar, results, error.context(what))?,
                }
                bar.inc(1);
            }
        }
        Ok(())
    }

    fn search_all(
        &self,
        bench: &Bench<'_>,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        for round in 1..=self.args.zero_loss_rounds {
            for &(setup, sizes) in &self.searches {
                let what = describe(setup, sizes);
                bar.set_message(format!("without loss, round {round}: {what}"));
                match self.search(bench, results, setup, sizes) {
                    Ok(found) => results.add_zero_loss(setup, sizes, found),
                    Err(error) => failed(bench, bar, results, error.context(what))?,
                }
                bar.inc(1);
            }
        }
        Ok(())
    }

    /// Between nothing and what the generator gives at full load. If that lost nothing in at least
    /// two rounds, it is the answer.
    fn search(
        &self,
        bench: &Bench<'_>,
        results: &Results,
        setup: Setup,
        sizes: &FrameSizes,
    ) -> anyhow::Result<search::ZeroLoss> {
        let known = results.load(setup, sizes).filter(|row| row.samples.len() > 1);
        if let Some(row) = known.filter(|row| row.lost_nothing()) {
            let rate_per_sec = row.median(Sample::handed_mps) * 1e6;
            return Ok(search::ZeroLoss { rate_per_sec, at_limit: true, loads: 0 });
        }
        let duration = self.args.search_duration();
        let overload = match known {
            Some(row) => (row.median(Sample::handed_mps), row.median(Sample::received_mps), true),
            None => {
                let sample = bench.measure(setup, sizes, None, duration, false)?;
                (sample.handed_mps(), sample.received_mps(), sample.lost() > 0)
            }
        };
        let (top_mps, received_mps, top_is_bad) = overload;
        let probe = |rate: f64| {
            let sample = bench.measure(setup, sizes, Some(rate as u64), duration, false)?;
            Ok(Probe { achieved_per_sec: sample.handed_mps() * 1e6, lost: sample.lost() })
        };
        // What a tool gets under overload is a little more than what it gets without loss.
        let guess = received_mps * 0.9e6;
        let resolution = self.args.resolution / 100.0;
        search::zero_loss(top_mps * 1e6, top_is_bad, guess, resolution, probe)
    }
}

/// Notes the failure of one step, so that the others are measured all the same; an error if the
/// user wants to stop.
fn failed(
    bench: &Bench<'_>,
    bar: &ProgressBar,
    results: &mut Results,
    error: anyhow::Error,
) -> anyhow::Result<()> {
    let failures = &mut results.failures;
    bar.suspend(|| failures::note(failures, format!("{error:#}"), bench.stop))
}

fn describe(setup: Setup, sizes: &FrameSizes) -> String {
    let snaplen = setup.snaplen.map(|bytes| format!(", {bytes} bytes kept")).unwrap_or_default();
    format!("{} to {}, {sizes} bytes{snaplen}", setup.tool.name(), setup.destination.name())
}

#[cfg(test)]
mod tests;
