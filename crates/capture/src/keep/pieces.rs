//! Lists of pieces of a frame, and how a file names them.
//!
//! A packet block has no field for which bytes it holds. A comment on each packet would be longer
//! than most pieces are, and is lost by programs that copy packets. So a list is said as pcapng
//! says a snapshot length: of an interface. Each interface is described once more for each list,
//! with the list in its description, and packets of which pieces are kept are that interface's.

use super::RulesError;
use crate::packer::Pieces;
use ringside_core::{InterfaceId, SourceInterface};
use ringside_rules::language::Ranges;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// Lists of one run: each is an interface in its files.
pub(super) const LISTS_MAX: usize = 256;

/// The lists that rules keep, each once.
#[derive(Clone)]
pub(super) struct Lists {
    ranges: Arc<[Arc<Ranges<u32>>]>,
    pieces: Arc<[Pieces]>,
    /// Interfaces that were there before.
    interfaces: u32,
}

impl Lists {
    /// Of all that rules keep; adds interfaces.
    pub(super) fn new<'k>(
        keeps: impl Iterator<Item = &'k Arc<Ranges<u32>>>,
        interfaces: &mut Vec<SourceInterface>,
    ) -> Result<Lists, RulesError> {
        let mut ranges: Vec<Arc<Ranges<u32>>> = Vec::new();
        for keep in keeps {
            if ranges.iter().any(|known| known == keep) {
                continue;
            }
            if ranges.len() == LISTS_MAX {
                return Err(RulesError::TooManyKeeps);
            }
            ranges.push(keep.clone());
        }
        let pieces = ranges.iter().map(|ranges| pieces_of(ranges)).collect();
        let own = interfaces.clone();
        for ranges in &ranges {
            interfaces.extend(own.iter().map(|interface| described(interface, ranges)));
        }
        Ok(Lists { ranges: ranges.into(), pieces, interfaces: own.len() as u32 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn pieces(&self) -> &[Pieces] {
        &self.pieces
    }

    /// Which list it is; `None` if it was not among those of the start.
    pub(super) fn find(&self, ranges: &Arc<Ranges<u32>>) -> Option<u16> {
        let is_it = |known: &Arc<Ranges<u32>>| Arc::ptr_eq(known, ranges) || known == ranges;
        self.ranges.iter().position(is_it).map(|index| index as u16)
    }

    /// The interface of frames of `interface` of which the pieces of a list are kept.
    pub(super) fn interface(&self, interface: InterfaceId, list: u16) -> InterfaceId {
        InterfaceId((u32::from(list) + 1) * self.interfaces + interface.0)
    }
}

/// Bytes of the pieces that lie before `limit`.
pub(super) fn bytes_below(pieces: &[Range<u32>], limit: u32) -> u32 {
    pieces.iter().map(|piece| piece.end.min(limit).saturating_sub(piece.start)).sum()
}

fn pieces_of(ranges: &Ranges<u32>) -> Pieces {
    // No frame reaches the last value, so that an open end may as well stop before it.
    ranges.iter().map(|span| span.first()..span.last().saturating_add(1)).collect()
}

/// The same interface, for frames of which these bytes are kept.
fn described(interface: &SourceInterface, ranges: &Ranges<u32>) -> SourceInterface {
    let mut description = interface.description.clone();
    if !description.is_empty() {
        description.push_str("; ");
    }
    description.push_str("ringside: kept bytes ");
    for (index, span) in ranges.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let last = match span.last() {
            u32::MAX => String::new(),
            last => last.to_string(),
        };
        write!(description, "{comma}{}-{last}", span.first()).expect("writing to a String");
    }
    SourceInterface { description, ..interface.clone() }
}
