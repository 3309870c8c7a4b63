//! Handshakes that are made up, and what is found in them.

use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogCounts, RecordSink};
use ringside_tls::Handshake;
use std::sync::{Arc, Mutex};

/// Keeps all handshakes.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<Vec<Handshake>>>);

impl Kept {
    pub fn sinks(&self) -> Vec<(String, Box<dyn RecordSink<Handshake>>)> {
        vec![("kept".into(), Box::new(self.clone()))]
    }
}

impl RecordSink<Handshake> for Kept {
    fn put(&mut self, found: &Handshake, _interface: &str) {
        self.0.lock().unwrap().push(found.clone());
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.0.lock().unwrap().len() as u64, ..LogCounts::default() }
    }
}

/// A message in a record of its own.
pub fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![22, 3, 1];
    out.extend((body.len() as u16 + 4).to_be_bytes());
    out.extend([kind, 0]);
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    out
}

/// A ClientHello that asks for `name`.
pub fn client_hello(name: &str) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
    let bytes = name.len() as u16;
    let mut extension = vec![0, 0];
    extension.extend((bytes + 5).to_be_bytes());
    extension.extend((bytes + 3).to_be_bytes());
    extension.push(0);
    extension.extend(bytes.to_be_bytes());
    extension.extend(name.as_bytes());
    body.extend((extension.len() as u16).to_be_bytes());
    body.extend(extension);
    record(1, &body)
}

/// A ServerHello of TLS 1.2 that goes on with the session.
pub fn server_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([8; 32]);
    body.extend([1, 9, 0xc0, 0x2f, 0]);
    record(2, &body)
}

/// A segment between 10.0.0.1:PORT and 10.0.0.2:443; the first of a direction, with number 0, is a
/// SYN.
pub fn tcp(port: u16, is_back: bool, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((40 + payload.len() as u16).to_be_bytes());
    let (from, to) = if is_back { (2, 1) } else { (1, 2) };
    out.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    let ports = if is_back { [443, port] } else { [port, 443] };
    ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
    out.extend(sequence.to_be_bytes());
    let flags = if sequence == 0 { 2 } else { 0 };
    out.extend([0, 0, 0, 0, 0x50, flags, 255, 255, 0, 0, 0, 0]);
    out.extend(payload);
    out
}

pub fn see(observer: &mut dyn Observer, bytes: &[u8], stamp: u64) {
    let interface = SourceInterface::ethernet("eth1");
    let wire_bytes = bytes.len() as u32;
    let meta = FrameMeta { timestamp: Timestamp(stamp), wire_bytes, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    observer.see(&DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET), &received);
}
