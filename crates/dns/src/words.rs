//! Names of results, classes and kinds of queries, as registered at IANA.

use ringside_proto::dns::type_name;
use std::borrow::Cow;

/// The name of a type of record, or `TYPE` and its number (RFC 3597).
pub(crate) fn rtype(number: u16) -> Cow<'static, str> {
    type_name(number).map_or_else(|| format!("TYPE{number}").into(), Cow::from)
}

/// The name of a class, or `CLASS` and its number.
pub(crate) fn class(number: u16) -> Cow<'static, str> {
    match number {
        1 => "IN".into(),
        3 => "CH".into(),
        4 => "HS".into(),
        254 => "NONE".into(),
        255 => "ANY".into(),
        _ => format!("CLASS{number}").into(),
    }
}

/// The name of a result, or its number.
pub(crate) fn rcode(number: u16) -> Cow<'static, str> {
    const NAMES: [&str; 12] = [
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
    ];
    match (NAMES.get(usize::from(number)), number) {
        (Some(name), _) => (*name).into(),
        (None, 16) => "BADVERS".into(),
        (None, 23) => "BADCOOKIE".into(),
        _ => format!("RCODE{number}").into(),
    }
}

/// The name of a kind of query, or its number.
pub(crate) fn opcode(number: u8) -> Cow<'static, str> {
    match number {
        0 => "QUERY".into(),
        1 => "IQUERY".into(),
        2 => "STATUS".into(),
        4 => "NOTIFY".into(),
        5 => "UPDATE".into(),
        6 => "DSO".into(),
        _ => format!("OPCODE{number}").into(),
    }
}
