//! Names of opcodes, results and types, as they stand in lines.

use ringside_proto::dns;
use std::borrow::Cow;

/// Behind the number of a message; an ordinary query has none.
pub(super) const OPCODES: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];

/// Results (RFC 1035, 2136); success has none.
pub(super) const RCODES: [&str; 16] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " NoChange",
];

/// The name of a type of record as tcpdump has it, or `Type` and its number: it knows no others.
pub(super) fn type_name(number: u16) -> Cow<'static, str> {
    let is_known = matches!(number, 1..=48 | 99..=104 | 249..=256);
    let name = dns::type_name(number).filter(|_| is_known);
    name.map_or_else(|| format!("Type{number}").into(), Cow::Borrowed)
}
