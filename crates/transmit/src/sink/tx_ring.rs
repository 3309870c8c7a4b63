//! The `tx-ring` sink: a packet socket with a transmit ring (TPACKET_V2), past the queueing
//! discipline.
//!
//! The account: the kernel goes through the ring in order and marks what it hands to the driver; a
//! frame that the driver refuses ends the call with an error, and is withdrawn.

use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::Error;
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use ringside_sys::packet_tx_ring::PacketTxRing;
use std::time::{Duration, Instant};

/// Memory of the ring: some thousand small frames.
const RING_BYTES: usize = 8 << 20;

/// Frames after which they are handed over unasked: beyond that the call does not show.
const FLUSH_FRAMES: u32 = 64;

/// How often is looked whether the driver takes more.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// A packet socket with a ring, as a sink.
pub struct TxRingSink {
    outlet: Outlet,
    ring: PacketTxRing,
    unflushed: u32,
    counters: SinkCounters,
}

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
        Ok(TxRingSink { outlet, ring, unflushed: 0, counters: SinkCounters::default() })
    }
}

impl Sink for TxRingSink {
    fn name(&self) -> &'static str {
        SinkKind::TxRing.name()
    }

    fn features(&self) -> SinkFeatures {
        let frame_bytes_max = self.outlet.frame_bytes_max();
        SinkFeatures { frame_bytes_max, chains: None, checksums: false }
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, checksum, false)?;
        if !self.ring.has_room() {
            self.flush()?;
            if !self.ring.has_room() {
                return Ok(false);
            }
        }
        let outlet = &self.outlet;
        let was_put = self.ring.put(bytes, |place| {
            write(place);
            // The kernel would pass over it without a word.
            outlet.is_short_enough(place)
        });
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        self.counters.refuse(Refusal::TooLong, u64::from(!was_put));
        self.unflushed += 1;
        if self.unflushed >= FLUSH_FRAMES {
            self.flush()?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.unflushed = 0;
        let (told, result) = self.ring.send();
        self.counters.accepted += told.accepted;
        self.counters.refuse(Refusal::NoRoom, told.refused);
        self.counters.refuse(Refusal::TooLong, told.passed_over);
        result.map_err(|error| self.outlet.failed(error))
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        if self.outlet.has_ended {
            return (self.counters(), None);
        }
        let start = Instant::now();
        let (rest, failure) = loop {
            match self.flush() {
                Ok(()) if self.ring.waiting() == 0 => break (Refusal::NotSent, None),
                Ok(()) if start.elapsed() >= timeout => break (Refusal::NotSent, None),
                Ok(()) => std::thread::sleep(LOOK_INTERVAL),
                Err(e @ SinkError::InterfaceGone { .. }) => {
                    break (Refusal::InterfaceGone, Some(e));
                }
                Err(e) => break (Refusal::Other, Some(e)),
            }
        };
        self.counters.refuse(rest, self.ring.waiting());
        self.outlet.has_ended = true;
        (self.counters(), failure)
    }
}
