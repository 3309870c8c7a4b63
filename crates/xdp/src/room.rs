//! Places in an array, a few in a row at a time.

use std::collections::BTreeMap;

/// Gives out runs of places of an array.
#[derive(Debug)]
pub(crate) struct Room {
    places: u32,
    used: u32,
    /// Runs that were given back, by length.
    free: BTreeMap<usize, Vec<u32>>,
}

impl Room {
    pub fn new(places: usize) -> Room {
        Room { places: places as u32, used: 0, free: BTreeMap::new() }
    }

    /// The first of `run` places in a row; none if there is no room.
    pub fn take(&mut self, run: usize) -> Option<u32> {
        if let Some(first) = self.free.get_mut(&run).and_then(Vec::pop) {
            return Some(first);
        }
        let first = self.used;
        let end = first.checked_add(u32::try_from(run).ok()?).filter(|end| *end <= self.places)?;
        self.used = end;
        Some(first)
    }

    /// Gives a run back.
    pub fn give(&mut self, first: u32, run: usize) {
        self.free.entry(run).or_default().push(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_do_not_overlap_and_come_back() {
        let mut room = Room::new(10);
        assert_eq!((room.take(4), room.take(4), room.take(4)), (Some(0), Some(4), None));
        room.give(0, 4);
        assert_eq!((room.take(2), room.take(4), room.take(1)), (Some(8), Some(0), None));
        assert_eq!(Room::new(100).take(101), None);
        assert_eq!(Room::new(100).take(usize::MAX), None);
    }
}
