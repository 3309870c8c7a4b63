//! From text to rules.

mod action;
mod address;
mod application;
mod bytes;
mod cursor;
mod expression;
mod list;
mod term;

use super::actions::Verdict;
use super::error::{Fault, Outcome, RuleError, RuleErrors, meant, quoted};
use super::limits::{LINE_BYTES_MAX, RULES_MAX};
use super::lines::{checked, each_line};
use super::rule::{Rule, RuleId, RuleSet};
use super::sets::Sets;
use cursor::Cursor;
use std::collections::HashMap;

/// Above this length of a line its canonical text is measured. That is longer than the line in
/// places (`!` becomes `not`), never sixteen times, and must be a line itself.
const MEASURED_BYTES: usize = LINE_BYTES_MAX / 16;

/// The verdicts by their names.
const VERDICTS: [(&str, Verdict); 3] =
    [("drop", Verdict::Drop), ("take", Verdict::Take), ("pass", Verdict::Pass)];

/// Reads a text of rules, one a line.
///
/// # Errors
/// Every line that is wrong, up to [`ERRORS_MAX`](super::limits::ERRORS_MAX) of them.
pub fn parse(text: &[u8], sets: &mut Sets) -> Result<RuleSet, RuleErrors> {
    let mut reader = Reader::new(sets);
    each_line(text, |number, line| reader.line(number, line))?;
    let Reader { mut rules, default, .. } = reader;
    if !rules.is_sorted_by_key(|rule| rule.id) {
        rules.sort_unstable_by_key(|rule| rule.id);
    }
    let default = default.map_or(Verdict::default(), |(verdict, _)| verdict);
    Ok(RuleSet { rules, default })
}

/// Reads one rule, as from a command line; a rule without an id gets `id`.
///
/// # Errors
/// What is wrong with it, in line 1.
pub fn parse_rule(text: &[u8], id: RuleId, sets: &mut Sets) -> Result<Rule, RuleError> {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let read = |line| {
        let mut cursor = Cursor::new(line);
        if cursor.is_end() {
            return Err(Fault::new(0, "there is no rule", "write MATCH => ACTION"));
        }
        let given = rule_id(&mut cursor)?;
        rule(&mut cursor, given.unwrap_or(id), sets)
    };
    checked(line).and_then(read).map_err(|fault| fault.in_line(1, line))
}

/// The rules of a text, as they come.
struct Reader<'s> {
    sets: &'s mut Sets,
    rules: Vec<Rule>,
    /// The line of each id, also of rules that were wrong.
    lines: HashMap<RuleId, usize>,
    /// The id of the next rule that has none; none after the highest.
    next: Option<RuleId>,
    default: Option<(Verdict, usize)>,
}

impl<'s> Reader<'s> {
    fn new(sets: &'s mut Sets) -> Reader<'s> {
        let (rules, lines) = (Vec::new(), HashMap::new());
        Reader { sets, rules, lines, next: Some(RuleId::FIRST), default: None }
    }

    fn line(&mut self, number: usize, line: &str) -> Outcome<()> {
        let mut cursor = Cursor::new(line);
        if cursor.is_end() {
            return Ok(());
        }
        let start = cursor.at();
        if cursor.eat_word("default") {
            return self.default_line(&mut cursor, number, start);
        }
        if self.rules.len() == RULES_MAX {
            let problem = format!("more than {RULES_MAX} rules");
            return Err(Fault::new(start, problem, "put addresses into address files (`@FILE`)"));
        }
        let given = rule_id(&mut cursor)?;
        let Some(id) = given.or(self.next) else {
            let problem = format!("there is no id after {}", u32::MAX);
            return Err(Fault::new(start, problem, "write a free one, as `7: MATCH => ACTION`"));
        };
        self.next = id.0.checked_add(1).map(RuleId);
        if let Some(before) = self.lines.insert(id, number) {
            let how = if given.is_some() { "" } else { " (one more than the rule before)" };
            let problem = format!("lines {before} and {number} are both rule {id}{how}");
            return Err(Fault::new(start, problem, "give one of them another id, as `ID:`"));
        }
        self.rules.push(rule(&mut cursor, id, self.sets)?);
        Ok(())
    }

    fn default_line(&mut self, cursor: &mut Cursor<'_>, line: usize, start: usize) -> Outcome<()> {
        cursor.skip_blanks();
        let (at, word) = (cursor.at(), cursor.word());
        let verdict = super::names::value(&VERDICTS, word).ok_or_else(|| {
            let fix = "write `default drop`, `default take` or `default pass`";
            let names = super::names::names(&VERDICTS);
            Fault::new(at, format!("{} is no verdict", quoted(word)), meant(word, names, fix))
        })?;
        cursor.expect_end("a default is one verdict, alone on its line")?;
        if let Some((_, before)) = self.default.replace((verdict, line)) {
            let problem = format!("lines {before} and {line} both say the default");
            return Err(Fault::new(start, problem, "remove one of them"));
        }
        Ok(())
    }
}

/// The id before a rule, if it has one.
fn rule_id(cursor: &mut Cursor<'_>) -> Outcome<Option<RuleId>> {
    cursor.skip_blanks();
    let at = cursor.at();
    let digits = cursor.digits();
    if digits.is_empty() {
        return Ok(None);
    }
    if !cursor.eat(":") {
        let problem = format!("{} is no match", quoted(digits));
        return Err(Fault::new(at, problem, format!("write `{digits}:` if it is the rule's id")));
    }
    let id = digits.parse().map_err(|_| {
        let fix = format!("write a number from 0 to {}", u32::MAX);
        Fault::new(at, format!("{} is no id", quoted(digits)), fix)
    })?;
    Ok(Some(RuleId(id)))
}

/// A rule behind its id, to the end of the line.
fn rule(cursor: &mut Cursor<'_>, id: RuleId, sets: &mut Sets) -> Outcome<Rule> {
    let matches = expression::whole_match(cursor, sets)?;
    let actions = action::actions(cursor)?;
    let rule = Rule { id, matches, actions };
    if cursor.line().len() > MEASURED_BYTES {
        let bytes = rule.to_string().len();
        if bytes > LINE_BYTES_MAX {
            let problem =
                format!("written out, the rule has {bytes} bytes, {LINE_BYTES_MAX} are allowed");
            return Err(Fault::new(0, problem, "write several rules"));
        }
    }
    Ok(rule)
}
