//! `ringside bench flows`: adding packets up by flow, in user space and in the kernel's cache, next
//! to receiving alone; by the number of flows. The figure that it repeats is that of NetFlow inside
//! the kernel (third paper of the survey, "Advanced PF_RING Filtering").

mod results;

use self::results::{Results, Row};
use super::load::{self, FrameSizes, LoadSpec};
use super::measure::Sample;
use super::network::{NetworkKey, Networks, Placement, Standing};
use super::output::{DrawArgs, OutputArgs};
use super::process::cpu_busy;
use super::receiver::{Idle, Program, Receiver, Summary};
use super::search::{self, Probe, ZeroLoss};
use super::tools;
use super::{TOOL_CPU, failures};
use clap::{Args, ValueEnum};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a tool may take after the last frame: a reading of the cache, a batch of frames.
const SETTLE: Duration = Duration::from_millis(300);
/// How near to each other the rates without and with loss are at the end of a search.
const RESOLUTION: f64 = 0.03;
/// Entries of each CPU's cache at least; else twice the flows.
const ENTRIES_MIN: u32 = 65_536;

/// Arguments of `bench flows`.
#[derive(Args)]
pub(super) struct FlowsBench {
    /// What is compared.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "capture,user-af-packet,user,cache-xdp,cache-tcx")]
    tools: Vec<Meter>,

    /// Numbers of flows, which frames belong to in turn.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "1,1000,100000,1000000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: Vec<u32>,

    /// Frame size in bytes.
    #[arg(long, value_name = "BYTES", default_value = "64")]
    size: FrameSizes,

    /// Frames a second at which CPU time is compared.
    #[arg(long, value_name = "RATE", default_value_t = 300_000)]
    rate: u64,

    /// Rounds; in each, every tool runs once with every number of flows.
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

/// A way to add packets up, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Meter {
    /// Frames are received inside the driver (af-xdp) and counted: the limit of user space.
    Capture,
    /// Added up in user space, received inside the driver.
    User,
    /// Added up in user space, received by packet sockets.
    #[value(name = "user-af-packet")]
    UserPacket,
    /// Added up in the kernel's cache, inside the driver.
    #[value(name = "cache-xdp")]
    CacheXdp,
    /// Added up in the kernel's cache, where the host's stack begins.
    #[value(name = "cache-tcx")]
    CacheTcx,
}

impl Meter {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Meter::Capture => "capture --count",
            Meter::User => "flows, af-xdp",
            Meter::UserPacket => "flows, af-packet",
            Meter::CacheXdp => "flows, cache by XDP",
            Meter::CacheTcx => "flows, cache by tcx",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Meter::Capture => "capture --count --backend af-xdp -Qin",
            Meter::User => "flows --group protocol --backend af-xdp -Qin",
            Meter::UserPacket => "flows --group protocol --backend af-packet -Qin",
            Meter::CacheXdp => "flows --group protocol --cache kernel --cache-hook xdp",
            Meter::CacheTcx => "flows --group protocol --cache kernel --cache-hook tcx",
        }
    }

    fn program(self, flows: u32) -> Program<'static> {
        let mut command = vec![tools::own_program()];
        command.extend(self.options().split(' ').map(OsString::from));
        command.extend(["--json", "--no-control", "-i", "rx0"].map(OsString::from));
        if matches!(self, Meter::CacheXdp | Meter::CacheTcx) {
            let entries = (2 * flows).next_power_of_two().max(ENTRIES_MIN);
            command.extend(["--cache-entries".into(), entries.to_string().into()]);
        }
        Program {
            name: self.name().to_owned(),
            command,
            ready_text: "listening on",
            has_packet_socket: self == Meter::UserPacket,
            idle: Idle::Never,
            settle: SETTLE,
            stop_signal: rustix::process::Signal::TERM,
            hangs_at_end: false,
            summary: Box::new(|output, _| summary(output)),
        }
    }
}

/// What the ledger says, which has other lines behind it.
fn summary(output: &str) -> Option<Summary> {
    tools::delivered(&output.lines().rev().find_map(tools::ledger)?)
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &FlowsBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let mut bench = Bench { networks: Networks::default(), args, stop: &stop };
    let mut results = Results::default();
    for &flows in &args.flows {
        results.rows.extend(args.tools.iter().map(|&meter| Row::new(meter, flows)));
    }
    for round in 1..=args.rounds {
        say::message(format_args!("round {round} of {}", args.rounds));
        for row in &mut results.rows {
            if let Err(error) = bench.measure(row) {
                let text = format!("{}, {} flows: {error:#}", row.meter.name(), row.flows);
                failures::note(&mut results.failures, text, &stop)?;
            }
        }
    }
    args.output.put(&results)?;
    args.drawn.draw(|dir| results.draw(dir))?;
    Ok(failures::status(&results.failures))
}

struct Bench<'a> {
    networks: Networks,
    args: &'a FlowsBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    /// Full load where tool and receive path share a CPU, CPU time there at a rate, and the rate
    /// without loss; then full load with the tool on a CPU of its own.
    fn measure(&mut self, row: &mut Row) -> anyhow::Result<()> {
        let (sample, _) = self.load(row, Placement::Shared, None)?;
        row.shared.push(sample);
        row.zero_loss.push(self.search(row, sample)?);
        let (sample, busy) = self.load(row, Placement::Shared, Some(self.args.rate))?;
        row.busy.push((sample.handed_mps(), busy));
        let (sample, _) = self.load(row, Placement::Own, None)?;
        row.own.push(sample);
        Ok(())
    }

    /// One load, and the part of the tool's CPU that was busy while it lasted.
    fn load(
        &mut self,
        row: &Row,
        placement: Placement,
        rate_per_sec: Option<u64>,
    ) -> anyhow::Result<(Sample, f64)> {
        load::check(self.stop)?;
        let standing = Standing::Root;
        let key = NetworkKey { placement, pairs: 1, standing, is_host: false };
        let lab = self.networks.get(key)?;
        let namespace = &lab.status().receiver_namespace;
        let receiver = Receiver::start(namespace, row.meter.program(row.flows), &[], self.stop)?;
        let (sizes, duration) = (&self.args.size, self.args.duration);
        let spec =
            LoadSpec { sizes, flows: row.flows, rate_per_sec, duration, frames_max: u64::MAX };
        let before = cpu_busy(TOOL_CPU)?;
        let start = Instant::now();
        let report = load::send(lab, spec, self.stop)?;
        let busy = (cpu_busy(TOOL_CPU)? - before) / start.elapsed().as_secs_f64();
        let received = receiver.finish(Instant::now())?;
        Ok((Sample::unstored(&report, &received), busy))
    }

    fn search(&mut self, row: &Row, top: Sample) -> anyhow::Result<ZeroLoss> {
        let probe = |rate: f64| {
            let (sample, _) = self.load(row, Placement::Shared, Some(rate as u64))?;
            let achieved_per_sec = sample.handed_mps() * 1e6;
            anyhow::Ok(Probe { achieved_per_sec, lost: sample.lost() })
        };
        let guess = top.received_mps() * 0.9e6;
        search::zero_loss(top.handed_mps() * 1e6, top.lost() > 0, guess, RESOLUTION, probe)
    }
}
