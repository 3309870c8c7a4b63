//! One term as checks.

use super::{CheckError, Checks, NotHere, SetNumbers};
use ringside_ebpf::abi::rules::{CHECK_BYTES_MAX, CHECK_SPANS_MAX, Check, CheckKind, pair};
use ringside_rules::language::{
    BytePattern, BytesBase, FlagPattern, MacPattern, Ordinal, Ranges, Side, Term,
};

/// How a term's side is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// As it says.
    There,
    /// Also the other way round: there is no other term.
    Either,
    /// The other way round too, together with others: only what has no side is the same.
    Same,
}

/// Adds the checks of a term, or of its negation.
pub(super) fn add<S: SetNumbers>(
    checks: &mut Checks,
    term: &Term,
    is_negated: bool,
    ways: Ways,
    sets: &mut S,
) -> Result<(), CheckError<S::Error>> {
    let mut list = match term {
        Term::Vlan(ids) => spans(CheckKind::Vlan, ids, |id| id.0.into(), is_negated)?,
        Term::Mpls(labels) => spans(CheckKind::Mpls, labels, |label| label.0, is_negated)?,
        Term::EtherType(types) => {
            spans(CheckKind::EtherType, types, |kind| kind.0.into(), is_negated)?
        }
        Term::WireBytes(lengths) => spans(CheckKind::Length, lengths, |bytes| bytes, is_negated)?,
        Term::TcpFlags(pattern) => vec![tcp_flags(pattern)],
        Term::Mac(side, pattern) => vec![mac(place(*side, ways)?, pattern)],
        Term::Bytes(pattern) => bytes(pattern, is_negated)?,
        Term::Ip(side, addresses) => {
            let place = place(*side, ways)?;
            let number = sets.number(addresses).map_err(CheckError::Set)?.0;
            let check = Check { place, number, ..nothing(CheckKind::Set) };
            checks.flow.push(Check { is_negated, ..check });
            return Ok(());
        }
        other => return Err(reason(other).unwrap_or(NotHere::LongList).into()),
    };
    for check in &mut list {
        check.is_negated = is_negated;
    }
    checks.frame.extend(list);
    Ok(())
}

/// Why no check answers a term, if none does.
pub(super) fn reason(term: &Term) -> Option<NotHere> {
    match term {
        Term::Payload(_) | Term::Text(..) | Term::Host(..) | Term::HttpStatus(_) => {
            Some(NotHere::Payload)
        }
        Term::Filter(_) => Some(NotHere::Filter),
        _ => None,
    }
}

fn nothing(kind: CheckKind) -> Check {
    Check { kind, is_negated: false, place: 0, count: 0, number: 0, values: [0; CHECK_SPANS_MAX] }
}

/// A list is one check; its negation may be several, since none of them may hold.
fn spans<T: Ordinal>(
    kind: CheckKind,
    ranges: &Ranges<T>,
    number: impl Fn(T) -> u32,
    is_negated: bool,
) -> Result<Vec<Check>, NotHere> {
    let all: Vec<(u32, u32)> =
        ranges.iter().map(|span| (number(span.first()), number(span.last()))).collect();
    if all.len() > CHECK_SPANS_MAX && !is_negated {
        return Err(NotHere::LongList);
    }
    Ok(all.chunks(CHECK_SPANS_MAX).filter_map(|part| Check::of_spans(kind, part)).collect())
}

fn tcp_flags(pattern: &FlagPattern) -> Check {
    let clear = pair(pattern.clear.0.into(), 0);
    Check { number: pattern.set.0.into(), values: [clear, 0, 0], ..nothing(CheckKind::TcpFlags) }
}

/// The number of a side.
fn place(side: Side, ways: Ways) -> Result<u8, NotHere> {
    let place = match side {
        Side::Either => 0,
        Side::Source => 1,
        Side::Destination => 2,
    };
    match ways {
        _ if place == 0 => Ok(0),
        Ways::There => Ok(place),
        Ways::Either => Ok(0),
        Ways::Same => Err(NotHere::BothWays),
    }
}

fn mac(place: u8, pattern: &MacPattern) -> Check {
    let word = |[a, b, c, d, e, f]: [u8; 6]| u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
    let values = [word(pattern.address.0), word(pattern.mask.0), 0];
    Check { place, values, ..nothing(CheckKind::Mac) }
}

/// As many checks as it has words.
fn bytes(pattern: &BytePattern, is_negated: bool) -> Result<Vec<Check>, NotHere> {
    if is_negated && pattern.value.len() > CHECK_BYTES_MAX {
        return Err(NotHere::LongBytes);
    }
    let place = match pattern.base {
        BytesBase::Frame => 0,
        BytesBase::Network => 1,
        BytesBase::Transport => 2,
        BytesBase::Payload => 3,
    };
    let parts =
        pattern.value.chunks(CHECK_BYTES_MAX).zip(pattern.mask.chunks(CHECK_BYTES_MAX)).zip(0u32..);
    let word = |bytes: &[u8]| {
        let mut word = [0; CHECK_BYTES_MAX];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    let check = |((value, mask), part): ((&[u8], &[u8]), u32)| Check {
        place,
        count: value.len() as u8,
        // No frame is so long that it matters where this ends.
        number: pattern.offset.saturating_add(part * CHECK_BYTES_MAX as u32),
        values: [word(value), word(mask), 0],
        ..nothing(CheckKind::Bytes)
    };
    Ok(parts.map(check).collect())
}
