//! `ringside bench changes`: how soon a rule that comes or goes is at work while frames come and
//! 110,000 others are live, whether any frame sees half of a change, and what changes cost.

mod analysis;
mod changer;
mod effect;
mod rate;
mod results;

use self::changer::RuleKind;
use self::effect::Judge;
use self::results::Results;
use super::load;
use super::network::{NetworkKey, Networks, Placement, Standing};
use super::output::OutputArgs;
use super::place::Workspace;
use super::rules::sets;
use clap::Args;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `bench changes`.
#[derive(Args)]
pub(super) struct ChangesBench {
    /// Who judges while the effect of changes is looked for.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "driver,af-xdp,af-packet")]
    judges: Vec<Judge>,

    /// Exact rules that are live.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    exact: u32,

    /// Wildcard rules that are live.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=50_000))]
    wildcards: u32,

    /// How often a rule comes, and goes again, for each judge and kind of rule.
    #[arg(long, default_value_t = 500, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    changes: u32,

    /// Frames a second meanwhile.
    #[arg(long, default_value_t = 800_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=5_000_000))]
    frame_rate: u64,

    /// Rounds of the rate under changes: without, with exact, without, with wildcard changes; 0
    /// leaves it out.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    rounds: u32,

    /// Length of each part of a round.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &ChangesBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let files = Workspace::in_memory()?;
    let mut bench = Bench { networks: Networks::default(), files: &files, args, stop: &stop };
    let results = bench.measure()?;
    args.output.put(&results)?;
    let is_good = results.failures.is_empty() && results.are_frames_whole();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The network, and what is asked for.
struct Bench<'a> {
    networks: Networks,
    /// For rules, sockets and recordings.
    files: &'a Workspace,
    args: &'a ChangesBench,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn measure(&mut self) -> anyhow::Result<Results> {
        let args = self.args;
        let rules = sets::rules(args.wildcards, args.exact);
        let (placement, standing) = (Placement::Own, Standing::Root);
        let key = NetworkKey { placement, pairs: 1, standing, is_host: false };
        let lab = self.networks.get(key)?;
        let mut results = Results::default();
        for &judge in &args.judges {
            for kind in RuleKind::ALL {
                let name = format!("{} rule, {}", kind.name(), judge.name());
                say::message(format_args!("{name}: {} times", args.changes));
                let run = effect::Run {
                    judge,
                    kind,
                    rules: &rules,
                    changes: args.changes,
                    frame_rate: args.frame_rate,
                };
                match run.measure(lab, self.files, self.stop) {
                    Ok(row) => results.effects.push(row),
                    Err(error) => failed(&name, &error, &mut results.failures, self.stop)?,
                }
            }
        }
        if args.rounds > 0 {
            say::message(format_args!("rate under changes: {} rounds", args.rounds));
            let spec = rate::Spec { rounds: args.rounds, duration: args.duration };
            match rate::measure(lab, &rules, spec, self.files, self.stop) {
                Ok(rates) => results.rates = Some(rates),
                Err(error) => failed("rate", &error, &mut results.failures, self.stop)?,
            }
        }
        Ok(results)
    }
}

/// Notes the failure of one step, so that the others are measured all the same; an error if the
/// user wants to stop.
fn failed(
    name: &str,
    error: &anyhow::Error,
    failures: &mut Vec<String>,
    stop: &StopSignal,
) -> anyhow::Result<()> {
    load::check(stop)?;
    let text = format!("{name}: {error:#}");
    say::message(format_args!("ringside: {text}"));
    failures.push(text);
    Ok(())
}
