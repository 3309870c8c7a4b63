//! The one definition of what is known of a transaction.

use ringside_core::InterfaceId;
use ringside_proto::http1::{Head, Start};
use std::net::IpAddr;

use crate::hide;
use crate::limits::{FIELD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::text::{Text, at_most, cut};

/// One end of a connection.
pub type Endpoint = (IpAddr, u16);

/// A request and its response, as far as they were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// Number of the transaction within its connection, from 1.
    pub depth: u32,
    /// Interface that received the packets.
    pub interface: InterfaceId,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Who asks.
    pub client: Endpoint,
    /// Who answers.
    pub server: Endpoint,
    /// What was asked; none if that was not seen.
    pub request: Option<Request>,
    /// What was answered; none if that was not seen.
    pub response: Option<Response>,
    /// Status of the last interim response (1xx) before it.
    pub interim: Option<u16>,
    /// How it ended.
    pub ending: Ending,
    /// When it was over.
    pub end_ns: u64,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Method, as `GET`.
    pub method: Text,
    /// Target as it stands, without what is hidden.
    pub target: Text,
    /// The digit after `HTTP/1.`
    pub minor_version: Option<u8>,
    /// Value of Host.
    pub host: Option<Text>,
    /// Value of User-Agent.
    pub user_agent: Option<Text>,
    /// Value of Referer, without what is hidden.
    pub referrer: Option<Text>,
    /// Value of Origin.
    pub origin: Option<Text>,
    /// Name of the user, by Basic or Digest authentication.
    pub user: Option<Text>,
    /// Password of Basic authentication, if that was asked for.
    pub password: Option<Text>,
    /// Value of Cookie, if that was asked for.
    pub cookie: Option<Text>,
    /// Values of headers that proxies add, with their names.
    pub proxied: Vec<Text>,
    /// What both directions have.
    pub message: Message,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// What it means, for people.
    pub reason: Text,
    /// The digit after `HTTP/1.`; none of HTTP/0.9.
    pub minor_version: Option<u8>,
    /// Value of Server.
    pub server: Option<Text>,
    /// Value of Location, without what is hidden.
    pub location: Option<Text>,
    /// What both directions have.
    pub message: Message,
}

/// A message's length and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Value of Content-Type.
    pub content_type: Option<Text>,
    /// Bytes of the head.
    pub head_bytes: u64,
    /// Bytes of the body by Content-Length.
    pub declared_bytes: Option<u64>,
    /// Bytes of the body as they were seen, without what frames chunks.
    pub body_bytes: u64,
    /// Bytes of the body that were not seen, as far as their number is known.
    pub missing_bytes: u64,
    /// When its first byte came.
    pub first_ns: u64,
    /// When its last byte came.
    pub last_ns: u64,
    /// True if all of it came, or its missing bytes are known.
    pub is_whole: bool,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The response was complete.
    Complete,
    /// The response made the connection carry something else: CONNECT, or an upgrade.
    Tunnel,
    /// The response was complete, and the request was not seen.
    RequestUnseen,
    /// Bodies were not looked at: it ended with the response's head.
    HeadersOnly,
    /// The connection ended, as it should, without all of the response.
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
    /// Where the response was, or went on, bytes are missing.
    Lost,
    /// What came where a response should be is not HTTP.
    NotHttp,
    /// There was no room for it among those that wait for a response.
    NoRoom,
}

impl Ending {
    /// All endings, each at its [`index`](Ending::index).
    pub const ALL: [Ending; 13] = [
        Ending::Complete,
        Ending::Tunnel,
        Ending::RequestUnseen,
        Ending::HeadersOnly,
        Ending::Closed,
        Ending::Reset,
        Ending::Reused,
        Ending::Idle,
        Ending::Displaced,
        Ending::Forced,
        Ending::Lost,
        Ending::NotHttp,
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
            Ending::Tunnel => "tunnel",
            Ending::RequestUnseen => "request_unseen",
            Ending::HeadersOnly => "headers_only",
            Ending::Closed => "closed",
            Ending::Reset => "reset",
            Ending::Reused => "reused",
            Ending::Idle => "idle",
            Ending::Displaced => "displaced",
            Ending::Forced => "forced",
            Ending::Lost => "lost",
            Ending::NotHttp => "not_http",
            Ending::NoRoom => "no_room",
        }
    }
}

impl Transaction {
    /// From the request's last byte to the response's first, if both came and in this order.
    pub fn first_byte_ns(&self) -> Option<u64> {
        let (request, response) = (self.request.as_ref()?, self.response.as_ref()?);
        request.message.is_whole.then_some(())?;
        response.message.first_ns.checked_sub(request.message.last_ns)
    }

    /// From the request's first byte to the response's last, if both came.
    pub fn duration_ns(&self) -> Option<u64> {
        let (request, response) = (self.request.as_ref()?, self.response.as_ref()?);
        response.message.is_whole.then_some(())?;
        response.message.last_ns.checked_sub(request.message.first_ns)
    }

    /// When its first byte came.
    pub fn first_ns(&self) -> u64 {
        let request = self.request.as_ref().map(|request| request.message.first_ns);
        let response = self.response.as_ref().map(|response| response.message.first_ns);
        request.or(response).unwrap_or(self.end_ns)
    }

    /// When its last byte came.
    pub fn last_ns(&self) -> u64 {
        let request = self.request.as_ref().map_or(0, |request| request.message.last_ns);
        let response = self.response.as_ref().map_or(0, |response| response.message.last_ns);
        request.max(response)
    }

    /// Memory that texts of both take.
    pub(crate) fn texts_bytes(&self) -> usize {
        self.request.as_ref().map_or(0, Request::texts_bytes)
            + self.response.as_ref().map_or(0, Response::texts_bytes)
    }
}

/// Memory of texts that may be there.
fn bytes_of<'t>(texts: impl IntoIterator<Item = &'t Option<Text>>) -> usize {
    texts.into_iter().flatten().map(|text| text.len()).sum()
}

/// Headers by which proxies say whom they ask for, as Zeek has them.
const PROXY_HEADERS: [&[u8]; 5] =
    [b"forwarded", b"x-forwarded-for", b"x-forwarded-from", b"client-ip", b"via"];

/// Proxies that are kept.
const PROXIED_MAX: usize = 8;

impl Request {
    /// What a head says; none if it is that of a response.
    pub(crate) fn of(head: &Head<'_>, shows_credentials: bool) -> Option<Request> {
        let Start::Request { method, target, minor_version } = head.start else { return None };
        let mut request = Request {
            method: cut(method, FIELD_BYTES_MAX),
            target: hide::target(at_most(target, TARGET_BYTES_MAX), shows_credentials),
            minor_version,
            ..Request::default()
        };
        for (name, value) in head.lines() {
            let lower = name.to_ascii_lowercase();
            let text = || value.bytes().take(FIELD_BYTES_MAX).collect::<Text>();
            let first = |field: &mut Option<Text>| {
                field.get_or_insert_with(text);
            };
            match lower.as_slice() {
                b"host" => first(&mut request.host),
                b"user-agent" => first(&mut request.user_agent),
                b"origin" => first(&mut request.origin),
                b"content-type" => first(&mut request.message.content_type),
                b"cookie" if shows_credentials => first(&mut request.cookie),
                b"referer" if request.referrer.is_none() => {
                    request.referrer = Some(hide::target(&text(), shows_credentials));
                }
                b"authorization" | b"proxy-authorization" if request.user.is_none() => {
                    let raw: Vec<u8> = value.bytes().take(FIELD_BYTES_MAX).collect();
                    (request.user, request.password) = hide::user(&raw, shows_credentials);
                }
                name if PROXY_HEADERS.contains(&name) && request.proxied.len() < PROXIED_MAX => {
                    let name = name.to_ascii_uppercase();
                    request.proxied.push([name.as_slice(), b" -> ", &text()].concat().into());
                }
                _ => {}
            }
        }
        request.message.declared_bytes = head.content_length();
        Some(request)
    }

    /// Memory that its texts take.
    pub(crate) fn texts_bytes(&self) -> usize {
        let Request { host, user_agent, referrer, origin, user, password, cookie, .. } = self;
        let kind = &self.message.content_type;
        let fields = [host, user_agent, referrer, origin, user, password, cookie, kind];
        let proxied = self.proxied.iter().map(|text| text.len() + size_of::<Text>());
        self.method.len() + self.target.len() + bytes_of(fields) + proxied.sum::<usize>()
    }
}

impl Response {
    /// What a head says; none if it is that of a request.
    pub(crate) fn of(head: &Head<'_>, shows_credentials: bool) -> Option<Response> {
        let Start::Response { status, reason, minor_version } = head.start else { return None };
        let field = |name: &[u8]| {
            let value = head.value(name)?;
            Some(value.bytes().take(FIELD_BYTES_MAX).collect::<Text>())
        };
        let message = Message {
            content_type: field(b"content-type"),
            declared_bytes: head.content_length(),
            ..Message::default()
        };
        Some(Response {
            status,
            reason: cut(reason, FIELD_BYTES_MAX),
            minor_version: Some(minor_version),
            server: field(b"server"),
            location: field(b"location").map(|text| hide::target(&text, shows_credentials)),
            message,
        })
    }
    /// Memory that its texts take.
    pub(crate) fn texts_bytes(&self) -> usize {
        self.reason.len() + bytes_of([&self.server, &self.location, &self.message.content_type])
    }

    /// Keeps numbers and times alone.
    pub(crate) fn forget_texts(&mut self) {
        self.reason = Text::default();
        (self.server, self.location, self.message.content_type) = (None, None, None);
    }
}
