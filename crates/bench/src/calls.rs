//! `ringside bench calls`: media of calls counted in user space and inside the driver, by the
//! number of calls. The figures that it repeats are those of RTP statistics inside the kernel
//! (third paper of the survey, "Dynamic PF_RING Filtering: VoIP"): idle time, and the highest rate
//! without loss.

mod results;
mod traffic;

use self::results::{Results, Row};
use self::traffic::{Sent, Traffic};
use super::network::{NetworkKey, Networks, Placement, Standing};
use super::output::{DrawArgs, OutputArgs};
use super::process::cpu_busy;
use super::receiver::{Idle, Program, Receiver, Summary};
use super::search::{self, Probe, ZeroLoss};
use super::{TOOL_CPU, failures, load, tools};
use clap::{Args, ValueEnum};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::ffi::OsString;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a tool may take after the last frame.
const SETTLE: Duration = Duration::from_millis(300);
/// What it may take to read the signalling and have its rules in force.
const SETTLE_CALLS: Duration = Duration::from_millis(500);
/// How near to each other the rates without and with loss are at the end of a search.
const RESOLUTION: f64 = 0.05;
/// Packets a second of a call: 20 ms of sound both ways.
const CALL_PACKETS_PER_SEC: u64 = 100;

/// Arguments of `bench calls`.
#[derive(Args)]
pub(super) struct CallsBench {
    /// What is compared.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "user-af-packet,user,kernel,xdp-drop")]
    tools: Vec<Meter>,

    /// Numbers of calls that go on at a time, each with two streams.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "100,1000,10000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=traffic::CALLS_MAX))]
    calls: Vec<u32>,

    /// Packets a second at which loss is compared too, next to that of the calls themselves.
    #[arg(long, value_name = "RATE", default_value_t = 1_000_000)]
    rate: u64,

    /// Where the receive path runs.
    #[arg(long, value_enum, default_value = "shared")]
    placement: Placement,

    /// Rounds; in each, every tool runs once with every number of calls.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    /// Leave out the search for the highest rate without loss.
    #[arg(long)]
    no_search: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Where media are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Meter {
    /// In user space, received inside the driver.
    User,
    /// In user space, received by packet sockets.
    #[value(name = "user-af-packet")]
    UserPacket,
    /// Inside the driver; signalling by packet sockets.
    Kernel,
    /// Nowhere: a program drops all frames inside the driver. The limit of the link.
    XdpDrop,
}

impl Meter {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Meter::User => "calls, af-xdp",
            Meter::UserPacket => "calls, af-packet",
            Meter::Kernel => "calls --rtp kernel",
            Meter::XdpDrop => "xdp-drop",
        }
    }

    /// What `ringside calls` is asked for, if it is that which counts.
    fn options(self) -> Option<&'static str> {
        match self {
            Meter::User => Some("--backend af-xdp -Qin"),
            Meter::UserPacket => Some("--backend af-packet -Qin"),
            Meter::Kernel => Some("--backend af-packet -Qin --rtp kernel"),
            Meter::XdpDrop => None,
        }
    }

    fn program(self, options: &str) -> Program<'static> {
        let mut command = vec![tools::own_program()];
        command.extend(
            "calls --json --no-control -i rx0 --log /dev/null".split(' ').map(OsString::from),
        );
        command.extend(options.split(' ').map(OsString::from));
        Program {
            name: self.name().to_owned(),
            command,
            ready_text: "listening on",
            has_packet_socket: self != Meter::User,
            idle: Idle::Never,
            settle: SETTLE,
            stop_signal: rustix::process::Signal::TERM,
            hangs_at_end: false,
            summary: Box::new(|output, _| summary(output)),
        }
    }
}

/// Packets of media that the account has, wherever they were counted.
fn summary(output: &str) -> Option<Summary> {
    let account = output.lines().rev().find_map(|line| {
        serde_json::from_str::<serde_json::Value>(line).ok()?.get("account").cloned()
    })?;
    let calls = account.get("calls")?;
    let packets = calls.get("rtp")?.as_u64()? + calls.get("rtp_in_kernel")?.as_u64()?;
    Some(Summary { frames: packets, lost: None })
}

/// One load, and what a tool made of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Packets a second, in millions.
    pub(super) sent_mps: f64,
    /// Packets that the tool does not have, of any cause.
    pub(super) lost: u64,
    /// The same as a share.
    pub(super) lost_percent: f64,
    /// The part of the tool's CPU that was busy.
    pub(super) busy: f64,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &CallsBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let mut bench = Bench { networks: Networks::default(), args, stop: &stop };
    let mut results = Results::new(args.placement);
    for &calls in &args.calls {
        results.rows.extend(args.tools.iter().map(|&meter| Row::new(meter, calls)));
    }
    for round in 1..=args.rounds {
        say::message(format_args!("round {round} of {}", args.rounds));
        for row in &mut results.rows {
            if let Err(error) = bench.measure(row) {
                let text = format!("{}, {} calls: {error:#}", row.meter.name(), row.calls);
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
    args: &'a CallsBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    /// The rate of the calls themselves, a common rate, and the highest without loss.
    fn measure(&mut self, row: &mut Row) -> anyhow::Result<()> {
        let own_per_sec = u64::from(row.calls) * CALL_PACKETS_PER_SEC;
        row.own.push(self.load(row, Some(own_per_sec))?);
        row.common.push(self.load(row, Some(self.args.rate))?);
        if !self.args.no_search {
            let found = self.search(row)?;
            row.zero_loss.push(found);
        }
        Ok(())
    }

    fn load(&mut self, row: &Row, rate_per_sec: Option<u64>) -> anyhow::Result<Sample> {
        load::check(self.stop)?;
        let options = row.meter.options();
        let standing = if options.is_some() { Standing::Root } else { Standing::Drop };
        let placement = self.args.placement;
        let lab =
            self.networks.get(NetworkKey { placement, pairs: 1, standing, is_host: false })?;
        let traffic = Traffic { lab, calls: row.calls };
        let receiver = match options {
            Some(options) => {
                let namespace = &lab.status().receiver_namespace;
                let program = row.meter.program(options);
                let receiver = Receiver::start(namespace, program, &[], self.stop)?;
                traffic.begin_calls(self.stop)?;
                sleep(SETTLE_CALLS);
                Some(receiver)
            }
            None => None,
        };
        let dropped_before = traffic.arrived()?;
        let before = cpu_busy(TOOL_CPU)?;
        let start = Instant::now();
        let Sent { packets, elapsed } =
            traffic.talk(rate_per_sec, self.args.duration, self.stop)?;
        let busy = (cpu_busy(TOOL_CPU)? - before) / start.elapsed().as_secs_f64();
        let counted = match receiver {
            Some(receiver) => receiver.finish(Instant::now())?.summary.frames,
            None => {
                sleep(SETTLE);
                traffic.arrived()? - dropped_before
            }
        };
        let lost = packets.saturating_sub(counted);
        Ok(Sample {
            sent_mps: packets as f64 / elapsed.as_secs_f64() / 1e6,
            lost,
            lost_percent: 100.0 * lost as f64 / packets.max(1) as f64,
            busy,
        })
    }

    fn search(&mut self, row: &Row) -> anyhow::Result<ZeroLoss> {
        let top = self.load(row, None)?;
        let probe = |rate: f64| {
            let sample = self.load(row, Some(rate as u64))?;
            anyhow::Ok(Probe { achieved_per_sec: sample.sent_mps * 1e6, lost: sample.lost })
        };
        let guess = top.sent_mps * 0.9e6 * (1.0 - top.lost_percent / 100.0);
        search::zero_loss(top.sent_mps * 1e6, top.lost > 0, guess, RESOLUTION, probe)
    }
}
