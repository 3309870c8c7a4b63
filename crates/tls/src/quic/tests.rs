use super::keys::tests::{Header, seal};
use super::*;
use crate::limits::MESSAGE_BYTES_MAX;
use ringside_core::InterfaceId;
use ringside_inspect::key::Around;
use ringside_proto::quic::Version;
use ringside_testkit::quic::{retry, version_1, version_2};
use ringside_wire::IpProtocol;
use std::net::Ipv4Addr;

/// Connections between 10.0.0.1 and 10.0.0.2:443, and what was found.
struct Wire {
    connections: Connections,
    shared: Shared,
    found: Vec<Handshake>,
    now_ns: u64,
    port: u16,
}

impl Wire {
    fn new(connections: usize) -> Wire {
        let shared = Shared::default();
        let connections = Connections::new(connections);
        Wire { connections, shared, found: Vec::new(), now_ns: 1_000_000_000, port: 5000 }
    }

    fn say(&mut self, sender: Role, payload: &[u8]) {
        self.say_cut(sender, payload, payload.len());
    }

    /// Says something of which only a part was captured.
    fn say_cut(&mut self, sender: Role, payload: &[u8], captured: usize) {
        let around = Around {
            protocol: IpProtocol::UDP,
            vlan: None,
            tunnel: None,
            interface: InterfaceId(0),
        };
        let client = (Ipv4Addr::new(10, 0, 0, 1).into(), self.port);
        let server = (Ipv4Addr::new(10, 0, 0, 2).into(), 443);
        let (from, to) = if sender == Role::Client { (client, server) } else { (server, client) };
        let (key, from_high) = Key::new(from, to, &around, false);
        let stamp = Timestamp(self.now_ns);
        let (payload, payload_bytes) = (&payload[..captured], payload.len() as u32);
        let datagram = Datagram { key, from_high, stamp, payload, payload_bytes };
        let out = &mut |found: Handshake| self.found.push(found);
        self.connections.datagram(&datagram, &mut self.shared, out);
        self.check();
    }

    fn check(&self) {
        assert!(self.connections.ledger().balances(), "{:?}", self.connections.ledger());
        assert!(self.shared.ledger.balances(0, self.shared.open), "{:?}", self.shared);
        assert_eq!(self.shared.ledger.ended(), self.found.len() as u64);
    }

    fn tick(&mut self) {
        let out = &mut |found: Handshake| self.found.push(found);
        self.connections.tick(Timestamp(self.now_ns), &mut self.shared, out);
    }

    /// What was found in all.
    fn finish(mut self) -> Vec<Handshake> {
        let out = &mut |found: Handshake| self.found.push(found);
        self.connections.finish(&mut self.shared, out);
        self.check();
        assert_eq!((self.shared.open, self.shared.kept), (0, 0));
        assert!(self.connections.dues.is_empty());
        self.found
    }
}

/// A frame with a piece of what TLS says.
fn crypto(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let number = |value: usize| (0x8000_0000 | value as u32).to_be_bytes();
    [&[6], &number(offset)[..], &number(bytes.len()), bytes].concat()
}

/// A ClientHello for `a.example`.
fn client_hello() -> Vec<u8> {
    let name = b"a.example";
    let bytes = name.len() as u8;
    let mut body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    body.extend([0, bytes + 9, 0, 0, 0, bytes + 5, 0, bytes + 3, 0, 0, bytes]);
    body.extend(name);
    [&[1, 0, 0, body.len() as u8], body.as_slice()].concat()
}

/// A ServerHello of TLS 1.3, or a HelloRetryRequest.
fn server_hello(is_retry: bool) -> Vec<u8> {
    let random = if is_retry { RETRY_RANDOM } else { [8; 32] };
    let extensions = [0, 6, 0, 43, 0, 2, 3, 4];
    let body = [&[3, 3][..], &random, &[0, 0x13, 3, 0], &extensions].concat();
    [&[2, 0, 0, body.len() as u8], body.as_slice()].concat()
}

/// RFC 8446 section 4.1.3.
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

const FIRST: &[u8] = b"firstid8";
const CLIENT: &[u8] = b"client";
const SERVER: &[u8] = b"server";

/// A packet of the client, whose keys are of [`FIRST`], to what it calls `destination`.
fn to_server(version: Version, destination: &[u8], number: u16, payload: &[u8]) -> Vec<u8> {
    let ids = Ids { destination, source: CLIENT };
    seal(FIRST, Role::Client, &Header { version, ids, token: b"", number }, payload)
}

fn to_client(version: Version, number: u16, payload: &[u8]) -> Vec<u8> {
    let ids = Ids { destination: CLIENT, source: SERVER };
    seal(FIRST, Role::Server, &Header { version, ids, token: b"", number }, payload)
}

/// Name, cipher suite and ending of the only handshake.
fn facts(found: &[Handshake]) -> (Option<&str>, Option<u16>, Ending) {
    let [found] = found else { panic!("{found:?}") };
    let name = found.hello.as_ref().and_then(|hello| hello.server_name.as_deref());
    (name, found.answer.as_ref().map(|answer| answer.cipher_suite), found.ending)
}

const WHOLE: (Option<&str>, Option<u16>, Ending) =
    (Some("a.example"), Some(0x1303), Ending::Complete);

#[test]
fn hellos_of_the_rfcs_are_read() {
    for (version, example) in [(Version::V1, version_1()), (Version::V2, version_2())] {
        let mut wire = Wire::new(8);
        wire.say(Role::Client, &example.client);
        wire.now_ns += 3_000_000;
        wire.say(Role::Server, &example.server);
        let found = wire.finish();
        let complete = (Some("example.com"), Some(0x1301), Ending::Complete);
        assert_eq!(facts(&found), complete);
        let hello = found[0].hello.as_ref().unwrap();
        assert_eq!((found[0].quic, found[0].server.1), (Some(version), 443));
        assert_eq!((hello.version, &hello.ja4[..10]), (0x0304, "q13d0211an"));
        assert_eq!(hello.protocols, ["alpn"]);
        assert_eq!(found[0].server_hello_ns(), Some(3_000_000));
    }
}

#[test]
fn pieces_come_in_any_order_in_packets_and_datagrams() {
    let (hello, answer) = (client_hello(), server_hello(false));
    for at in 1..hello.len() {
        let [one, two] = [crypto(0, &hello[..at]), crypto(at, &hello[at..])];
        let [one, two] = [one, [&[1], two.as_slice(), &[0; 9]].concat()];
        let packets =
            [to_server(Version::V1, FIRST, 0, &two), to_server(Version::V1, FIRST, 1, &one)];
        let mut wire = Wire::new(8);
        match at % 2 {
            0 => wire.say(Role::Client, &packets.concat()),
            _ => packets.iter().for_each(|packet| wire.say(Role::Client, packet)),
        }
        // The server's packet of the handshake keys lies behind, in the same datagram.
        let handshake = [&[0xe0, 0, 0, 0, 1, 0, 0, 0x40, 40][..], &[9; 40], &[0x40, 1]].concat();
        let acknowledged = [&[2, 1, 0, 0, 1][..], &crypto(0, &answer)].concat();
        let initial = to_client(Version::V1, 0, &acknowledged);
        wire.say(Role::Server, &[initial, handshake].concat());
        assert_eq!(wire.connections.ledger().read, 3);
        // What is sent again, and an acknowledgment.
        wire.say(Role::Client, &packets[0]);
        wire.say(Role::Client, &to_server(Version::V1, SERVER, 2, &[2, 0, 0, 0, 0]));
        assert_eq!(wire.connections.ledger().after, 2);
        assert_eq!(facts(&wire.finish()), WHOLE);
    }
}

#[test]
fn a_client_calls_the_server_by_its_new_name() {
    let (hello, mut wire) = (client_hello(), Wire::new(8));
    wire.say(Role::Client, &to_server(Version::V1, FIRST, 0, &crypto(0, &hello[..30])));
    wire.say(Role::Server, &to_client(Version::V1, 0, &[2, 0, 0, 0, 0]));
    wire.say(Role::Client, &to_server(Version::V1, SERVER, 1, &crypto(30, &hello[30..])));
    let answers = [server_hello(true), server_hello(false)];
    wire.say(Role::Server, &to_client(Version::V1, 1, &crypto(0, &answers.concat())));
    let found = wire.finish();
    assert_eq!(facts(&found), WHOLE);
    assert!(found[0].is_retried);
}

#[test]
fn after_a_retry_keys_are_made_of_the_name_in_it() {
    let hello = crypto(0, &client_hello());
    for is_seen in [true, false] {
        let mut wire = Wire::new(8);
        wire.say(Role::Client, &to_server(Version::V1, FIRST, 0, &hello));
        if is_seen {
            let header = [&[0xf0, 0, 0, 0, 1, CLIENT.len() as u8][..], CLIENT, &[5]].concat();
            wire.say(Role::Server, &[&header[..], b"again", b"token", &[0; 16]].concat());
        }
        let ids = Ids { destination: b"again", source: CLIENT };
        let header = Header { version: Version::V1, ids, token: b"token", number: 1 };
        wire.say(Role::Client, &seal(b"again", Role::Client, &header, &hello));
        let ids = Ids { destination: CLIENT, source: SERVER };
        let header = Header { version: Version::V1, ids, token: b"", number: 0 };
        let answer = crypto(0, &server_hello(false));
        wire.say(Role::Server, &seal(b"again", Role::Server, &header, &answer));
        assert_eq!(wire.connections.ledger().retries, u64::from(is_seen));
        assert_eq!(facts(&wire.finish()), WHOLE);
    }
    let mut wire = Wire::new(8);
    wire.say(Role::Server, &retry());
    assert_eq!((wire.connections.ledger().other, wire.finish()), (1, Vec::new()));
}

/// A server that has none but version 2.
fn negotiation() -> Vec<u8> {
    [&[0x80, 0, 0, 0, 0, CLIENT.len() as u8][..], CLIENT, &[0, 0x6b, 0x33, 0x43, 0xcf]].concat()
}

#[test]
fn a_server_may_answer_in_another_version_or_have_none() {
    let hello = to_server(Version::V1, FIRST, 0, &crypto(0, &client_hello()));
    let mut wire = Wire::new(8);
    wire.say(Role::Client, &hello);
    wire.say(Role::Server, &to_client(Version::V2, 0, &crypto(0, &server_hello(false))));
    wire.say(Role::Client, &to_server(Version::V2, SERVER, 1, &[2, 0, 0, 0, 0]));
    assert_eq!(wire.connections.ledger().after, 1);
    let found = wire.finish();
    assert_eq!((facts(&found), found[0].quic), (WHOLE, Some(Version::V2)));
    let mut wire = Wire::new(8);
    wire.say(Role::Server, &negotiation());
    wire.say(Role::Client, &hello);
    wire.say(Role::Server, &negotiation());
    let ledger = wire.connections.ledger();
    assert_eq!((ledger.other, ledger.version_negotiations), (1, 1));
    assert_eq!(facts(&wire.finish()), (Some("a.example"), None, Ending::OtherVersion));
}

#[test]
fn behind_a_refused_version_another_connection_begins() {
    let mut wire = Wire::new(8);
    wire.say(Role::Client, &to_server(Version::V1, FIRST, 0, &crypto(0, &client_hello())));
    wire.say(Role::Server, &negotiation());
    // By the same names, but it is a new attempt (RFC 9000 section 6.2).
    wire.say(Role::Client, &to_server(Version::V2, FIRST, 1, &crypto(0, &client_hello())));
    wire.say(Role::Server, &to_client(Version::V2, 0, &crypto(0, &server_hello(false))));
    let found = wire.finish();
    let endings: Vec<_> = found.iter().map(|found| (found.quic, found.ending)).collect();
    let [first, second] = [Version::V1, Version::V2].map(Some);
    assert_eq!(endings, [(first, Ending::OtherVersion), (second, Ending::Complete)]);
}

#[test]
fn ends_without_names_begin_again_between_the_same_ports() {
    let mut wire = Wire::new(8);
    for (at, first) in [&b"one-time"[..], b"two-time", b"too-late"].into_iter().enumerate() {
        let ids = Ids { destination: first, source: b"" };
        let header = Header { version: Version::V1, ids, token: b"", number: 0 };
        let hello = crypto(0, &client_hello());
        wire.say(Role::Client, &seal(first, Role::Client, &header, &hello));
        if at == 1 {
            let ids = Ids { destination: b"", source: b"" };
            let answer = crypto(0, &server_hello(false));
            wire.say(Role::Server, &seal(first, Role::Server, &Header { ids, ..header }, &answer));
        }
    }
    let found = wire.finish();
    let endings: Vec<_> = found.iter().map(|found| (found.connection, found.ending)).collect();
    assert_eq!(endings, [(1, Ending::Reused), (2, Ending::Complete), (3, Ending::Forced)]);
}

#[test]
fn an_end_may_close_the_connection() {
    for (error, ending, alert) in
        [([0x41, 0x28], Ending::Alert, Some(40)), ([0x40, 0x0a], Ending::Closed, None)]
    {
        let mut wire = Wire::new(8);
        wire.say(Role::Client, &to_server(Version::V1, FIRST, 0, &crypto(0, &client_hello())));
        let close = [&[0x1c][..], &error, &[6, 3], b"why"].concat();
        wire.say(Role::Server, &to_client(Version::V1, 0, &close));
        let found = wire.finish();
        assert_eq!((found[0].ending, found[0].alert), (ending, alert));
    }
}

#[test]
fn what_cannot_be_read_is_counted_by_why() {
    let hello = to_server(Version::V1, FIRST, 0, &crypto(0, &client_hello()));
    let mut wire = Wire::new(8);
    wire.say(Role::Server, &to_client(Version::V1, 0, &crypto(0, &server_hello(false))));
    let mut damaged = hello.clone();
    *damaged.last_mut().unwrap() ^= 1;
    wire.say(Role::Client, &damaged);
    wire.say_cut(Role::Client, &hello, hello.len() - 1);
    wire.say(Role::Client, &hello[..hello.len() - 1]);
    wire.say(Role::Client, b"\xc0\0\0\0\x01\xff");
    wire.say(Role::Client, b"\xc0\0\0\0\x07\x08");
    wire.say(Role::Client, b"\x40hello");
    wire.say(Role::Client, b"");
    // A frame that no Initial packet may carry.
    wire.say(Role::Client, &to_server(Version::V1, FIRST, 0, &[0x1e, 0, 0, 0]));
    let ledger = *wire.connections.ledger();
    let why = [ledger.undecryptable, ledger.cut, ledger.malformed, ledger.other, ledger.read];
    assert_eq!(why, [2, 1, 3, 3, 0]);
    assert_eq!(facts(&wire.finish()), (None, None, Ending::Forced));
}

#[test]
fn a_handshake_that_stops_is_over_when_that_is_due() {
    let mut wire = Wire::new(8);
    let hello = to_server(Version::V1, FIRST, 0, &crypto(0, &client_hello()));
    wire.say(Role::Client, &hello);
    wire.now_ns += QUIC_IDLE_NS - 1;
    wire.tick();
    assert_eq!(wire.shared.open, 1);
    // Without a tick in between, the next packet finds it overdue.
    wire.now_ns += 9;
    wire.say(Role::Client, &hello);
    wire.now_ns += 2 * QUIC_IDLE_NS;
    wire.tick();
    let ends: Vec<_> = wire.found.iter().map(|found| (found.ending, found.end_ns)).collect();
    let first = 1_000_000_000 + QUIC_IDLE_NS;
    assert_eq!(ends, [(Ending::Idle, first), (Ending::Idle, first + 8 + QUIC_IDLE_NS)]);
}

#[test]
fn a_flood_stays_within_its_bounds() {
    let mut wire = Wire::new(64);
    let far = crypto(MESSAGE_BYTES_MAX - 1, b"a");
    let packet = to_server(Version::V1, FIRST, 0, &far);
    for port in 0..200 {
        wire.port = port;
        wire.say(Role::Client, &packet);
        assert!(wire.shared.kept <= 64 * (MESSAGE_BYTES_MAX + 2_048));
        assert!(wire.connections.dues.len() <= 64);
    }
    let beyond = to_server(Version::V1, FIRST, 0, &crypto(MESSAGE_BYTES_MAX, b"a"));
    wire.say(Role::Client, &beyond);
    let displaced = wire.shared.ledger.ended[Ending::Displaced.index()];
    assert_eq!((displaced, wire.found.last().unwrap().ending), (136, Ending::NotTls));
    wire.finish();
}

#[test]
fn any_datagrams_keep_the_account() {
    const SERVERS: u8 = 1;
    const SECOND: u8 = 2;
    const AS_IT_IS: u8 = 4;
    const AGAIN: u8 = 8;
    let part = |flags: u8, payload: &[u8]| {
        [&[flags][..], &(payload.len() as u16).to_be_bytes(), payload].concat()
    };
    let hello = crypto(0, &client_hello());
    let answer = [&[2, 0, 0, 0, 0][..], &crypto(0, &server_hello(false))].concat();
    let again = [&crypto(0, &server_hello(true))[..], &[0x1c, 0x41, 0x28, 6, 0]].concat();
    let seeds = [
        [part(0, &hello), part(SERVERS, &answer)].concat(),
        [part(SECOND, &hello[..20]), part(AGAIN, &hello), part(SERVERS | SECOND, &again)].concat(),
        [part(AS_IT_IS, &version_1().client), part(SERVERS | AS_IT_IS, &retry())].concat(),
        part(AS_IT_IS, &[0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]),
    ];
    ringside_testkit::fuzz("quic", 4_000, &seeds, |mut input| {
        let mut wire = Wire::new(4);
        while let [flags, high, low, rest @ ..] = input {
            let bytes = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (payload, after) = rest.split_at(bytes);
            input = after;
            let sender = if flags & SERVERS != 0 { Role::Server } else { Role::Client };
            let version = if flags & SECOND != 0 { Version::V2 } else { Version::V1 };
            let destination = if flags & AGAIN != 0 { SERVER } else { FIRST };
            wire.now_ns += 1 << (flags >> 4 << 1);
            wire.port = 5_000 + u16::from(*flags >> 4);
            match sender {
                _ if flags & AS_IT_IS != 0 => wire.say(sender, payload),
                Role::Server => wire.say(sender, &to_client(version, 0, payload)),
                Role::Client => wire.say(sender, &to_server(version, destination, 0, payload)),
            }
        }
        for found in wire.finish() {
            assert!(!crate::text(&found).contains(char::is_control));
        }
    });
}
