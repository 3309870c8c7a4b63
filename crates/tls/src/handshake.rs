//! The one definition of what is known of a handshake.

use crate::Certificate;
use crate::fingerprint::{
    self, PRE_SHARED_KEY, PROTOCOLS, SERVER_NAME, SUPPORTED_VERSIONS, extension, protocols,
};
use crate::limits::{NAME_BYTES_MAX, PROTOCOLS_MAX};
use ringside_core::InterfaceId;
use ringside_inspect::Key;
use ringside_proto::quic::Version;
use ringside_proto::tls::{ClientHelloBody, ServerHello, vector};
use ringside_streams::Closing;
use std::net::IpAddr;

/// One end of a connection.
pub type Endpoint = (IpAddr, u16);

/// A handshake, as far as it is not encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Number of the connection, from 1, among those over TCP or those over QUIC.
    pub connection: u64,
    /// The version of QUIC that carried it; none over TCP.
    pub quic: Option<Version>,
    /// Interface that received the packets.
    pub interface: InterfaceId,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Who asks.
    pub client: Endpoint,
    /// Who is asked.
    pub server: Endpoint,
    /// What the first ClientHello says; none if it was not seen.
    pub hello: Option<ClientSide>,
    /// What the ServerHello says; none if it was not seen.
    pub answer: Option<ServerSide>,
    /// The server asked for another ClientHello.
    pub is_retried: bool,
    /// The server's certificate, where it is not encrypted: up to TLS 1.2.
    pub certificate: Option<Certificate>,
    /// The first alert that was not encrypted: its number.
    pub alert: Option<u8>,
    /// How it ended.
    pub ending: Ending,
    /// When it was over.
    pub end_ns: u64,
}

/// What a ClientHello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSide {
    /// When its last byte came.
    pub stamp_ns: u64,
    /// The highest version that it takes.
    pub version: u16,
    /// The server's name (SNI).
    pub server_name: Option<String>,
    /// Protocols that it offers (ALPN), the first of them.
    pub protocols: Vec<String>,
    /// Fingerprints.
    pub ja3: String,
    /// By FoxIO's rules.
    pub ja4: String,
    session_id: Vec<u8>,
}

/// What a ServerHello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSide {
    /// When its last byte came.
    pub stamp_ns: u64,
    /// The version that was agreed on.
    pub version: u16,
    /// The cipher suite that was agreed on.
    pub cipher_suite: u16,
    /// The protocol that was agreed on (ALPN), where it is not encrypted.
    pub protocol: Option<String>,
    /// Fingerprint.
    pub ja3s: String,
    /// It goes on with an earlier session.
    pub is_resumed: bool,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// All that is not encrypted was seen.
    Complete,
    /// An alert ended it.
    Alert,
    /// The connection ended before the server answered, or within its answer.
    Closed,
    /// The connection was reset before.
    Reset,
    /// Another connection began between the same ports before.
    Reused,
    /// No packet came for long.
    Idle,
    /// Another connection needed its place.
    Displaced,
    /// There was nothing more to see.
    Forced,
    /// Bytes of it are missing.
    Lost,
    /// The server does not have the version of QUIC.
    OtherVersion,
    /// What came is no handshake, or longer than any.
    NotTls,
    /// There was no memory to wait for the answer.
    NoRoom,
}

impl Handshake {
    /// One of which nothing is known yet, over TCP; the client is the key's higher end or not.
    pub(crate) fn new(connection: u64, key: &Key, client_high: bool, now_ns: u64) -> Handshake {
        let ends = [key.low(), key.high()];
        let client = usize::from(client_high);
        Handshake {
            connection,
            quic: None,
            interface: key.interface(),
            vlan: key.vlan(),
            client: ends[client],
            server: ends[1 - client],
            hello: None,
            answer: None,
            is_retried: false,
            certificate: None,
            alert: None,
            ending: Ending::Forced,
            end_ns: now_ns,
        }
    }

    /// From the ClientHello's last byte to the ServerHello's.
    pub fn server_hello_ns(&self) -> Option<u64> {
        self.answer.as_ref()?.stamp_ns.checked_sub(self.hello.as_ref()?.stamp_ns)
    }

    /// When the first hello came.
    pub fn first_ns(&self) -> u64 {
        let answer = self.answer.as_ref().map(|answer| answer.stamp_ns);
        self.hello.as_ref().map(|hello| hello.stamp_ns).or(answer).unwrap_or(self.end_ns)
    }

    /// The version that was agreed on or, without an answer, the highest that was offered.
    pub fn version(&self) -> Option<u16> {
        let answer = self.answer.as_ref().map(|answer| answer.version);
        answer.or_else(|| self.hello.as_ref().map(|hello| hello.version))
    }

    /// True if it goes on with an earlier session; none if there is no answer.
    pub fn is_resumed(&self) -> Option<bool> {
        self.answer.as_ref().map(|answer| answer.is_resumed)
    }

    /// Memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let hello = self.hello.as_ref().map_or(0, |hello| {
            let protocols = hello.protocols.iter().map(|name| name.len() + size_of::<String>());
            let name = hello.server_name.as_ref().map_or(0, String::len);
            hello.ja3.len()
                + hello.ja4.len()
                + hello.session_id.len()
                + name
                + protocols.sum::<usize>()
        });
        let answer = self.answer.as_ref().map_or(0, |answer| {
            answer.ja3s.len() + answer.protocol.as_ref().map_or(0, String::len)
        });
        let certificate = self.certificate.as_ref().map_or(0, |certificate| {
            certificate.subject.len() + certificate.issuer.len() + certificate.serial.len()
        });
        size_of::<Handshake>() + hello + answer + certificate
    }
}

impl ClientSide {
    /// `carrier` is that of its JA4.
    pub(crate) fn of(hello: &ClientHelloBody<'_>, carrier: char, stamp_ns: u64) -> ClientSide {
        let offered = protocols(extension(hello, PROTOCOLS)).take(PROTOCOLS_MAX);
        ClientSide {
            stamp_ns,
            version: fingerprint::highest_version(hello),
            server_name: server_name(extension(hello, SERVER_NAME)),
            protocols: offered.map(plain).collect(),
            ja3: fingerprint::ja3(hello),
            ja4: fingerprint::ja4(hello, carrier),
            session_id: hello.session_id.to_vec(),
        }
    }
}

impl ServerSide {
    pub(crate) fn of(
        hello: &ServerHello<'_>,
        client: Option<&ClientSide>,
        stamp_ns: u64,
    ) -> ServerSide {
        let extension = |wanted: u16| {
            let mut extensions = hello.extensions;
            extensions.find(|(kind, _)| *kind == wanted).map(|(_, data)| data)
        };
        let selected = extension(SUPPORTED_VERSIONS).and_then(|data| data.first_chunk());
        let version = selected.map_or(hello.legacy_version, |bytes| u16::from_be_bytes(*bytes));
        let is_same = client.is_some_and(|client| {
            !client.session_id.is_empty() && client.session_id == hello.session_id
        });
        let is_resumed = match selected {
            Some(_) => extension(PRE_SHARED_KEY).is_some(),
            None => is_same,
        };
        let agreed = extension(PROTOCOLS).and_then(|data| protocols(data).next().map(plain));
        ServerSide {
            stamp_ns,
            version,
            cipher_suite: hello.cipher_suite,
            protocol: agreed,
            ja3s: fingerprint::ja3s(hello),
            is_resumed,
        }
    }
}

/// The first name of a list (RFC 6066 section 3).
fn server_name(extension: &[u8]) -> Option<String> {
    let mut list = vector(&mut { extension }, 2).ok()?;
    let (kind, rest) = list.split_first()?;
    list = rest;
    (*kind == 0).then_some(())?;
    vector(&mut list, 2).ok().filter(|name| !name.is_empty()).map(plain)
}

/// Text as it stands; bytes that are no printing ASCII as `\xHH`.
fn plain(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes.iter().take(NAME_BYTES_MAX) {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

impl Ending {
    /// All endings, each at its [`index`](Ending::index).
    pub const ALL: [Ending; 12] = [
        Ending::Complete,
        Ending::Alert,
        Ending::Closed,
        Ending::Reset,
        Ending::Reused,
        Ending::Idle,
        Ending::Displaced,
        Ending::Forced,
        Ending::Lost,
        Ending::OtherVersion,
        Ending::NotTls,
        Ending::NoRoom,
    ];

    /// The place in tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Alert => "alert",
            Ending::Closed => "closed",
            Ending::Reset => "reset",
            Ending::Reused => "reused",
            Ending::Idle => "idle",
            Ending::Displaced => "displaced",
            Ending::Forced => "forced",
            Ending::Lost => "lost",
            Ending::OtherVersion => "other_version",
            Ending::NotTls => "not_tls",
            Ending::NoRoom => "no_room",
        }
    }
}

impl From<Closing> for Ending {
    fn from(why: Closing) -> Ending {
        match why {
            Closing::Fin => Ending::Closed,
            Closing::Reset => Ending::Reset,
            Closing::Reused => Ending::Reused,
            Closing::Idle => Ending::Idle,
            Closing::Displaced => Ending::Displaced,
            Closing::Forced => Ending::Forced,
        }
    }
}
