//! Terms about bytes: at an offset, anywhere in the payload, in a filter of libpcap's.

use super::cursor::Cursor;
use super::list;
use super::term::{Scope, outside};
use crate::language::error::{Fault, Outcome, meant, quoted};
use crate::language::limits::{FILTER_BYTES_MAX, PATTERN_BYTES_MAX, VALUE_BYTES_MAX};
use crate::language::names::{BASES, names, value};
use crate::language::term::{BytePattern, BytesBase, PayloadPattern, Term};
use ringside_core::limits::FRAME_BYTES_MAX;

/// The value of a hexadecimal digit.
pub fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|value| value as u8)
}

/// Bytes written as pairs of hexadecimal digits, with blanks between pairs.
fn hex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for run in text.split_ascii_whitespace() {
        let (pairs, []) = run.as_bytes().as_chunks::<2>() else { return None };
        for &[high, low] in pairs {
            bytes.push(digit(high)? << 4 | digit(low)?);
        }
    }
    Some(bytes)
}

/// Reads what follows `bytes`: BASE+OFFSET = HEX[/MASK].
pub fn bytes(cursor: &mut Cursor<'_>, scope: Scope) -> Outcome<Term> {
    const EXAMPLE: &str = "write `bytes net+8 = 40`, or with a mask `bytes net+0 = 40/f0`";
    cursor.skip_blanks();
    let at = cursor.at();
    let place = cursor.word();
    if place.is_empty() {
        return Err(cursor.unexpected(EXAMPLE));
    }
    let (name, offset) = place.split_once('+').unwrap_or((place, "0"));
    let base = value(&BASES, name).ok_or_else(|| {
        let fix = meant(name, names(&BASES), "write frame, net, transport or payload");
        Fault::new(at, format!("bytes cannot be counted from {}", quoted(name)), fix)
    })?;
    if base == BytesBase::Frame && scope == Scope::Inner {
        return Err(outside("bytes frame", at));
    }
    let is_number = !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit());
    let offset = offset.parse().ok().filter(|&offset| is_number && offset < FRAME_BYTES_MAX);
    let offset = offset.ok_or_else(|| {
        let fix = format!("write `{name}+N` with N below {FRAME_BYTES_MAX}");
        Fault::new(at, format!("{} has no right offset", quoted(place)), fix)
    })?;
    if cursor.clone().eat("=>") || !cursor.eat("=") {
        return Err(cursor.unexpected(EXAMPLE));
    }
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    if word.is_empty() {
        return Err(cursor.unexpected(EXAMPLE));
    }
    let (value, mask) = masked(word).ok_or_else(|| {
        let fix = format!(
            "write 1 to {VALUE_BYTES_MAX} pairs of hexadecimal digits, a mask as long as the value"
        );
        Fault::new(at, format!("{} is no value", quoted(word)), fix)
    })?;
    let is_outside = value.iter().zip(&mask).any(|(value, mask)| value & !mask != 0);
    if is_outside {
        let problem = format!("the value of {} has bits set outside its mask", quoted(word));
        return Err(Fault::new(at, problem, "a bit that is not compared is written as 0"));
    }
    Ok(Term::Bytes(BytePattern { base, offset, value: value.into(), mask: mask.into() }))
}

/// Value and mask of `HEX[/MASK]`, if they are of one length that is allowed.
fn masked(word: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let plain = |text: &str| hex(text.strip_prefix("0x").unwrap_or(text));
    let (value, mask) = match word.split_once('/') {
        Some((value, mask)) => (plain(value)?, plain(mask)?),
        None => {
            let value = plain(word)?;
            let mask = vec![0xff; value.len()];
            (value, mask)
        }
    };
    let fits = (1..=VALUE_BYTES_MAX).contains(&value.len()) && value.len() == mask.len();
    fits.then_some((value, mask))
}

/// Reads what follows `payload`: a text with `nocase`, or `hex`, and `at N`.
pub fn payload(cursor: &mut Cursor<'_>) -> Outcome<Term> {
    const EXAMPLE: &str = "write `payload \"GET /\"` or `payload hex \"16 03 01\"`";
    let is_hex = cursor.eat_word("hex");
    cursor.skip_blanks();
    let start = cursor.at();
    let Some(mut bytes) = cursor.string()? else {
        return Err(cursor.unexpected(EXAMPLE));
    };
    if is_hex {
        bytes = std::str::from_utf8(&bytes).ok().and_then(hex).ok_or_else(|| {
            let fix = "write pairs of hexadecimal digits, as `hex \"de ad be ef\"`";
            Fault::new(start, "these are no hexadecimal bytes", fix)
        })?;
    }
    if !(1..=PATTERN_BYTES_MAX).contains(&bytes.len()) {
        let problem = format!("the pattern has {} bytes", bytes.len());
        return Err(Fault::new(start, problem, format!("write 1 to {PATTERN_BYTES_MAX} bytes")));
    }
    let mut pattern = PayloadPattern { bytes: Box::default(), ignore_case: false, at: None };
    loop {
        cursor.skip_blanks();
        let at = cursor.at();
        if !pattern.ignore_case && cursor.eat_word("nocase") {
            if is_hex {
                let fix = "remove it, or write the text with `payload \"…\" nocase`";
                return Err(Fault::new(at, "`nocase` cannot follow hexadecimal bytes", fix));
            }
            pattern.ignore_case = true;
        } else if pattern.at.is_none() && cursor.eat_word("at") {
            pattern.at = Some(list::single(cursor, "at", 0, FRAME_BYTES_MAX - 1)?);
        } else {
            break;
        }
    }
    if pattern.ignore_case {
        bytes.make_ascii_lowercase();
    }
    pattern.bytes = bytes.into();
    Ok(Term::Payload(pattern))
}

/// Reads what follows `filter`.
pub fn filter(cursor: &mut Cursor<'_>) -> Outcome<Term> {
    const EXAMPLE: &str = "write `filter \"tcp[tcpflags] & tcp-syn != 0\"`";
    cursor.skip_blanks();
    let start = cursor.at();
    let Some(bytes) = cursor.string()? else {
        return Err(cursor.unexpected(EXAMPLE));
    };
    let wrong = |problem: &str, fix: &str| Err(Fault::new(start, problem, fix));
    if bytes.len() > FILTER_BYTES_MAX {
        let problem = format!("the filter has {} bytes", bytes.len());
        let fix = format!("{FILTER_BYTES_MAX} are allowed: write networks, or `ip @FILE`");
        return wrong(&problem, &fix);
    }
    match String::from_utf8(bytes) {
        Err(_) => wrong("the filter is not UTF-8", EXAMPLE),
        Ok(text) if text.contains('\0') => wrong("the filter holds a NUL", EXAMPLE),
        Ok(text) if text.trim().is_empty() => wrong("the filter is empty", "write `any`"),
        Ok(text) => Ok(Term::Filter(text.into())),
    }
}
