//! Terms as text.

use super::{in_quotes, separated, word_or_quoted};
use crate::language::address_set::{Address, AddressSet, prefix_length};
use crate::language::names::{
    BASES, HOST_FIELDS, PROTOCOLS, SHORTHANDS, TCP_FLAGS, TEXT_FIELDS, name,
};
use crate::language::numbers::Numeric;
use crate::language::ranges::{Ranges, Span};
use crate::language::term::{
    Addresses, BytePattern, FlagPattern, HostPattern, IpVersion, MacPattern, PayloadPattern, Side,
    Term,
};
use ringside_wire::{IpProtocol, MacAddr};
use std::fmt::{self, Display, Formatter};

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Any => f.write_str("any"),
            Term::Vlan(ids) if ids.is_all() => f.write_str("vlan any"),
            Term::Vlan(ids) => listed("vlan ", ids, ",", f),
            Term::Mpls(labels) => listed("mpls ", labels, ",", f),
            Term::Mac(side, pattern) => write!(f, "{}mac {pattern}", side_word(*side)),
            Term::EtherType(types) => listed("ethertype ", types, ",", f),
            Term::IpVersion(IpVersion::V4) => f.write_str("ip4"),
            Term::IpVersion(IpVersion::V6) => f.write_str("ip6"),
            Term::Protocol(protocols) => match shorthand(protocols) {
                Some(name) => f.write_str(name),
                None => listed("proto ", protocols, ",", f),
            },
            Term::Ip(side, addresses) => write!(f, "{}ip {addresses}", side_word(*side)),
            Term::Port(side, ports) => {
                f.write_str(side_word(*side))?;
                listed("port ", ports, ",", f)
            }
            Term::TcpFlags(pattern) => write!(f, "tcpflags {pattern}"),
            Term::WireBytes(lengths) => listed("length ", lengths, ",", f),
            Term::Bytes(pattern) => write!(f, "bytes {pattern}"),
            Term::Filter(text) => {
                f.write_str("filter ")?;
                in_quotes(text.as_bytes(), f)
            }
            Term::Payload(pattern) => write!(f, "payload {pattern}"),
            Term::Text(field, texts) => {
                write!(f, "{} ", name(&TEXT_FIELDS, field).unwrap_or_default())?;
                separated(f, texts, "|", |text, f| word_or_quoted(text, f))
            }
            Term::Host(field, hosts) => {
                write!(f, "{} ", name(&HOST_FIELDS, field).unwrap_or_default())?;
                separated(f, hosts, "|", |host, f| host.fmt(f))
            }
            Term::HttpStatus(codes) => listed("http.status ", codes, "|", f),
        }
    }
}

fn shorthand(protocols: &Ranges<IpProtocol>) -> Option<&'static str> {
    let name = name(PROTOCOLS, &protocols.only()?)?;
    SHORTHANDS.contains(&name).then_some(name)
}

/// What stands before `mac`, `ip` and `port`.
fn side_word(side: Side) -> &'static str {
    match side {
        Side::Either => "",
        Side::Source => "src ",
        Side::Destination => "dst ",
    }
}

fn listed<T: Numeric>(
    word: &str,
    list: &Ranges<T>,
    separator: &str,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    f.write_str(word)?;
    ranges(list, separator, f)
}

/// Numbers and ranges with something between them.
pub fn ranges<T: Numeric>(list: &Ranges<T>, separator: &str, f: &mut Formatter<'_>) -> fmt::Result {
    separated(f, list, separator, |span, f| {
        let (first, last) = (span.first(), span.last());
        if first == last {
            return match name(T::NAMES, &first) {
                Some(name) => f.write_str(name),
                None => first.write(f),
            };
        }
        first.write(f)?;
        f.write_str("-")?;
        // A byte number has no highest value that means something.
        if last.number() == u32::MAX { Ok(()) } else { last.write(f) }
    })
}

impl Display for Addresses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.listed.fmt(f)?;
        let separator = if self.listed.is_empty() || self.files.is_empty() { "" } else { "," };
        f.write_str(separator)?;
        separated(f, &self.files, ",", |file, f| {
            f.write_str("@")?;
            word_or_quoted(&file.path, f)
        })
    }
}

impl Display for AddressSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        separated(f, &self.v4, ",", addresses)?;
        f.write_str(if self.v4.is_empty() || self.v6.is_empty() { "" } else { "," })?;
        separated(f, &self.v6, ",", addresses)
    }
}

/// A single address, a prefix, or a range.
fn addresses<A: Address + Display>(span: &Span<A>, f: &mut Formatter<'_>) -> fmt::Result {
    let (first, last) = (span.first(), span.last());
    match prefix_length(span) {
        _ if first == last => first.fmt(f),
        Some(length) => write!(f, "{first}/{length}"),
        None => write!(f, "{first}-{last}"),
    }
}

impl Display for MacPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.mask == MacAddr::BROADCAST { Ok(()) } else { write!(f, "/{}", self.mask) }
    }
}

impl Display for FlagPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let set = TCP_FLAGS.iter().filter(|(_, flag)| self.set.0 & flag.0 != 0);
        let clear = TCP_FLAGS.iter().filter(|(_, flag)| self.clear.0 & flag.0 != 0);
        let all = set.map(|(name, _)| ("", name)).chain(clear.map(|(name, _)| ("!", name)));
        separated(f, all, ",", |(not, name), f| write!(f, "{not}{name}"))
    }
}

impl Display for BytePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let base = name(&BASES, &self.base).unwrap_or_default();
        write!(f, "{base}+{} = ", self.offset)?;
        hex(&self.value, "", f)?;
        if self.mask.iter().all(|&byte| byte == 0xff) {
            return Ok(());
        }
        f.write_str("/")?;
        hex(&self.mask, "", f)
    }
}

impl Display for PayloadPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.ignore_case || is_text(&self.bytes) {
            in_quotes(&self.bytes, f)?;
        } else {
            f.write_str("hex \"")?;
            hex(&self.bytes, " ", f)?;
            f.write_str("\"")?;
        }
        if self.ignore_case {
            f.write_str(" nocase")?;
        }
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

/// True for what people can read with the simple escapes.
fn is_text(bytes: &[u8]) -> bool {
    let is_hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(is_hidden))
}

fn hex(bytes: &[u8], separator: &str, f: &mut Formatter<'_>) -> fmt::Result {
    separated(f, bytes, separator, |byte, f| write!(f, "{byte:02x}"))
}

impl Display for HostPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => word_or_quoted(name, f),
            // `*.` begins a plain word, and within quotation marks it means the same.
            HostPattern::Below(name) => word_or_quoted(&format!("*.{name}"), f),
        }
    }
}
