//! Terms about addresses.

use super::cursor::Cursor;
use super::list;
use crate::language::address_set::{AddressSet, AddressSpan};
use crate::language::address_text;
use crate::language::error::{Fault, Outcome, quoted};
use crate::language::sets::{AddressFile, Sets};
use crate::language::term::{Addresses, MacPattern, Side, Term};
use ringside_wire::MacAddr;
use std::sync::Arc;

/// An item of a list of addresses.
enum Item {
    Span(AddressSpan),
    File(Arc<AddressFile>),
}

/// Reads what follows `ip`.
pub fn addresses(cursor: &mut Cursor<'_>, side: Side, sets: &mut Sets) -> Outcome<Term> {
    let items = list::items(cursor, |cursor| cursor.eat(","), |cursor| item(cursor, sets))?;
    if let [Item::Span(span)] = items[..] {
        // Most lists; a million of them should not pay for what longer ones need.
        return Ok(Term::Ip(
            side,
            Addresses { listed: AddressSet::single(span), ..Addresses::default() },
        ));
    }
    let mut files = Vec::new();
    let spans = items.into_iter().filter_map(|item| match item {
        Item::Span(span) => Some(span),
        Item::File(file) => {
            files.push(file);
            None
        }
    });
    let listed = AddressSet::new(spans);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(Term::Ip(side, Addresses { listed, files: files.into() }))
}

fn item(cursor: &mut Cursor<'_>, sets: &mut Sets) -> Outcome<Item> {
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    if let Some(path) = word.strip_prefix('@') {
        return file(cursor, path, at, sets).map(Item::File);
    }
    match word {
        "" => Err(cursor.unexpected("write `ip 192.0.2.1`, `ip 10.0.0.0/8` or `ip @FILE`")),
        "and" | "or" | "bidir" => {
            let fix = "write an address behind `ip`, or `ip4` and `ip6` for the version";
            Err(Fault::new(at, format!("`{word}` is no address"), fix))
        }
        _ => address_text::span(word, at).map(Item::Span),
    }
}

/// The file behind an `@` at `at`.
fn file(
    cursor: &mut Cursor<'_>,
    bare: &str,
    at: usize,
    sets: &mut Sets,
) -> Outcome<Arc<AddressFile>> {
    let fix = "write @PATH, or @\"PATH\" if it has blanks or signs";
    // A quotation mark ends a word, so a quoted path directly follows the `@`.
    let quoted = if bare.is_empty() && cursor.line()[cursor.at()..].starts_with('"') {
        cursor.string()?
    } else {
        None
    };
    let path = match quoted {
        Some(bytes) => {
            String::from_utf8(bytes).map_err(|_| Fault::new(at, "the path is not UTF-8", fix))?
        }
        None => bare.to_owned(),
    };
    if path.is_empty() || path.contains('\0') {
        return Err(Fault::new(at, "`@` names no file", fix));
    }
    sets.get(&path).map_err(|(problem, fix)| Fault::new(at, problem, fix))
}

/// Reads what follows `mac`.
pub fn mac(cursor: &mut Cursor<'_>, side: Side) -> Outcome<Term> {
    const EXAMPLE: &str = "write `mac 02:00:5e:10:00:01`, or with a mask `mac 02:00:00:00:00:00/8`";
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    if word.is_empty() {
        return Err(cursor.unexpected(EXAMPLE));
    }
    let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
    let wrong =
        |text: &str, at, what| Fault::new(at, format!("{} is no {what}", quoted(text)), EXAMPLE);
    let parsed = mac_address(address).ok_or_else(|| wrong(address, at, "hardware address"))?;
    let mask = match mask {
        None => MacAddr::BROADCAST,
        Some(text) => mac_mask(text).ok_or_else(|| wrong(text, at + address.len() + 1, "mask"))?,
    };
    let masked = MacAddr(std::array::from_fn(|i| parsed.0[i] & mask.0[i]));
    if masked != parsed {
        let problem = format!("{parsed} has bits set outside the mask {mask}");
        return Err(Fault::new(at, problem, format!("write {masked}/{mask}")));
    }
    Ok(Term::Mac(side, MacPattern { address: masked, mask }))
}

fn mac_address(text: &str) -> Option<MacAddr> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *byte = is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()?;
    }
    parts.next().is_none().then_some(MacAddr(bytes))
}

/// A mask as an address, or as a number of leading bits.
fn mac_mask(text: &str) -> Option<MacAddr> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return mac_address(text);
    }
    let bits = text.parse::<u32>().ok().filter(|&bits| bits <= 48)?;
    let mask = !(u64::MAX >> 16 >> bits) << 16;
    let [a, b, c, d, e, f, ..] = mask.to_be_bytes();
    Some(MacAddr([a, b, c, d, e, f]))
}
