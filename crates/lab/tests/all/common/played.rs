//! Sinks of systems that are not installed where tests run, over what plays them: a library in
//! PF_RING's place, and netmap's kernel, whose port sends by libpcap.

use ringside_core::{Sink, SinkError};
use ringside_pfring::Library;
use ringside_sys::SysError;
use ringside_sys::mmap::Mapping;
use ringside_sys::netmap::{Control, PortInfo, Register, Registered, RingChoice, Way};
use ringside_testkit::fakes;
use ringside_testkit::netmap::Kernel;
use ringside_transmit::sink::{AnySink, NetmapSink, PcapSink, PfRingSink, SinkConfig};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Why PF_RING cannot be played: there is no compiler.
pub fn no_pf_ring() -> Option<String> {
    library().err()
}

fn library() -> Result<Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let open = || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        Library::at(&fakes::pf_ring(folder.path())?).map_err(|error| error.to_string())
    };
    LIBRARY.get_or_init(open).clone()
}

pub fn pf_ring(config: &SinkConfig) -> Result<AnySink, ringside_transmit::Error> {
    let library = library().expect("a library that plays PF_RING's");
    Ok(AnySink::PfRing(Box::new(PfRingSink::open_by(library, config)?)))
}

pub fn netmap(config: &SinkConfig) -> Result<AnySink, ringside_transmit::Error> {
    netmap_by(&config.interface, config, true)
}

/// A port of a switch, on which a frame may have several slots, that leads to `interface`.
pub fn netmap_switch(interface: &str) -> AnySink {
    netmap_by(interface, &SinkConfig::new("vale0:1"), true).unwrap()
}

/// A port whose driver takes nothing.
pub fn netmap_at_rest(interface: &str) -> AnySink {
    netmap_by(interface, &SinkConfig::new(interface), false).unwrap()
}

fn netmap_by(
    interface: &str,
    config: &SinkConfig,
    sends: bool,
) -> Result<AnySink, ringside_transmit::Error> {
    let wire = PcapSink::open(&SinkConfig { interface: interface.to_owned(), ..config.clone() })?;
    let control = Box::new(Port { kernel: Kernel::new(1, 0), wire, sends });
    Ok(AnySink::Netmap(Box::new(NetmapSink::open_by(control, config)?)))
}

/// A port whose driver is libpcap.
struct Port {
    kernel: Kernel,
    wire: PcapSink,
    /// It takes frames.
    sends: bool,
}

impl Control for Port {
    fn info(&mut self, _port: &str) -> io::Result<PortInfo> {
        Ok(PortInfo { rx_rings: 1, host_rx_rings: 1 })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let (RingChoice::Card(ring), Way::Transmit) = (request.ring, request.way) else {
            panic!("{request:?}")
        };
        let answer = self.kernel.register(true, ring, request.extra_buffers);
        let (offset, extra_buffers) = (answer.offset, answer.extra_buffers);
        Ok(Registered { offset, memory_bytes: answer.memory_bytes, extra_buffers })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(self.kernel.memory(), bytes)
    }

    fn sync(&mut self, _way: Way) -> io::Result<()> {
        let (wire, mut gone) = (&mut self.wire, None);
        self.kernel.transmit(|frame| {
            if !self.sends {
                return false;
            }
            let before = wire.counters().accepted;
            let put = wire.put(frame.len(), None, |room| room.copy_from_slice(frame));
            gone = put.err().or(gone.take());
            wire.counters().accepted > before
        });
        match gone {
            // A driver whose interface is down sends nothing, and says nothing.
            Some(SinkError::InterfaceGone { event, .. }) if event.contains("removed") => {
                Err(io::Error::from_raw_os_error(NO_SUCH_DEVICE_OR_ADDRESS))
            }
            _ => Ok(()),
        }
    }

    fn wait(&self, _time: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// ENXIO, which netmap answers once a port is gone.
const NO_SUCH_DEVICE_OR_ADDRESS: i32 = 6;
