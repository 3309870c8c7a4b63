//! The `pf-ring` sink: PF_RING's library, one frame a call, on an interface of the kernel's or on
//! one that a ZC driver of PF_RING's has.
//!
//! Without a ZC driver the module sends as a packet socket does, through the queueing discipline,
//! which may drop a frame later and report nothing.

use super::one_by_one::{OneByOne, Outcome, Taker};
use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::Error;
use ringside_pfring::{Device, Library, SendOutcome, Sender};

/// A handle of PF_RING's as a sink.
pub type PfRingSink = OneByOne<Sender>;

impl Taker for Sender {
    const KIND: SinkKind = SinkKind::PfRing;

    fn send(&mut self, frame: &[u8]) -> Outcome {
        match Sender::send(self, frame) {
            SendOutcome::Sent => Outcome::Sent,
            SendOutcome::NoRoom => Outcome::NoRoom,
            SendOutcome::Refused(error) => Outcome::Refused(error),
        }
    }

    fn flush(&mut self) {
        Sender::flush(self);
    }
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
        Ok(OneByOne::new(outlet, sender))
    }
}

fn refused(config: &SinkConfig, reason: &str) -> Error {
    Error::sink(SinkKind::PfRing, &config.interface, reason)
}
