//! Lists: of numbers, and of alternatives.

use super::cursor::Cursor;
use crate::language::error::{Fault, Outcome, meant, quoted};
use crate::language::limits::LIST_ITEMS_MAX;
use crate::language::names::{names, value};
use crate::language::numbers::Numeric;
use crate::language::ranges::{Ranges, Span};

/// Reads numbers and ranges with commas between them; `example` fixes where there is none.
pub fn ranges<T: Numeric>(cursor: &mut Cursor<'_>, example: &str) -> Outcome<Ranges<T>> {
    ranges_while(cursor, |cursor| cursor.eat(","), example)
}

/// Reads numbers and ranges as long as `goes_on` passes a separator.
pub fn ranges_while<'t, T: Numeric>(
    cursor: &mut Cursor<'t>,
    goes_on: fn(&mut Cursor<'t>) -> bool,
    example: &str,
) -> Outcome<Ranges<T>> {
    items(cursor, goes_on, |cursor| range(cursor, example)).map(Ranges::new)
}

/// Passes a `|` that is no `||`.
pub fn eat_bar(cursor: &mut Cursor<'_>) -> bool {
    !cursor.clone().eat("||") && cursor.eat("|")
}

/// Reads items as long as `goes_on` passes a separator.
pub fn items<'t, T>(
    cursor: &mut Cursor<'t>,
    goes_on: fn(&mut Cursor<'t>) -> bool,
    mut item: impl FnMut(&mut Cursor<'t>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    // Most lists have one item.
    let mut items = Vec::with_capacity(1);
    loop {
        items.push(item(cursor)?);
        if !goes_on(cursor) {
            return Ok(items);
        }
        if items.len() == LIST_ITEMS_MAX {
            let problem = format!("the list has more than {LIST_ITEMS_MAX} items");
            let fix = "write ranges, several rules, or for addresses a file (`ip @FILE`)";
            return Err(Fault::new(cursor.at(), problem, fix));
        }
    }
}

/// A number, a name, or a range with one or both ends.
fn range<T: Numeric>(cursor: &mut Cursor<'_>, example: &str) -> Outcome<Span<T>> {
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    if word.is_empty() {
        return Err(cursor.unexpected(example));
    }
    if let Some(value) = value(T::NAMES, word) {
        return Ok(Span::single(value));
    }
    let Some((first, last)) = word.split_once('-') else {
        return number(word, at).map(Span::single);
    };
    if first.is_empty() && last.is_empty() {
        return Err(Fault::new(at, "the range has no end", example));
    }
    let from = if first.is_empty() { T::FIRST } else { number(first, at)? };
    let to = if last.is_empty() { T::LAST } else { number(last, at + first.len() + 1)? };
    Span::new(from, to).ok_or_else(|| {
        let problem = format!("the range {} is empty", quoted(word));
        Fault::new(at, problem, format!("write `{last}-{first}`"))
    })
}

/// A number of a kind, decimal or with `0x`.
fn number<T: Numeric>(text: &str, at: usize) -> Outcome<T> {
    let (least, most) = (T::FIRST.number(), T::LAST.number());
    let number = plain_number(text).filter(|number| (least..=most).contains(number));
    number.map(T::of_number).ok_or_else(|| {
        let what = T::WHAT;
        let range = format!("write a number from {least} to {most}");
        let fix = match text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            true => range,
            false => meant(text, names(T::NAMES), &range),
        };
        Fault::new(at, format!("{} is no {what}", quoted(text)), fix)
    })
}

/// Digits, or hexadecimal digits behind `0x`; no sign.
fn plain_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
}

/// A single number from `least` to `most`, behind the word `what`.
pub fn single(cursor: &mut Cursor<'_>, what: &str, least: u32, most: u32) -> Outcome<u32> {
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    let fix = || format!("write `{what} N` with N from {least} to {most}");
    if word.is_empty() {
        return Err(cursor.unexpected(fix()));
    }
    let number = plain_number(word).filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Fault::new(at, format!("`{what}` cannot be {}", quoted(word)), fix()))
}
