//! The ports of fragmented packets: only the first fragment has them.

use crate::key::Around;
use ringside_core::{RecentTable, Timestamp};
use std::net::IpAddr;

/// Packets whose first fragment is remembered, some 600 KB: more than are under way at once on a
/// link that is not under attack. One more takes the place of an old one, whose later
/// fragments are then counted under ports 0.
const FRAGMENTED_MAX: usize = 4_096;

/// How long an identification belongs to one packet (RFC 8200, section 4.5: 60 s).
const FRAGMENTED_NS: u64 = 60_000_000_000;

/// What the fragments of a packet have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub around: Around,
    pub id: u32,
}

/// Ports, or what stands for them, and whether the message has no answer.
pub(super) type Remembered = ((u16, u16), bool);

type Words = (IpAddr, IpAddr, u8, u32, u32, Option<u16>);

#[derive(Debug)]
pub(super) struct Fragments {
    packets: RecentTable<Words, Option<Remembered>>,
    /// Later fragments whose first was not seen.
    pub without_ports: u64,
}

impl Fragments {
    /// Bytes that they take.
    pub const BYTES: usize = RecentTable::<Words, Option<Remembered>>::bytes(FRAGMENTED_MAX);

    pub fn new() -> Fragments {
        Fragments { packets: RecentTable::new(FRAGMENTED_MAX), without_ports: 0 }
    }

    /// The first fragment of a packet had these.
    pub fn remember(&mut self, id: Id, stamp: Timestamp, ports: Option<Remembered>) {
        *self.packets.enter(id.words(), stamp.0, |_| None).value = ports;
    }

    /// What the first fragment of a packet had.
    pub fn recall(&mut self, id: Id, stamp: Timestamp) -> Option<Remembered> {
        let known = self.packets.get(&id.words()).and_then(|entered| {
            let is_recent = stamp.0.abs_diff(*entered.seen) <= FRAGMENTED_NS;
            if is_recent { *entered.value } else { None }
        });
        self.without_ports += u64::from(known.is_none());
        known
    }
}

impl Id {
    fn words(&self) -> Words {
        let Around { protocol, vlan, interface, .. } = self.around;
        (self.source, self.destination, protocol.0, self.id, interface.0, vlan)
    }
}
