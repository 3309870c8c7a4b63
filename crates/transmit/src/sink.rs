//! Transmit sinks: one channel of one interface, whose every frame is accounted for.
//!
//! | kind | what it is |
//! |---|---|
//! | `af-xdp` | an AF_XDP socket on one queue: past the stack, chains, checksums |
//! | `af-packet` | a packet socket, many frames a call |
//! | `tx-ring` | a packet socket with a ring in shared memory (TPACKET_V2) |
//! | `pcap` | libpcap, on any device that it knows |
//! | `dpdk` | a queue of a DPDK driver, where its plug-in is |
//! | `pf-ring` | PF_RING, where its library is, one frame a call |
//! | `netmap` | a transmit ring of netmap's, where its module is |
//!
//! [`open`] tries what was asked for, or chooses, and says why. What the kinds can do, and which
//! counters feed their accounts, is in docs/transmit.md.

mod af_packet;
mod af_xdp;
mod dpdk;
mod netmap;
mod one_by_one;
mod outlet;
mod pcap;
mod pf_ring;
mod places;
mod segment;
mod tx_ring;

#[cfg(test)]
pub(crate) use af_packet::hand_over;
pub use af_packet::{PacketOptions, PacketSink};
pub use af_xdp::XdpSink;
pub use dpdk::DpdkSink;
pub use netmap::NetmapSink;
pub use pcap::PcapSink;
pub use pf_ring::PfRingSink;
pub(crate) use segment::{put_chained, put_segment};
pub use tx_ring::TxRingSink;

use crate::{Error, interface};
use ringside_core::{ChecksumRequest, Handed, Sink, SinkCounters, SinkError, SinkFeatures};
use ringside_netdev as netdev;
use serde::Serialize;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

/// A kind of sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinkKind {
    /// AF_XDP.
    AfXdp,
    /// sendmmsg(2) on a packet socket.
    AfPacket,
    /// A packet socket with a transmit ring.
    TxRing,
    /// libpcap.
    Pcap,
    /// DPDK.
    Dpdk,
    /// PF_RING.
    PfRing,
    /// netmap.
    Netmap,
}

impl SinkKind {
    /// All kinds.
    pub const ALL: [SinkKind; 7] = [
        SinkKind::AfXdp,
        SinkKind::AfPacket,
        SinkKind::TxRing,
        SinkKind::Pcap,
        SinkKind::Dpdk,
        SinkKind::PfRing,
        SinkKind::Netmap,
    ];

    /// Those of the kernel's, whose accounts say what became of each frame at the interface.
    pub const OF_KERNEL: [SinkKind; 4] =
        [SinkKind::AfXdp, SinkKind::AfPacket, SinkKind::TxRing, SinkKind::Pcap];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            SinkKind::AfXdp => "af-xdp",
            SinkKind::AfPacket => "af-packet",
            SinkKind::TxRing => "tx-ring",
            SinkKind::Pcap => "pcap",
            SinkKind::Dpdk => "dpdk",
            SinkKind::PfRing => "pf-ring",
            SinkKind::Netmap => "netmap",
        }
    }
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SinkKind {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkKind, String> {
        let names = SinkKind::ALL.map(SinkKind::name).join(", ");
        let found = SinkKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("there is no sink {text}; there are {names}"))
    }
}

/// What to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// Interface in the calling thread's network namespace.
    pub interface: String,
    /// Transmit queue. Packet sockets and libpcap leave the choice to the kernel, which takes that
    /// of the sending CPU.
    pub queue: u32,
    /// Bytes of payload memory for chains, where the sink has any; 0 for none.
    pub payload_bytes: usize,
}

impl SinkConfig {
    /// The first queue, without payload memory.
    pub fn new(interface: &str) -> SinkConfig {
        SinkConfig { interface: interface.to_owned(), queue: 0, payload_bytes: 0 }
    }
}

/// An open sink of a kind that was chosen at run time.
pub enum AnySink {
    /// AF_XDP.
    AfXdp(Box<XdpSink>),
    /// sendmmsg(2) on a packet socket.
    AfPacket(Box<PacketSink>),
    /// A packet socket with a transmit ring.
    TxRing(Box<TxRingSink>),
    /// libpcap.
    Pcap(Box<PcapSink>),
    /// DPDK.
    Dpdk(Box<DpdkSink>),
    /// PF_RING.
    PfRing(Box<PfRingSink>),
    /// netmap.
    Netmap(Box<NetmapSink>),
}

/// A sink, and the lines that say how it came about.
pub struct Opened {
    /// The sink.
    pub sink: AnySink,
    /// For the user: what was chosen, why, and what was tried before.
    pub notes: Vec<String>,
}

/// Opens a sink of `kind`; without one, the best that there is.
///
/// # Errors
/// There is no such interface, it is down, or what was asked for cannot be had.
pub fn open(kind: Option<SinkKind>, config: &SinkConfig) -> Result<Opened, Error> {
    let mut notes = Vec::new();
    let sink = match kind {
        Some(kind) => open_kind(kind, config, &mut notes)?,
        None => open_best(config, &mut notes)?,
    };
    Ok(Opened { sink, notes })
}

fn open_kind(
    kind: SinkKind,
    config: &SinkConfig,
    notes: &mut Vec<String>,
) -> Result<AnySink, Error> {
    Ok(match kind {
        SinkKind::AfXdp => AnySink::AfXdp(Box::new(XdpSink::open(config, notes)?)),
        SinkKind::AfPacket => AnySink::AfPacket(Box::new(PacketSink::open(config)?)),
        SinkKind::TxRing => AnySink::TxRing(Box::new(TxRingSink::open(config)?)),
        SinkKind::Pcap => AnySink::Pcap(Box::new(PcapSink::open(config)?)),
        SinkKind::Dpdk => AnySink::Dpdk(Box::new(DpdkSink::open(config)?)),
        SinkKind::PfRing => AnySink::PfRing(Box::new(PfRingSink::open(config)?)),
        SinkKind::Netmap => AnySink::Netmap(Box::new(NetmapSink::open(config)?)),
    })
}

/// af-xdp where the driver knows XDP and the socket can be had; else af-packet; else libpcap.
fn open_best(config: &SinkConfig, notes: &mut Vec<String>) -> Result<AnySink, Error> {
    let name = &config.interface;
    let note = |chosen: SinkKind, why: &str| format!("{name}: {chosen}, {why}");
    let device = interface::find(name)?;
    if device.hardware_type != interface::ETHERNET {
        notes.push(note(SinkKind::Pcap, "because its frames are not Ethernet's"));
        return open_kind(SinkKind::Pcap, config, notes);
    }
    let against = match netdev::xdp_features(device.ifindex) {
        Ok(Some(features)) if features.native => None,
        Ok(Some(_)) => Some("its driver has no XDP".to_owned()),
        Ok(None) => Some("this kernel does not say whether its driver has XDP".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let against = match against {
        Some(reason) => reason,
        None => match XdpSink::open(config, notes) {
            Ok(sink) => {
                let why = "because its driver has XDP: past the stack, with chains and checksums";
                notes.push(note(SinkKind::AfXdp, why));
                return Ok(AnySink::AfXdp(Box::new(sink)));
            }
            Err(error) => error.to_string(),
        },
    };
    notes.push(note(SinkKind::AfPacket, &format!("not af-xdp: {against}")));
    open_kind(SinkKind::AfPacket, config, notes)
}

/// Calls the same method of whichever sink it is.
macro_rules! each {
    ($sink:expr, $inner:ident => $call:expr) => {
        match $sink {
            AnySink::AfXdp($inner) => $call,
            AnySink::AfPacket($inner) => $call,
            AnySink::TxRing($inner) => $call,
            AnySink::Pcap($inner) => $call,
            AnySink::Dpdk($inner) => $call,
            AnySink::PfRing($inner) => $call,
            AnySink::Netmap($inner) => $call,
        }
    };
}

impl AnySink {
    /// A packet socket that sends as `options` say.
    ///
    /// # Errors
    /// As [`PacketSink::open`].
    pub(crate) fn packet(config: &SinkConfig, options: PacketOptions) -> Result<AnySink, Error> {
        Ok(AnySink::AfPacket(Box::new(PacketSink::open_with(config, options)?)))
    }

    /// Its kind.
    pub fn kind(&self) -> SinkKind {
        match self {
            AnySink::AfXdp(_) => SinkKind::AfXdp,
            AnySink::AfPacket(_) => SinkKind::AfPacket,
            AnySink::TxRing(_) => SinkKind::TxRing,
            AnySink::Pcap(_) => SinkKind::Pcap,
            AnySink::Dpdk(_) => SinkKind::Dpdk,
            AnySink::PfRing(_) => SinkKind::PfRing,
            AnySink::Netmap(_) => SinkKind::Netmap,
        }
    }
}

impl Sink for AnySink {
    fn name(&self) -> &'static str {
        self.kind().name()
    }

    fn features(&self) -> SinkFeatures {
        each!(self, sink => sink.features())
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        each!(self, sink => sink.put(bytes, checksum, write))
    }

    #[inline]
    fn put_chain(
        &mut self,
        header_bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
        pieces: &[Range<usize>],
    ) -> Result<bool, SinkError> {
        each!(self, sink => sink.put_chain(header_bytes, checksum, write, pieces))
    }

    fn write_payload(
        &mut self,
        range: Range<usize>,
        write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SinkError> {
        each!(self, sink => sink.write_payload(range, write))
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Handed, SinkError> {
        each!(self, sink => sink.send(frames))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        each!(self, sink => sink.flush())
    }

    fn counters(&mut self) -> SinkCounters {
        each!(self, sink => sink.counters())
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        each!(self, sink => sink.drain(timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_by_their_names() {
        for kind in SinkKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "carrier-pigeon".parse::<SinkKind>().unwrap_err();
        assert!(error.contains("carrier-pigeon") && error.contains("af-xdp"), "{error}");
    }
}
