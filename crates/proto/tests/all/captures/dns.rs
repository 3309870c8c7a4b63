//! DNS as tshark reads it.

use super::rows::{Differences, Row, plain, rows};
use ringside_proto::{Name, Outcome, dns};

const LENGTH_BEFORE: &str = "the length is in the segment before, which tshark saw";
const MALFORMED: &str = "a label that is too long or a pointer, after which tshark goes on";
const ESCAPES: &str = "bytes that are not text, which tshark writes in other ways or not";
const ROOT: &str = "tshark calls the root by name";
const TOO_SHORT: &str =
    "ends in the question by its UDP length, which the payload here is not cut to";

#[test]
fn tshark_finds_the_same_dns() {
    let test = "tshark_finds_the_same_dns";
    let rows = rows(test);
    if rows.is_empty() {
        return;
    }
    let mut differences = Differences::default();
    for row in rows.iter().filter(|row| row.has_layer("dns") || row.has_layer("mdns")) {
        compare(row, &mut differences);
    }
    let expected = [(LENGTH_BEFORE, 2), (MALFORMED, 65), (ESCAPES, 20), (ROOT, 1), (TOO_SHORT, 3)];
    differences.check(test, &expected);
}

fn compare(row: &Row, differences: &mut Differences) {
    let mut name = Name::new();
    let parse = if row.is_tcp { dns::parse_tcp } else { dns::parse };
    let outcome = parse(&row.payload, &mut name);
    let ours = outcome.found().unwrap_or_default();
    let explain = |ours: Option<&str>, theirs: Option<&str>| match (ours, theirs) {
        (None, Some(_)) if outcome == Outcome::NotThis && row.is_tcp => Some(LENGTH_BEFORE),
        (None, Some(_)) if outcome == Outcome::NotThis && row.is_broken() => Some(MALFORMED),
        (Some(ours), Some(_)) if ours.contains('\\') => Some(ESCAPES),
        (Some("."), Some("<root>")) => Some(ROOT),
        (Some(_), None) if row.is_broken() => Some(TOO_SHORT),
        _ => None,
    };
    let mut field = |name: &str, value: Option<String>| {
        differences.compare(row, (value, row.first(name).map(str::to_owned)), explain);
    };
    field("dns.flags.response", ours.is_response.map(|is| u8::from(is).to_string()));
    field("dns.qry.type", ours.qtype.map(|qtype| qtype.to_string()));
    let theirs = row.first("dns.qry.name").map(str::to_ascii_lowercase);
    differences.compare(row, (ours.qname.map(plain), theirs), explain);
}
