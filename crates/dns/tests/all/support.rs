//! Messages that are made up, and what is found in them.

use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_dns::{DnsObserver, Limits, Transaction};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogCounts, RecordSink};
use std::sync::{Arc, Mutex};

/// Keeps all transactions.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<Vec<Transaction>>>);

impl Kept {
    pub fn sinks(&self) -> Vec<(String, Box<dyn RecordSink<Transaction>>)> {
        vec![("kept".into(), Box::new(self.clone()))]
    }
}

impl RecordSink<Transaction> for Kept {
    fn put(&mut self, transaction: &Transaction, _interface: &str) {
        self.0.lock().unwrap().push(transaction.clone());
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.0.lock().unwrap().len() as u64, ..LogCounts::default() }
    }
}

/// A message with a question for `name`, and an address in the answer if it is one.
pub fn message(id: u16, is_response: bool, name: &str) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend(if is_response { [0x81, 0x80] } else { [1, 0] });
    out.extend([0, 1, 0, u8::from(is_response), 0, 0, 0, 0]);
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.extend([0, 0, 1, 0, 1]);
    if is_response {
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    }
    out
}

/// An Ethernet frame between 10.0.0.1:PORT and 10.0.0.2:53 with this above IP.
pub fn frame(protocol: u8, is_back: bool, above: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((20 + above.len() as u16).to_be_bytes());
    let (from, to) = if is_back { (2, 1) } else { (1, 2) };
    out.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    out.extend(above);
    out
}

fn ports(port: u16, is_back: bool) -> Vec<u8> {
    let ports = if is_back { [53, port] } else { [port, 53] };
    ports.iter().flat_map(|port| port.to_be_bytes()).collect()
}

/// A datagram.
pub fn udp(port: u16, is_back: bool, payload: &[u8]) -> Vec<u8> {
    let mut above = ports(port, is_back);
    above.extend((8 + payload.len() as u16).to_be_bytes());
    above.extend([0, 0]);
    above.extend(payload);
    frame(17, is_back, &above)
}

/// A segment; the first of each direction, with number 0, is a SYN.
pub fn tcp(port: u16, is_back: bool, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut above = ports(port, is_back);
    above.extend(sequence.to_be_bytes());
    let flags = if sequence == 0 { 2 } else { 0 };
    above.extend([0, 0, 0, 0, 0x50, flags, 255, 255, 0, 0, 0, 0]);
    above.extend(payload);
    frame(6, is_back, &above)
}

/// Both directions begin.
pub fn opened(port: u16) -> Vec<(u64, Vec<u8>)> {
    vec![(0, tcp(port, false, 0, b"")), (0, tcp(port, true, 0, b""))]
}

/// A message behind its length.
pub fn with_length(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

pub fn see(observer: &mut dyn Observer, bytes: &[u8], stamp: u64) {
    let interface = SourceInterface::ethernet("eth1");
    let wire_bytes = bytes.len() as u32;
    let meta = FrameMeta { timestamp: Timestamp(stamp), wire_bytes, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    observer.see(&DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET), &received);
}

/// `ID NAME ENDING RETRANSMISSIONS LATENCY DATA` of all transactions of frames, each with its
/// stamp in milliseconds.
pub fn texts(frames: &[(u64, Vec<u8>)]) -> Vec<String> {
    let kept = Kept::default();
    let mut observer = DnsObserver::new(Limits::default(), kept.sinks());
    for (millis, bytes) in frames {
        let stamp = 1_000_000_000 + millis * 1_000_000;
        observer.tick(Timestamp(stamp));
        see(&mut observer, bytes, stamp);
        assert!(observer.balances(), "{:?}", observer.ledger());
    }
    observer.finish();
    assert!(observer.balances() && observer.open() == 0, "{:?}", observer.ledger());
    let text = |found: &Transaction| {
        let name = found.question.as_ref().map_or("-".into(), |asked| asked.name.to_string());
        let again = found.query.map_or(0, |query| query.retransmissions);
        let latency = found.latency_ns().map_or("-".into(), |ns| (ns / 1_000_000).to_string());
        let answers = found.response.iter().flat_map(|response| &response.answers);
        let data: Vec<&str> = answers.map(|answer| answer.data.as_str()).collect();
        let data = data.join(",");
        format!("{} {name} {} {again} {latency} {data}", found.id, found.ending.name())
            .trim_end()
            .to_owned()
    };
    let found = kept.0.lock().unwrap();
    found.iter().map(text).collect()
}
