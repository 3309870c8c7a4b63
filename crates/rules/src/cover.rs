//! What a match asks of addresses, ports and protocol, as cubes of the [`table`](crate::table): a
//! frame that matches lies in one of them. The other terms are not in it, so that a frame in a cube
//! must still be asked, unless the cover is exact.
//!
//! Negations are pushed down to the terms, `and` multiplies cells and `or` adds them. Where that
//! would take too many, a part is left out: the cover grows, and is no longer exact.

mod cell;

use crate::language::{Expression, IpVersion, Match, Side, Term};
use crate::table::Cube;
use cell::{AddressCover, Cell};
use ringside_wire::IpProtocol;

/// Cells of one rule. An address without a side takes two, and `bidir` doubles them.
const CELLS_MAX: usize = 16;

/// The cubes of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The frames of the match lie in these; they may overlap. None if no frame can match.
    pub cubes: Vec<Cube>,
    /// True if every frame of the cubes matches.
    pub is_exact: bool,
}

/// Whether addresses in files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    /// No: they may be any address.
    Unread,
    /// Yes: as prefixes that contain all of them, and perhaps others.
    Outlined,
}

impl Cover {
    /// The cover of a match. Addresses in files are not in it: tables would take a row for each
    /// prefix, and a lookup in a set of its own is faster.
    pub fn of(matches: &Match) -> Cover {
        Cover::made(matches, Files::Unread)
    }

    /// As [`of`](Cover::of), and narrower where a match names address files: by prefixes that have
    /// all of their addresses.
    pub fn with_files(matches: &Match) -> Cover {
        Cover::made(matches, Files::Outlined)
    }

    fn made(matches: &Match, files: Files) -> Cover {
        let mut cells = cells_of(&matches.expression, false, files);
        if matches.bidirectional {
            cells = cells.or(cells_of(&matches.expression.exchanged(), false, files));
        }
        let cubes = cells.list.iter().filter(|cell| !cell.is_empty()).map(Cell::cube);
        let (cubes, exact): (Vec<Cube>, Vec<bool>) = cubes.unzip();
        Cover { cubes, is_exact: cells.is_exact && !exact.contains(&false) }
    }
}

/// The cells in one of which an expression's frames lie.
#[derive(Debug)]
struct Cells {
    list: Vec<Cell>,
    is_exact: bool,
}

impl Cells {
    fn one(cell: Cell) -> Cells {
        Cells { list: vec![cell], is_exact: true }
    }

    fn none() -> Cells {
        Cells { list: Vec::new(), is_exact: true }
    }

    fn everything() -> Cells {
        Cells::one(Cell::default())
    }

    /// The same, of a term that asks for more than cells can say.
    fn at_most(mut self) -> Cells {
        self.is_exact = false;
        self
    }

    fn and(self, other: Cells) -> Cells {
        if self.list.len() * other.list.len() > CELLS_MAX {
            // Either alone covers both.
            let fewer = if self.list.len() <= other.list.len() { self } else { other };
            return fewer.at_most();
        }
        let is_exact = self.is_exact && other.is_exact;
        let pairs = self.list.iter().flat_map(|a| other.list.iter().map(|b| a.and(b)));
        Cells { list: pairs.filter(|cell| !cell.is_empty()).collect(), is_exact }
    }

    fn or(mut self, other: Cells) -> Cells {
        self.is_exact &= other.is_exact;
        for cell in other.list {
            if !self.list.iter_mut().any(|mine| mine.take_in(&cell)) {
                self.list.push(cell);
            }
        }
        if self.list.len() > CELLS_MAX {
            return Cells::everything().at_most();
        }
        self
    }
}

/// The cells of an expression, or of its negation. The depth is that of the expression, which the
/// language bounds.
fn cells_of(expression: &Expression, is_negated: bool, files: Files) -> Cells {
    let all = |parts: &[Expression]| {
        let cells = parts.iter().map(|part| cells_of(part, is_negated, files));
        cells.fold(Cells::everything(), Cells::and)
    };
    let any = |parts: &[Expression]| {
        let cells = parts.iter().map(|part| cells_of(part, is_negated, files));
        cells.fold(Cells::none(), Cells::or)
    };
    match expression {
        Expression::Term(term) => cells_of_term(term, is_negated, files),
        Expression::Not(inner) => cells_of(inner, !is_negated, files),
        Expression::And(parts) => {
            if is_negated {
                any(parts)
            } else {
                all(parts)
            }
        }
        Expression::Or(parts) => {
            if is_negated {
                all(parts)
            } else {
                any(parts)
            }
        }
        Expression::Inner(_) => Cells::everything().at_most(),
    }
}

fn cells_of_term(term: &Term, is_negated: bool, files: Files) -> Cells {
    match term {
        Term::Any if is_negated => Cells::none(),
        Term::Any => Cells::everything(),
        Term::IpVersion(version) => {
            let space = match version {
                IpVersion::V4 => AddressCover::v4(),
                IpVersion::V6 => AddressCover::v6(),
            };
            Cells::one(Cell::of_addresses(Side::Source, &space, is_negated))
        }
        Term::Protocol(protocols) => Cells::one(Cell::of_protocols(protocols, is_negated)),
        Term::Ip(side, addresses) if addresses.files.is_empty() => {
            match AddressCover::of(&addresses.listed) {
                Some(cover) => {
                    on_sides(*side, is_negated, |side| Cell::of_addresses(side, &cover, is_negated))
                }
                None => Cells::everything().at_most(),
            }
        }
        Term::Port(side, ports) => {
            on_sides(*side, is_negated, |side| Cell::of_ports(side, ports, is_negated))
        }
        _ if is_negated => Cells::everything().at_most(),
        Term::Ip(side, addresses) if files == Files::Outlined => {
            let in_files = addresses.files.iter().map(|file| &file.addresses);
            match AddressCover::outline(in_files.chain([&addresses.listed])) {
                Some(cover) => {
                    on_sides(*side, false, |side| Cell::of_addresses(side, &cover, false)).at_most()
                }
                None => Cells::everything().at_most(),
            }
        }
        Term::TcpFlags(_) => Cells::one(Cell::of_protocol(&[IpProtocol::TCP])).at_most(),
        Term::Text(..) | Term::Host(..) | Term::HttpStatus(_) => {
            Cells::one(Cell::of_protocol(&[IpProtocol::TCP, IpProtocol::UDP])).at_most()
        }
        _ => Cells::everything().at_most(),
    }
}

/// Either side is one or the other, and its negation neither.
fn on_sides(side: Side, is_negated: bool, cell: impl Fn(Side) -> Cell) -> Cells {
    let [source, destination] =
        [Side::Source, Side::Destination].map(|side| Cells::one(cell(side)));
    match side {
        Side::Source => source,
        Side::Destination => destination,
        Side::Either if is_negated => source.and(destination),
        Side::Either => source.or(destination),
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
