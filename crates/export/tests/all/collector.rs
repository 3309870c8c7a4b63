//! Records whose numbers tell what arrived, and the collectors that tests play.

use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{NetflowPacket, NetflowParser};
use ringside_core::{InterfaceId, Timestamp};
use ringside_export::{Address, Host, Options, Outlet, Status, Watch};
use ringside_flow::{EndReason, Format, Record, RecordSink, Side};
use ringside_testkit::wait_until;
use ringside_wire::IpProtocol;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

pub const START: u64 = 1_700_000_000_000_000_000;

/// Both directions of a conversation of TCP, that `id` alone tells apart.
pub fn record(id: u64) -> Record {
    let side = |packets: u64, late_ns: u64| Side {
        packets,
        octets: packets * 114,
        ip_octets: packets * 100,
        first_ns: START + late_ns,
        last_ns: START + late_ns + 1_000_000 * packets,
        tcp_flags: 0x1b,
        ..Side::default()
    };
    Record {
        flow_id: id,
        part: 0,
        end: EndReason::End,
        interface: InterfaceId(0),
        source: Ipv4Addr::from_bits(0x0a00_0000 | id as u32).into(),
        destination: Ipv4Addr::new(192, 0, 2, 1).into(),
        source_port: 1024 + (id % 60_000) as u16,
        destination_port: 443,
        is_initiator_known: true,
        is_one_way: false,
        is_followed: true,
        protocol: IpProtocol::TCP,
        vlan: None,
        tunnel: None,
        forward: side(1 + id % 100, 0),
        reverse: side(2 + id % 10, 2_000_000),
        application: None,
        rtt_responder_ns: None,
        rtt_initiator_ns: None,
    }
}

/// Puts the records of these ids, all at one time.
pub fn put(outlet: &mut Outlet, ids: std::ops::RangeInclusive<u64>) {
    for id in ids {
        outlet.put(&record(id), "", Timestamp(START));
    }
}

/// Options of tests: tries to connect follow each other at once, the end waits long, and the queue
/// has room for all that a test puts.
pub fn options() -> Options {
    let (pause, finish) = (Duration::from_millis(1), ringside_testkit::WAIT_MAX);
    let queue_bytes = 64 << 20;
    Options { finish, pause, pause_max: pause, queue_bytes, ..Options::default() }
}

/// An outlet of IPFIX to a port of this machine.
pub fn tcp(port: u16, options: &Options) -> Outlet {
    let host = Host { name: "127.0.0.1".into(), port: Some(port) };
    Outlet::open(&Address::Tcp(host), Format::Ipfix, options).unwrap()
}

/// Asserts that every record is somewhere.
pub fn assert_account(status: &Status, given: u64) {
    let counts = &status.counts;
    assert_eq!(counts.total().records, given + counts.inherited.records, "{status:?}");
}

/// Waits until the status is so.
pub fn wait_status(watch: &Watch, what: &str, is_so: impl Fn(&Status) -> bool) {
    wait_until(what, || is_so(&watch.status()));
}

/// A port that is taken, and where nothing listens yet.
pub struct Silent(OwnedFd);

impl Silent {
    pub fn new() -> Silent {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        Silent(fd)
    }

    pub fn port(&self) -> u16 {
        SocketAddr::try_from(getsockname(&self.0).unwrap()).unwrap().port()
    }

    pub fn listen(self) -> TcpListener {
        listen(&self.0, 16).unwrap();
        self.0.into()
    }
}

/// What a collector makes of the messages of one session.
#[derive(Default)]
pub struct Session {
    parser: NetflowParser,
    pub flow_ids: Vec<u64>,
    /// Of the next message; none: numbers are not looked at.
    sequence: Option<u32>,
    messages: u64,
}

impl Session {
    /// Of a connection or a file, whose numbers begin at 0 and have no gap.
    pub fn counted() -> Session {
        Session { sequence: Some(0), ..Session::default() }
    }

    /// Reads one message; false if it needs templates that did not come.
    pub fn read(&mut self, message: &[u8]) -> bool {
        let result = self.parser.parse_bytes(message);
        assert!(result.error.is_none(), "{:?}", result.error);
        let [NetflowPacket::IPFix(ipfix)] = &result.packets[..] else { panic!("one of IPFIX") };
        if let Some(sequence) = self.sequence {
            assert_eq!(ipfix.header.sequence_number, sequence, "message {}", self.messages);
        }
        self.messages += 1;
        let (mut records, mut is_known) = (0, true);
        for set in &ipfix.flowsets {
            match &set.body {
                FlowSetBody::Data(data) => {
                    for fields in &data.fields {
                        let id = fields.iter().find(|(field, _)| {
                            *field == netflow_parser::IpfixField::new(148, None)
                        });
                        self.flow_ids.push(id.unwrap().1.as_u64().unwrap());
                        records += 1;
                    }
                }
                FlowSetBody::OptionsData(_) => records += 1,
                FlowSetBody::NoTemplate(_) => is_known = false,
                _ => {}
            }
        }
        self.sequence = self.sequence.map(|sequence| sequence + records);
        is_known
    }

    /// Reads all whole messages of a stream: the bytes that are left.
    pub fn read_stream<'b>(&mut self, mut stream: &'b [u8]) -> &'b [u8] {
        while let Some(&[high, low]) = stream.get(2..4) {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let Some((message, rest)) = stream.split_at_checked(length) else { break };
            assert!(self.read(message), "templates come first");
            stream = rest;
        }
        stream
    }
}
