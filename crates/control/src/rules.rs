//! Rules over the control socket: what a client may ask, and how it is done.
//!
//! Rules come as text and are read here again: a client is not believed. Files that rules name are
//! read by the client, with its own rights, and uploaded in pieces before.

use super::protocol::Reply;
use super::rule_messages::{DefaultStatus, RuleStatus, RulesCommand, RulesReply};
use crate::side_effects::SideEffectsStatus;
use ringside_capture::keep::Rules;
use ringside_rules::engine::Counts;
use ringside_rules::language::{self, AddressSet, Rule, RuleId, RuleSet, Sets, Verdict};
use ringside_sys::clock;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of one upload: a million exact rules, or several files of a million addresses.
const UPLOAD_BYTES_MAX: usize = 128 << 20;
/// An upload that nothing was added to for so long makes room for another.
const UPLOAD_IDLE_MAX: Duration = Duration::from_secs(5);
/// Bytes of rules in one reply of a list; the rest is asked for again.
const LIST_BYTES: usize = 1 << 20;

/// Rules at work, in the driver or in the capture.
pub trait RuleStore: Send {
    /// Adds a rule.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn add(&mut self, rule: Rule) -> Result<(), String>;

    /// Removes a rule; false if it is not there.
    fn remove(&mut self, id: RuleId) -> bool;

    /// Replaces all rules.
    ///
    /// # Errors
    /// Why they cannot be, for people; then nothing has changed.
    fn load(&mut self, set: RuleSet) -> Result<(), String>;

    /// How many rules there are.
    fn count(&self) -> usize;

    /// Shows rules by id, those behind `after`, until `each` has enough.
    fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts, &str) -> bool);

    /// The highest id.
    fn last(&self) -> Option<RuleId>;

    /// The fate of frames that no rule decides about, and how many there were.
    fn default_counts(&self) -> (Verdict, Counts);

    /// How it stands with filters in the kernel that turn away what no rule can match: a line for
    /// each interface that could have one.
    fn pre_filters(&self) -> Vec<String> {
        Vec::new()
    }

    /// Side effects of the rules.
    fn side_effects(&self) -> SideEffectsStatus {
        SideEffectsStatus::default()
    }
}

impl RuleStore for Rules {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        Rules::add(self, rule).map_err(|error| error.to_string())
    }

    fn remove(&mut self, id: RuleId) -> bool {
        Rules::remove(self, id)
    }

    fn load(&mut self, set: RuleSet) -> Result<(), String> {
        Rules::load(self, set).map_err(|error| error.to_string())
    }

    fn count(&self) -> usize {
        Rules::count(self)
    }

    fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts, &str) -> bool) {
        Rules::list(self, after, &mut |rule, counts| each(rule, counts, "user space"));
    }

    fn last(&self) -> Option<RuleId> {
        Rules::last(self)
    }

    fn default_counts(&self) -> (Verdict, Counts) {
        Rules::default_counts(self)
    }

    fn pre_filters(&self) -> Vec<String> {
        let rules = self.count();
        let statuses = Rules::pre_filters(self).into_iter();
        statuses.map(|(name, status)| format!("{name}: {}", status.text(rules))).collect()
    }

    fn side_effects(&self) -> SideEffectsStatus {
        Rules::side_effects(self).into()
    }
}

/// Answers about rules, one client after the other.
pub struct RuleDesk {
    store: Mutex<Box<dyn RuleStore>>,
    upload: Mutex<Option<Upload>>,
}

/// Texts that came in pieces.
struct Upload {
    number: u64,
    rules: String,
    sets: BTreeMap<String, String>,
    bytes: usize,
    touched: Instant,
}

impl RuleDesk {
    /// Answers about these.
    pub fn new(store: Box<dyn RuleStore>) -> RuleDesk {
        RuleDesk { store: Mutex::new(store), upload: Mutex::new(None) }
    }

    /// Does what a client asks for.
    pub fn answer(&self, command: RulesCommand) -> Reply {
        let (begun, read_at) = (Instant::now(), clock::realtime_now());
        let result = match command {
            RulesCommand::Upload { upload, set, text } => self.upload(upload, set, &text),
            RulesCommand::Load { upload } => self.load(upload),
            RulesCommand::Add { rules, upload } => self.add(&rules, upload),
            RulesCommand::Delete { ids } => Ok(self.delete(&ids)),
            RulesCommand::List { after } => Ok(self.list(after.map(RuleId))),
            RulesCommand::Flush {} => self.flush(),
        };
        match result {
            Ok(reply) => Reply::rules(RulesReply {
                rules: self.store().count(),
                took_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
                read_ns: read_at.0,
                ..reply
            }),
            Err(error) => Reply::refused(&error),
        }
    }

    fn upload(&self, number: u64, set: Option<String>, text: &str) -> Result<RulesReply, String> {
        let mut place = self.upload.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free =
            place.as_ref().is_none_or(|upload| upload.touched.elapsed() > UPLOAD_IDLE_MAX);
        if is_free {
            *place = Some(Upload::new(number));
        }
        let upload = place.as_mut().filter(|upload| upload.number == number);
        let upload = upload.ok_or("another client is uploading rules; try again in a moment")?;
        upload.add(set, text)?;
        Ok(RulesReply::default())
    }

    fn load(&self, number: u64) -> Result<RulesReply, String> {
        let Upload { rules, sets, .. } = self.take_upload(number)?;
        let set = language::parse(rules.as_bytes(), &mut parsed(sets)?);
        let set = set.map_err(|errors| errors.to_string())?;
        self.store().load(set)?;
        Ok(RulesReply::default())
    }

    fn add(&self, rules: &str, upload: Option<u64>) -> Result<RulesReply, String> {
        let sets = match upload {
            Some(number) => self.take_upload(number)?.sets,
            None => BTreeMap::new(),
        };
        let mut sets = parsed(sets)?;
        let mut store = self.store();
        let mut changed = Vec::new();
        for line in rules.lines().filter(|line| !line.trim().is_empty()) {
            let next = store
                .last()
                .map_or(Some(RuleId::FIRST), |RuleId(id)| id.checked_add(1).map(RuleId));
            let result = next
                .ok_or_else(|| "no id is left behind the highest; give the rule one".to_owned())
                .and_then(|next| {
                    let rule = language::parse_rule(line.as_bytes(), next, &mut sets);
                    rule.map_err(|error| error.to_string())
                })
                .and_then(|rule| {
                    let RuleId(id) = rule.id;
                    store.add(rule).map(|()| changed.push(id))
                });
            if let Err(error) = result {
                return Err(with_done(error, &changed));
            }
        }
        Ok(RulesReply { changed, ..RulesReply::default() })
    }

    fn delete(&self, ids: &[u32]) -> RulesReply {
        let mut store = self.store();
        let changed = ids.iter().copied().filter(|&id| store.remove(RuleId(id))).collect();
        RulesReply { changed, ..RulesReply::default() }
    }

    fn list(&self, after: Option<RuleId>) -> RulesReply {
        let store = self.store();
        let (mut list, mut bytes, mut more) = (Vec::new(), 0, false);
        store.list(after, &mut |rule, counts, place| {
            more = bytes > LIST_BYTES;
            if !more {
                let status = RuleStatus::of(rule, counts, place);
                bytes += status.text.len() + 100;
                list.push(status);
            }
            !more
        });
        let (verdict, Counts { frames, bytes }) = store.default_counts();
        let (verdict, pre_filters) = (verdict.to_string(), store.pre_filters());
        let default = DefaultStatus { verdict, frames, bytes, pre_filters };
        let (list, default, side_effects) = (Some(list), Some(default), Some(store.side_effects()));
        RulesReply { list, more, default, side_effects, ..RulesReply::default() }
    }

    fn flush(&self) -> Result<RulesReply, String> {
        let mut store = self.store();
        let default = store.default_counts().0;
        store.load(RuleSet { rules: Vec::new(), default })?;
        Ok(RulesReply::default())
    }

    fn take_upload(&self, number: u64) -> Result<Upload, String> {
        let mut place = self.upload.lock().unwrap_or_else(PoisonError::into_inner);
        place
            .take_if(|upload| upload.number == number)
            .ok_or_else(|| format!("nothing was uploaded as {number}, or too long ago"))
    }

    fn store(&self) -> MutexGuard<'_, Box<dyn RuleStore>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    fn new(number: u64) -> Upload {
        let (rules, sets) = (String::new(), BTreeMap::new());
        Upload { number, rules, sets, bytes: 0, touched: Instant::now() }
    }

    fn add(&mut self, set: Option<String>, text: &str) -> Result<(), String> {
        self.bytes += text.len() + set.as_ref().map_or(0, String::len);
        if self.bytes > UPLOAD_BYTES_MAX {
            return Err(format!("an upload has {UPLOAD_BYTES_MAX} bytes at most"));
        }
        self.touched = Instant::now();
        match set {
            None => self.rules.push_str(text),
            Some(path) => self.sets.entry(path).or_default().push_str(text),
        }
        Ok(())
    }
}

/// Address files as rules ask for them; no other file is read.
fn parsed(texts: BTreeMap<String, String>) -> Result<Sets, String> {
    let mut sets = Sets::none();
    for (path, text) in texts {
        let addresses = AddressSet::parse(text.as_bytes());
        let addresses = addresses.map_err(|errors| format!("address file {path}: {errors}"))?;
        sets.insert(&path, addresses);
    }
    Ok(sets)
}

/// An error, and what was done before it.
fn with_done(mut error: String, done: &[u32]) -> String {
    if let Some((last, rest)) = done.split_last() {
        let _ =
            write!(error, "\n{} rules were added before it, the last is {last}", rest.len() + 1);
    }
    error
}

#[cfg(test)]
mod tests;
