//! From what connections say to transactions.

use crate::Transaction;
use crate::conversation::{Conversation, Shared};
use crate::limits::PROBES_MAX;
use ringside_proto::http1::{Beginning, beginning};
use ringside_streams::{At, Event, Handler};

/// What is kept of a connection. Most of them carry no HTTP and have none.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    conversation: Option<Box<Conversation>>,
    /// Pieces of each direction in which no message was found.
    probes: [u8; 2],
    /// Directions whose start was not seen.
    is_mid: [bool; 2],
}

/// Takes what connections say, and gives transactions out.
pub(crate) struct Tracker<'t> {
    pub shared: &'t mut Shared,
    pub out: &'t mut dyn FnMut(Transaction),
}

impl Tracker<'_> {
    #[inline]
    fn data(&mut self, at: &At<'_>, kept: &mut Kept, bytes: &[u8]) {
        let side = usize::from(at.from_high);
        if kept.conversation.is_none() && !kept.begins(side, bytes) {
            self.shared.ledger.not_http_bytes += bytes.len() as u64;
            return;
        }
        let from_start = [0, 1].map(|side| kept.probes[side] == 0 && !kept.is_mid[side]);
        let conversation =
            kept.conversation.get_or_insert_with(|| Box::new(Conversation::new(from_start)));
        conversation.data(bytes, at, self.shared, self.out);
        if conversation.is_nothing() {
            kept.conversation = None;
        }
    }
}

impl Kept {
    /// True if bytes may be the beginning of a message, where none was found before.
    #[inline]
    fn begins(&mut self, side: usize, bytes: &[u8]) -> bool {
        let is_sought = self.probes[side] < PROBES_MAX || self.is_mid[side];
        if is_sought && beginning(bytes) != Beginning::Other {
            return true;
        }
        self.probes[side] = self.probes[side].saturating_add(1);
        false
    }
}

impl Handler for Tracker<'_> {
    type Kept = Kept;

    #[inline]
    fn event(&mut self, at: &At<'_>, kept: &mut Kept, event: Event<'_>) {
        if let Event::Data(bytes) = event {
            self.data(at, kept, bytes);
            return;
        }
        let side = usize::from(at.from_high);
        if let Event::Gap { .. } = event {
            kept.is_mid[side] = true;
        }
        let Some(conversation) = &mut kept.conversation else { return };
        let (shared, out) = (&mut *self.shared, &mut *self.out);
        match event {
            Event::Gap { bytes, .. } => conversation.gap(bytes.into(), at, shared, out),
            Event::Fin => conversation.fin(at, shared, out),
            Event::Closed(why) => {
                conversation.close(why, at, shared, out);
                kept.conversation = None;
            }
            Event::Data(_) => {}
        }
    }
}
