//! Both payloads of a frame, that of its outer headers and that of the inner ones: what is looked
//! for in them, and what lies before them in their flows.

use super::Seam;
use crate::language::PayloadPattern;
use ringside_wire::Level;

/// What is looked for anywhere in payloads: bytes of the longest pattern at each level, 0 without
/// any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sought {
    /// In the payload of the outer headers.
    pub outer: usize,
    /// In that of the inner ones.
    pub inner: usize,
}

impl Sought {
    /// True if nothing is looked for.
    pub fn is_nothing(self) -> bool {
        self == Sought::default()
    }

    /// Bytes of the longest pattern at either level; 0 without any.
    pub fn longest(self) -> usize {
        self.outer.max(self.inner)
    }

    /// What both look for, together.
    #[must_use]
    pub fn and(self, other: Sought) -> Sought {
        Sought { outer: self.outer.max(other.outer), inner: self.inner.max(other.inner) }
    }

    /// Adds what a pattern looks for.
    pub(crate) fn add(&mut self, pattern: &PayloadPattern, level: Level) {
        let longest = match level {
            Level::Outer => &mut self.outer,
            Level::Inner => &mut self.inner,
        };
        if pattern.at.is_none() {
            *longest = pattern.bytes.len().max(*longest);
        }
    }
}

/// What lies between a frame's payloads and what came before them in their flows.
#[derive(Debug, Default)]
pub struct Seams {
    outer: Seam,
    inner: Seam,
}

impl Seams {
    /// Of a frame that is looked at alone.
    pub const NONE: &'static Seams = &Seams { outer: Seam::NONE, inner: Seam::NONE };

    /// That of one payload.
    pub fn at(&self, level: Level) -> &Seam {
        match level {
            Level::Outer => &self.outer,
            Level::Inner => &self.inner,
        }
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, level: Level) -> &mut Seam {
        match level {
            Level::Outer => &mut self.outer,
            Level::Inner => &mut self.inner,
        }
    }

    /// Has this lie before one payload.
    pub fn put(&mut self, level: Level, seam: Seam) {
        *self.at_mut(level) = seam;
    }

    /// Another frame begins.
    pub fn clear(&mut self) {
        self.outer.clear();
        self.inner.clear();
    }
}
