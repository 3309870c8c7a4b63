//! Modules that are made up, packets, and what is found in them.

use ringside_core::{FrameMeta, InterfaceId, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_extension::{ExtensionError, ExtensionObserver, Found};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogCounts, RecordSink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Keeps all records, of memory that is bounded by the test.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<Vec<Found>>>);

impl Kept {
    pub fn sinks(&self) -> Vec<(String, Box<dyn RecordSink<Found>>)> {
        vec![("kept".into(), Box::new(self.clone()))]
    }

    /// The fields of all records, as JSON.
    pub fn fields(&self) -> Vec<String> {
        let found = self.0.lock().unwrap();
        found
            .iter()
            .map(|found| serde_json::Value::from(found.fields.0.clone()).to_string())
            .collect()
    }
}

impl RecordSink<Found> for Kept {
    fn put(&mut self, found: &Found, _interface: &str) {
        self.0.lock().unwrap().push(found.clone());
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.0.lock().unwrap().len() as u64, ..LogCounts::default() }
    }
}

/// A file of the examples.
pub fn guest(name: &str) -> PathBuf {
    ringside_testkit::project_root().join("crates/extension/guests").join(name)
}

/// The text of a module with all that an extension has to export, and `packet` as what it does with
/// a packet; `more` stands in front of that.
pub fn module(more: &str, packet: &str) -> String {
    format!(
        r#"(module
  (import "ringside" "emit" (func $emit (param i32 i32) (result i32)))
  (import "ringside" "count" (func $count (param i32 i32 i64) (result i32)))
  (import "ringside" "header" (func $header (param i32) (result i32)))
  (import "ringside" "payload_offset" (func $payload_offset (result i32)))
  (import "ringside" "payload_bytes" (func $payload_bytes (result i32)))
  (memory (export "memory") 2)
  (func (export "ringside_abi") (result i32) (i32.const 1))
  (func (export "ringside_buffer") (result i32) (i32.const 0x10000))
  {more}
  (func (export "ringside_packet")
    (param $bytes i32) (param $wire_bytes i32) (param $time_ns i64)
    (param $link_type i32) (param $interface i32)
    {packet}))"#
    )
}

/// An extension out of a module's text, and its records.
pub fn open(text: &str) -> (ExtensionObserver, Kept) {
    let kept = Kept::default();
    let observer = ExtensionObserver::new("test", text.as_bytes(), kept.sinks());
    (observer.unwrap_or_else(|error| panic!("{error}\n{text}")), kept)
}

/// Why a module's text is no extension.
pub fn refusal(text: &str) -> ExtensionError {
    match ExtensionObserver::new("test", text.as_bytes(), Kept::default().sinks()) {
        Ok(_) => panic!("it was taken:\n{text}"),
        Err(error) => error,
    }
}

/// Shows a packet of Ethernet.
pub fn see(observer: &mut dyn Observer, bytes: &[u8], stamp: u64) {
    let interface = SourceInterface::ethernet("eth1");
    let wire_bytes = bytes.len() as u32;
    let interface_id = InterfaceId(0);
    let timestamp = Timestamp(stamp);
    let meta = FrameMeta { timestamp, wire_bytes, interface: interface_id, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    observer.see(&DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET), &received);
}

/// A frame of UDP between two hosts.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut above = 4_000_u16.to_be_bytes().to_vec();
    above.extend(port.to_be_bytes());
    above.extend((8 + payload.len() as u16).to_be_bytes());
    above.extend([0, 0]);
    above.extend(payload);
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((20 + above.len() as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend(above);
    out
}
