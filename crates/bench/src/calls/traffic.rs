//! Calls that go on at a time: their signalling, and streams of G.711 from one core.

use super::super::load::SENDER_CPU;
use super::super::network;
use anyhow::Context;
use ringside_core::{FrameMeta, OwnedFrame};
use ringside_ebpf::replay::{HEADER_BYTES, Replay, Way};
use ringside_lab::Lab;
use ringside_netdev as netdev;
use ringside_sys::thread::pin_to_cpu;
use ringside_terminal::signals::StopSignal;
use ringside_transmit::{Job, Limits, Load, SenderKind};
use std::time::{Duration, Instant};

/// As many as there are rules for.
pub(super) const CALLS_MAX: i64 = 30_000;
/// Messages a second: what a tool must read before media come.
const MESSAGES_PER_SEC: u64 = 20_000;
/// Longest wait for them.
const MESSAGES_MAX: Duration = Duration::from_secs(20);
/// Where the RTP header of a packet begins: Ethernet, IPv4, UDP.
const RTP_AT: usize = 14 + 20 + 8;
/// Bytes of a frame with 20 ms of G.711.
const FRAME_BYTES: usize = RTP_AT + 12 + 160;
/// Frames of one call of the kernel: a millisecond or two.
const CALL_FRAMES: u32 = 8_192;
/// Calls of one address: each end has every other port.
const CALLS_OF_ADDRESS: u32 = 25_000;

/// Calls, and a network for them.
pub(super) struct Traffic<'l> {
    pub lab: &'l Lab,
    pub calls: u32,
}

/// What was sent.
pub(super) struct Sent {
    pub packets: u64,
    pub elapsed: Duration,
}

impl Traffic<'_> {
    /// Sends the INVITE of each call, and the answer.
    pub fn begin_calls(&self, stop: &StopSignal) -> anyhow::Result<()> {
        let meta = FrameMeta::default();
        let messages =
            (0..self.calls).flat_map(|call| [false, true].map(|back| message(call, back)));
        let frames: Vec<_> = messages.map(|bytes| OwnedFrame { bytes, meta }).collect();
        let job = Job {
            sender: SenderKind::Packet,
            wire: self.lab.wire(),
            limits: Limits::new(Some(frames.len() as u64), Some(MESSAGES_MAX))?,
            load: Load::Replay(frames.into()),
            cpus: vec![SENDER_CPU],
            rate_per_sec: Some(MESSAGES_PER_SEC),
        };
        ringside_transmit::run(&job, &|| stop.is_set())?;
        Ok(())
    }

    /// Packets that the receiving interface has had so far.
    pub fn arrived(&self) -> anyhow::Result<u64> {
        let status = self.lab.status();
        network::inside(&status.receiver_namespace, || {
            let device = netdev::by_name(status.receiver_interface)?;
            Ok(device.context("the receiving interface is gone")?.statistics.rx_packets)
        })
    }

    /// All streams in turn, at a rate or as fast as it goes.
    pub fn talk(
        &self,
        rate_per_sec: Option<u64>,
        duration: Duration,
        stop: &StopSignal,
    ) -> anyhow::Result<Sent> {
        let headers: Vec<_> =
            (0..self.calls).flat_map(|call| [false, true].map(|back| header(call, back))).collect();
        let status = self.lab.status();
        network::inside(&status.sender_namespace, || {
            pin_to_cpu(SENDER_CPU)?;
            let device = netdev::by_name(status.sender_interface)?;
            let ifindex = device.context("the sending interface is gone")?.ifindex;
            let way = Way::Interface(ifindex);
            let (at, bytes) = (RTP_AT as u32, FRAME_BYTES);
            let replay = Replay::of_rtp(&headers, way, at, bytes, rate_per_sec)?;
            let start = Instant::now();
            loop {
                let elapsed = start.elapsed();
                if elapsed >= duration || stop.is_set() {
                    return Ok(Sent { packets: replay.made()?, elapsed });
                }
                replay.run_live(CALL_FRAMES)?;
            }
        })
    }
}

/// Ends of a call: last byte of the address, and port.
fn end(call: u32, is_callee: bool) -> (u8, u16) {
    let host = 2 * (call / CALLS_OF_ADDRESS) as u8 + 10 + u8::from(is_callee);
    (host, 10_000 + 2 * (call % CALLS_OF_ADDRESS) as u16)
}

/// The beginning of a datagram between hosts of 10.99.1.0.
fn datagram(from: (u8, u16), to: (u8, u16), payload_bytes: usize) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((28 + payload_bytes as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 99, 1, from.0, 10, 99, 1, to.0]);
    let words = [from.1, to.1, 8 + payload_bytes as u16, 0];
    words.iter().for_each(|word| out.extend(word.to_be_bytes()));
    out
}

fn message(call: u32, is_answer: bool) -> Vec<u8> {
    let (host, port) = end(call, is_answer);
    let body = format!(
        "v=0\r\no=- 1 1 IN IP4 10.99.1.{host}\r\ns=-\r\nc=IN IP4 10.99.1.{host}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n"
    );
    let (first, tag) = match is_answer {
        true => ("SIP/2.0 200 OK", ";tag=b"),
        false => ("INVITE sip:bob@b SIP/2.0", ""),
    };
    let text = format!(
        "{first}\r\nVia: SIP/2.0/UDP 10.99.1.1;branch=z9hG4bK{call}\r\n\
         From: <sip:alice@a>;tag=a\r\nTo: <sip:bob@b>{tag}\r\nCall-ID: {call}@10.99.1.1\r\n\
         CSeq: 1 INVITE\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (from, to) = if is_answer { (2, 1) } else { (1, 2) };
    let mut out = datagram((from, 5060), (to, 5060), text.len());
    out.extend(text.as_bytes());
    out
}

/// The headers of a stream, whose number and timestamp begin with 0.
fn header(call: u32, is_back: bool) -> [u8; HEADER_BYTES] {
    let (from, to) = (end(call, is_back), end(call, !is_back));
    let mut bytes = datagram(from, to, FRAME_BYTES - RTP_AT);
    bytes.extend([0x80, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend((2 * call + u32::from(is_back)).to_be_bytes());
    bytes.resize(HEADER_BYTES, 0xff);
    std::array::from_fn(|at| bytes[at])
}
