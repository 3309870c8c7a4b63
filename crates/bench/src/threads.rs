//! `ringside bench threads`: what several threads make of one receive ring, by our policy and by
//! that of HPCAP (J. Zazo, "Captura de tráfico a 40 Gbps", 2016, figures 4.2 to 4.4).
//!
//! The ring lies in memory and costs nothing, so that the rates are those of the threads: claim,
//! copy into the capture ring, and give back. Setups take turns within a round, so that what else
//! the machine does falls on all of them.

mod report;

use super::load;
use super::output::DrawArgs;
use anyhow::Context;
use clap::Args;
use report::{Row, Rows};
use ringside_capture::policies::{self, Policy, Setup};
use ringside_core::limits::LANE_THREADS_MAX;
use ringside_sys::thread;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::units;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `bench threads`.
#[derive(Args)]
pub(super) struct ThreadsBench {
    /// Threads on the ring.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1,2,3,4")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=LANE_THREADS_MAX as i64))]
    threads: Vec<u8>,

    /// Frame sizes in bytes.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "64,128,256,512,1024,1514")]
    #[arg(value_parser = clap::value_parser!(u32).range(60..=1514))]
    sizes: Vec<u32>,

    /// Rates at which order is looked at, in million frames a second, with frames of 64 bytes.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "0.5,1,2,4,6,8")]
    rates: Vec<f64>,

    /// Rounds; the medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Descriptors of the ring, each with 2 KiB of memory. By default together 32 MiB, as a lane
    /// has by default: frames of a smaller ring may stay in the caches, from where one thread
    /// copies twice as fast.
    #[arg(long, value_name = "N", default_value_t = 16384)]
    #[arg(value_parser = clap::value_parser!(u32).range(256..=65536))]
    descriptors: u32,

    /// Memory that each measurement fills once.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "512MiB")]
    memory: u64,

    /// CPUs for the threads, in turn; by default all that are allowed.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Frames of the measurements of order: the smallest, of which most fit a second.
const ORDER_FRAME_BYTES: u32 = 64;
/// Length of a measurement at a rate.
const ORDER_TIME: Duration = Duration::from_millis(500);

/// Measures, and prints the tables.
pub(super) fn run(args: &ThreadsBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let cpus = if args.cpus.is_empty() { thread::allowed_cpus()? } else { args.cpus.clone() };
    let memory = usize::try_from(args.memory).context("--memory")?;
    let setup = |policy, threads: u8, frame_bytes, rate_per_sec| Setup {
        policy,
        threads: usize::from(threads),
        cpus: cpus.clone(),
        frame_bytes,
        rate_per_sec,
        descriptors: args.descriptors,
        buffer_bytes: memory,
        time_max: ORDER_TIME,
    };
    let mut rows = Rows::default();
    for &policy in &[Policy::Ordered, Policy::Segments] {
        for &threads in &args.threads {
            for &bytes in &args.sizes {
                rows.rates.push(Row::new(setup(policy, threads, bytes, None)));
            }
            for &rate in &args.rates {
                let setup = setup(policy, threads, ORDER_FRAME_BYTES, Some(rate * 1e6));
                rows.orders.push(Row::new(setup));
            }
        }
    }
    for round in 1..=args.rounds {
        for row in rows.rates.iter_mut().chain(&mut rows.orders) {
            load::check(&stop)?;
            row.outcomes.push(policies::measure(&row.setup)?);
        }
        say::message(format_args!("round {round} of {}", args.rounds));
    }
    print!("{}", rows.text());
    if let Some(path) = &args.csv {
        std::fs::write(path, rows.csv()).with_context(|| format!("writing {}", path.display()))?;
    }
    args.drawn.draw(|dir| rows.draw(dir))?;
    let disorder = rows.disorder_of(Policy::Ordered);
    if disorder > 0 {
        say::message(format_args!("{disorder} frames are out of order, which must not be"));
    }
    Ok(ExitCode::from(u8::from(disorder > 0)))
}
