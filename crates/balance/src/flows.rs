//! The table of flows that one CPU remembers.
//!
//! A set-associative table: a flow's hash says the set, and within a set the flow that was idle
//! longest goes for a new one. The program in the driver has the same table in an array (struct
//! balance_set of `bpf/balance/abi.h`), so that what is remembered, and what is forgotten, is the
//! same here and there. The kernel's LRU maps were passed by: which entry they evict is not said,
//! an insertion takes locks, and what is in them cannot be read while they change.

use crate::hash::hash;

/// Flows of a set: their marks and times are one line of memory.
pub const WAYS: usize = 8;

/// In [`FlowKey::rest`]: fragments of one packet, whose identification stands for the ports.
pub const FRAGMENT: u64 = 1 << 8;

/// What tells flows apart, from client to VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Words of the client's address.
    pub source: [u64; 2],
    /// Words of the VIP's address.
    pub destination: [u64; 2],
    /// From the lowest byte: protocol, [`FRAGMENT`] or 0, two bytes 0, then the ports, that of the
    /// VIP below that of the client.
    pub rest: u64,
}

impl FlowKey {
    /// All words.
    pub fn words(&self) -> [u64; 5] {
        let ([a, b], [c, d]) = (self.source, self.destination);
        [a, b, c, d, self.rest]
    }

    /// The last word of a flow.
    pub fn rest_of(protocol: u8, source_port: u16, destination_port: u16) -> u64 {
        u64::from(protocol) | u64::from(destination_port) << 32 | u64::from(source_port) << 48
    }

    /// The last word of the fragments of a packet.
    pub fn rest_of_fragments(protocol: u8, id: u32) -> u64 {
        u64::from(protocol) | FRAGMENT | u64::from(id) << 32
    }
}

/// A remembered flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Which.
    pub key: FlowKey,
    /// Index of the real that has it.
    pub real: u32,
    /// That real's serial number.
    pub serial: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// Upper half of the hash, the lowest bit set; 0: free.
    marks: [u32; WAYS],
    /// When its last packet came, in ticks.
    last: [u32; WAYS],
    flows: [Flow; WAYS],
}

/// Where a flow is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    set: usize,
    way: usize,
}

/// The flows of one CPU.
#[derive(Clone, Debug)]
pub struct FlowTable {
    seed: u64,
    sets: Vec<Set>,
}

impl FlowTable {
    /// A table for `flows` flows, a power of two of at least [`WAYS`]. With a secret `seed` no
    /// sender can choose flows that fall on one set.
    pub fn new(flows: usize, seed: u64) -> FlowTable {
        FlowTable { seed, sets: vec![Set::default(); (flows / WAYS).max(1)] }
    }

    /// The hash by which a flow is found.
    pub fn hash(&self, key: &FlowKey) -> u64 {
        hash(self.seed, &key.words())
    }

    /// Where a flow is.
    pub fn find(&self, key: &FlowKey, hash: u64) -> Option<Place> {
        let set = self.set_of(hash);
        let Set { marks, flows, .. } = &self.sets[set];
        let is_it = |way: &usize| marks[*way] == mark(hash) && flows[*way].key == *key;
        (0..WAYS).find(is_it).map(|way| Place { set, way })
    }

    /// The flow at a place, and how long it was idle.
    pub fn get(&self, place: Place, now: u32) -> (Flow, u32) {
        let set = &self.sets[place.set];
        (set.flows[place.way], now.wrapping_sub(set.last[place.way]))
    }

    /// Says that a packet of a flow came.
    pub fn touch(&mut self, place: Place, now: u32) {
        self.sets[place.set].last[place.way] = now;
    }

    /// Remembers a flow: in its place, in a free one, or in that of the flow that was idle longest.
    pub fn put(&mut self, flow: Flow, hash: u64, now: u32) {
        let found = self.find(&flow.key, hash).map(|place| place.way);
        let at = self.set_of(hash);
        let set = &mut self.sets[at];
        // Later ways win only if they are better, so that the lowest of equals is taken.
        let idle = |way: usize| match set.marks[way] {
            0 => u64::MAX,
            _ => now.wrapping_sub(set.last[way]).into(),
        };
        let longest =
            (1..WAYS).fold(0, |best, way| if idle(way) > idle(best) { way } else { best });
        let way = found.unwrap_or(longest);
        set.marks[way] = mark(hash);
        set.last[way] = now;
        set.flows[way] = flow;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.sets.fill(Set::default());
    }

    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }
}

/// What is compared first.
fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::Random;
    use std::collections::HashMap;

    fn flow(number: u64) -> Flow {
        let key = FlowKey { source: [number, 1], destination: [2, 3], rest: 6 };
        Flow { key, real: number as u32, serial: 1 }
    }

    #[test]
    fn what_is_found_is_what_was_put_last() {
        let mut table = FlowTable::new(1024, 7);
        let mut random = Random::new(1);
        let mut model = HashMap::new();
        let mut found = 0;
        for now in 0..20_000u32 {
            let mut one = flow(random.below(900) as u64);
            let hash = table.hash(&one.key);
            if let Some(place) = table.find(&one.key, hash) {
                let (there, idle) = table.get(place, now);
                assert_eq!((there.real, now - idle), model[&there.key]);
                found += 1;
            }
            one.real = now;
            table.put(one, hash, now);
            model.insert(one.key, (now, now));
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn the_flow_that_was_idle_longest_goes() {
        let mut table = FlowTable::new(WAYS, 7);
        let is_there = |table: &FlowTable, number| {
            let key = flow(number).key;
            table.find(&key, table.hash(&key)).is_some()
        };
        // The clock comes round meanwhile.
        let start = u32::MAX - 3;
        for number in 0..WAYS as u64 {
            let hash = table.hash(&flow(number).key);
            table.put(flow(number), hash, start.wrapping_add(number as u32));
        }
        let first = flow(0).key;
        let place = table.find(&first, table.hash(&first)).unwrap();
        table.touch(place, start.wrapping_add(100));
        let hash = table.hash(&flow(99).key);
        table.put(flow(99), hash, start.wrapping_add(101));
        assert!(is_there(&table, 0) && is_there(&table, 99) && !is_there(&table, 1));
        table.clear();
        assert!(!is_there(&table, 0));
    }
}
