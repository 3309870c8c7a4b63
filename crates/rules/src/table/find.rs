//! Looking a packet up.

use super::{AddressPrefix, Cube, Found, Space, Span, Table};
use crate::key::{Key, NO_PORT, NO_PROTOCOL};
use ringside_sys::words::AtomicU64;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

impl Table {
    /// The rules that a packet matches, by rising number; parts of one follow each other. Costs
    /// little until the first.
    #[inline]
    pub fn matches(&self, key: &Key) -> Matches<'_> {
        let space = match key.version() {
            4 => Space::V4,
            6 => Space::V6,
            _ => Space::None,
        };
        let (from, to) = key.ports().unzip();
        let port = |port: Option<u16>| port.map_or(NO_PORT, u32::from);
        let protocol = key.protocol().map_or(NO_PROTOCOL, u32::from);
        // Of each word, which rules count is read before what they accept (`common`): see the
        // module. The classes are read before both: see `Spans::open`.
        let rows = [
            self.rows.live(),
            self.rows.row(self.sources.class(space, key.source_bits())),
            self.rows.row(self.destinations.class(space, key.destination_bits())),
            self.rows.row(self.destination_ports.class(port(to))),
            self.rows.row(self.source_ports.class(port(from))),
            self.rows.row(self.protocols.class(protocol)),
        ];
        Matches {
            bits_of: &self.bits,
            summaries: rows.map(|(summary, _)| summary),
            words: rows.map(|(_, words)| words),
            summary: 0,
            above: common(&rows.map(|(summary, _)| summary), 0),
            word: 0,
            bits: 0,
        }
    }
}

impl Cube {
    /// True if a packet lies in the cube: what the table says of all at once.
    pub fn accepts(&self, key: &Key) -> bool {
        let (source, destination) = key.addresses().unzip();
        let (from, to) = key.ports().unzip();
        let port = |port: Option<u16>| port.map_or(NO_PORT, u32::from);
        let protocol = key.protocol().map_or(NO_PROTOCOL, u32::from);
        let within = |spans: &[Span], value: u32| {
            spans.iter().any(|span| (span.first..=span.last).contains(&value))
        };
        let covers = |prefixes: &[AddressPrefix], address: Option<IpAddr>| {
            prefixes.iter().any(|prefix| prefix.contains(address))
        };
        covers(&self.sources, source)
            && covers(&self.destinations, destination)
            && within(&self.source_ports, port(from))
            && within(&self.destination_ports, port(to))
            && within(&self.protocols, protocol)
    }
}

/// The rules that a packet matches, by rising number.
#[derive(Debug)]
pub struct Matches<'t> {
    bits_of: &'t [AtomicU64],
    summaries: [&'t [AtomicU64]; 6],
    words: [&'t [AtomicU64]; 6],
    /// Word of the summary that `above` is left of.
    summary: usize,
    /// Words that are still to be looked at.
    above: u64,
    /// The word that `bits` are left of.
    word: usize,
    bits: u64,
}

impl Iterator for Matches<'_> {
    type Item = Found;

    #[inline]
    fn next(&mut self) -> Option<Found> {
        while self.bits == 0 {
            while self.above == 0 {
                self.summary += 1;
                if self.summary >= self.summaries[0].len() {
                    return None;
                }
                self.above = common(&self.summaries, self.summary);
            }
            self.word = self.summary * 64 + self.above.trailing_zeros() as usize;
            self.above &= self.above - 1;
            self.bits = common(&self.words, self.word);
        }
        let (found, bit) = self.lowest();
        self.bits &= !(1 << bit);
        Some(found)
    }
}

impl Matches<'_> {
    /// The lowest rule among `bits`, and its bit: words are in order, bits within a word are not.
    #[inline]
    fn lowest(&self) -> (Found, u32) {
        let mut lowest = (u64::MAX, 0);
        let mut rest = self.bits;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            let word = self.bits_of[self.word * 64 + bit as usize].load(Ordering::Acquire);
            lowest = lowest.min((word, bit));
            rest &= rest - 1;
        }
        (Found::of_word(lowest.0), lowest.1)
    }
}

/// The bits that all rows have at a place; the live ones are read first.
#[inline]
fn common(rows: &[&[AtomicU64]; 6], at: usize) -> u64 {
    let mut bits = u64::MAX;
    for row in rows {
        bits &= row[at].load(Ordering::Acquire);
        if bits == 0 {
            break;
        }
    }
    bits
}
