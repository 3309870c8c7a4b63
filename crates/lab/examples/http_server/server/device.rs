//! A network device for smoltcp: frames come from a packet socket's ring; packets of up to 64 KiB
//! go out in segments.

use super::ServerConfig;
use super::lossy::Lossy;
use anyhow::{Context, bail};
use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_core::{InterfaceId, QueueId, SinkCounters};
use ringside_netdev as netdev;
use ringside_segment::MTU_BYTES_MAX;
use ringside_sys::packet::{
    CaptureDirection, Filled, FilterProgram, PacketConfig, PacketRing, Wakeup,
};
use ringside_transmit::sink::{self, AnySink, SinkConfig};
use ringside_transmit::{Cutter, PACKET_BYTES_MAX};
use ringside_wire::{EtherType, Ethernet, IpProtocol, Ipv4, Tcp};
use smoltcp::phy::{Checksum, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant as Moment;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

/// Headers of a packet: TCP without options, which smoltcp puts on SYNs alone.
const HEADER_BYTES: usize = Ethernet::BYTES + Ipv4::BYTES_MIN + Tcp::BYTES_MIN;

/// Payload memory for chains: sixteen packets.
const PAYLOAD_BYTES: usize = 1 << 20;

/// Blocks of the receive ring: 500 acknowledgments, and 4 MiB in all.
const BLOCK_BYTES: u32 = 64 << 10;
const BLOCK_COUNT: u32 = 64;

/// How long the end may take.
const DRAIN: Duration = Duration::from_secs(1);

/// Both ways of one interface.
pub struct Device {
    ring: PacketRing,
    /// Received frames, one behind the other, and where those lie that smoltcp has not seen.
    received: Vec<u8>,
    unseen: VecDeque<Range<usize>>,
    outlet: Outlet,
}

/// The way out.
pub struct Outlet {
    cutter: Cutter<Lossy<AnySink>>,
    packet: Vec<u8>,
    packets: u64,
    left_out: u64,
    /// Why nothing can be sent any more: smoltcp does not ask.
    failure: Option<ringside_transmit::Error>,
}

impl Device {
    pub fn open(
        config: &ServerConfig,
        mac: [u8; 6],
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Device> {
        let name = &config.interface;
        let Some(device) = netdev::by_name(name)? else {
            bail!("there is no interface {name} in this network namespace; `ip link` lists them");
        };
        let payload_bytes = if config.has_chains { PAYLOAD_BYTES } else { 0 };
        let wanted = SinkConfig { payload_bytes, ..SinkConfig::new(name) };
        let opened = sink::open(Some(config.sink), &wanted)?;
        notes.extend(opened.notes);
        let cutter = Cutter::new(Lossy::new(opened.sink, config.lose_every));
        let mut ring = PacketRing::open(&ring_config(device.ifindex))?;
        ring.start(FilterProgram::Classic(&to(mac)))
            .context("the filter of the server's frames")?;
        Ok(Device {
            ring,
            received: Vec::new(),
            unseen: VecDeque::new(),
            outlet: Outlet {
                cutter,
                packet: vec![0; PACKET_BYTES_MAX],
                packets: 0,
                left_out: 0,
                failure: None,
            },
        })
    }

    /// Takes the frames of at most one block of the ring; true if there were any.
    pub fn collect(&mut self) -> bool {
        if self.unseen.is_empty() {
            self.received.clear();
        }
        if self.ring.fill(None) != Filled::Frames {
            return false;
        }
        let Some(batch) = self.ring.lend() else { return false };
        for frame in batch.iter() {
            let start = self.received.len();
            self.received.extend_from_slice(frame.bytes);
            self.unseen.push_back(start..self.received.len());
        }
        true
    }

    /// Waits until frames may be there, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> anyhow::Result<()> {
        match self.ring.wait(timeout)? {
            Wakeup::Gone(event) => bail!("the server's interface {event}"),
            Wakeup::Ready | Wakeup::TimedOut => Ok(()),
        }
    }

    /// Hands over what was sent.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        if let Some(error) = self.outlet.failure.take() {
            return Err(error.into());
        }
        Ok(self.outlet.cutter.flush()?)
    }

    /// Packets, frames left out for want of room, frames lost on purpose.
    pub fn counts(&self) -> (u64, u64, u64) {
        let Outlet { packets, left_out, cutter, .. } = &self.outlet;
        (*packets, *left_out, cutter.sink().lost)
    }

    pub fn end(&mut self) -> anyhow::Result<SinkCounters> {
        let (counters, failure) = self.outlet.cutter.drain(DRAIN);
        failure.map_or(Ok(counters), |failure| Err(failure.into()))
    }
}

impl smoltcp::phy::Device for Device {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = ToSend<'a>;

    fn receive(&mut self, _now: Moment) -> Option<(Received<'_>, ToSend<'_>)> {
        let range = self.unseen.pop_front()?;
        let to_send = ToSend { outlet: &mut self.outlet, mss_bytes: None };
        Some((Received(&self.received[range]), to_send))
    }

    fn transmit(&mut self, _now: Moment) -> Option<ToSend<'_>> {
        Some(ToSend { outlet: &mut self.outlet, mss_bytes: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mtu_bytes = self.outlet.cutter.mtu_bytes();
        let mss_bytes = mtu_bytes - (HEADER_BYTES - Ethernet::BYTES);
        // Whole segments, so that no short one stands in the middle of a stream.
        let segments = (Ethernet::BYTES + MTU_BYTES_MAX - HEADER_BYTES) / mss_bytes;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = Ethernet::BYTES + mtu_bytes;
        capabilities.segmentation.tcpv4 = NonZeroUsize::new(HEADER_BYTES + segments * mss_bytes);
        // The checksums of what is sent are made where it is cut.
        capabilities.checksum.tcp = Checksum::Rx;
        capabilities
    }
}

/// A received frame.
pub struct Received<'d>(&'d [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

/// A packet to be.
pub struct ToSend<'d> {
    outlet: &'d mut Outlet,
    mss_bytes: Option<usize>,
}

impl TxToken for ToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Outlet { cutter, packet, packets, left_out, failure } = self.outlet;
        let packet = &mut packet[..len];
        let result = write(packet);
        let sent = match is_tcp(packet) {
            true => cutter.send(packet, self.mss_bytes),
            false => cutter.send_as_is(packet),
        };
        *packets += 1;
        match sent {
            Ok(put) => *left_out += put.left_out as u64,
            Err(error) => *failure = Some(error),
        }
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.mss_bytes = meta.segmentation_offload_size.map(|bytes| bytes.get().into());
    }
}

/// Of the packets that smoltcp makes.
fn is_tcp(packet: &[u8]) -> bool {
    let Ok(ethernet) = Ethernet::new(packet) else { return false };
    let is_ipv4 = ethernet.ether_type() == Some(EtherType::IPV4);
    is_ipv4 && Ipv4::new(ethernet.payload()).is_ok_and(|ip| ip.protocol() == IpProtocol::TCP)
}

fn ring_config(ifindex: u32) -> PacketConfig {
    PacketConfig {
        ifindex,
        interface: InterfaceId(0),
        queue: QueueId(0),
        block_bytes: BLOCK_BYTES,
        block_count: BLOCK_COUNT,
        block_timeout_ms: 1,
        fanout: None,
        // The server's hardware address is none that the interface has.
        promiscuous: true,
        direction: CaptureDirection::Inbound,
        hardware_timestamps: false,
        receive_hash: false,
        snaplen_bytes: u32::MAX,
        ethernet: true,
    }
}

/// The classic program that accepts frames to `mac` and to everybody, who may be asked for by ARP.
fn to(mac: [u8; 6]) -> ClassicProgram {
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const LOAD_HALF: u16 = 0x28;
    const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06;
    let [a, b, c, d, e, f] = mac;
    let (high, low) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([0, 0, e, f]));
    let step = |code, k, jump_true, jump_false| Instruction { code, jump_true, jump_false, k };
    ClassicProgram {
        instructions: vec![
            step(LOAD_WORD, 0, 0, 0),
            step(JUMP_EQUAL, u32::MAX, 3, 0),
            step(JUMP_EQUAL, high, 0, 3),
            step(LOAD_HALF, 4, 0, 0),
            step(JUMP_EQUAL, low, 0, 1),
            step(RETURN, u32::MAX, 0, 0),
            step(RETURN, 0, 0, 0),
        ],
    }
}
