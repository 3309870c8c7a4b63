//! Where every packet and octet is.

use crate::EndReason;
use crate::sink::RecordSums;
use serde::Serialize;
use std::ops::{AddAssign, SubAssign};

/// Packets and their octets: the frames' length on the wire, as an interface counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Packets.
    pub packets: u64,
    /// Octets on the wire, from the link layer's header on.
    pub octets: u64,
}

impl Sums {
    /// One packet.
    pub fn one(octets: u32) -> Sums {
        Sums { packets: 1, octets: octets.into() }
    }
}

/// Some come from files that others may have written: a sum that is too large stays at the end, and
/// balances nothing.
impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.packets = self.packets.saturating_add(other.packets);
        self.octets = self.octets.saturating_add(other.octets);
    }
}

/// Takes out a part.
impl SubAssign for Sums {
    fn sub_assign(&mut self, part: Sums) {
        self.packets = self.packets.saturating_sub(part.packets);
        self.octets = self.octets.saturating_sub(part.octets);
    }
}

/// Why a frame is in no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlow {
    /// It carries no IP: ARP, LLDP, a link type that is not known.
    NotIp,
    /// Its IP header, or what leads there, is cut or contradicts itself.
    Unreadable,
}

impl NoFlow {
    /// All causes, each at its index in [`FlowLedger::no_flow`].
    pub const ALL: [NoFlow; 2] = [NoFlow::NotIp, NoFlow::Unreadable];

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            NoFlow::NotIp => "not_ip",
            NoFlow::Unreadable => "unreadable",
        }
    }
}

/// The account of a table. At any time `received = exported + in the table + Σ no_flow`, in packets
/// and in octets; what the table holds is added up anew by [`FlowTable::held`].
///
/// [`FlowTable::held`]: crate::FlowTable::held
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowLedger {
    /// All frames that were shown.
    pub received: Sums,
    /// What records that were handed out hold.
    pub exported: Sums,
    /// Records that were handed out, by reason, at [`EndReason::index`].
    pub records: [u64; EndReason::ALL.len()],
    /// Frames that are in no flow, by cause, as in [`NoFlow::ALL`].
    pub no_flow: [Sums; NoFlow::ALL.len()],
    /// Fragments whose first was not seen, or is forgotten: counted under ports 0.
    pub fragments_without_ports: u64,
    /// Times that the packets' clock went back.
    pub clock_steps: u64,
}

impl FlowLedger {
    /// Counts a frame that is in no flow.
    pub fn add_no_flow(&mut self, cause: NoFlow, octets: u32) {
        self.received += Sums::one(octets);
        self.no_flow[cause as usize] += Sums::one(octets);
    }

    /// The records that were handed out, and what they hold.
    pub fn handed_out(&self) -> RecordSums {
        RecordSums { records: self.records.iter().sum(), held: self.exported }
    }

    /// True if nothing is missing and nothing counted twice, with what the table holds.
    pub fn balances(&self, held: Sums) -> bool {
        let mut accounted = held;
        accounted += self.exported;
        for &frames in &self.no_flow {
            accounted += frames;
        }
        accounted == self.received
    }
}
