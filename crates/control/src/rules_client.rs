//! A client that asks a run about its rules, and changes them.

use crate::client::Client;
use crate::protocol::Command;
use crate::rule_messages::{DefaultStatus, RuleStatus, RulesCommand, RulesReply, UPLOAD_CHARS};
use crate::side_effects::SideEffectsStatus;
use anyhow::{Context, bail, ensure};
use ringside_rules::language::limits::RULES_MAX;
use ringside_rules::language::{RuleSet, Sets};
use std::time::Duration;

/// How long rules may take to be put to work: a million with filter expressions among them.
const WORK_WAIT_MAX: Duration = Duration::from_secs(300);

/// Rules of a run: a full set, and those that were added to it, which are far fewer.
const TOLD_MAX: usize = 2 * RULES_MAX;

/// All that a run says of its rules.
#[derive(Clone, Debug)]
pub struct RunningRules {
    /// By id.
    pub rules: Vec<RuleStatus>,
    /// What becomes of frames that none decides about.
    pub default: DefaultStatus,
    /// What was counted in addition.
    pub side_effects: SideEffectsStatus,
}

/// A run that is asked about its rules. Every method fails if the run refuses, in its own words, or
/// does not answer.
#[derive(Debug)]
pub struct RulesClient {
    client: Client,
    /// The number of what is uploaded.
    upload: u64,
}

impl RulesClient {
    /// Asks by `client`.
    pub fn new(client: Client) -> RulesClient {
        RulesClient { client, upload: std::process::id().into() }
    }

    /// Replaces all rules by those of `set`, which name `sets` of addresses.
    ///
    /// # Errors
    /// The run refuses, or does not answer.
    pub fn load(&mut self, set: &RuleSet, sets: &Sets) -> anyhow::Result<RulesReply> {
        self.upload_sets(sets)?;
        self.upload(None, &set.to_string())?;
        self.ask(RulesCommand::Load { upload: self.upload })
    }

    /// Adds rules, each a text, which name `sets` of addresses.
    ///
    /// # Errors
    /// As [`load`](RulesClient::load).
    pub fn add(&mut self, rules: &[String], sets: &Sets) -> anyhow::Result<RulesReply> {
        self.upload_sets(sets)?;
        let upload = sets.files().next().is_some().then_some(self.upload);
        self.ask(RulesCommand::Add { rules: rules.join("\n"), upload })
    }

    /// Deletes the rules that are there of these.
    ///
    /// # Errors
    /// As [`load`](RulesClient::load).
    pub fn delete(&mut self, ids: &[u32]) -> anyhow::Result<RulesReply> {
        self.ask(RulesCommand::Delete { ids: ids.to_vec() })
    }

    /// Deletes all rules.
    ///
    /// # Errors
    /// As [`load`](RulesClient::load).
    pub fn flush(&mut self) -> anyhow::Result<RulesReply> {
        self.ask(RulesCommand::Flush {})
    }

    /// The first rules behind `after`, as many as fit a reply.
    ///
    /// # Errors
    /// As [`load`](RulesClient::load).
    pub fn list(&mut self, after: Option<u32>) -> anyhow::Result<RulesReply> {
        self.ask(RulesCommand::List { after })
    }

    /// The rules, with what they counted.
    ///
    /// # Errors
    /// As [`load`](RulesClient::load), or the list has no end.
    pub fn all(&mut self) -> anyhow::Result<RunningRules> {
        all_of(|after| self.list(after))
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
}

/// Asks for the rules behind an id until there are no more.
fn all_of(
    mut ask: impl FnMut(Option<u32>) -> anyhow::Result<RulesReply>,
) -> anyhow::Result<RunningRules> {
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
            return Ok(RunningRules { rules, default, side_effects });
        }
        ensure!(rules.len() <= TOLD_MAX, "the capture tells more than {TOLD_MAX} rules");
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
                ensure!(asked < 5, "it was asked for on and on");
                Ok(piece(ids, true))
            });
            let error = all.err().unwrap().to_string();
            assert!(error.contains("out of order"), "{ids:?}: {error}");
        }
    }
}
