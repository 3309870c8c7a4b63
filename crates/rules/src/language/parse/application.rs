//! Terms about protocols above transport.

use super::cursor::Cursor;
use super::list;
use crate::language::error::{Fault, Outcome, quoted};
use crate::language::limits::{HOST_BYTES_MAX, PATTERN_BYTES_MAX};
use crate::language::names::{HOST_FIELDS, TEXT_FIELDS, value};
use crate::language::term::{HostPattern, Term};

/// Reads what follows `http.status`.
pub fn status(cursor: &mut Cursor<'_>) -> Outcome<Term> {
    let example = "write `http.status 404` or `http.status 200|500-599`";
    list::ranges_while(cursor, list::eat_bar, example).map(Term::HttpStatus)
}

/// Reads what follows the name of a field; none if `name` is no field's.
pub fn field(cursor: &mut Cursor<'_>, name: &str) -> Outcome<Option<Term>> {
    if let Some(field) = value(&TEXT_FIELDS, name) {
        let texts = alternatives(cursor, |cursor| text(cursor, name).map(|(text, _)| text))?;
        return Ok(Some(Term::Text(field, texts)));
    }
    if let Some(field) = value(&HOST_FIELDS, name) {
        return Ok(Some(Term::Host(field, alternatives(cursor, |cursor| host(cursor, name))?)));
    }
    Ok(None)
}

/// Items with `|` between them, sorted, each once.
fn alternatives<'t, T: Ord>(
    cursor: &mut Cursor<'t>,
    item: impl FnMut(&mut Cursor<'t>) -> Outcome<T>,
) -> Outcome<Box<[T]>> {
    let mut items = list::items(cursor, list::eat_bar, item)?;
    items.sort();
    items.dedup();
    Ok(items.into())
}

/// A word or a quoted text, and where it begins.
fn text(cursor: &mut Cursor<'_>, name: &str) -> Outcome<(Box<str>, usize)> {
    cursor.skip_blanks();
    let at = cursor.at();
    let text = match cursor.string()? {
        Some(bytes) => String::from_utf8(bytes).map_err(|_| {
            Fault::new(at, "the text is not UTF-8", "to look for bytes, write `payload`")
        })?,
        None => cursor.word().to_owned(),
    };
    match text.len() {
        0 if cursor.at() == at => {
            Err(cursor.unexpected(format!("write `{name} TEXT`, in quotation marks if need be")))
        }
        1..=PATTERN_BYTES_MAX => Ok((text.into(), at)),
        bytes => {
            let problem = format!("the text has {bytes} bytes");
            Err(Fault::new(at, problem, format!("write 1 to {PATTERN_BYTES_MAX} bytes")))
        }
    }
}

/// A host name, or `*.` and what all names meant end in.
fn host(cursor: &mut Cursor<'_>, field: &str) -> Outcome<HostPattern> {
    let (text, at) = text(cursor, field)?;
    let name = text.strip_prefix("*.").unwrap_or(&text);
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = |fix: String| Fault::new(at, format!("{} is no host name", quoted(&text)), fix);
    if !name.is_ascii() {
        return Err(wrong("write it as it is on the wire, in Punycode (xn--…)".into()));
    }
    if name.contains('*') {
        return Err(wrong("`*` may only stand at the start, as `*.example.com`".into()));
    }
    let is_wrong = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\');
    let has_bare_dot = name.starts_with('.') || name.ends_with('.');
    let fits = (1..=HOST_BYTES_MAX).contains(&name.len());
    if !fits || has_bare_dot || name.contains(is_wrong) {
        let fix = format!("write 1 to {HOST_BYTES_MAX} letters, as example.com or *.example.com");
        return Err(wrong(fix));
    }
    let is_below = text.starts_with("*.");
    let name = name.to_ascii_lowercase().into();
    Ok(if is_below { HostPattern::Below(name) } else { HostPattern::Exact(name) })
}
