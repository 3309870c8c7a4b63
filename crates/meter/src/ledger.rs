//! Where every packet and octet is, and how the cache does.

use ringside_flow::{NoFlow, Sums};
use serde::Serialize;

/// The account of a meter. When no frames come and all was read:
/// `received + sent = in_flows + Σ no_flow + no_room + taken_before`, in packets and in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// What the program saw that the interface received.
    pub received: Sums,
    /// What it saw that the interface sent; nothing with XDP.
    pub sent: Sums,
    /// Given to the flow table as packets of flows.
    pub in_flows: Sums,
    /// In no flow, by cause, as in [`NoFlow::ALL`]; given to the table too.
    pub no_flow: [Sums; NoFlow::ALL.len()],
    /// Lost: there was no room to hand it up.
    pub no_room: Sums,
    /// What a process that died had taken out of the cache before this one.
    pub taken_before: Sums,
    /// Of that, what the process had not exported: lost with it.
    pub lost_before: Sums,
    /// What the interface counted since the program was put there, by its own counters; none for
    /// an interface that has gone.
    pub interface: Option<InterfaceSums>,
}

/// What an interface counted. Frames are as long as its driver says: some leave the link layer's
/// header out, or have the check sequence in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSums {
    /// Frames received.
    pub received: Sums,
    /// Frames sent.
    pub sent: Sums,
}

impl Ledger {
    /// True if nothing is missing and nothing counted twice.
    pub fn balances(&self) -> bool {
        let mut seen = self.received;
        seen += self.sent;
        let mut found = self.in_flows;
        for sums in self.no_flow {
            found += sums;
        }
        found += self.no_room;
        found += self.taken_before;
        found == seen
    }
}

/// How the cache does. Numbers are since it was made, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Entries that may be in use, of all CPUs.
    pub entries_max: usize,
    /// Entries whose place was ever taken: the fill.
    pub entries: u64,
    /// Entries that went because another flow needed the place.
    pub evicted: u64,
    /// Entries that went because a new connection began between the same ports.
    pub renewed: u64,
    /// Packets that were handed up because the program could not read them.
    pub handed_up: u64,
    /// Packets lost because there was no room to hand anything up.
    pub no_room: u64,
    /// The part of the fullest ring that was in use when the last reading began.
    pub ring_fill: f64,
    /// Readings.
    pub readings: u64,
    /// Entries that the last reading found changed.
    pub changed: u64,
    /// How long the last reading took, in nanoseconds.
    pub reading_ns: u64,
    /// Bytes of the kernel's memory that the cache has.
    pub memory_bytes: usize,
}
