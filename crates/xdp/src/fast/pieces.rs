//! What a rule asks, in pieces of which the fast path knows each by one look.

use super::prefixes::Prefix;
use ringside_rules::cover::Cover;
use ringside_rules::key::{NO_PORT, NO_PROTOCOL};
use ringside_rules::language::{Addresses, Expression, Match, Side, Term};
use ringside_rules::table::{AddressPrefix, Cube, Space, Span};
use ringside_wire::IpProtocol;
use std::ops::RangeInclusive;

/// IPv4, and IPv6.
pub(super) const VERSIONS: usize = 2;

/// A frame that has one of these matches.
#[derive(Debug)]
pub(super) enum Piece {
    /// A protocol, above these versions of IP.
    Protocols { versions: [bool; VERSIONS], spans: Vec<RangeInclusive<u32>> },
    /// A port: 0 of TCP the source, 1 the destination, 2 and 3 of UDP.
    Ports { kind: usize, spans: Vec<RangeInclusive<u32>> },
    /// A source address (0), or a destination (1). Those of IPv6 are not in it.
    Prefixes { side: usize, v4: Vec<Prefix>, some_v6: bool },
}

/// The pieces of a match; none if it asks for several things at once, or for others than these.
pub(super) fn pieces_of(matches: &Match) -> Option<Vec<Piece>> {
    // Long lists and files are not in a cover.
    if let Expression::Term(Term::Ip(side, addresses)) = &matches.expression {
        let side = if matches.bidirectional { Side::Either } else { *side };
        return Some(pieces_of_addresses(side, addresses));
    }
    let cover = Cover::of(matches);
    if !cover.is_exact {
        return None;
    }
    let pieces: Option<Vec<Vec<Piece>>> = cover.cubes.iter().map(pieces_of_cube).collect();
    Some(pieces?.into_iter().flatten().collect())
}

fn pieces_of_addresses(side: Side, addresses: &Addresses) -> Vec<Piece> {
    let files = addresses.files.iter().map(|file| &file.addresses);
    let (mut v4, mut some_v6) = (Vec::new(), false);
    for set in files.chain([&addresses.listed]) {
        some_v6 |= !set.v6.is_empty();
        for span in &set.v4 {
            Prefix::split(span.first().to_bits(), span.last().to_bits(), &mut v4);
        }
    }
    let sides = match side {
        Side::Either => [true, true],
        Side::Source => [true, false],
        Side::Destination => [false, true],
    };
    let sides = (0..sides.len()).filter(|at| sides[*at]);
    sides.map(|side| Piece::Prefixes { side, v4: v4.clone(), some_v6 }).collect()
}

fn pieces_of_cube(cube: &Cube) -> Option<Vec<Piece>> {
    let sides = [&cube.sources, &cube.destinations];
    let ports = [&cube.source_ports, &cube.destination_ports];
    let all_addresses = sides.map(|list| *list == AddressPrefix::ANY);
    let all_ports = ports.map(|spans| **spans == [Span { first: 0, last: NO_PORT }]);
    let all_protocols = cube.protocols == [Span { first: 0, last: NO_PROTOCOL }];
    match (all_addresses, all_ports) {
        ([true, true], [true, true]) => Some(vec![protocols([true; VERSIONS], &cube.protocols)]),
        ([false, true], [true, true]) => addresses(0, sides[0], cube, all_protocols),
        ([true, false], [true, true]) => addresses(1, sides[1], cube, all_protocols),
        ([true, true], [false, true]) => pieces_of_ports(0, ports[0], &cube.protocols),
        ([true, true], [true, false]) => pieces_of_ports(1, ports[1], &cube.protocols),
        _ => None,
    }
}

fn protocols(versions: [bool; VERSIONS], spans: &[Span]) -> Piece {
    // Beyond them is what has no IP.
    let spans = spans.iter().filter(|span| span.first < NO_PROTOCOL);
    let spans = spans.map(|span| span.first..=span.last.min(NO_PROTOCOL - 1));
    Piece::Protocols { versions, spans: spans.collect() }
}

/// Addresses alone, or a version with its protocols.
fn addresses(
    side: usize,
    list: &[AddressPrefix],
    cube: &Cube,
    all_protocols: bool,
) -> Option<Vec<Piece>> {
    let of = |space: Space| list.iter().filter(move |prefix| prefix.space == space);
    let whole = [Space::V4, Space::V6].map(|space| of(space).any(|prefix| prefix.length == 0));
    let is_part = |at: usize, space: Space| !whole[at] && of(space).next().is_some();
    let (part_v4, some_v6) = (is_part(0, Space::V4), is_part(1, Space::V6));
    if !all_protocols && (part_v4 || some_v6) {
        return None;
    }
    let is_whole = whole.contains(&true);
    let mut pieces: Vec<Piece> =
        is_whole.then(|| protocols(whole, &cube.protocols)).into_iter().collect();
    if part_v4 || some_v6 {
        let short = |prefix: &AddressPrefix| Prefix {
            bits: (prefix.bits >> 96) as u32,
            length: prefix.length.into(),
        };
        let v4 = if part_v4 { of(Space::V4).map(short).collect() } else { Vec::new() };
        pieces.push(Piece::Prefixes { side, v4, some_v6 });
    }
    Some(pieces)
}

/// Ports of TCP and UDP; none if frames without a port are meant, too.
fn pieces_of_ports(side: usize, ports: &[Span], protocols: &[Span]) -> Option<Vec<Piece>> {
    if ports.iter().any(|span| span.last >= NO_PORT) {
        return None;
    }
    let spans = || ports.iter().map(|span| span.first..=span.last).collect();
    let is_meant = |protocol: IpProtocol| {
        let number = u32::from(protocol.0);
        protocols.iter().any(|span| (span.first..=span.last).contains(&number))
    };
    let kinds = [(IpProtocol::TCP, side), (IpProtocol::UDP, 2 + side)];
    let meant = kinds.into_iter().filter(|(protocol, _)| is_meant(*protocol));
    Some(meant.map(|(_, kind)| Piece::Ports { kind, spans: spans() }).collect())
}
