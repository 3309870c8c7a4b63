//! Calls out of SIP messages and packets of media.

mod dialogs;
mod media;

use crate::CallsLedger;
use crate::call::{Call, Dialog, Ending, OpenCall};
use crate::kernel_media::KernelMedia;
use crate::ladder::Ladder;
use crate::limits::{CALL_ID_BYTES_MAX, Limits};
use crate::met::Met;
use crate::stream::{Endpoint, Stream, StreamKey};
use crate::timed::Timed;
use media::Announced;
use ringside_proto::sip::Message;
use std::collections::HashMap;

/// All calls and streams that go on.
pub(crate) struct Tracker {
    limits: Limits,
    finds_unannounced: bool,
    calls: Timed<Box<[u8]>, OpenCall>,
    streams: Timed<StreamKey, Stream>,
    endpoints: HashMap<Endpoint, Announced>,
    pub ledger: CallsLedger,
    pub ladder: Option<Ladder>,
    /// What counts media outside of this program.
    pub kernel: Option<KernelMedia>,
    /// Numbers that were given to calls.
    numbers: u64,
    /// Calls that are over and wait to be taken.
    done: Vec<Call>,
}

impl Tracker {
    pub(crate) fn new(
        limits: Limits,
        finds_unannounced: bool,
        ladder: Option<Ladder>,
        kernel: Option<KernelMedia>,
    ) -> Tracker {
        Tracker {
            limits,
            finds_unannounced,
            calls: Timed::new(),
            streams: Timed::new(),
            endpoints: HashMap::new(),
            ledger: CallsLedger::default(),
            ladder,
            kernel,
            numbers: 0,
            done: Vec::new(),
        }
    }

    /// Calls that are over, in the order in which they were.
    pub(crate) fn take_done(&mut self) -> impl Iterator<Item = Call> + use<'_> {
        self.done.drain(..)
    }

    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Calls that go on.
    pub(crate) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Streams that go on, and those that may be some.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// True if nothing is missing. Looks at all streams.
    pub(crate) fn balances(&self) -> bool {
        let counted = self.calls.values().flat_map(|open| &open.counted);
        let packets = self.streams.values().chain(counted).map(packets_of).sum();
        let alone = self.streams.values().filter(|one| one.call.is_none() && one.is_known());
        let open = self.calls.len() + alone.count();
        let in_kernel = self.kernel.as_ref().is_none_or(|kernel| {
            kernel.status().counted == self.ledger.rtp_in_kernel + kernel.packets_open()
        });
        in_kernel && self.ledger.balances(open as u64, packets)
    }

    /// A SIP message came.
    pub(crate) fn message(&mut self, met: &Met, message: &Message<'_>) {
        let (Some(call_id), Some((_, method))) = (message.start.call_id, message.cseq) else {
            self.ledger.other_methods += 1;
            return;
        };
        if let Some(ladder) = &mut self.ladder {
            ladder.take(met, message, call_id);
        }
        if call_id.len() > CALL_ID_BYTES_MAX {
            self.ledger.without_call += 1;
            return;
        }
        match (method, self.calls.find(call_id)) {
            (b"OPTIONS", _) => self.ledger.options += 1,
            (b"REGISTER", _) => self.ledger.registers += 1,
            (_, Some(place)) => self.go_on(place, met, message),
            (b"INVITE", None) if is_first_invite(message) => self.begin(call_id, met, message),
            (b"INVITE" | b"ACK" | b"BYE" | b"CANCEL" | b"PRACK" | b"UPDATE", None) => {
                self.ledger.without_call += 1;
            }
            (_, None) => self.ledger.other_methods += 1,
        }
    }

    fn begin(&mut self, call_id: &[u8], met: &Met, message: &Message<'_>) {
        if self.calls.len() >= self.limits.calls.max(1)
            && let Some((_, place)) = self.calls.first()
        {
            self.end(place, Some(Ending::Displaced));
        }
        self.ledger.begun += 1;
        self.ledger.in_calls += 1;
        self.numbers += 1;
        let dialog = Dialog::begin(met, message, call_id);
        let call = Call {
            number: self.numbers,
            interface: met.interface,
            vlan: met.vlan,
            dialog: None,
            streams: Vec::new(),
            streams_left_out: 0,
            ending: Ending::Forced,
        };
        let (streams, endpoints) = (Vec::new(), Vec::new());
        let (counted, reports) = (Vec::new(), Vec::new());
        let open = OpenCall { call, dialog, streams, endpoints, counted, reports };
        let place = self.calls.put(call_id.into(), open);
        self.announce(place, message);
    }

    fn go_on(&mut self, place: u32, met: &Met, message: &Message<'_>) {
        self.ledger.in_calls += 1;
        let Some(open) = self.calls.at(place) else { return };
        open.dialog.go_on(met, message);
        self.calls.changed(place);
        self.announce(place, message);
    }

    /// Ends what is due.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if self.calls.not_before_ns().min(self.streams.not_before_ns()) <= now_ns {
            self.end_due(now_ns);
        }
    }

    #[cold]
    fn end_due(&mut self, now_ns: u64) {
        loop {
            let (call, stream) = (self.calls.first(), self.streams.first());
            let stream_ns = stream.map_or(u64::MAX, |(due_ns, _)| due_ns);
            match (call, stream) {
                (Some((due_ns, place)), _) if due_ns <= now_ns && due_ns <= stream_ns => {
                    if !self.has_spoken(place) {
                        self.end(place, None);
                    }
                }
                (_, Some((due_ns, place))) if due_ns <= now_ns => self.end_stream(place),
                _ => return,
            }
        }
    }

    /// True if a call is not due after all: the kernel has counted media since the last look.
    fn has_spoken(&mut self, place: u32) -> bool {
        let Tracker { kernel: Some(kernel), calls, .. } = self else { return false };
        let Some(open) = calls.at(place) else { return false };
        let last_ns = kernel.last_ns(&open.endpoints);
        let is_later = open.dialog.over.is_none() && last_ns > open.dialog.last_ns;
        if is_later {
            open.dialog.last_ns = last_ns;
        }
        is_later
    }

    /// Ends a call: as it has ended so far, or for another reason.
    fn end(&mut self, place: u32, why: Option<Ending>) {
        let Some(open) = self.calls.at(place) else { return };
        let (number, endpoints) = (open.call.number, std::mem::take(&mut open.endpoints));
        for endpoint in endpoints {
            if self.endpoints.get(&endpoint).is_some_and(|found| found.call == number) {
                self.endpoints.remove(&endpoint);
                self.take_counted(place, &endpoint);
            }
        }
        let Some(mut open) = self.calls.remove(place) else { return };
        let seen = std::mem::take(&mut open.streams);
        self.ledger.rtp_without_room +=
            open.join(seen.into_iter().filter_map(|place| self.streams.remove(place)));
        let OpenCall { mut call, dialog, .. } = open;
        self.ledger.stream_packets += call.streams.iter().map(packets_of).sum::<u64>();
        let silent = match dialog.answered_ns {
            Some(_) => Ending::Silent,
            None => Ending::Unanswered,
        };
        call.ending = dialog.over.or(why).unwrap_or(silent);
        if dialog.is_self {
            self.ledger.self_calls += 1;
            return;
        }
        call.dialog = Some(dialog);
        self.give(call);
    }

    fn give(&mut self, call: Call) {
        if let Some(count) = self.ledger.ended.get_mut(call.ending.index()) {
            *count += 1;
        }
        self.done.push(call);
    }

    /// Ends everything: no packet will come again. In the order of beginnings.
    pub(crate) fn finish(&mut self) {
        while let Some((_, place)) = self.calls.first() {
            self.end(place, Some(Ending::Forced));
        }
        while let Some((_, place)) = self.streams.first() {
            self.end_stream(place);
        }
        self.done.sort_by_key(|call| call.number);
    }
}

/// RTP packets that a stream has counted, in one way or another.
fn packets_of(stream: &Stream) -> u64 {
    stream.statistics.packets + stream.statistics.malformed
}

/// An INVITE outside a dialog.
fn is_first_invite(message: &Message<'_>) -> bool {
    let is_invite = message.start.method == Some(b"INVITE");
    is_invite && message.start.to.is_some_and(|to| to.tag().is_none())
}
