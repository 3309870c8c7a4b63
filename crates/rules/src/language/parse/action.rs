//! Actions, and which of them exclude each other.

use super::VERDICTS;
use super::cursor::Cursor;
use super::list;
use crate::language::actions::{Actions, CpuId, InterfaceName, Next, Redirect, Sample, Trim};
use crate::language::error::{Fault, Outcome, quoted};
use crate::language::limits::{CPU_MAX, INTERFACE_NAME_BYTES_MAX, KEEP_RANGES_MAX};
use crate::language::names::value;
use crate::language::ranges::Ranges;
use crate::language::words::{self, ACTIONS, action_meant};
use ringside_core::QueueId;
use ringside_core::limits::FRAME_BYTES_MAX;
use std::num::NonZeroU32;

/// Pairs of actions that exclude each other, with the reason and the fix.
const CONTRADICTIONS: [(&[&str], &[&str], &str); 9] = [
    (&["drop", "take", "pass"], &["drop", "take", "pass"], "a frame has one fate: keep one"),
    (&["redirect"], &["drop", "take", "pass"], "a frame has one fate; `mirror` sends a copy"),
    (&["cap"], &["keep"], "write `keep` alone: `keep 0-95` is `cap 96`"),
    (&["cap", "keep"], &["drop", "pass", "redirect"], "only what is taken is cut: use `take`"),
    (&["digest"], &["take"], "`take` hands over the frame, `digest` a record instead: keep one"),
    (&["digest"], &["cap", "keep"], "a digest holds no bytes of the frame: keep one"),
    (&["pin"], &["drop", "pass", "redirect"], "only what is taken lies in a file: use `take`"),
    (&["pin"], &["digest"], "a digest lies in no file of the recording: keep one"),
    (&["stop"], &["continue"], "keep one"),
];

/// Reads the actions of a rule, to the end of the line.
pub fn actions(cursor: &mut Cursor<'_>) -> Outcome<Actions> {
    let mut actions = Actions::default();
    let mut words: Vec<&str> = Vec::with_capacity(2);
    let mut next = None;
    loop {
        cursor.skip_blanks();
        let at = cursor.at();
        let word = cursor.word();
        if word.is_empty() {
            return Err(cursor.unexpected(words::actions()));
        }
        if !ACTIONS.contains(&word) {
            let problem = format!("unknown action {}", quoted(word));
            return Err(Fault::new(at, problem, action_meant(word)));
        }
        for &before in &words {
            exclude(before, word, at)?;
        }
        words.push(word);
        match word {
            "count" => actions.count = true,
            "digest" => actions.digest = true,
            "pin" => actions.pin = true,
            "stop" => next = Some(Next::Stop),
            "continue" => next = Some(Next::Continue),
            "cap" => {
                actions.trim = Some(Trim::Cap(list::single(cursor, word, 1, FRAME_BYTES_MAX)?))
            }
            "keep" => actions.trim = Some(Trim::Keep(keep(cursor)?.into())),
            "sample" => actions.sample = Some(sample(cursor)?),
            "mirror" => {
                let fix = "write `mirror IF`, IF being an interface's name";
                actions.mirror = Some(interface(cursor, fix)?);
            }
            "redirect" => actions.redirect = Some(redirect(cursor)?),
            verdict => actions.verdict = value(&VERDICTS, verdict),
        }
        if !cursor.eat(",") {
            break;
        }
    }
    cursor.expect_end("write `,` between two actions, `#` before a comment")?;
    actions.next = next.unwrap_or(actions.usual_next());
    Ok(actions)
}

/// Refuses `word` after the action `before`, if the two make no sense together.
fn exclude(before: &str, word: &str, at: usize) -> Outcome<()> {
    if before == word {
        return Err(Fault::new(at, format!("`{word}` stands twice"), "remove one"));
    }
    let clash = CONTRADICTIONS.iter().find(|(some, others, _)| {
        let between = |a: &str, b: &str| some.contains(&a) && others.contains(&b);
        between(before, word) || between(word, before)
    });
    match clash {
        None => Ok(()),
        Some((_, _, fix)) => {
            let problem = format!("`{before}` and `{word}` exclude each other");
            Err(Fault::new(at, problem, *fix))
        }
    }
}

/// Reads byte ranges. The comma behind them may already be followed by the next action.
fn keep(cursor: &mut Cursor<'_>) -> Outcome<Ranges<u32>> {
    let start = cursor.at();
    let goes_on = |cursor: &mut Cursor<'_>| {
        let mut ahead = cursor.clone();
        let is_range = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        let goes_on = ahead.eat(",") && ahead.peek_byte().is_some_and(is_range);
        if goes_on {
            *cursor = ahead;
        }
        goes_on
    };
    let example = "write `keep 0-63`, `keep 0-63,128-191` or `keep 14-`";
    let ranges: Ranges<u32> = list::ranges_while(cursor, goes_on, example)?;
    if ranges.span_count() > KEEP_RANGES_MAX {
        let problem = format!("{} ranges are kept", ranges.span_count());
        return Err(Fault::new(start, problem, format!("{KEEP_RANGES_MAX} are allowed")));
    }
    Ok(ranges)
}

fn sample(cursor: &mut Cursor<'_>) -> Outcome<Sample> {
    const EXAMPLE: &str = "write `sample 1/N`, as `sample 1/100` for one frame of a hundred";
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    if word.is_empty() {
        return Err(cursor.unexpected(EXAMPLE));
    }
    let digits = word.strip_prefix("1/").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse::<NonZeroU32>().ok());
    number.map(Sample).ok_or_else(|| {
        Fault::new(at, format!("{} is no share of the frames", quoted(word)), EXAMPLE)
    })
}

fn redirect(cursor: &mut Cursor<'_>) -> Outcome<Redirect> {
    if cursor.eat_word("queue") {
        let queue = list::single(cursor, "redirect queue", 0, u16::MAX.into())?;
        return Ok(Redirect::Queue(QueueId(queue as u16)));
    }
    if cursor.eat_word("cpu") {
        return Ok(Redirect::Cpu(CpuId(list::single(cursor, "redirect cpu", 0, CPU_MAX)?)));
    }
    let fix = "write `redirect IF`, `redirect queue N` or `redirect cpu N`";
    interface(cursor, fix).map(Redirect::Interface)
}

/// An interface's name, in quotation marks if need be.
fn interface(cursor: &mut Cursor<'_>, fix: &str) -> Outcome<InterfaceName> {
    cursor.skip_blanks();
    let at = cursor.at();
    let name = match cursor.string()? {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => cursor.word().to_owned(),
    };
    if cursor.at() == at {
        return Err(cursor.unexpected(fix));
    }
    InterfaceName::new(&name).ok_or_else(|| {
        let fix = format!("a name has 1 to {INTERFACE_NAME_BYTES_MAX} bytes, no blank, `/` or `:`");
        Fault::new(at, format!("{} cannot be an interface", quoted(&name)), fix)
    })
}
