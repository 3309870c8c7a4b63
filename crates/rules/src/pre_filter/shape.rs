//! What rules accept of the packets of one version of IP: products of spans of words.
//!
//! A packet is eleven words of 32 bits: four of each address (of IPv4 the first alone), both ports,
//! and the protocol. A *region* has a span of each; a *shape* is what a rule accepts of a region,
//! field by field, and every prefix is a box of words.

use crate::key::NO_PORT;
use crate::table::{AddressPrefix, Cube, Space, Span};
use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

/// Words of a packet, in the order in which the program keeps them.
pub(super) const WORDS: usize = 11;
/// The first word of the source address.
pub(super) const SOURCE: usize = 0;
/// The first word of the destination address.
pub(super) const DESTINATION: usize = 4;
/// The source port; [`NO_PORT`] where there is none.
pub(super) const SOURCE_PORT: usize = 8;
/// The destination port.
pub(super) const DESTINATION_PORT: usize = 9;
/// The field of the protocol.
pub(super) const PROTOCOL: usize = 10;

/// The words of each field.
pub(super) const FIELDS: [Range<usize>; 5] = [
    SOURCE..DESTINATION,
    DESTINATION..SOURCE_PORT,
    SOURCE_PORT..DESTINATION_PORT,
    DESTINATION_PORT..PROTOCOL,
    PROTOCOL..WORDS,
];

/// At most this number of shapes is compared with each other, which is quadratic.
const COMPARED_MAX: usize = 64;

/// Every value of a word.
const ALL: Span = Span { first: 0, last: u32::MAX };
/// The only value of a word that there is not.
const ZERO: Span = Span { first: 0, last: 0 };

/// A span of each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Region(pub(super) [Span; WORDS]);

impl Region {
    /// All packets of a version of IP.
    pub(super) fn of(space: Space) -> Region {
        let further = if space == Space::V6 { ALL } else { ZERO };
        let mut words = [further; WORDS];
        (words[SOURCE], words[DESTINATION]) = (ALL, ALL);
        for word in [SOURCE_PORT, DESTINATION_PORT] {
            words[word] = Span { first: 0, last: NO_PORT };
        }
        words[PROTOCOL] = Span { first: 0, last: u8::MAX.into() };
        Region(words)
    }

    /// The part where a word is in `span`, if there is one.
    pub(super) fn with(mut self, word: usize, span: Span) -> Option<Region> {
        self.0[word] = both(self.0[word], span)?;
        Some(self)
    }
}

/// A box of the words of one field; those that a field does not have are not looked at.
pub(super) type Piece = [Span; 4];

/// What a rule accepts of a region: in each field one of some pieces, or everything that the region
/// has of it. No piece of a field has everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shape {
    pub(super) fields: [Option<Rc<[Piece]>>; 5],
}

impl Shape {
    /// What a cube accepts of the packets of a version of IP; `None` for nothing.
    pub(super) fn of(cube: &Cube, space: Space) -> Option<Shape> {
        let addresses = |prefixes: &[AddressPrefix]| {
            let own = prefixes.iter().filter(|prefix| prefix.space == space);
            own.map(prefix_box).collect::<Vec<Piece>>()
        };
        let spans = |spans: &[Span]| spans.iter().map(|&span| [span, ZERO, ZERO, ZERO]).collect();
        let fields = [
            addresses(&cube.sources),
            addresses(&cube.destinations),
            spans(&cube.source_ports),
            spans(&cube.destination_ports),
            spans(&cube.protocols),
        ];
        Shape::new(fields.map(Some), &Region::of(space))
    }

    /// A shape of these pieces, as far as they lie in a region; `None` for nothing.
    pub(super) fn new(pieces: [Option<Vec<Piece>>; 5], region: &Region) -> Option<Shape> {
        let mut fields = [const { None }; 5];
        for ((field, pieces), words) in fields.iter_mut().zip(pieces).zip(FIELDS) {
            let Some(pieces) = pieces else { continue };
            *field = within(pieces.into_iter(), &region.0[words])?;
        }
        Some(Shape { fields })
    }

    /// True if it accepts the whole region.
    pub(super) fn is_all(&self) -> bool {
        self.fields.iter().all(Option::is_none)
    }

    /// The part in a region that is smaller than its own in one word.
    pub(super) fn part(&self, word: usize, region: &Region) -> Option<Shape> {
        let field = field_of(word);
        let Some(pieces) = &self.fields[field] else { return Some(self.clone()) };
        let mut shape = self.clone();
        shape.fields[field] = within(pieces.iter().copied(), &region.0[FIELDS[field].clone()])?;
        Some(shape)
    }

    /// True if it has something where a word is in `span`.
    pub(super) fn meets(&self, word: usize, span: Span) -> bool {
        let field = field_of(word);
        self.fields[field].as_ref().is_none_or(|pieces| {
            let at = word - FIELDS[field].start;
            pieces.iter().any(|piece| both(piece[at], span).is_some())
        })
    }

    /// The lowest and highest value of a word that it accepts, in a region.
    pub(super) fn bounds(&self, word: usize, region: &Region) -> Span {
        let field = field_of(word);
        let Some(pieces) = &self.fields[field] else { return region.0[word] };
        let at = word - FIELDS[field].start;
        let spans = pieces.iter().map(|piece| piece[at]);
        spans.reduce(hull).unwrap_or(region.0[word])
    }

    /// True if another shape of the same region accepts all that this one does; false may also mean
    /// that it takes several pieces of the other.
    pub(super) fn is_in(&self, other: &Shape) -> bool {
        self.fields.iter().zip(&other.fields).zip(FIELDS).all(|((mine, theirs), words)| {
            let Some(theirs) = theirs else { return true };
            let Some(mine) = mine else { return false };
            let is_in = |piece: &Piece| theirs.iter().any(|it| covers(it, &piece[..words.len()]));
            mine.iter().all(is_in)
        })
    }

    /// How many pieces it has.
    pub(super) fn piece_count(&self) -> usize {
        self.fields.iter().flatten().map(|pieces| pieces.len()).sum()
    }
}

/// What shapes of the same region accept together: those that others accept too are left out,
/// unless they are too many to be compared.
pub(super) fn without_repeats(shapes: Vec<Shape>) -> Vec<Shape> {
    if shapes.len() > COMPARED_MAX {
        let mut seen = HashSet::new();
        return shapes.into_iter().filter(|shape| seen.insert(shape.clone())).collect();
    }
    let mut kept: Vec<Shape> = Vec::new();
    for shape in shapes {
        if !kept.iter().any(|other| shape.is_in(other)) {
            kept.retain(|other| !other.is_in(&shape));
            kept.push(shape);
        }
    }
    kept
}

/// The field of a word.
pub(super) fn field_of(word: usize) -> usize {
    FIELDS.iter().position(|words| words.contains(&word)).unwrap_or_default()
}

/// The values of both spans.
pub(super) fn both(a: Span, b: Span) -> Option<Span> {
    let (first, last) = (a.first.max(b.first), a.last.min(b.last));
    (first <= last).then_some(Span { first, last })
}

/// The values of a span and those between it and another.
pub(super) fn hull(a: Span, b: Span) -> Span {
    Span { first: a.first.min(b.first), last: a.last.max(b.last) }
}

fn covers(piece: &Piece, spans: &[Span]) -> bool {
    spans.iter().zip(piece).all(|(span, mine)| mine.first <= span.first && span.last <= mine.last)
}

/// Pieces as far as they lie in the spans of their field: `Some(None)` if that is all of it, `None`
/// if it is nothing.
#[allow(clippy::option_option, reason = "a field of everything is no list")]
fn within(pieces: impl Iterator<Item = Piece>, spans: &[Span]) -> Option<Option<Rc<[Piece]>>> {
    let inside = |mut piece: Piece| {
        for (mine, span) in piece.iter_mut().zip(spans) {
            *mine = both(*mine, *span)?;
        }
        Some(piece)
    };
    let mut inside: Vec<Piece> = pieces.filter_map(inside).collect();
    merge(&mut inside);
    if inside.iter().any(|piece| covers(piece, spans)) {
        return Some(None);
    }
    (!inside.is_empty()).then(|| Some(inside.into()))
}

/// Joins pieces that touch in one word and are alike in the others: what is not in one prefix of an
/// IPv6 address is 128 prefixes, and eight boxes.
fn merge(pieces: &mut Vec<Piece>) {
    pieces.sort_unstable();
    pieces.dedup_by(|next, last| {
        let mut differing = (0..next.len()).filter(|&word| last[word] != next[word]);
        let joint = match (differing.next(), differing.next()) {
            (None, _) => return true,
            (Some(word), None) if touch(last[word], next[word]) => word,
            _ => return covers(last, &next[..]),
        };
        last[joint] = hull(last[joint], next[joint]);
        true
    });
}

/// True if there is no value between two spans.
fn touch(a: Span, b: Span) -> bool {
    a.first <= b.last.saturating_add(1) && b.first <= a.last.saturating_add(1)
}

/// The addresses of a prefix, word by word.
fn prefix_box(prefix: &AddressPrefix) -> Piece {
    std::array::from_fn(|word| {
        let bits = (prefix.bits >> (96 - 32 * word)) as u32;
        let mask = word_mask(prefix.length, word);
        Span { first: bits & mask, last: bits | !mask }
    })
}

/// The bits of a word of an address that a prefix of `length` bits asks about.
pub(super) fn word_mask(length: u8, word: usize) -> u32 {
    let here = u32::from(length).saturating_sub(32 * word as u32).min(32);
    u32::MAX.checked_shl(32 - here).unwrap_or(0)
}
