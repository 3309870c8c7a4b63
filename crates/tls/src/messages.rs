//! Handshake messages, whatever carried them: what they add to what is known (RFC 8446 section 4,
//! RFC 5246 section 7.4).

use crate::certificate::Certificate;
use crate::handshake::{ClientSide, Ending, Handshake, ServerSide};
use ringside_proto::tls::{ClientHelloBody, ServerHello, vector};

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const SERVER_HELLO_DONE: u8 = 14;

/// From this version on all behind the hello is encrypted.
const TLS_1_3: u16 = 0x0304;

impl Handshake {
    /// The client's first message: how the handshake ends by it, if it does.
    pub(crate) fn client(&mut self, kind: u8, body: &[u8], stamp_ns: u64) -> Option<Ending> {
        let hello = ClientHelloBody::parse(body).ok().filter(|_| kind == CLIENT_HELLO);
        let Some(hello) = hello else { return Some(Ending::NotTls) };
        let carrier = if self.quic.is_some() { 'q' } else { 't' };
        self.hello = Some(ClientSide::of(&hello, carrier, stamp_ns));
        None
    }

    /// A message of the server: how the handshake ends by it, if it does.
    pub(crate) fn server(&mut self, kind: u8, body: &[u8], stamp_ns: u64) -> Option<Ending> {
        match kind {
            SERVER_HELLO if self.answer.is_none() => self.server_hello(body, stamp_ns),
            CERTIFICATE if self.certificate.is_none() => {
                let list = vector(&mut { body }, 3).unwrap_or_default();
                self.certificate = vector(&mut { list }, 3).ok().and_then(Certificate::parse);
                None
            }
            SERVER_HELLO_DONE => Some(Ending::Complete),
            _ => None,
        }
    }

    fn server_hello(&mut self, body: &[u8], stamp_ns: u64) -> Option<Ending> {
        let Ok(hello) = ServerHello::parse(body) else { return Some(Ending::NotTls) };
        if hello.is_retry {
            self.is_retried = true;
            return None;
        }
        let answer = ServerSide::of(&hello, self.hello.as_ref(), stamp_ns);
        let version = answer.version;
        self.answer = Some(answer);
        // Drafts of TLS 1.3 have numbers of their own.
        (version == TLS_1_3 || version >> 8 == 0x7f).then_some(Ending::Complete)
    }
}
