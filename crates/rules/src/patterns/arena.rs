//! The bytes of all patterns, one after the other.

use crate::language::PayloadPattern;

#[derive(Debug)]
pub(super) struct Arena {
    bytes: Box<[u8]>,
    /// Where each pattern begins, and where the last one ends.
    starts: Box<[u32]>,
}

impl Arena {
    pub(super) fn new(patterns: &[&PayloadPattern]) -> Arena {
        let mut bytes = Vec::new();
        let mut starts = vec![0];
        for pattern in patterns {
            bytes.extend_from_slice(&pattern.bytes);
            // Bounded by PATTERN_BYTES_SUM_MAX.
            starts.push(bytes.len() as u32);
        }
        Arena { bytes: bytes.into(), starts: starts.into() }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of the pattern with this number.
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        &self.bytes[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.starts)
    }
}
