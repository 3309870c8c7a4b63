//! SIP messages out of TCP streams, and what datagrams carry.

use crate::call::Transport;
use crate::limits::{KEPT_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::met::Met;
use crate::tracker::Tracker;
use ringside_proto::{Outcome, sip};
use ringside_streams::{At, Datagram, Event, Handler};

/// Pieces of a direction in which a message is looked for, where none was found yet.
const PROBES_MAX: u8 = 4;

/// What is kept of a connection. Most of them carry no SIP and have none.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    sides: [Side; 2],
}

#[derive(Debug, Default)]
struct Side {
    /// The beginning of a message that is not whole.
    bytes: Option<Vec<u8>>,
    /// Bytes that it has when it is whole; 0 as long as its head is not.
    whole_bytes: usize,
    /// It carried a message.
    is_sip: bool,
    /// Pieces without any.
    probes: u8,
}

impl Side {
    /// True if a message that was not whole with `before` bytes may be with these: its body is
    /// there, or an empty line has come. So it is read again once for each, however small its
    /// pieces are.
    fn may_be_whole(&self, held: &[u8], before: usize) -> bool {
        if self.whole_bytes > 0 {
            return held.len() >= self.whole_bytes;
        }
        let fresh = held.get(before.saturating_sub(3)..).unwrap_or_default();
        let has_empty_line = fresh.windows(2).any(|two| two == b"\n\n")
            || fresh.windows(3).any(|three| three == b"\n\r\n");
        has_empty_line || held.len() >= MESSAGE_BYTES_MAX
    }
}

/// Takes what connections and datagrams say.
pub(crate) struct Reader<'t> {
    pub tracker: &'t mut Tracker,
    /// Bytes of all messages that are not whole.
    pub kept_bytes: &'t mut usize,
}

impl Reader<'_> {
    fn data(&mut self, at: &At<'_>, side: &mut Side, bytes: &[u8]) {
        let Some(mut held) = side.bytes.take() else {
            let left = self.messages(at, side, bytes);
            self.keep(side, left);
            return;
        };
        *self.kept_bytes -= held.len();
        let before = held.len();
        held.extend_from_slice(bytes);
        if !side.may_be_whole(&held, before) {
            self.keep_vec(side, held);
            return;
        }
        let left = self.messages(at, side, &held).len();
        let taken = held.len() - left;
        held.drain(..taken);
        if left > 0 {
            self.keep_vec(side, held);
        }
    }

    /// Takes whole messages; what is behind them and may become one.
    fn messages<'b>(&mut self, at: &At<'_>, side: &mut Side, bytes: &'b [u8]) -> &'b [u8] {
        let mut rest = bytes;
        side.whole_bytes = 0;
        loop {
            let start = rest.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(rest.len());
            let (blank, behind) = rest.split_at(start);
            if behind.is_empty() {
                self.tracker.ledger.other_tcp_bytes += blank.len() as u64;
                return &[];
            }
            let is_begun = side.is_sip || side.probes < PROBES_MAX || sip::looks_like(behind);
            let outcome = if is_begun { sip::message(behind) } else { Outcome::NotThis };
            match outcome {
                Outcome::Fields(message) => {
                    let body_bytes = message.content_length.unwrap_or(0);
                    let whole = message.head_bytes.saturating_add(body_bytes);
                    if whole > MESSAGE_BYTES_MAX {
                        break;
                    }
                    let Some(after) = behind.get(whole..) else {
                        side.whole_bytes = whole;
                        return self.begun(blank, behind);
                    };
                    let body = message.body.get(..body_bytes).unwrap_or_default();
                    let ledger = &mut self.tracker.ledger;
                    ledger.sip_tcp += 1;
                    ledger.sip_tcp_bytes += whole as u64;
                    ledger.other_tcp_bytes += blank.len() as u64;
                    side.is_sip = true;
                    self.tracker.message(&met(at), &sip::Message { body, ..message });
                    rest = after;
                }
                Outcome::Incomplete(_) if behind.len() < MESSAGE_BYTES_MAX => {
                    return self.begun(blank, behind);
                }
                Outcome::Incomplete(_) | Outcome::NotThis => break,
            }
        }
        // Something else, until a piece begins with a message again.
        side.is_sip = false;
        side.probes = side.probes.saturating_add(1);
        self.tracker.ledger.other_tcp_bytes += rest.len() as u64;
        &[]
    }

    fn begun<'b>(&mut self, blank: &[u8], behind: &'b [u8]) -> &'b [u8] {
        self.tracker.ledger.other_tcp_bytes += blank.len() as u64;
        behind
    }

    fn keep(&mut self, side: &mut Side, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.keep_vec(side, bytes.to_vec());
        }
    }

    fn keep_vec(&mut self, side: &mut Side, bytes: Vec<u8>) {
        if *self.kept_bytes + bytes.len() > KEPT_BYTES_MAX {
            self.tracker.ledger.other_tcp_bytes += bytes.len() as u64;
            return;
        }
        *self.kept_bytes += bytes.len();
        side.bytes = Some(bytes);
    }

    /// What was kept is no message.
    fn drop_kept(&mut self, side: &mut Side) {
        if let Some(bytes) = side.bytes.take() {
            *self.kept_bytes -= bytes.len();
            self.tracker.ledger.other_tcp_bytes += bytes.len() as u64;
        }
    }
}

impl Handler for Reader<'_> {
    type Kept = Kept;

    const TAKES_DATAGRAMS: bool = true;

    #[inline]
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        self.tracker.datagram(datagram);
    }

    #[inline]
    fn event(&mut self, at: &At<'_>, kept: &mut Kept, event: Event<'_>) {
        let [low, high] = &mut kept.sides;
        match event {
            Event::Data(bytes) => self.data(at, if at.from_high { high } else { low }, bytes),
            Event::Gap { .. } => self.drop_kept(if at.from_high { high } else { low }),
            Event::Fin => {}
            Event::Closed(_) => {
                self.drop_kept(low);
                self.drop_kept(high);
            }
        }
    }
}

fn met(at: &At<'_>) -> Met {
    let (low, high) = (at.key.low(), at.key.high());
    let (source, destination) = if at.from_high { (high, low) } else { (low, high) };
    Met {
        now_ns: at.stamp.0,
        source,
        destination,
        interface: at.key.interface(),
        vlan: at.key.vlan(),
        transport: Transport::Tcp,
    }
}
