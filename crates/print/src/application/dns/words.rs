//! Names of opcodes, results and types, as they stand in lines.

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

/// Types from 1 on.
const TYPES: [&str; 48] = [
    "A", "NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "NULL", "WKS", "PTR", "HINFO",
    "MINFO", "MX", "TXT", "RP", "AFSDB", "X25", "ISDN", "RT", "NSAP", "NSAP_PTR", "SIG", "KEY",
    "PX", "GPOS", "AAAA", "LOC", "NXT", "EID", "NIMLOC", "SRV", "ATMA", "NAPTR", "KX", "CERT",
    "A6", "DNAME", "SINK", "OPT", "APL", "DS", "SSHFP", "IPSECKEY", "RRSIG", "NSEC", "DNSKEY",
];

/// The name of a type of record, or `Type` and its number.
pub(super) fn type_name(number: u16) -> Cow<'static, str> {
    let low = usize::from(number).checked_sub(1).and_then(|index| TYPES.get(index));
    let name = match (low, number) {
        (Some(name), _) => name,
        (None, 99) => "SPF",
        (None, 100) => "UINFO",
        (None, 101) => "UID",
        (None, 102) => "GID",
        (None, 103) => "UNSPEC",
        (None, 104) => "UNSPECA",
        (None, 249) => "TKEY",
        (None, 250) => "TSIG",
        (None, 251) => "IXFR",
        (None, 252) => "AXFR",
        (None, 253) => "MAILB",
        (None, 254) => "MAILA",
        (None, 255) => "ANY",
        (None, 256) => "URI",
        _ => return Cow::Owned(format!("Type{number}")),
    };
    Cow::Borrowed(name)
}
