//! The `dpdk` sink: a transmit queue of a DPDK driver, on a card that is DPDK's or, by
//! `net_af_packet`, on an interface of the kernel's.
//!
//! The account: a frame is offered when it is put, and accepted when the driver took charge of it;
//! what the driver says later that it could not send (`oerrors`) is refused. What a driver, or the
//! kernel behind it, drops in silence is not counted.

use super::{SinkConfig, SinkKind};
use crate::interface::{self, SizeLimit};
use crate::{Error, FRAME_BYTES_MIN};
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use ringside_dpdk::device::{ETHERNET_BYTES, FRAME_ROOM_MIN, HEADER_BYTES};
use ringside_dpdk::eal::{self, Memory};
use ringside_dpdk::{Device, Port, PortRequest, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames that a driver holds, and those of the memory that they come from: several bursts.
const DESCRIPTORS: u32 = 512;
const FRAMES: u32 = 2047;

/// Between two tries to hand over the rest.
const PAUSE: Duration = Duration::from_micros(50);

/// A transmit queue of DPDK's as a sink.
pub struct DpdkSink {
    name: String,
    port: Arc<Port>,
    sender: Sender,
    limit: SizeLimit,
    counters: SinkCounters,
    /// Frames that the driver took charge of.
    taken: u64,
    has_ended: bool,
}

impl DpdkSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no plug-in, no such device, or the driver refuses.
    pub fn open(config: &SinkConfig) -> Result<DpdkSink, Error> {
        let name = config.interface.clone();
        let mut device = Device::named(&name);
        let mtu_bytes = match device.kernel_interface() {
            Some(kernel) => interface::find(kernel)?.mtu_bytes,
            None => ETHERNET_BYTES - HEADER_BYTES,
        };
        let limit = SizeLimit { mtu_bytes: mtu_bytes as usize };
        let mut room_bytes = (limit.frame_bytes_max() as u32).max(FRAME_ROOM_MIN);
        if device.is_of("net_af_packet") {
            (room_bytes, _) = device.set_packet_ring(mtu_bytes, 1, |_| DESCRIPTORS);
        }
        let request = PortRequest {
            // Drivers want one of each kind at least.
            receive_queues: 1,
            transmit_queues: 1,
            descriptors: DESCRIPTORS,
            frames_per_queue: FRAMES,
            frame_bytes_max: room_bytes,
            mtu: None,
            promiscuous: false,
        };
        let opened = eal::start(&Memory::of(&device))
            .and_then(|()| ringside_dpdk::attach(&device.words()))
            .and_then(|attached| attached.open(&request))
            .and_then(|opened| eal::limit_threads().map(|()| opened));
        let refused = |reason: String| Error::sink(SinkKind::Dpdk, &name, &reason);
        let mut opened = opened.map_err(|error| refused(error.to_string()))?;
        let sender = opened.senders.pop().ok_or_else(|| refused("no queue to send".into()))?;
        let (port, counters) = (opened.port, SinkCounters::default());
        Ok(DpdkSink { name, port, sender, limit, counters, taken: 0, has_ended: false })
    }

    fn check(&self, bytes: usize, checksum: Option<ChecksumRequest>) -> Result<(), SinkError> {
        if self.has_ended {
            return Err(SinkError::Ended { name: self.name.clone() });
        }
        if checksum.is_some() {
            return Err(SinkError::lacks(SinkKind::Dpdk.name(), "checksum requests"));
        }
        let limits = usize::from(FRAME_BYTES_MIN)..=self.limit.frame_bytes_max();
        if limits.contains(&bytes) {
            return Ok(());
        }
        let limit = format!("{} to {}, by the device's MTU", limits.start(), limits.end());
        Err(SinkError::Limit { what: "the bytes of a frame", value: bytes as u64, limit })
    }

    fn hand_over(&mut self) {
        self.taken += self.sender.flush() as u64;
    }

    /// What the driver took charge of, less what it could not send after all.
    fn settle(&mut self) {
        let refused = self.port.counters().map_or(0, |counters| counters.refused.min(self.taken));
        self.counters.accepted = self.taken - refused;
        if refused > 0 {
            self.counters.refused.insert(Refusal::Other, refused);
        }
    }
}

impl Sink for DpdkSink {
    fn name(&self) -> &'static str {
        SinkKind::Dpdk.name()
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(self.limit.frame_bytes_max())
    }

    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.check(bytes, checksum)?;
        if !self.sender.has_room() {
            self.hand_over();
        }
        let is_put = self.sender.put(bytes, write);
        if is_put {
            self.counters.offered += 1;
            self.counters.offered_bytes += bytes as u64;
        }
        Ok(is_put)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.hand_over();
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.settle();
        self.counters.clone()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        let start = Instant::now();
        while !self.has_ended {
            self.hand_over();
            if self.taken == self.counters.offered || start.elapsed() >= timeout {
                let left = self.sender.abandon() as u64;
                self.counters.refuse(Refusal::NotSent, left);
                self.has_ended = true;
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.settle();
        (self.counters.clone(), None)
    }
}
