//! One connection that carries TLS, from its first hello to the end of what is not encrypted.

use crate::handshake::{Ending, Handshake};
use crate::quic::Connections;
use crate::records::{Records, Said};
use crate::shared::{Out, Shared};
use ringside_streams::{At, Datagram, Event, Handler};

/// Pieces of a direction in which a hello is looked for: the greetings of a proxy, or of a protocol
/// that begins TLS later, come before.
const PROBES_MAX: u8 = 16;

/// Types of handshake messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

/// The level of an alert that ends a connection.
const FATAL: u8 = 2;

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

/// Takes what connections say, over TCP and QUIC, and gives handshakes out.
pub(crate) struct Tracker<'t> {
    pub shared: &'t mut Shared,
    pub quic: &'t mut Connections,
    pub out: &'t mut Out<'t>,
}

impl Handler for Tracker<'_> {
    type Kept = Kept;

    const TAKES_DATAGRAMS: bool = true;

    #[inline]
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        self.quic.datagram(datagram, self.shared, self.out);
    }

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
            self.shared.begin();
            kept.conversation = Some(Box::new(Conversation::new(at, client)));
        }
        let Some(conversation) = kept.conversation.as_deref_mut().filter(|c| c.reads(side)) else {
            self.shared.ledger.after_bytes += length;
            return;
        };
        let mut ending = None;
        let used = conversation.take_in(side, bytes, at.stamp.0, &mut ending);
        let now = conversation.memory_now();
        let has_room = self.shared.keep(&mut conversation.memory, now);
        self.shared.ledger.handshake_bytes += used as u64;
        self.shared.ledger.after_bytes += length - used as u64;
        if !has_room {
            ending = ending.or(Some(Ending::NoRoom));
        }
        if let Some(ending) = ending {
            self.end(kept, ending, at.stamp.0);
        }
    }

    fn end(&mut self, kept: &mut Kept, ending: Ending, end_ns: u64) {
        let Some(conversation) = kept.conversation.take() else { return };
        let Conversation { found, memory, .. } = *conversation;
        kept.is_over = true;
        self.shared.end(found, memory, (ending, end_ns), self.out);
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
        let found = Handshake::new(at.connection, at.key, client == 1, at.stamp.0);
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
                    *ending = found.client(kind, body, stamp_ns);
                    return false;
                }
                Said::Message(kind, body) => *ending = found.server(kind, body, stamp_ns),
            }
            ending.is_none()
        })
    }
}
