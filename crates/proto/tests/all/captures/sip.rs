//! SIP as tshark reads it.

use super::rows::{Differences, Row, plain, rows};
use ringside_proto::{Outcome, sip};

const MALFORMED: &str = "a header line that breaks the grammar, over which tshark goes on";
const CUT: &str = "cut within a value that tshark gives as it is";
const NUL: &str = "tshark ends a value at its first NUL";
const NO_URI: &str = "a space or a quote in the URI or before it";

#[test]
fn tshark_finds_the_same_sip() {
    let test = "tshark_finds_the_same_sip";
    let rows = rows(test);
    if rows.is_empty() {
        return;
    }
    let mut differences = Differences::default();
    for row in rows {
        compare(row, &mut differences);
    }
    let expected = [(MALFORMED, 77), (CUT, 14), (NUL, 9), (NO_URI, 3)];
    differences.check(test, &expected);
}

fn compare(row: &Row, differences: &mut Differences) {
    let outcome = sip::parse(&row.payload);
    let ours = outcome.found().unwrap_or_default();
    let is_cut = matches!(outcome, Outcome::Incomplete(_));
    let explain = |ours: Option<&str>, theirs: Option<&str>| match (ours, theirs) {
        (None, Some(_)) if outcome == Outcome::NotThis && row.is_broken() => Some(MALFORMED),
        (None, Some(_)) if is_cut && row.is_broken() => Some(CUT),
        (Some(ours), Some(theirs)) if ours.strip_prefix(theirs)?.starts_with('\0') => Some(NUL),
        (None, Some(theirs)) if theirs.starts_with("sip:") => Some(NO_URI),
        _ => None,
    };
    let mut field = |name: &str, value: Option<String>| {
        differences.compare(row, (value, row.first(name).map(str::to_owned)), explain);
    };
    let value = |party: Option<sip::Address<'_>>| party.map(|party| plain(party.value().raw()));
    let uri = |party: Option<sip::Address<'_>>| party.and_then(|party| party.uri()).map(plain);
    field("sip.Method", ours.method.map(plain));
    field("sip.r-uri", ours.uri.map(plain));
    field("sip.Status-Code", ours.status.map(|status| status.to_string()));
    field("sip.From", value(ours.from));
    field("sip.from.addr", uri(ours.from));
    field("sip.To", value(ours.to));
    field("sip.to.addr", uri(ours.to));
    field("sip.Via", ours.via.map(|via| plain(via.raw())));
    field("sip.Call-ID", ours.call_id.map(plain));
}
