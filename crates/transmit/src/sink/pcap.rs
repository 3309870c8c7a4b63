//! The `pcap` sink: libpcap's pcap_sendpacket, on any device that it knows, one frame a call.
//!
//! The account: each call says whether the frame was taken; one that found no room in the socket's
//! buffer was not offered. On an interface of Linux libpcap sends through the queueing discipline,
//! which may drop a frame later and report nothing; where there is none (veth has none) the
//! driver's refusal comes back.

use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::Error;
use crate::interface::ENETDOWN;
use crate::wait::SLEEP_MAX;
use ::pcap::{Active, Capture};
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use ringside_sys::packet_tx::bound_wait;
use std::io;
use std::time::Duration;

/// What libpcap says, as strerror(3) does, where the frame may be tried again: the socket's buffer
/// had no room (EAGAIN), or a signal came (EINTR).
const NOT_YET: [&str; 2] = ["Resource temporarily unavailable", "Interrupted system call"];
/// And where it was refused, with the causes.
const CAUSES: [(&str, Refusal); 4] = [
    ("No buffer space available", Refusal::NoRoom),
    ("Message too long", Refusal::TooLong),
    ("Network is down", Refusal::InterfaceGone),
    ("No such device", Refusal::InterfaceGone),
];

/// A libpcap handle as a sink.
pub struct PcapSink {
    outlet: Outlet,
    capture: Capture<Active>,
    frame: Vec<u8>,
    counters: SinkCounters,
}

impl PcapSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such interface, it is down, or libpcap refuses it.
    pub fn open(config: &SinkConfig) -> Result<PcapSink, Error> {
        let outlet = Outlet::open(config, SinkKind::Pcap)?;
        // It receives too, and that is not read: little memory, of which little is kept.
        let capture = Capture::from_device(&config.interface[..])
            .map(|capture| capture.snaplen(64).buffer_size(1 << 16).promisc(false))
            .and_then(Capture::open);
        let capture = capture.map_err(|error| Error::Sink {
            sink: SinkKind::Pcap.name(),
            interface: config.interface.clone(),
            reason: error.to_string(),
        })?;
        bound_wait(&capture, SLEEP_MAX)?;
        let frame = vec![0; outlet.frame_bytes_max()];
        Ok(PcapSink { outlet, capture, frame, counters: SinkCounters::default() })
    }

    /// False if there was no room yet: then the frame was not offered.
    fn send(&mut self, bytes: usize) -> Result<bool, SinkError> {
        let sent = self.capture.sendpacket(&self.frame[..bytes]).map_err(|e| e.to_string());
        if let Err(text) = &sent
            && NOT_YET.iter().any(|said| text.contains(said))
        {
            return Ok(false);
        }
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        let Err(text) = sent else {
            self.counters.accepted += 1;
            return Ok(true);
        };
        let known = CAUSES.iter().find(|(said, _)| text.contains(said));
        let cause = known.map_or(Refusal::Other, |(_, cause)| *cause);
        self.counters.refuse(cause, 1);
        match cause {
            Refusal::InterfaceGone => {
                Err(self.outlet.failed(io::Error::from_raw_os_error(ENETDOWN)))
            }
            Refusal::Other => Err(self.outlet.failed(io::Error::other(text))),
            _ => Ok(true),
        }
    }
}

impl Sink for PcapSink {
    fn name(&self) -> &'static str {
        SinkKind::Pcap.name()
    }

    fn features(&self) -> SinkFeatures {
        let frame_bytes_max = self.outlet.frame_bytes_max();
        SinkFeatures { frame_bytes_max, chains: None, checksums: false }
    }

    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, checksum, false)?;
        write(&mut self.frame[..bytes]);
        self.send(bytes)
    }

    /// Does nothing: each frame was sent when it was put.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.outlet.has_ended = true;
        (self.counters(), None)
    }
}
