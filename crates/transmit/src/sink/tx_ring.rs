//! The `tx-ring` sink: a packet socket with a transmit ring (TPACKET_V2), past the queueing
//! discipline.
//!
//! The account: the kernel goes through the ring in order and marks what it hands to the driver; a
//! frame that the driver refuses ends the call with an error, and is withdrawn.

use super::outlet::Outlet;
use super::places::{Places, RingSink};
use super::{SinkConfig, SinkKind};
use crate::Error;
use ringside_core::{Refusal, SinkCounters, SinkError};
use ringside_sys::packet_tx_ring::PacketTxRing;
use std::io;

/// Memory of the ring: some thousand small frames.
const RING_BYTES: usize = 8 << 20;

/// A packet socket with a ring, as a sink.
pub type TxRingSink = RingSink<PacketTxRing>;

impl TxRingSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such interface, it is down, or a privilege is missing (CAP_NET_RAW).
    pub fn open(config: &SinkConfig) -> Result<TxRingSink, Error> {
        let outlet = Outlet::open(config, SinkKind::TxRing)?;
        let bytes_max = outlet.frame_bytes_max();
        let places = (RING_BYTES / bytes_max.next_power_of_two()).clamp(16, 4096) as u32;
        let places = places.next_power_of_two();
        let ring = PacketTxRing::open(outlet.ifindex, places, bytes_max)?;
        Ok(RingSink::new(outlet, ring))
    }
}

impl Places for PacketTxRing {
    const KIND: SinkKind = SinkKind::TxRing;

    #[inline]
    fn has_room(&mut self, _bytes: usize) -> bool {
        PacketTxRing::has_room(self)
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, SinkError> {
        Ok(PacketTxRing::put(self, bytes, write))
    }

    fn hand_over(&mut self, counters: &mut SinkCounters) -> io::Result<()> {
        let (settled, result) = self.send();
        counters.accepted += settled.accepted;
        counters.refuse(Refusal::NoRoom, settled.refused);
        counters.refuse(Refusal::TooLong, settled.passed_over);
        result
    }

    fn waiting(&self) -> u64 {
        PacketTxRing::waiting(self)
    }
}
