//! The `netmap` sink: a transmit ring of a port of netmap's (docs/netmap.md).
//!
//! The account: a frame is accepted when the port has given its slots back. What a card, a switch
//! or the host loses afterwards netmap counts nowhere.

use super::outlet::{self, Outlet};
use super::places::{Places, RingSink};
use super::{SinkConfig, SinkKind};
use crate::Error;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{SinkCounters, SinkError};
use ringside_sys::SysError;
use ringside_sys::netmap::{self, Control, Port, TransmitRing};
use std::io;

/// A ring of netmap's as a sink.
pub type NetmapSink = RingSink<TransmitRing>;

impl NetmapSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no module, no such port or ring, its interface is down, or netmap refuses it.
    pub fn open(config: &SinkConfig) -> Result<NetmapSink, Error> {
        let control = netmap::open().map_err(|error| {
            refused(config, &format!("/dev/netmap: {error}; docs/netmap.md says how to install it"))
        })?;
        NetmapSink::open_by(Box::new(control), config)
    }

    /// The same, by this handle of the kernel's.
    ///
    /// # Errors
    /// As [`open`](NetmapSink::open).
    pub fn open_by(control: Box<dyn Control>, config: &SinkConfig) -> Result<NetmapSink, Error> {
        let port = Port::named(&config.interface);
        let ring = u16::try_from(config.queue).map_err(|_| refused(config, "no such ring"))?;
        let kernel = port
            .interface()
            .map(|kernel| SinkConfig { interface: kernel.to_owned(), ..config.clone() });
        let outlet =
            kernel.as_ref().map(|kernel| Outlet::open(kernel, SinkKind::Netmap)).transpose()?;
        // A card may take each slot for a frame; switches and pipes keep those of one together.
        let chains = outlet.is_none();
        let ring = TransmitRing::take(control, &port.name, port.ring(ring), chains);
        let ring = ring.map_err(|error| refused(config, &error.to_string()))?;
        let bytes_max = ring.frame_bytes_max().min(FRAME_BYTES_MAX as usize);
        let outlet = match outlet {
            Some(outlet) => outlet.shortened(bytes_max),
            None => Outlet::apart(&config.interface, SinkKind::Netmap, bytes_max),
        };
        Ok(RingSink::new(outlet, ring))
    }
}

fn refused(config: &SinkConfig, reason: &str) -> Error {
    Error::sink(SinkKind::Netmap, &config.interface, reason)
}

impl Places for TransmitRing {
    const KIND: SinkKind = SinkKind::Netmap;

    fn has_room(&mut self, bytes: usize) -> bool {
        TransmitRing::has_room(self, bytes)
    }

    fn put(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, SinkError> {
        TransmitRing::put(self, bytes, write).map_err(outlet::refused)
    }

    fn hand_over(&mut self, counters: &mut SinkCounters) -> io::Result<()> {
        let done = self.flush();
        counters.accepted = self.accepted();
        done.map_err(|error| match error {
            SysError::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })
    }

    fn waiting(&self) -> u64 {
        TransmitRing::waiting(self)
    }
}
