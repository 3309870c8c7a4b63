//! One value set for each field of the table.

use crate::key::{NO_PORT, NO_PROTOCOL};
use crate::language::{AddressSet, Ordinal, Ranges, Side, Span};
use crate::table::{self, AddressPrefix, Cube, Space};
use ringside_wire::{IpProtocol, Port};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Values of one field of a cell, prefixes or spans. More take more rows of the table than they
/// save questions; and a rule's text can make hundreds of thousands.
const VALUES_MAX: usize = 256;

/// Lengths to which prefixes of address files are shortened, of IPv4 and IPv6, until they are few.
const OUTLINES: [(u32, u32); 6] = [(28, 64), (24, 56), (20, 48), (16, 40), (12, 32), (8, 20)];

/// A set of values for each field; a field without one takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    sources: Option<AddressCover>,
    destinations: Option<AddressCover>,
    source_ports: Option<Ranges<u32>>,
    destination_ports: Option<Ranges<u32>>,
    protocols: Option<Ranges<u32>>,
}

/// Addresses, and whether a frame without any is among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressCover {
    v4: Ranges<Ipv4Addr>,
    v6: Ranges<Ipv6Addr>,
    has_none: bool,
}

impl Cell {
    pub(super) fn of_addresses(side: Side, cover: &AddressCover, is_negated: bool) -> Cell {
        let cover = if is_negated { cover.complement() } else { cover.clone() };
        match side {
            Side::Destination => Cell { destinations: Some(cover), ..Cell::default() },
            _ => Cell { sources: Some(cover), ..Cell::default() },
        }
    }

    pub(super) fn of_ports(side: Side, ports: &Ranges<Port>, is_negated: bool) -> Cell {
        let ports = numbers(ports, |port| port.0.into(), is_negated, NO_PORT);
        match side {
            Side::Destination => Cell { destination_ports: Some(ports), ..Cell::default() },
            _ => Cell { source_ports: Some(ports), ..Cell::default() },
        }
    }

    pub(super) fn of_protocols(protocols: &Ranges<IpProtocol>, is_negated: bool) -> Cell {
        let protocols = numbers(protocols, |protocol| protocol.0.into(), is_negated, NO_PROTOCOL);
        Cell { protocols: Some(protocols), ..Cell::default() }
    }

    pub(super) fn of_protocol(protocols: &[IpProtocol]) -> Cell {
        let spans = protocols.iter().map(|&protocol| Span::single(protocol));
        Cell::of_protocols(&Ranges::new(spans.collect()), false)
    }

    /// True if a field has no value.
    pub(super) fn is_empty(&self) -> bool {
        let addresses = |cover: &Option<AddressCover>| {
            cover.as_ref().is_some_and(|c| c.v4.is_empty() && c.v6.is_empty() && !c.has_none)
        };
        let numbers = |set: &Option<Ranges<u32>>| set.as_ref().is_some_and(Ranges::is_empty);
        addresses(&self.sources)
            || addresses(&self.destinations)
            || numbers(&self.source_ports)
            || numbers(&self.destination_ports)
            || numbers(&self.protocols)
    }

    pub(super) fn and(&self, other: &Cell) -> Cell {
        let addresses = |a, b| both(a, b, AddressCover::and);
        let numbers = |a, b| both(a, b, intersection);
        Cell {
            sources: addresses(&self.sources, &other.sources),
            destinations: addresses(&self.destinations, &other.destinations),
            source_ports: numbers(&self.source_ports, &other.source_ports),
            destination_ports: numbers(&self.destination_ports, &other.destination_ports),
            protocols: numbers(&self.protocols, &other.protocols),
        }
    }

    /// Takes another cell in, if both differ in one field alone. False if they differ in more.
    pub(super) fn take_in(&mut self, other: &Cell) -> bool {
        let differs = [
            self.sources != other.sources,
            self.destinations != other.destinations,
            self.source_ports != other.source_ports,
            self.destination_ports != other.destination_ports,
            self.protocols != other.protocols,
        ];
        match differs {
            [false, false, false, false, false] => {}
            [true, false, false, false, false] => {
                self.sources = either(&self.sources, &other.sources, AddressCover::or);
            }
            [false, true, false, false, false] => {
                self.destinations =
                    either(&self.destinations, &other.destinations, AddressCover::or);
            }
            [false, false, true, false, false] => {
                self.source_ports = either(&self.source_ports, &other.source_ports, union);
            }
            [false, false, false, true, false] => {
                self.destination_ports =
                    either(&self.destination_ports, &other.destination_ports, union);
            }
            [false, false, false, false, true] => {
                self.protocols = either(&self.protocols, &other.protocols, union);
            }
            _ => return false,
        }
        true
    }

    /// The cube, and whether it is the cell: a field of too many values takes all.
    pub(super) fn cube(&self) -> (Cube, bool) {
        let mut is_exact = true;
        let mut prefixes = |cover: &Option<AddressCover>| {
            let listed = cover.as_ref().and_then(AddressCover::prefixes);
            is_exact &= cover.is_none() || listed.is_some();
            listed.unwrap_or_else(|| AddressPrefix::ANY.to_vec())
        };
        let (sources, destinations) = (prefixes(&self.sources), prefixes(&self.destinations));
        let mut spans = |set: &Option<Ranges<u32>>, last: u32| match set {
            Some(set) if set.span_count() <= VALUES_MAX => set
                .iter()
                .map(|span| table::Span { first: span.first(), last: span.last() })
                .collect(),
            other => {
                is_exact &= other.is_none();
                vec![table::Span { first: 0, last }]
            }
        };
        let cube = Cube {
            sources,
            destinations,
            source_ports: spans(&self.source_ports, NO_PORT),
            destination_ports: spans(&self.destination_ports, NO_PORT),
            protocols: spans(&self.protocols, NO_PROTOCOL),
        };
        (cube, is_exact)
    }
}

impl AddressCover {
    pub(super) fn v4() -> AddressCover {
        AddressCover { v4: Ranges::all(), v6: Ranges::default(), has_none: false }
    }

    pub(super) fn v6() -> AddressCover {
        AddressCover { v4: Ranges::default(), v6: Ranges::all(), has_none: false }
    }

    /// The addresses of a list; none if it, or what is not in it, takes too many prefixes.
    pub(super) fn of(set: &AddressSet) -> Option<AddressCover> {
        let cover = AddressCover { v4: set.v4.clone(), v6: set.v6.clone(), has_none: false };
        let fits = cover.prefixes().is_some() && cover.complement().prefixes().is_some();
        fits.then_some(cover)
    }

    /// Prefixes that have all addresses of some sets, as long ones as are not too many; none if
    /// the longest that are few enough say nothing.
    pub(super) fn outline<'s>(sets: impl Iterator<Item = &'s AddressSet>) -> Option<AddressCover> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for set in sets {
            v4.extend(set.v4.iter().copied());
            v6.extend(set.v6.iter().copied());
        }
        let mut cover = AddressCover { v4: Ranges::new(v4), v6: Ranges::new(v6), has_none: false };
        for (v4_bits, v6_bits) in OUTLINES {
            if cover.prefixes().is_some() {
                break;
            }
            let (host4, host6) = (u32::MAX >> v4_bits, u128::MAX >> v6_bits);
            let widened = cover.v4.iter().filter_map(|span| {
                let [first, last] = [span.first(), span.last()].map(Ipv4Addr::to_bits);
                Span::new(Ipv4Addr::from(first & !host4), Ipv4Addr::from(last | host4))
            });
            let v4 = Ranges::new(widened.collect());
            let widened = cover.v6.iter().filter_map(|span| {
                let [first, last] = [span.first(), span.last()].map(Ipv6Addr::to_bits);
                Span::new(Ipv6Addr::from(first & !host6), Ipv6Addr::from(last | host6))
            });
            cover = AddressCover { v4, v6: Ranges::new(widened.collect()), has_none: false };
        }
        cover.prefixes().is_some().then_some(cover)
    }

    pub(super) fn complement(&self) -> AddressCover {
        let before4 = |address: Ipv4Addr| address.to_bits().checked_sub(1).map(Ipv4Addr::from_bits);
        let before6 = |address: Ipv6Addr| address.to_bits().checked_sub(1).map(Ipv6Addr::from_bits);
        AddressCover {
            v4: complement(&self.v4, before4),
            v6: complement(&self.v6, before6),
            has_none: !self.has_none,
        }
    }

    fn and(&self, other: &AddressCover) -> AddressCover {
        AddressCover {
            v4: intersection(&self.v4, &other.v4),
            v6: intersection(&self.v6, &other.v6),
            has_none: self.has_none && other.has_none,
        }
    }

    fn or(&self, other: &AddressCover) -> AddressCover {
        AddressCover {
            v4: union(&self.v4, &other.v4),
            v6: union(&self.v6, &other.v6),
            has_none: self.has_none || other.has_none,
        }
    }

    /// The prefixes that make it up; none if they are too many.
    fn prefixes(&self) -> Option<Vec<AddressPrefix>> {
        // Each span takes one at least, and at most 254.
        if self.v4.span_count() + self.v6.span_count() > VALUES_MAX {
            return None;
        }
        let mut prefixes = Vec::new();
        for span in &self.v4 {
            let [first, last] = [span.first(), span.last()].map(|a| u128::from(a.to_bits()) << 96);
            split(Space::V4, first, last | ((1 << 96) - 1), &mut prefixes);
        }
        for span in &self.v6 {
            split(Space::V6, span.first().to_bits(), span.last().to_bits(), &mut prefixes);
        }
        if self.has_none {
            prefixes.push(AddressPrefix { space: Space::None, bits: 0, length: 0 });
        }
        (prefixes.len() <= VALUES_MAX).then_some(prefixes)
    }
}

/// The fewest prefixes that make up the addresses from `first` to `last`, both 128 bits wide.
fn split(space: Space, first: u128, last: u128, prefixes: &mut Vec<AddressPrefix>) {
    let mut at = first;
    loop {
        // The longest run that begins here with a border and does not pass the end.
        let aligned = at.trailing_zeros().min(128);
        let left = last - at;
        let fits = match left.checked_add(1) {
            Some(count) => 127 - count.leading_zeros(),
            None => 128,
        };
        let host_bits = aligned.min(fits);
        prefixes.push(AddressPrefix { space, bits: at, length: (128 - host_bits) as u8 });
        let size = 1u128.checked_shl(host_bits).unwrap_or(0);
        match at.checked_add(size) {
            Some(next) if size != 0 && next <= last => at = next,
            _ => return,
        }
    }
}

/// A field of both cells; one that takes all gives the other.
fn both<T: Clone>(a: &Option<T>, b: &Option<T>, and: impl Fn(&T, &T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(and(a, b)),
        (one, None) | (None, one) => one.clone(),
    }
}

/// A field of one of both cells; one that takes all stays so.
fn either<T>(a: &Option<T>, b: &Option<T>, or: impl Fn(&T, &T) -> T) -> Option<T> {
    Some(or(a.as_ref()?, b.as_ref()?))
}

fn union<T: Ordinal>(a: &Ranges<T>, b: &Ranges<T>) -> Ranges<T> {
    Ranges::new(a.iter().chain(b).copied().collect())
}

fn intersection<T: Ordinal>(a: &Ranges<T>, b: &Ranges<T>) -> Ranges<T> {
    let (mut spans, mut ours, mut theirs) = (Vec::new(), a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (ours.peek(), theirs.peek()) {
        spans.extend(Span::new(x.first().max(y.first()), x.last().min(y.last())));
        if x.last() <= y.last() {
            ours.next();
        } else {
            theirs.next();
        }
    }
    Ranges::new(spans)
}

/// The values that are not in a set; `before` gives the value before one.
fn complement<T: Ordinal>(set: &Ranges<T>, before: impl Fn(T) -> Option<T>) -> Ranges<T> {
    let mut spans = Vec::new();
    let mut start = Some(T::FIRST);
    for span in set {
        spans.extend(start.zip(before(span.first())).and_then(|(a, b)| Span::new(a, b)));
        start = span.last().after();
    }
    spans.extend(start.and_then(|start| Span::new(start, T::LAST)));
    Ranges::new(spans)
}

/// A set as numbers from 0 to `last`, which stands for a frame without the field: it is in what is
/// negated alone.
fn numbers<T: Ordinal>(
    set: &Ranges<T>,
    number: impl Fn(T) -> u32,
    is_negated: bool,
    last: u32,
) -> Ranges<u32> {
    let span = |span: &Span<T>| Span::new(number(span.first()), number(span.last()));
    let set = Ranges::new(set.iter().filter_map(span).collect());
    if !is_negated {
        return set;
    }
    let every = Ranges::new(Span::new(0, last).into_iter().collect());
    intersection(&complement(&set, |value| value.checked_sub(1)), &every)
}
