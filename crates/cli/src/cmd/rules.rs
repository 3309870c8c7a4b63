//! `ringside rules`: check rules, tell what they would do with captured packets, and change those
//! that are at work.

mod live;

use clap::{Args, Subcommand};
use ringside_core::{LinkType, Shown};
use ringside_keeper::filter_child::filter_compiler;
use ringside_report::rules as report;
use ringside_rules::engine::Engine;
use ringside_rules::language::{self, LoadError, Sets};
use ringside_session::judge_stored;
use ringside_store::Query;
use ringside_terminal::{say, units};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `rules`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside rules check drop.rules                        is it right?
  ringside rules check drop.rules --print                the rules as they are understood
  ringside rules test -r trace.pcap --rules drop.rules   what would have matched, per rule
  ringside rules test -r /data/eth1 --rule 'tcp port 80 => take' --rule 'udp => count' --json
  sudo ringside rules load drop.rules                    replace the rules of what runs
  sudo ringside rules add 'src ip 192.0.2.7 => drop' '7: udp port 53 => count'
  sudo ringside rules del 7
  sudo ringside rules stats                              what each rule counted

docs/rules.md describes the language.")]
pub struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Subcommand)]
enum RulesCommand {
    /// Read rules and say whether they are right; status 1 if they are not.
    #[command(after_help = "Examples:
  ringside rules check drop.rules           is it right?
  ringside rules check drop.rules --print   the rules as they are understood")]
    Check(CheckArgs),
    /// Judge captured packets by rules, and say what each rule would have matched; status 1 if none
    /// did.
    #[command(after_help = "Examples:
  ringside rules test -r trace.pcap --rules drop.rules   what would have matched, per rule
  ringside rules test -r /data/eth1 --rule 'tcp port 80 => take' --rule 'udp => count' --json")]
    Test(TestArgs),
    /// Replace all rules of a run (`capture`, `drop`) by those of a file.
    Load(live::LoadArgs),
    /// Add rules to a run.
    Add(live::AddArgs),
    /// Delete rules of a run; status 1 if one is not there.
    Del(live::DelArgs),
    /// Print the rules of a run, and where each is decided about.
    List(live::ListArgs),
    /// Print what the rules of a run counted.
    Stats(live::ListArgs),
    /// Delete all rules of a run.
    Flush(live::FlushArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// File of rules.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print them in their canonical form.
    #[arg(long)]
    print: bool,

    /// One JSON object on standard output.
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

#[derive(Args)]
struct TestArgs {
    /// File (pcap or pcapng), directory of a recording, or `-` for standard input.
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-", required = true)]
    read: Vec<PathBuf>,

    /// File of rules.
    #[arg(long, value_name = "FILE", required_unless_present = "rule")]
    rules: Option<PathBuf>,

    /// A rule; several are numbered from 1 unless they say otherwise.
    #[arg(long, value_name = "RULE", conflicts_with = "rules")]
    rule: Vec<String>,

    /// One JSON object a rule, and one for the default, on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: RulesArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        RulesCommand::Check(args) => check(&args),
        RulesCommand::Test(args) => test(&args),
        RulesCommand::Load(args) => live::load(&args),
        RulesCommand::Add(args) => live::add(&args),
        RulesCommand::Del(args) => live::delete(&args),
        RulesCommand::List(args) => live::list(&args),
        RulesCommand::Stats(args) => live::stats(&args),
        RulesCommand::Flush(args) => live::flush(&args),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let set = match language::load(&args.file) {
        Ok(set) => set,
        Err(error @ LoadError::Rules { .. }) => {
            say::message(format_args!("{error}"));
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    };
    let rules = set.rules.len();
    let exact = set.rules.iter().filter(|rule| rule.matches.exact_flow().is_some()).count();
    let text = set.to_string();
    let default = set.default.to_string();
    // What only shows when they are put to work: filter expressions, and how many there are.
    if let Err(error) = Engine::new(set, LinkType::ETHERNET, &filter_compiler()?) {
        say::message(format_args!("ringside: {}: {error}", args.file.shown()));
        return Ok(ExitCode::from(1));
    }
    if args.print {
        say::data(text.trim_end())?;
    } else if args.json {
        let object = serde_json::json!({ "rules": rules, "exact": exact, "default": default });
        say::data(object)?;
    } else {
        let others = units::counted((rules - exact) as u64, "other");
        let exact = units::counted(exact as u64, "exact rule");
        say::message(format_args!("{exact}, {others}, default {default}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn test(args: &TestArgs) -> anyhow::Result<ExitCode> {
    let set = match &args.rules {
        Some(path) => language::load(path)?,
        None => {
            let text = args.rule.join("\n");
            language::parse(text.as_bytes(), &mut Sets::in_folder(Path::new(".")))?
        }
    };
    let query = Query { inputs: args.read.clone(), ..Query::default() };
    let (counted, notices) = judge_stored(set, &query, &|| false)?;
    for notice in notices {
        say::message(format_args!("ringside: {notice}"));
    }
    match args.json {
        true => report::json(&counted)?,
        false => say::data(report::table(&counted, usize::MAX))?,
    }
    let has_matched = counted.rules.iter().any(|(_, counts)| counts.frames > 0);
    Ok(if has_matched { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
