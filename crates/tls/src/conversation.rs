//! One connection that carries TLS, from its first hello to the end of what is not encrypted.

use crate::certificate::Certificate;
use crate::handshake::{ClientSide, Ending, Handshake, ServerSide};
use crate::ledger::TlsLedger;
use crate::limits::KEPT_BYTES_MAX;
use crate::records::{Records, Said};
use ringside_proto::tls::{ClientHelloBody, ServerHello, vector};
use ringside_streams::{At, Event, Handler};

/// Pieces of a direction in which a hello is looked for: the greetings of a proxy, or of a protocol
/// that begins TLS later, come before.
const PROBES_MAX: u8 = 16;

/// Types of handshake messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const SERVER_HELLO_DONE: u8 = 14;

/// The level of an alert that ends a connection.
const FATAL: u8 = 2;

/// What all connections share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub ledger: TlsLedger,
    /// Memory of what they keep.
    pub kept: usize,
    /// Handshakes that are not over.
    pub open: u64,
}

/// Takes handshakes that are over.
pub(crate) type Out<'o> = dyn FnMut(Handshake) + 'o;

/// What is kept of a connection. Most carry no TLS and have nothing behind it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    conversation: Option<Box<Conversation>>,
    /// Its handshake was given out.
    is_over: bool,
    /// Pieces of each direction in which no hello was found.
    probes: [u8; 2],
}

#[derive(Debug)]
struct Conversation {
    found: Handshake,
    client: usize,
    /// What client and server say, at the number of their sides.
    records: [Records; 2],
    /// What is counted of its memory.
    memory: usize,
}

/// Takes what connections say, and gives handshakes out.
pub(crate) struct Tracker<'t> {
    pub shared: &'t mut Shared,
    pub out: &'t mut Out<'t>,
}

impl Handler for Tracker<'_> {
    type Kept = Kept;

    #[inline]
    fn event(&mut self, at: &At<'_>, kept: &mut Kept, event: Event<'_>) {
        let side = usize::from(at.from_high);
        match event {
            Event::Data(bytes) => self.data(at, side, kept, bytes),
            // Where a direction begins in the middle, nothing is missing that was to be seen.
            Event::Gap { bytes: 0, .. } => {}
            Event::Gap { .. } => {
                let reads = |conversation: &Conversation| conversation.reads(side);
                if kept.conversation.as_deref().is_some_and(reads) {
                    self.end(kept, Ending::Lost, at.stamp.0);
                }
            }
            Event::Fin => {}
            Event::Closed(why) => self.end(kept, why.into(), at.stamp.0),
        }
    }
}

impl Tracker<'_> {
    fn data(&mut self, at: &At<'_>, side: usize, kept: &mut Kept, bytes: &[u8]) {
        let length = bytes.len() as u64;
        if kept.is_over {
            self.shared.ledger.after_bytes += length;
            return;
        }
        if kept.conversation.is_none() {
            let Some(client) = kept.client_of(side, bytes) else {
                self.shared.ledger.not_tls_bytes += length;
                return;
            };
            self.shared.ledger.begun += 1;
            self.shared.open += 1;
            kept.conversation = Some(Box::new(Conversation::new(at, client)));
        }
        let Some(conversation) = kept.conversation.as_deref_mut().filter(|c| c.reads(side)) else {
            self.shared.ledger.after_bytes += length;
            return;
        };
        let mut ending = None;
        let used = conversation.take_in(side, bytes, at.stamp.0, &mut ending);
        let memory = conversation.memory_now();
        self.shared.kept = self.shared.kept - conversation.memory + memory;
        conversation.memory = memory;
        self.shared.ledger.handshake_bytes += used as u64;
        self.shared.ledger.after_bytes += length - used as u64;
        if self.shared.kept > KEPT_BYTES_MAX {
            ending = ending.or(Some(Ending::NoRoom));
        }
        if let Some(ending) = ending {
            self.end(kept, ending, at.stamp.0);
        }
    }

    fn end(&mut self, kept: &mut Kept, ending: Ending, end_ns: u64) {
        let Some(conversation) = kept.conversation.take() else { return };
        let Conversation { mut found, memory, .. } = *conversation;
        kept.is_over = true;
        self.shared.kept -= memory;
        self.shared.open -= 1;
        let ledger = &mut self.shared.ledger;
        ledger.client_hellos += u64::from(found.hello.is_some());
        ledger.server_hellos += u64::from(found.answer.is_some());
        ledger.ended[ending.index()] += 1;
        (found.ending, found.end_ns) = (ending, end_ns);
        (self.out)(found);
    }
}

impl Kept {
    /// Which side is the client, if bytes begin as a hello; a first piece may be a part of it.
    fn client_of(&mut self, side: usize, bytes: &[u8]) -> Option<usize> {
        let is_first = self.probes[side] == 0;
        if self.probes[side] >= PROBES_MAX {
            return None;
        }
        self.probes[side] += 1;
        match bytes {
            [22, 3, 0..=4, _, _, SERVER_HELLO, ..] => Some(1 - side),
            [22, 3, 0..=4, _, _, CLIENT_HELLO, ..] => Some(side),
            [22] | [22, 3] | [22, 3, 0..=4] | [22, 3, 0..=4, _] | [22, 3, 0..=4, _, _]
                if is_first =>
            {
                Some(side)
            }
            _ => None,
        }
    }
}

impl Conversation {
    fn new(at: &At<'_>, client: usize) -> Conversation {
        let ends = [at.key.low(), at.key.high()];
        let found = Handshake {
            connection: at.connection,
            interface: at.key.interface(),
            vlan: at.key.vlan(),
            client: ends[client],
            server: ends[1 - client],
            hello: None,
            answer: None,
            is_retried: false,
            certificate: None,
            alert: None,
            ending: Ending::Forced,
            end_ns: at.stamp.0,
        };
        Conversation { found, client, records: Default::default(), memory: 0 }
    }

    /// True if what a side says is looked at: the client's until its first hello.
    fn reads(&self, side: usize) -> bool {
        side != self.client || self.found.hello.is_none()
    }

    fn memory_now(&self) -> usize {
        let records = self.records.iter().map(Records::kept).sum::<usize>();
        size_of::<Conversation>() + self.found.memory() + records
    }

    /// Takes bytes in of a side; how many belong to the handshake.
    fn take_in(
        &mut self,
        side: usize,
        bytes: &[u8],
        stamp_ns: u64,
        ending: &mut Option<Ending>,
    ) -> usize {
        let (found, is_client) = (&mut self.found, side == self.client);
        self.records[side].take_in(bytes, &mut |said| {
            match said {
                Said::NotTls => *ending = Some(Ending::NotTls),
                Said::Alert(level, number) => {
                    found.alert.get_or_insert(number);
                    if level == FATAL {
                        *ending = Some(Ending::Alert);
                    }
                }
                // A retry is followed by a change of the cipher that means nothing.
                Said::Encrypted if found.answer.is_none() => {}
                Said::Encrypted => *ending = Some(Ending::Complete),
                Said::Message(kind, body) if is_client => {
                    match ClientHelloBody::parse(body).ok().filter(|_| kind == CLIENT_HELLO) {
                        Some(hello) => found.hello = Some(ClientSide::of(&hello, stamp_ns)),
                        None => *ending = Some(Ending::NotTls),
                    }
                    return false;
                }
                Said::Message(kind, body) => *ending = server(found, kind, body, stamp_ns),
            }
            ending.is_none()
        })
    }
}

/// A message of the server: how the handshake ends by it, if it does.
fn server(found: &mut Handshake, kind: u8, body: &[u8], stamp_ns: u64) -> Option<Ending> {
    /// From this version on all behind the hello is encrypted.
    const TLS_1_3: u16 = 0x0304;
    match kind {
        SERVER_HELLO if found.answer.is_none() => {
            let Ok(hello) = ServerHello::parse(body) else { return Some(Ending::NotTls) };
            if hello.is_retry {
                found.is_retried = true;
                return None;
            }
            let answer = ServerSide::of(&hello, found.hello.as_ref(), stamp_ns);
            let version = answer.version;
            found.answer = Some(answer);
            // Drafts of TLS 1.3 have numbers of their own.
            (version == TLS_1_3 || version >> 8 == 0x7f).then_some(Ending::Complete)
        }
        CERTIFICATE if found.certificate.is_none() => {
            let list = vector(&mut { body }, 3).unwrap_or_default();
            found.certificate = vector(&mut { list }, 3).ok().and_then(Certificate::parse);
            None
        }
        SERVER_HELLO_DONE => Some(Ending::Complete),
        _ => None,
    }
}
