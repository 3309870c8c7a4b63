//! The rules of a run, by its control socket.

use anyhow::bail;
use clap::Args;
use ringside_control::{Client, RulesClient, RulesReply};
use ringside_report::rules as report;
use ringside_rules::language::{self, RuleId, Sets};
use ringside_terminal::{say, units};
use ringside_xdp::Pins;
use ringside_xdp::pins::Kind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Which run.
#[derive(Args)]
struct At {
    /// Control socket of the run; may be left out if there is one.
    #[arg(long = "at", value_name = "SOCKET")]
    socket: Option<PathBuf>,

    /// The reply as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Arguments of `rules load`.
#[derive(Args)]
#[command(
    after_help = "Rules that stay as they are keep what they counted. Frames are judged by the
old rules until all new ones are ready, then by the new ones.

Examples:
  sudo ringside rules load drop.rules
  sudo ringside rules load drop.rules --at /run/ringside/capture-4711.sock"
)]
pub struct LoadArgs {
    /// File of rules.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    at: At,
}

/// Arguments of `rules add`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside rules add 'src ip 192.0.2.7 => drop'
  sudo ringside rules add '7: udp port 53 => count' '8: src ip @blocked.txt => drop'")]
pub struct AddArgs {
    /// A rule; without an id it gets one more than the highest.
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<String>,

    #[command(flatten)]
    at: At,
}

/// Arguments of `rules del`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside rules del 7 8")]
pub struct DelArgs {
    /// Id of a rule.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u32>,

    #[command(flatten)]
    at: At,
}

/// Arguments of `rules list` and `rules stats`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside rules list
  sudo ringside rules stats --json")]
pub struct ListArgs {
    #[command(flatten)]
    at: At,
}

/// Arguments of `rules flush`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside rules flush")]
pub struct FlushArgs {
    #[command(flatten)]
    at: At,
}

pub(super) fn load(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let (set, sets) = language::load_with_sets(&args.file)?;
    let reply = args.at.client()?.load(&set, &sets)?;
    let (rules, took) = (units::grouped(reply.rules as u64), took(&reply));
    args.at.tell(&reply, format_args!("{rules} rules in force, {took}"))
}

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    // What is wrong is reported here, before anything is asked.
    let mut sets = Sets::in_folder(Path::new("."));
    for rule in &args.rules {
        language::parse_rule(rule.as_bytes(), RuleId::FIRST, &mut sets)?;
    }
    let reply = args.at.client()?.add(&args.rules, &sets)?;
    let ids: Vec<String> = reply.changed.iter().map(u32::to_string).collect();
    args.at.tell(&reply, format_args!("added {}, {}", ids.join(", "), took(&reply)))
}

pub(super) fn delete(args: &DelArgs) -> anyhow::Result<ExitCode> {
    let reply = args.at.client()?.delete(&args.ids)?;
    let missing: Vec<String> =
        args.ids.iter().filter(|id| !reply.changed.contains(id)).map(u32::to_string).collect();
    let deleted = format!("{} deleted, {}", reply.changed.len(), took(&reply));
    args.at.tell(&reply, deleted)?;
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say::message(format_args!("ringside: no rule {}", missing.join(", ")));
    Ok(ExitCode::from(1))
}

pub(super) fn flush(args: &FlushArgs) -> anyhow::Result<ExitCode> {
    let reply = args.at.client()?.flush()?;
    args.at.tell(&reply, format_args!("no rules any more, {}", took(&reply)))
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    report::list(&args.at.client()?.all()?, args.at.json)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stats(args: &ListArgs) -> anyhow::Result<ExitCode> {
    report::stats(&args.at.client()?.all()?, args.at.json)?;
    Ok(ExitCode::SUCCESS)
}

impl At {
    /// The run that is asked.
    fn client(&self) -> anyhow::Result<RulesClient> {
        match Client::only(self.socket.as_deref())? {
            Some(client) => Ok(RulesClient::new(client)),
            None => {
                bail!("nothing runs there; `ringside status` shows what does{}", pinned(self))
            }
        }
    }

    fn tell(&self, reply: &RulesReply, text: impl std::fmt::Display) -> anyhow::Result<ExitCode> {
        match self.json {
            true => say::data(serde_json::json!(reply))?,
            false => say::message(text),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How long a change took, for people.
fn took(reply: &RulesReply) -> String {
    format!("in {:.2?}", Duration::from_nanos(reply.took_ns))
}

/// What there is without a process.
fn pinned(at: &At) -> String {
    let pinned = Pins::all(Kind::Rules).into_iter().filter(|_| at.socket.is_none());
    let in_force = pinned.filter(|pins| pins.is_in_force() && !pins.is_stale());
    let Some(interface) = in_force.filter_map(|pins| pins.interface()).next() else {
        return String::new();
    };
    format!(
        ". The rules that are pinned on {interface} have no process that could change them: \
         `ringside drop -i {interface} --rules FILE --pin` replaces them, and takes changes while \
         it runs; `ringside drop status -i {interface}` tells what they count"
    )
}
