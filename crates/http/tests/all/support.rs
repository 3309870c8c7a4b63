//! Connections that are made up, and what is found in them.

use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_http::{HttpObserver, Options, Transaction};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogCounts, RecordSink};
use std::sync::{Arc, Mutex};

pub const SYN: u8 = 2;
pub const FIN: u8 = 1;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

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

/// A TCP segment between 10.0.0.1:PORT and 10.0.0.2:80.
#[derive(Clone, Debug)]
pub struct Packet {
    pub port: u16,
    pub is_back: bool,
    pub sequence: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
    pub stamp: u64,
}

impl Packet {
    pub fn frame(&self) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
        out.extend((40 + self.payload.len() as u16).to_be_bytes());
        let (from, to) = if self.is_back { (2, 1) } else { (1, 2) };
        out.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        let ports = if self.is_back { [80, self.port] } else { [self.port, 80] };
        ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
        out.extend(self.sequence.to_be_bytes());
        out.extend([0, 0, 0, 0, 0x50, self.flags, 255, 255, 0, 0, 0, 0]);
        out.extend(&self.payload);
        out
    }
}

/// A connection as a list of packets, each a millisecond later than the one before.
#[derive(Clone, Debug)]
pub struct Connection {
    pub packets: Vec<Packet>,
    port: u16,
    next: [u32; 2],
}

impl Connection {
    pub fn new(port: u16) -> Connection {
        let mut made = Connection { packets: Vec::new(), port, next: [99, 499] };
        made.push(false, SYN, b"");
        made.push(true, SYN | ACK, b"");
        made
    }

    pub fn push(&mut self, is_back: bool, flags: u8, payload: &[u8]) {
        let sequence = self.next[usize::from(is_back)];
        let takes = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[usize::from(is_back)] = sequence.wrapping_add(takes);
        let stamp = 1_000_000_000 + self.packets.len() as u64 * 1_000_000;
        let payload = payload.to_vec();
        let port = self.port;
        self.packets.push(Packet { port, is_back, sequence, flags, payload, stamp });
    }

    /// The client says something.
    pub fn ask(mut self, text: &str) -> Connection {
        self.push(false, 0, text.as_bytes());
        self
    }

    /// The server does.
    pub fn answer(mut self, text: &str) -> Connection {
        self.push(true, 0, text.as_bytes());
        self
    }

    /// Both end.
    pub fn end(mut self) -> Connection {
        self.push(true, FIN, b"");
        self.push(false, FIN, b"");
        self
    }

    /// The last packet is not seen.
    pub fn lose(mut self) -> Connection {
        self.packets.pop();
        self
    }
}

/// All transactions of these packets.
pub fn find_with(options: Options, packets: &[Packet]) -> Vec<Transaction> {
    let kept = Kept::default();
    let mut observer = HttpObserver::new(options, kept.sinks());
    let interface = SourceInterface::ethernet("eth1");
    for packet in packets {
        let bytes = packet.frame();
        see(&mut observer, &bytes, packet.stamp, &interface);
        assert!(observer.balances(), "{:?} {:?}", observer.ledger(), observer.streams());
    }
    observer.finish();
    assert!(observer.balances() && observer.open() == 0);

    kept.0.lock().unwrap().clone()
}

pub fn see(observer: &mut dyn Observer, bytes: &[u8], stamp: u64, interface: &SourceInterface) {
    let wire_bytes = bytes.len() as u32;
    let meta = FrameMeta { timestamp: Timestamp(stamp), wire_bytes, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface, lane: LaneId(0) };
    observer.see(&DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET), &received);
}

pub fn find(connection: &Connection) -> Vec<Transaction> {
    find_with(Options::default(), &connection.packets)
}

/// `METHOD TARGET STATUS BODY ENDING`, with `-` for what was not seen.
pub fn text(transaction: &Transaction) -> String {
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let asked = transaction.request.as_ref().map_or("- -".into(), |request| {
        format!("{} {}", plain(&request.method), plain(&request.target))
    });
    let answered = transaction.response.as_ref().map_or("- -".into(), |response| {
        let message = &response.message;
        let missing = match message.missing_bytes {
            0 => String::new(),
            missing => format!("+{missing}"),
        };
        format!("{} {}{missing}", response.status, message.body_bytes)
    });
    format!("{asked} {answered} {}", transaction.ending.name())
}

pub fn texts(connection: &Connection) -> Vec<String> {
    find(connection).iter().map(text).collect()
}
