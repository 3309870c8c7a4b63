//! Terms about protocols above transport.

use crate::language::{HostField, HostPattern, TextField};
use ringside_inspect::DissectedFrame;
use ringside_proto::sip::Address;
use ringside_wire::Level;

/// True if the frame has the field, and it is one of `texts`.
pub(super) fn text(
    field: TextField,
    texts: &[Box<str>],
    dissected: &DissectedFrame<'_>,
    level: Level,
) -> bool {
    let value = match field {
        TextField::HttpMethod => dissected.http(level).and_then(|http| http.method),
        TextField::SipMethod => dissected.sip(level).and_then(|sip| sip.method),
        TextField::SipFrom => dissected.sip(level).and_then(|sip| sip.from).and_then(Address::uri),
        TextField::SipTo => dissected.sip(level).and_then(|sip| sip.to).and_then(Address::uri),
        TextField::SipVia => dissected.sip(level).and_then(|sip| sip.via_host()),
        TextField::SipCallId => dissected.sip(level).and_then(|sip| sip.call_id),
    };
    value.is_some_and(|value| texts.iter().any(|text| text.as_bytes() == value))
}

/// True if the frame has the field, and one of `patterns` means it.
pub(super) fn host(
    field: HostField,
    patterns: &[HostPattern],
    dissected: &DissectedFrame<'_>,
    level: Level,
) -> bool {
    let name = match field {
        HostField::HttpHost => dissected.http(level).and_then(|http| http.host),
        HostField::DnsQname => dissected.dns_name(level),
        HostField::TlsSni => dissected.tls_name(level),
    };
    let Some(name) = name else { return false };
    // `example.com.` is the same name, said in full.
    let name = name.strip_suffix(b".").unwrap_or(name);
    patterns.iter().any(|pattern| means(pattern, name))
}

fn means(pattern: &HostPattern, name: &[u8]) -> bool {
    match pattern {
        HostPattern::Exact(whole) => name.eq_ignore_ascii_case(whole.as_bytes()),
        HostPattern::Below(end) => {
            let Some(dot) = name.len().checked_sub(end.len() + 1) else { return false };
            let (below, rest) = name.split_at(dot);
            let is_dot = rest.first() == Some(&b'.') && !ends_in_escape(below);
            let is_end = rest.get(1..).is_some_and(|r| r.eq_ignore_ascii_case(end.as_bytes()));
            !below.is_empty() && is_dot && is_end
        }
    }
}

/// True if a backslash escapes what follows `text`: a dot within a label is written `\.`, and a
/// backslash `\\`.
fn ends_in_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_a_name() {
        let below = HostPattern::Below("example.com".into());
        for (name, expected) in [
            ("www.example.com", true),
            ("a.b.Example.COM", true),
            ("example.com", false),
            (".example.com", false),
            ("badexample.com", false),
            ("www.example.org", false),
            (r"a\.example.com", false),
            (r"a\\.example.com", true),
            ("com", false),
            ("", false),
        ] {
            assert_eq!(means(&below, name.as_bytes()), expected, "{name}");
        }
        let exact = HostPattern::Exact("example.com".into());
        assert!(means(&exact, b"EXAMPLE.com") && !means(&exact, b"www.example.com"));
    }
}
