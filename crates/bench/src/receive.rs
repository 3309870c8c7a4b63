//! `ringside bench receive`: how fast frames are received and counted, by backend, way of waiting,
//! stamps, frame size and queues, next to other tools and to the limits of the kernel.

mod contender;
mod plot;
mod results;

use self::contender::{Contender, Kind, Way};
use self::results::{Cell, Results, Row};
use super::failures;
use super::load::{self, FrameSizes, LoadSpec};
use super::measure::Sample;
use super::network::{self, NetworkKey, Networks, Placement};
use super::output::{DrawArgs, OutputArgs};
use super::pages::HugePages;
use super::process::CpuTime;
use super::receiver::{Received, Receiver};
use super::search::{self, Probe, ZeroLoss};
use super::testpmd;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ringside_core::LinkType;
use ringside_keeper::filter_child::compile;
use ringside_lab::Lab;
use ringside_terminal::Wait;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Loads that a search for the rate without loss takes where the tool loses frames at full load.
const LOADS_OF_A_SEARCH: u32 = 9;
/// Start, idleness and end around a load, for the estimate.
const AROUND_A_LOAD: Duration = Duration::from_millis(1100);
/// How near to each other the rates without and with loss are at the end of a search.
const RESOLUTION: f64 = 0.03;

/// Arguments of `bench receive`.
#[derive(Args)]
pub(super) struct ReceiveBench {
    /// Tools and limits; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "ringside,ringside-xdp-ring,ringside-af-packet,ringside-pcap,\
                         ringside-pf-ring,ringside-netmap,ringside-dpdk-af-xdp,\
                         ringside-dpdk-af-packet,tcpdump,dumpcap,netsniff-ng,testpmd-af-xdp,\
                         testpmd-af-xdp-spin,testpmd-af-packet,xdp-drop,xdp-pass")]
    tools: Vec<Kind>,

    /// Where the receive path of the kernel runs.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "own,shared")]
    placement: Vec<Placement>,

    /// Ways in which ringside waits for frames.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "spin,sleep")]
    waits: Vec<Wait>,

    /// Ringside with and without stamps.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST", default_value = "on,off")]
    stamps: Vec<Stamps>,

    /// Threads of ringside on each lane; more than one share the tool's CPU.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4))]
    threads: Vec<u16>,

    /// Ringside also with this filter, translated into the driver's program; may be given several
    /// times. Frames that it does not accept count as received.
    #[arg(long = "filter", value_name = "EXPRESSION")]
    filters: Vec<String>,

    /// Ringside also with this number of bytes of each frame put into its capture ring, without a
    /// disk; 0 stands for whole frames.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    ring_snaplens: Vec<u32>,

    /// Frame sizes in bytes, up to 1514, or imix.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "64,512,1514,imix")]
    sizes: Vec<FrameSizes>,

    /// Receive queues, each on a veth pair of one queue: two CPUs feed at most two queues of one
    /// pair. Tools that can receive from several interfaces at once do so, others run once for
    /// each.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=12))]
    queues: Vec<u16>,

    /// Rounds; in each, every tool runs once at every size.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "500ms")]
    duration: Duration,

    /// Frame sizes of the search for the highest rate without loss, each tool on a CPU of its own;
    /// `none` for no search.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "64,1514")]
    #[arg(value_parser = search_size)]
    zero_loss_sizes: Vec<SearchSize>,

    /// Rounds of that search.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    zero_loss_rounds: u32,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

impl ReceiveBench {
    /// Our backends inside the driver in every way that is asked for.
    fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        for &wait in &self.waits {
            for &threads in &self.threads {
                for stamps in &self.stamps {
                    let has_stamps = *stamps == Stamps::On;
                    let plain = Way { wait, has_stamps, threads, filter: None, ring_snaplen: None };
                    ways.extend(self.extended(plain));
                }
            }
        }
        ways
    }

    /// `plain`, with every filter, and into the ring with every snapshot length.
    fn extended(&self, plain: Way) -> Vec<Way> {
        let with_filter = |filter: &String| Way { filter: Some(filter.clone()), ..plain.clone() };
        let into_ring = |&bytes: &u32| Way { ring_snaplen: Some(bytes), ..plain.clone() };
        let filtered = self.filters.iter().map(with_filter);
        let kept = self.ring_snaplens.iter().map(into_ring);
        [plain.clone()].into_iter().chain(filtered).chain(kept).collect()
    }
}

/// Frames with and without stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stamps {
    /// Every frame has one.
    On,
    /// None has.
    Off,
}

/// A frame size of the search, or no search.
#[derive(Clone, Debug, PartialEq)]
enum SearchSize {
    None,
    Frames(FrameSizes),
}

fn search_size(text: &str) -> Result<SearchSize, ringside_transmit::Error> {
    if text == "none" { Ok(SearchSize::None) } else { Ok(SearchSize::Frames(text.parse()?)) }
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &ReceiveBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    for filter in &args.filters {
        let program = compile(filter, LinkType::ETHERNET)?;
        ensure!(program.is_some(), "--filter needs an expression that is not empty");
    }
    let kinds = installed(&args.tools);
    ensure!(!kinds.is_empty(), "none of the tools is installed");
    let plan = Plan::new(args, &kinds);
    plan.announce();
    let pages = plan.cells.iter().map(|cell| cell.contender.huge_pages(cell.queues)).max();
    let bench = Bench {
        networks: Networks::default(),
        huge_pages: HugePages::new(),
        pages: pages.unwrap_or(0),
        stop: &stop,
    };
    let results = plan.measure(bench)?;
    args.output.put(&results)?;
    args.drawn.draw(|dir| plot::draw(&results, dir))?;
    Ok(failures::status(&results.failures))
}

/// The tools of `wanted` that are here; says which are not.
fn installed(wanted: &[Kind]) -> Vec<Kind> {
    let is_here = |kind: &Kind| {
        let is_here = kind.is_installed();
        if !is_here {
            say::message(format_args!("{}: absent, not run", kind.name()));
        }
        is_here
    };
    wanted.iter().copied().filter(is_here).collect()
}

/// What will be run.
struct Plan<'a> {
    args: &'a ReceiveBench,
    /// At full load, in every round, in this order.
    cells: Vec<Cell>,
    searches: Vec<Cell>,
}

impl<'a> Plan<'a> {
    fn new(args: &'a ReceiveBench, kinds: &[Kind]) -> Plan<'a> {
        let contenders = Contender::all(kinds, &args.ways());
        let mut cells = Vec::new();
        for &placement in &args.placement {
            for &queues in &args.queues {
                for sizes in &args.sizes {
                    cells.extend(contenders.iter().map(|contender| Cell {
                        placement,
                        contender: contender.clone(),
                        queues,
                        sizes: sizes.clone(),
                    }));
                }
            }
        }
        let mut searches = Vec::new();
        // Where the generator runs free its bursts overflow the ring of 256 frames at any rate.
        let queues = args.queues.iter().filter(|_| args.placement.contains(&Placement::Own));
        for &queues in queues {
            for size in &args.zero_loss_sizes {
                let SearchSize::Frames(sizes) = size else { continue };
                let tools = contenders.iter().filter(|contender| !contender.kind.is_limit());
                searches.extend(tools.map(|contender| {
                    let (contender, placement) = (contender.clone(), Placement::Own);
                    Cell { placement, contender, queues, sizes: sizes.clone() }
                }));
            }
        }
        Plan { args, cells, searches }
    }

    /// Says what is coming and how long it takes at most.
    fn announce(&self) {
        let (rounds, searches) = (self.args.rounds, self.searches.len() as u32);
        let loads = self.cells.len() as u32;
        let load = self.args.duration + AROUND_A_LOAD;
        let estimate =
            load * (loads * rounds + searches * self.args.zero_loss_rounds * LOADS_OF_A_SEARCH);
        say::message(format_args!(
            "{rounds} rounds of {loads} loads of {:?}, {} of {searches} searches: {} minutes at \
             most",
            self.args.duration,
            self.args.zero_loss_rounds,
            estimate.as_secs().div_ceil(60)
        ));
    }

    fn measure(&self, mut bench: Bench<'_>) -> anyhow::Result<Results> {
        let steps = self.cells.len() as u64 * u64::from(self.args.rounds)
            + self.searches.len() as u64 * u64::from(self.args.zero_loss_rounds);
        let bar = ProgressBar::new(steps);
        let style = "{elapsed_precise} {bar:24} {pos}/{len} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
        let mut results = Results::default();
        let measured = self
            .measure_loads(&mut bench, &bar, &mut results)
            .and_then(|()| self.search_all(&mut bench, &bar, &mut results));
        bar.finish_and_clear();
        measured.map(|()| results)
    }

    fn measure_loads(
        &self,
        bench: &mut Bench<'_>,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        for round in 1..=self.args.rounds {
            for cell in &self.cells {
                bar.set_message(format!("round {round}: {cell}"));
                match bench.measure(cell, None, self.args.duration) {
                    Ok(sample) => results.row(cell).samples.push(sample),
                    Err(error) => bench.failed(bar, results, error.context(cell.to_string()))?,
                }
                bar.inc(1);
            }
        }
        Ok(())
    }

    fn search_all(
        &self,
        bench: &mut Bench<'_>,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        for round in 1..=self.args.zero_loss_rounds {
            for cell in &self.searches {
                bar.set_message(format!("without loss, round {round}: {cell}"));
                match self.search(bench, results, cell) {
                    Ok(found) => results.row(cell).zero_loss.push(found),
                    Err(error) => bench.failed(bar, results, error.context(cell.to_string()))?,
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
        bench: &mut Bench<'_>,
        results: &mut Results,
        cell: &Cell,
    ) -> anyhow::Result<ZeroLoss> {
        let duration = self.args.duration;
        let row = results.row(cell);
        let is_known = row.samples.len() > 1;
        if is_known && row.lost_nothing() {
            let rate_per_sec = row.median(Sample::handed_mps) * 1e6;
            return Ok(ZeroLoss { rate_per_sec, at_limit: true, loads: 0 });
        }
        let (top_mps, received_mps, top_is_bad) = if is_known {
            (row.median(Sample::handed_mps), row.median(Sample::received_mps), true)
        } else {
            let sample = bench.measure(cell, None, duration)?;
            (sample.handed_mps(), sample.received_mps(), sample.lost() > 0)
        };
        let probe = |rate: f64| {
            let sample = bench.measure(cell, Some(rate as u64), duration)?;
            Ok(Probe { achieved_per_sec: sample.handed_mps() * 1e6, lost: sample.lost() })
        };
        // What a tool gets under overload is a little more than what it gets without loss.
        let guess = received_mps * 0.9e6;
        search::zero_loss(top_mps * 1e6, top_is_bad, guess, RESOLUTION, probe)
    }
}

impl Results {
    /// The row of a cell, which is made at its first figure.
    fn row(&mut self, cell: &Cell) -> &mut Row {
        let position = self.rows.iter().position(|row| row.cell == *cell);
        let position = position.unwrap_or_else(|| {
            self.rows.push(Row::new(cell.clone()));
            self.rows.len() - 1
        });
        &mut self.rows[position]
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cell { placement, contender, queues, sizes } = self;
        write!(f, "{contender}, {}, {queues} queues, {sizes} bytes", placement.name())
    }
}

/// The networks, the system's settings and the order to stop.
struct Bench<'a> {
    networks: Networks,
    huge_pages: HugePages,
    /// Huge pages that are free whenever a tool starts, whichever it is: the most that one takes.
    pages: u64,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    /// Runs one cell under one load.
    fn measure(
        &mut self,
        cell: &Cell,
        rate_per_sec: Option<u64>,
        duration: Duration,
    ) -> anyhow::Result<Sample> {
        load::check(self.stop)?;
        let key = NetworkKey {
            placement: cell.placement,
            pairs: cell.queues,
            standing: cell.contender.kind.standing(),
            is_host: false,
        };
        let (stop, huge_pages, pages) = (self.stop, &self.huge_pages, self.pages);
        let lab = self.networks.get(key)?;
        let receivers = start(lab, &cell.contender, stop, || huge_pages.free(pages))?;
        let (sizes, flows) = (&cell.sizes, load::FLOWS);
        let load = LoadSpec { sizes, flows, rate_per_sec, duration, frames_max: u64::MAX };
        // A receive path with a CPU of its own, and a generator that would keep its ring full.
        let awaits_room = rate_per_sec.is_none() && cell.placement == Placement::Shared;
        let send = if awaits_room { load::send_with_room } else { load::send };
        let report = send(lab, load, stop)?;
        let sent = Instant::now();
        let mut sample = Sample {
            offered: report.offered,
            handed: report.handed,
            received: 0,
            before: 0,
            named_lost: None,
            load_seconds: report.elapsed_ns as f64 / 1e9,
            cpu: CpuTime::default(),
            stored_bytes: None,
            drain_seconds: 0.0,
        };
        if receivers.is_empty() {
            sample.received = report.received_by_interface.unwrap_or(0);
        }
        for receiver in receivers {
            add(&mut sample, &receiver.finish(sent)?);
        }
        ensure!(
            sample.received <= sample.handed,
            "{} says that it got {} frames of {}",
            cell.contender,
            sample.received,
            sample.handed
        );
        Ok(sample)
    }

    /// Notes the failure of one step, so that the others are measured all the same; an error if the
    /// user wants to stop.
    fn failed(
        &self,
        bar: &ProgressBar,
        results: &mut Results,
        error: anyhow::Error,
    ) -> anyhow::Result<()> {
        let failures = &mut results.failures;
        bar.suspend(|| failures::note(failures, format!("{error:#}"), self.stop))
    }
}

/// Starts what `contender` runs, each time after `prepare`; testpmd once more if it must.
fn start(
    lab: &Lab,
    contender: &Contender,
    stop: &StopSignal,
    prepare: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Receiver<'static>>> {
    let namespace = &lab.status().receiver_namespace;
    let start = || -> anyhow::Result<Vec<Receiver<'static>>> {
        prepare()?;
        let programs = contender.programs(&network::interfaces(lab)).into_iter();
        programs.map(|program| Receiver::start(namespace, program, &[], stop)).collect()
    };
    if contender.kind.is_testpmd() { testpmd::start_again(stop, start) } else { start() }
}

/// Adds what one process of a tool did.
fn add(sample: &mut Sample, received: &Received) {
    sample.received += received.summary.frames;
    sample.cpu += received.cpu;
    if let Some(lost) = received.summary.lost {
        sample.named_lost = Some(sample.named_lost.unwrap_or(0) + lost);
    }
}

#[cfg(test)]
mod tests;
