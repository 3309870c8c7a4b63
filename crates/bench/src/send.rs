//! `ringside bench send`: frames a second that one core sends, next to the peers. The far end says
//! how many it was handed: it discards them inside the driver, the most that can be taken.

mod contender;
mod results;

use self::contender::Kind;
use self::results::{Results, Row};
use super::failures;
use super::load::{self, SENDER_CPU};
use super::network::{self, Placement};
use super::output::{DrawArgs, OutputArgs};
use super::pages::HugePages;
use super::place::Workspace;
use super::receiver::Receiver;
use anyhow::{Context, ensure};
use clap::Args;
use ringside_ebpf::XdpProgram;
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev as netdev;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// From the start of a tool until its frames are counted.
const WARM_UP: Duration = Duration::from_millis(700);
/// Longest wait for a tool's first frames.
const BEGIN_MAX: Duration = Duration::from_secs(20);

/// Arguments of `bench send`.
#[derive(Args)]
pub(super) struct SendBench {
    /// Who sends; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "ringside-constant,ringside,ringside-stamp,ringside-af-xdp,\
                         ringside-af-packet,ringside-tx-ring,testpmd-af-xdp,testpmd-af-packet,\
                         tcpreplay,trafgen")]
    tools: Vec<Kind>,

    /// Frame sizes in bytes, without the frame check sequence.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "64,512,1514")]
    #[arg(value_parser = clap::value_parser!(u16).range(64..=1514))]
    sizes: Vec<u16>,

    /// Where the far end takes frames: `own`, on another CPU than the tool's, where its ring may
    /// overflow; or `shared`, on the tool's, as soon as each is sent.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "LIST",
        default_value = "own,shared"
    )]
    placement: Vec<Placement>,

    /// Rounds; in each, every tool sends once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long frames are counted.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &SendBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let mut kinds = args.tools.clone();
    kinds.retain(|kind| {
        let is_here = kind.is_installed();
        if !is_here {
            say::message(format_args!("{}: absent, not run", kind.name()));
        }
        is_here
    });
    ensure!(!kinds.is_empty(), "none of the tools is installed");
    let files = Workspace::in_memory()?;
    let pages = kinds.iter().map(|kind| kind.huge_pages()).max().unwrap_or(0);
    let huge_pages = HugePages::new();
    let bench = Bench { args, files: &files, huge_pages, pages, stop: &stop };
    let results = bench.measure(&kinds)?;
    args.output.put(&results)?;
    args.drawn.draw(|dir| results.draw(dir))?;
    Ok(failures::status(&results.failures))
}

struct Bench<'a> {
    args: &'a SendBench,
    /// For what tools read.
    files: &'a Workspace,
    huge_pages: HugePages,
    /// Huge pages that are free whenever a tool starts: without them testpmd does not.
    pages: u64,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn measure(&self, kinds: &[Kind]) -> anyhow::Result<Results> {
        let mut results = Results::default();
        for &placement in &self.args.placement {
            for round in 1..=self.args.rounds {
                let (rounds, place) = (self.args.rounds, placement.name());
                say::message(format_args!("{place}: round {round} of {rounds}"));
                for &bytes in &self.args.sizes {
                    for &kind in kinds {
                        let row = Row { placement, kind, bytes, samples: Vec::new() };
                        match self.send(&row) {
                            Ok(per_sec) => results.add(row, per_sec),
                            Err(error) => {
                                let text = format!("{}, {bytes} bytes: {error:#}", kind.name());
                                failures::note(&mut results.failures, text, self.stop)?;
                            }
                        }
                    }
                }
            }
        }
        Ok(results)
    }

    /// Frames a second that the far end is handed by one tool, on a network of its own: what a tool
    /// leaves on an interface is no other's.
    fn send(&self, row: &Row) -> anyhow::Result<f64> {
        load::check(self.stop)?;
        let lab = network(row.placement)?;
        let status = lab.status();
        let program = row.kind.program(status.sender_interface, row.bytes, self.files)?;
        let handed = || {
            network::inside(&status.receiver_namespace, || {
                let device = netdev::by_name(status.receiver_interface)?;
                Ok(device.context("the far end is gone")?.statistics.rx_packets)
            })
        };
        self.huge_pages.free(self.pages)?;
        let tool = Receiver::start(&status.sender_namespace, program, &[], self.stop)?;
        let start = Instant::now();
        while handed()? == 0 {
            load::check(self.stop)?;
            ensure!(start.elapsed() < BEGIN_MAX, "nothing was sent in {BEGIN_MAX:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(WARM_UP);
        let (before, start) = (handed()?, Instant::now());
        std::thread::sleep(self.args.duration);
        let count = handed()? - before;
        let per_sec = count as f64 / start.elapsed().as_secs_f64();
        drop(tool);
        // trafgen ends when a ring refuses a frame for the first time.
        ensure!(count > 0, "it sent some frames and then no more");
        Ok(per_sec)
    }
}

/// A network whose far end discards every frame inside the driver.
fn network(placement: Placement) -> anyhow::Result<Lab> {
    let lab = Lab::up(&LabConfig {
        name: format!("bench{}-send", std::process::id()),
        napi: match placement {
            Placement::Own => Napi::Pinned(SENDER_CPU),
            Placement::Shared => Napi::Softirq,
        },
        xdp_pass: false,
        gro: true,
        ..LabConfig::default()
    })?;
    network::attach(&lab, XdpProgram::drop_all)?;
    Ok(lab)
}
