//! The rules of a run, by its control socket.

use crate::rule_counts::shortened;
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_control::SideEffectsStatus;
use ringside_control::{
    Client, Command, DefaultStatus, RuleStatus, RulesCommand, RulesReply, UPLOAD_CHARS,
};
use ringside_rules::language::limits::RULES_MAX;
use ringside_rules::language::{self, RuleId, Sets};
use ringside_terminal::{columns, say, units};
use ringside_xdp::Pins;
use ringside_xdp::pins::Kind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long rules may take to be put to work: a million with filter expressions among them.
const WORK_WAIT_MAX: Duration = Duration::from_secs(300);

/// Rules of a run: a full set, and those that were added to it, which are far fewer.
const TOLD_MAX: usize = 2 * RULES_MAX;

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
    let mut desk = Desk::open(&args.at)?;
    desk.upload_sets(&sets)?;
    desk.upload(None, &set.to_string())?;
    let reply = desk.ask(RulesCommand::Load { upload: desk.upload })?;
    let (rules, took) = (units::grouped(reply.rules as u64), took(&reply));
    desk.tell(&reply, format_args!("{rules} rules in force, {took}"))
}

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    // What is wrong is reported here, before anything is asked.
    let mut sets = Sets::in_folder(Path::new("."));
    for rule in &args.rules {
        language::parse_rule(rule.as_bytes(), RuleId::FIRST, &mut sets)?;
    }
    let mut desk = Desk::open(&args.at)?;
    desk.upload_sets(&sets)?;
    let upload = sets.files().next().is_some().then_some(desk.upload);
    let reply = desk.ask(RulesCommand::Add { rules: args.rules.join("\n"), upload })?;
    let ids: Vec<String> = reply.changed.iter().map(u32::to_string).collect();
    desk.tell(&reply, format_args!("added {}, {}", ids.join(", "), took(&reply)))
}

pub(super) fn delete(args: &DelArgs) -> anyhow::Result<ExitCode> {
    let mut desk = Desk::open(&args.at)?;
    let reply = desk.ask(RulesCommand::Delete { ids: args.ids.clone() })?;
    let missing: Vec<String> =
        args.ids.iter().filter(|id| !reply.changed.contains(id)).map(u32::to_string).collect();
    let deleted = format!("{} deleted, {}", reply.changed.len(), took(&reply));
    desk.tell(&reply, deleted)?;
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say::message(format_args!("ringside: no rule {}", missing.join(", ")));
    Ok(ExitCode::from(1))
}

pub(super) fn flush(args: &FlushArgs) -> anyhow::Result<ExitCode> {
    let mut desk = Desk::open(&args.at)?;
    let reply = desk.ask(RulesCommand::Flush {})?;
    desk.tell(&reply, format_args!("no rules any more, {}", took(&reply)))
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let All { rules, default, .. } = &all(args)?;
    if args.at.json {
        return print_json(rules, default);
    }
    let place = |rule: &RuleStatus| shortened(rule.place.clone());
    let line = |rule: &RuleStatus| vec![rule.id.to_string(), place(rule), body(rule)];
    let mut lines: Vec<Vec<String>> = rules.iter().map(line).collect();
    lines.push(vec![String::new(), String::new(), default_text(default)]);
    say::data(columns::text(&["id", "decided in", "rule"], &lines).trim_end())?;
    for line in &default.pre_filters {
        say::data(format_args!("pre-filter of {line}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stats(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let All { rules, default, side_effects } = &all(args)?;
    if args.at.json {
        print_json(rules, default)?;
        side_effects.json().iter().try_for_each(say::data)?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = |id: String, counts: [u64; 2], text: String| {
        let [frames, bytes] = counts.map(units::grouped);
        vec![id, frames, bytes, text]
    };
    let of_rule =
        |rule: &RuleStatus| line(rule.id.to_string(), [rule.frames, rule.bytes], body(rule));
    let mut lines: Vec<Vec<String>> = rules.iter().map(of_rule).collect();
    let counts = [default.frames, default.bytes];
    lines.push(line(String::new(), counts, default_text(default)));
    let table = columns::text(&["id", "frames", "bytes", "rule"], &lines);
    say::data(format!("{}\n{}", table.trim_end(), side_effects.text()).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// A rule without its id, cut to a line.
fn body(rule: &RuleStatus) -> String {
    let text = rule.text.strip_prefix(&format!("{}: ", rule.id)).unwrap_or(&rule.text);
    shortened(text.to_owned())
}

fn default_text(default: &DefaultStatus) -> String {
    format!("default {}", default.verdict)
}

/// All that a run says of its rules.
struct All {
    rules: Vec<RuleStatus>,
    default: DefaultStatus,
    side_effects: SideEffectsStatus,
}

fn all(args: &ListArgs) -> anyhow::Result<All> {
    let mut desk = Desk::open(&args.at)?;
    all_of(|after| desk.ask(RulesCommand::List { after }))
}

/// Asks for the rules behind an id until there are no more.
fn all_of(mut ask: impl FnMut(Option<u32>) -> anyhow::Result<RulesReply>) -> anyhow::Result<All> {
    let (mut rules, mut after) = (Vec::new(), None);
    loop {
        let reply = ask(after)?;
        let list = reply.list.unwrap_or_default();
        // Ids that rise come to an end, whatever program answers.
        let ids = after.into_iter().chain(list.iter().map(|rule| rule.id));
        let rises = ids.is_sorted_by(|before, next| before < next);
        if !rises || (reply.more && list.is_empty()) {
            bail!("the capture sent its rules out of order");
        }
        rules.extend(list);
        after = rules.last().map(|rule: &RuleStatus| rule.id);
        if !reply.more {
            let default = reply.default.context("the capture said nothing of its default")?;
            let side_effects = reply.side_effects.unwrap_or_default();
            return Ok(All { rules, default, side_effects });
        }
        ensure!(rules.len() <= TOLD_MAX, "the capture tells more than {TOLD_MAX} rules");
    }
}

fn print_json(rules: &[RuleStatus], default: &DefaultStatus) -> anyhow::Result<ExitCode> {
    for rule in rules {
        say::data(serde_json::json!({ "rule": rule }))?;
    }
    say::data(serde_json::json!({ "default": default }))?;
    Ok(ExitCode::SUCCESS)
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

/// A capture that is asked.
struct Desk {
    client: Client,
    /// The number of what is uploaded.
    upload: u64,
    json: bool,
}

impl Desk {
    fn open(at: &At) -> anyhow::Result<Desk> {
        let Some(client) = Client::only(at.socket.as_deref())? else {
            bail!("nothing runs there; `ringside status` shows what does{}", pinned(at));
        };
        Ok(Desk { client, upload: std::process::id().into(), json: at.json })
    }

    fn ask(&mut self, command: RulesCommand) -> anyhow::Result<RulesReply> {
        let reply = self.client.ask_for(&Command::Rules(command), WORK_WAIT_MAX)?;
        reply.rules.map(|rules| *rules).context("the capture answered without a word on its rules")
    }

    fn upload_sets(&mut self, sets: &Sets) -> anyhow::Result<()> {
        for file in sets.files() {
            let text = file.addresses.to_string().replace(',', "\n");
            self.upload(Some(&file.path), &text)?;
        }
        Ok(())
    }

    fn upload(&mut self, set: Option<&str>, text: &str) -> anyhow::Result<()> {
        let mut rest = text;
        loop {
            let end = rest.char_indices().nth(UPLOAD_CHARS).map_or(rest.len(), |(at, _)| at);
            let (piece, left) = rest.split_at(end);
            let (upload, set) = (self.upload, set.map(str::to_owned));
            self.ask(RulesCommand::Upload { upload, set, text: piece.to_owned() })?;
            rest = left;
            if rest.is_empty() {
                return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(ids: &[u32], more: bool) -> RulesReply {
        let rule = |&id: &u32| RuleStatus {
            id,
            frames: 0,
            bytes: 0,
            place: String::new(),
            text: format!("{id}: udp => drop"),
        };
        let (verdict, pre_filters) = ("pass".to_owned(), Vec::new());
        let default = Some(DefaultStatus { verdict, frames: 0, bytes: 0, pre_filters });
        RulesReply {
            list: Some(ids.iter().map(rule).collect()),
            more,
            default,
            ..Default::default()
        }
    }

    #[test]
    fn a_list_in_pieces_is_put_together() {
        let mut pieces = [piece(&[1, 2], true), piece(&[7], false)].into_iter();
        let mut asked = Vec::new();
        let all = all_of(|after| {
            asked.push(after);
            Ok(pieces.next().unwrap())
        });
        let ids: Vec<u32> = all.unwrap().rules.iter().map(|rule| rule.id).collect();
        assert_eq!((ids, asked), (vec![1, 2, 7], vec![None, Some(2)]));
    }

    #[test]
    fn a_list_without_an_end_is_refused() {
        for ids in [&[5][..], &[], &[3, 2]] {
            let mut asked = 0;
            let all = all_of(|_| {
                asked += 1;
                anyhow::ensure!(asked < 5, "it was asked for on and on");
                Ok(piece(ids, true))
            });
            let error = all.err().unwrap().to_string();
            assert!(error.contains("out of order"), "{ids:?}: {error}");
        }
    }
}
