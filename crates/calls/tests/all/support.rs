//! Calls that are made up, and what is found in them.

use ringside_calls::{Call, CallsObserver, Options};
use ringside_core::{FrameMeta, LaneId, LinkType, Source, SourceInterface, Timestamp};
use ringside_inspect::{DissectedFrame, Observer, Pump, Received};
use ringside_logs::{LogCounts, RecordSink};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub const MS: u64 = 1_000_000;
pub const START: u64 = 1_700_000_000_000_000_000;

/// Keeps all calls.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<Vec<Call>>>);

impl RecordSink<Call> for Kept {
    fn put(&mut self, call: &Call, _interface: &str) {
        self.0.lock().unwrap().push(call.clone());
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.0.lock().unwrap().len() as u64, ..LogCounts::default() }
    }
}

/// A datagram from and to a host 10.0.0.N and a port.
pub fn datagram(from: (u8, u16), to: (u8, u16), payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((28 + payload.len() as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
    out.extend(from.1.to_be_bytes());
    out.extend(to.1.to_be_bytes());
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

/// A packet of G.711.
pub fn rtp(number: u16, ssrc: u32) -> Vec<u8> {
    let mut out = vec![0x80, 0];
    out.extend(number.to_be_bytes());
    out.extend((u32::from(number) * 160).to_be_bytes());
    out.extend(ssrc.to_be_bytes());
    out.extend([0xff; 160]);
    out
}

/// A description: sound at a host and port.
pub fn sdp(host: u8, port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 10.0.0.{host}\r\ns=-\r\nc=IN IP4 10.0.0.{host}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"
    )
}

/// Frames with their stamps.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub frames: Vec<(u64, Vec<u8>)>,
    pub now: u64,
}

impl Traffic {
    pub fn new() -> Traffic {
        Traffic { frames: Vec::new(), now: START }
    }

    pub fn wait(&mut self, ms: u64) -> &mut Traffic {
        self.now += ms * MS;
        self
    }

    pub fn put(&mut self, from: (u8, u16), to: (u8, u16), payload: &[u8]) -> &mut Traffic {
        self.frames.push((self.now, datagram(from, to, payload)));
        self
    }

    /// A SIP message between alice at 10.0.0.1 and bob at 10.0.0.2.
    pub fn say(&mut self, is_back: bool, message: &str) -> &mut Traffic {
        let (from, to) = if is_back { (2, 1) } else { (1, 2) };
        self.put((from, 5060), (to, 5060), message.as_bytes())
    }
}

/// A message: first line, CSeq, tag of bob, and a body that is a description if there is one.
pub fn message(first: &str, call_id: &str, cseq: &str, to_tag: &str, body: &str) -> String {
    let tag = if to_tag.is_empty() { String::new() } else { format!(";tag={to_tag}") };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{first}\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1\r\nFrom: <sip:alice@a>;tag=a1\r\n\
         To: <sip:bob@b>{tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub const INVITE: &str = "INVITE sip:bob@b SIP/2.0";

/// All calls of this traffic.
pub fn find_with(options: Options, traffic: &Traffic) -> Vec<Call> {
    let kept = Kept::default();
    let mut observer = CallsObserver::new(options, vec![("kept".into(), Box::new(kept.clone()))]);
    for (stamp, bytes) in &traffic.frames {
        see(&mut observer, bytes, *stamp);
        assert!(observer.balances(), "{:?} {:?}", observer.ledger(), observer.open());
    }
    observer.finish();
    assert!(observer.balances(), "{:?}", observer.ledger());
    assert_eq!(observer.open(), (0, 0));

    kept.0.lock().unwrap().clone()
}

pub fn see(observer: &mut dyn Observer, bytes: &[u8], stamp: u64) {
    let interface = SourceInterface::ethernet("eth1");
    let wire_bytes = bytes.len() as u32;
    let meta = FrameMeta { timestamp: Timestamp(stamp), wire_bytes, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    observer.see(&DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET), &received);
}

/// Shows all frames of a file.
pub fn observe(path: &Path, options: Options, look: impl FnOnce(&CallsObserver<'_>)) {
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return };
    let mut observer = CallsObserver::new(options, Vec::new());
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    let source: &mut dyn Source = &mut *source;
    pump.run(source, LaneId(0), &|| false);
    assert!(observer.balances(), "{}: {:?}", path.display(), observer.ledger());
    look(&observer);
}

pub fn find(traffic: &Traffic) -> Vec<Call> {
    find_with(Options::default(), traffic)
}
