//! The `pf-ring` sink: PF_RING's library, one frame a call, on an interface of the kernel's or on
//! one that a ZC driver of PF_RING's has.
//!
//! The account: each call says whether the frame was taken; one that found no room was not offered.
//! Without a ZC driver the module sends as a packet socket does, through the queueing discipline,
//! which may drop a frame later and report nothing.

use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::Error;
use crate::interface;
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use ringside_pfring::{Device, Library, SendOutcome, Sender};
use std::time::Duration;

/// A handle of PF_RING's as a sink.
pub struct PfRingSink {
    outlet: Outlet,
    sender: Sender,
    frame: Vec<u8>,
    counters: SinkCounters,
}

impl PfRingSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no library, no such interface, it is down, or PF_RING refuses it.
    pub fn open(config: &SinkConfig) -> Result<PfRingSink, Error> {
        let library = Library::find().map_err(|error| refused(config, &error.to_string()))?;
        PfRingSink::open_by(library, config)
    }

    /// The same, by that library.
    ///
    /// # Errors
    /// As [`open`](PfRingSink::open).
    pub fn open_by(library: Library, config: &SinkConfig) -> Result<PfRingSink, Error> {
        let device = Device::named(&config.interface);
        let kernel = device.interface().ok_or_else(|| refused(config, "it is no interface"))?;
        let of_kernel = SinkConfig { interface: kernel.to_owned(), ..config.clone() };
        let outlet = Outlet::open(&of_kernel, SinkKind::PfRing)?;
        let sender = Sender::open(library, &device);
        let sender = sender.map_err(|error| refused(config, &error.to_string()))?;
        let frame = vec![0; outlet.frame_bytes_max()];
        Ok(PfRingSink { outlet, sender, frame, counters: SinkCounters::default() })
    }

    /// False if there was no room yet: then the frame was not offered.
    fn hand_over(&mut self, bytes: usize) -> Result<bool, SinkError> {
        let outcome = self.sender.send(&self.frame[..bytes]);
        if matches!(outcome, SendOutcome::NoRoom) {
            return Ok(false);
        }
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        let SendOutcome::Refused(error) = outcome else {
            self.counters.accepted += 1;
            return Ok(true);
        };
        let cause = interface::refusal(&error);
        self.counters.refuse(cause, 1);
        match cause {
            Refusal::InterfaceGone | Refusal::Other => Err(self.outlet.failed(error)),
            _ => Ok(true),
        }
    }
}

fn refused(config: &SinkConfig, reason: &str) -> Error {
    Error::Sink {
        sink: SinkKind::PfRing.name(),
        interface: config.interface.clone(),
        reason: reason.to_owned(),
    }
}

impl Sink for PfRingSink {
    fn name(&self) -> &'static str {
        SinkKind::PfRing.name()
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
        self.hand_over(bytes)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sender.flush();
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.sender.flush();
        self.outlet.has_ended = true;
        (self.counters(), None)
    }
}
