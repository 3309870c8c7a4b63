//! What is known of the payloads of one frame.

use super::{Hits, PatternSet, Seam};
use ringside_wire::Level;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Which patterns of a set are in a frame's payloads. Each of the two is scanned once, when the
/// first question asks about it.
#[derive(Debug)]
pub struct Findings {
    set: Arc<PatternSet>,
    outer: Known,
    inner: Known,
}

/// What is known of one payload, once it was scanned.
#[derive(Debug)]
struct Known {
    is_scanned: Cell<bool>,
    hits: RefCell<Hits>,
}

impl Findings {
    /// Nothing is known yet.
    pub fn new(set: Arc<PatternSet>) -> Findings {
        let known =
            || Known { is_scanned: Cell::new(false), hits: RefCell::new(Hits::new(set.count())) };
        Findings { outer: known(), inner: known(), set }
    }

    /// Another frame begins.
    pub fn forget(&mut self) {
        self.outer.is_scanned.set(false);
        self.inner.is_scanned.set(false);
    }

    /// True if the pattern with this number is in `payload`, which is the frame's own at this
    /// level, or across the border before it; none if the set does not know the number.
    pub fn contain(&self, number: u32, level: Level, seam: &Seam, payload: &[u8]) -> Option<bool> {
        if number as usize >= self.set.count() {
            return None;
        }
        let known = match level {
            Level::Outer => &self.outer,
            Level::Inner => &self.inner,
        };
        if !known.is_scanned.replace(true) {
            self.set.scan_next(seam, payload, &mut known.hits.borrow_mut());
        }
        Some(known.hits.borrow().contains(number))
    }
}
