//! The shapes of many rules, in bounded memory: where they are too many they are made coarser.

use super::shape::{FIELDS, Piece, Region, Shape, word_mask};
use crate::key::{NO_PORT, NO_PROTOCOL};
use crate::table::{AddressPrefix, Cube, Space, Span};
use std::collections::BTreeSet;

/// Pieces of all shapes together. More would take more than some 30 MiB and a second while a
/// capture starts, and the program has no room for more anyway.
const PIECES_MAX: usize = 1 << 16;

/// What is left of shapes: ports and protocols, and this number of bits of addresses.
#[derive(Clone, Copy, Debug)]
struct Detail {
    has_ports: bool,
    has_protocols: bool,
    v4_bits: u8,
    v6_bits: u8,
}

/// From everything to nothing.
const DETAILS: [Detail; 6] = [
    Detail { has_ports: true, has_protocols: true, v4_bits: 32, v6_bits: 128 },
    Detail { has_ports: false, has_protocols: true, v4_bits: 32, v6_bits: 128 },
    Detail { has_ports: false, has_protocols: true, v4_bits: 24, v6_bits: 48 },
    Detail { has_ports: false, has_protocols: true, v4_bits: 16, v6_bits: 32 },
    Detail { has_ports: false, has_protocols: true, v4_bits: 8, v6_bits: 16 },
    Detail { has_ports: false, has_protocols: false, v4_bits: 0, v6_bits: 0 },
];

/// What rules accept.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) v4: BTreeSet<Shape>,
    pub(super) v6: BTreeSet<Shape>,
    /// Packets that are not IP.
    pub(super) others: bool,
    pieces: usize,
    /// Which of [`DETAILS`] there is.
    detail: usize,
}

impl Gathered {
    /// Adds what a cube accepts, or more.
    pub(super) fn add(&mut self, cube: &Cube) {
        self.others |= accepts_others(cube);
        for space in [Space::V4, Space::V6] {
            if let Some(shape) = Shape::of(cube, space) {
                self.insert(space, &shape);
            }
        }
        while self.pieces > PIECES_MAX && self.detail + 1 < DETAILS.len() {
            self.detail += 1;
            self.pieces = 0;
            for space in [Space::V4, Space::V6] {
                for shape in std::mem::take(self.shapes(space)) {
                    self.insert(space, &shape);
                }
            }
        }
    }

    fn insert(&mut self, space: Space, shape: &Shape) {
        let shape = coarser(shape, space, DETAILS[self.detail]);
        let pieces = shape.piece_count();
        if self.shapes(space).insert(shape) {
            self.pieces += pieces + 1;
        }
    }

    fn shapes(&mut self, space: Space) -> &mut BTreeSet<Shape> {
        if space == Space::V4 { &mut self.v4 } else { &mut self.v6 }
    }
}

/// True if a cube accepts packets that are not IP.
pub(super) fn accepts_others(cube: &Cube) -> bool {
    let none = |prefixes: &[AddressPrefix]| prefixes.iter().any(|p| p.contains(None));
    let has = |spans: &[Span], value| spans.iter().any(|s| (s.first..=s.last).contains(&value));
    none(&cube.sources)
        && none(&cube.destinations)
        && has(&cube.source_ports, NO_PORT)
        && has(&cube.destination_ports, NO_PORT)
        && has(&cube.protocols, NO_PROTOCOL)
}

/// A shape that accepts the same or more.
fn coarser(shape: &Shape, space: Space, detail: Detail) -> Shape {
    let bits = if space == Space::V4 { detail.v4_bits } else { detail.v6_bits };
    let mut fields = shape.fields.clone().map(|field| field.map(|pieces| pieces.to_vec()));
    for (field, words) in fields.iter_mut().zip(FIELDS) {
        match words.len() {
            1 if words == FIELDS[4] => *field = field.take().filter(|_| detail.has_protocols),
            1 => *field = field.take().filter(|_| detail.has_ports),
            _ => field.iter_mut().for_each(|pieces| widen(pieces, bits)),
        }
    }
    // It has at least what it had.
    Shape::new(fields, &Region::of(space)).unwrap_or_else(|| shape.clone())
}

fn widen(pieces: &mut Vec<Piece>, bits: u8) {
    for (word, span) in pieces.iter_mut().flat_map(|piece| piece.iter_mut().enumerate()) {
        let mask = word_mask(bits, word);
        *span = Span { first: span.first & mask, last: span.last | !mask };
    }
    pieces.sort_unstable();
    pieces.dedup();
}
