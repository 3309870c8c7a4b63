//! One connection that carries HTTP: what its bytes are, from head to head.

use crate::ledger::HttpLedger;
use crate::limits::KEPT_BYTES_MAX;
use crate::reader::{Found, Reader, State};
use crate::transaction::{Ending, Message, Request, Response, Transaction};
use ringside_proto::http1::{Body, Head, Start};
use ringside_streams::{At, Closing};
use std::collections::VecDeque;

mod pairing;
#[cfg(test)]
mod tests;

use pairing::Open;

/// What all conversations share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub ledger: HttpLedger,
    /// Memory of what they keep.
    pub kept_memory: usize,
    /// Bytes of heads among that.
    pub kept_bytes: usize,
    /// Transactions that are not over.
    pub open: u64,
    pub shows_credentials: bool,
    /// Bodies, and most else, are left out of what comes.
    pub headers_only: bool,
}

/// Takes transactions that are over.
pub(crate) type Out<'o> = dyn FnMut(Transaction) + 'o;

#[derive(Debug)]
pub(crate) struct Conversation {
    /// What the lower endpoint says, and the higher.
    readers: [Reader; 2],
    /// Which of them asks, once that is known.
    client: Option<usize>,
    /// A request may come behind its response: requests were seen, or are seen from the start.
    waits_for_requests: bool,
    /// Bytes are missing where a request was to begin.
    has_lost_requests: bool,
    /// They were at any time: then only stamps tell which request a response is for.
    ever_lost_requests: bool,
    /// Bytes are missing where a response was to begin.
    is_behind_gap: bool,
    /// Requests were sent before earlier ones were answered.
    is_pipelined: bool,
    /// Transactions that are not over, in the order of their requests. Most are one at a time, so
    /// that room for more must cost little.
    open: VecDeque<Box<Open>>,
    /// Requests that there was no room for, all behind those that are open.
    without_room: u64,
    transactions: u32,
}

impl Conversation {
    /// With directions that are seen from their start, or not.
    pub(crate) fn new(from_start: [bool; 2]) -> Conversation {
        let state = |is_from_start| if is_from_start { State::Start } else { State::Lost };
        Conversation {
            readers: from_start.map(|from_start| Reader::new(state(from_start))),
            client: None,
            waits_for_requests: from_start == [true, true],
            has_lost_requests: from_start != [true, true],
            ever_lost_requests: false,
            is_behind_gap: false,
            is_pipelined: false,
            open: VecDeque::new(),
            without_room: 0,
            transactions: 0,
        }
    }

    /// True if no message has been found, and none is about to be.
    pub(crate) fn is_nothing(&self) -> bool {
        self.client.is_none() && self.readers.iter().all(|reader| reader.kept() == 0)
    }

    /// The next bytes of a direction.
    pub(crate) fn data(
        &mut self,
        mut bytes: &[u8],
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        let side = usize::from(at.from_high);
        while !bytes.is_empty() {
            let used = match self.readers[side].state {
                State::Start | State::Lost => self.look_for_head(side, bytes, at, shared, out),
                State::Tunnel => {
                    shared.ledger.tunnel_bytes += bytes.len() as u64;
                    bytes.len()
                }
                _ => self.go_through_body(side, bytes, at, shared, out),
            };
            bytes = &bytes[used..];
        }
        if shared.headers_only {
            self.end_head(side, at, shared, out);
        }
    }

    /// Looks for a head; how many of the bytes are done with.
    fn look_for_head(
        &mut self,
        side: usize,
        bytes: &[u8],
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> usize {
        let reader = &mut self.readers[side];
        let before = reader.kept();
        let found = reader.head(bytes, at.stamp.0);
        let kept = reader.kept();
        shared.kept_bytes = shared.kept_bytes + kept - before;
        shared.kept_memory = shared.kept_memory + kept - before;
        match found {
            Found::Head(head, used) => {
                let head_bytes = head.len();
                let is_taken = Head::parse(&head)
                    .is_some_and(|head| self.head(side, &head, head_bytes, at, shared, out));
                let ledger = &mut shared.ledger;
                if is_taken {
                    ledger.head_bytes += head_bytes as u64;
                } else {
                    ledger.unread_bytes += head_bytes as u64;
                    self.lose_step(side, Ending::NotHttp, at, shared, out);
                }
                return used;
            }
            Found::Part if shared.kept_memory <= KEPT_BYTES_MAX => return bytes.len(),
            Found::Part | Found::Other => {
                self.drop_kept(side, shared);
                if self.is_old_http(side) {
                    shared.ledger.unread_bytes += before as u64;
                    return self.begin_old_body(side, at, shared);
                }
                self.lose_step(side, Ending::NotHttp, at, shared, out);
            }
            Found::TooLong => {
                shared.ledger.heads_too_long += 1;
                self.drop_kept(side, shared);
                self.lose_step(side, Ending::NotHttp, at, shared, out);
            }
        }
        shared.ledger.unread_bytes += (bytes.len() + before) as u64;
        // What was kept of the bytes is among them.
        bytes.len()
    }

    /// Forgets the part of a head that is kept.
    fn drop_kept(&mut self, side: usize, shared: &mut Shared) {
        let kept = self.readers[side].forget();
        shared.kept_bytes -= kept;
        shared.kept_memory -= kept;
    }

    /// Out of step from here on.
    fn lose_step(
        &mut self,
        side: usize,
        why: Ending,
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        let was_in_step = !matches!(self.readers[side].state, State::Lost);
        self.readers[side].state = State::Lost;
        if was_in_step && self.client.is_some_and(|client| client != side) {
            if let Some(open) = self.open.iter_mut().find(|open| !open.is_answered) {
                open.is_answered = true;
                open.ending = Some(why);
            }
            self.lose_responses();
        } else if was_in_step {
            self.lose_requests();
        }
        self.hand_out(at, shared, out);
    }

    /// Requests may be missing from here on.
    fn lose_requests(&mut self) {
        (self.has_lost_requests, self.ever_lost_requests) = (true, true);
    }

    /// Responses may be missing from here on, also those of requests that there was no room for.
    fn lose_responses(&mut self) {
        self.is_behind_gap = true;
        self.without_room = 0;
    }

    /// True if the answer to a request of HTTP/0.9 begins, which has no head.
    fn is_old_http(&self, side: usize) -> bool {
        let next = self.open.iter().find(|open| open.transaction.response.is_none());
        let request = next.and_then(|open| open.transaction.request.as_ref());
        let is_server = self.client.is_some_and(|client| client != side);
        is_server && request.is_some_and(|request| request.minor_version.is_none())
    }

    fn begin_old_body(&mut self, side: usize, at: &At<'_>, shared: &mut Shared) -> usize {
        if let Some(open) = self.open.iter_mut().find(|o| o.transaction.response.is_none()) {
            let message =
                Message { first_ns: at.stamp.0, last_ns: at.stamp.0, ..Message::default() };
            open.transaction.response = Some(Response { message, ..Response::default() });
            shared.ledger.responses += 1;
        }
        self.readers[side].state = State::UntilClose;
        0
    }

    /// A head has come whole. False if such a thing does not belong in this direction.
    fn head(
        &mut self,
        side: usize,
        head: &Head<'_>,
        head_bytes: usize,
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> bool {
        let asks = matches!(head.start, Start::Request { .. });
        let client = *self.client.get_or_insert(if asks { side } else { 1 - side });
        if asks != (client == side) {
            return false;
        }
        let first_ns = self.readers[side].first_ns;
        let message = |message: &mut Message| {
            message.head_bytes = head_bytes as u64;
            (message.first_ns, message.last_ns) = (first_ns, at.stamp.0);
        };
        let body = match asks {
            true => {
                let Some(mut request) = Request::of(head, shared.shows_credentials) else {
                    return false;
                };
                message(&mut request.message);
                self.request(request, head, at, shared, out)
            }
            false => {
                let Some(mut response) = Response::of(head, shared.shows_credentials) else {
                    return false;
                };
                message(&mut response.message);
                self.response(response, head, at, shared, out)
            }
        };
        match shared.headers_only {
            true => self.readers[side].state = State::Lost,
            false => self.readers[side].enter(body),
        }
        if shared.headers_only || matches!(self.readers[side].state, State::Start | State::Tunnel) {
            self.message_ends(side, at.stamp.0, shared);
        }
        if matches!(body, Body::Tunnel) {
            self.readers[client].state = State::Tunnel;
        }
        self.hand_out(at, shared, out);
        true
    }

    /// The message of a direction that is being read.
    fn message(&mut self, side: usize) -> Option<(&mut Message, &mut bool)> {
        if self.client == Some(side) {
            let open = self.open.iter_mut().rfind(|open| !open.is_asked)?;
            let request = open.transaction.request.as_mut()?;
            return Some((&mut request.message, &mut open.is_asked));
        }
        let open = self.being_answered()?;
        let response = open.transaction.response.as_mut()?;
        Some((&mut response.message, &mut open.is_answered))
    }

    /// The transaction whose response is being read.
    fn being_answered(&mut self) -> Option<&mut Open> {
        let mut open = self.open.iter_mut().map(Box::as_mut);
        open.find(|open| open.transaction.response.is_some() && !open.is_answered)
    }

    /// The message of a direction has come whole, as far as it will, with a byte that came at
    /// `last_ns`.
    fn message_ends(&mut self, side: usize, last_ns: u64, shared: &Shared) {
        if let Some((message, is_over)) = self.message(side) {
            message.last_ns = message.last_ns.max(last_ns);
            message.is_whole = !shared.headers_only;
            *is_over = true;
        }
    }

    fn go_through_body(
        &mut self,
        side: usize,
        bytes: &[u8],
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> usize {
        let Some((used, contents, is_over)) = self.readers[side].body(bytes) else {
            shared.ledger.unread_bytes += bytes.len() as u64;
            self.end_message(side, Ending::NotHttp);
            self.hand_out(at, shared, out);
            return bytes.len();
        };
        shared.ledger.body_bytes += contents;
        shared.ledger.framing_bytes += used as u64 - contents;
        if let Some((message, _)) = self.message(side) {
            message.body_bytes += contents;
            message.last_ns = message.last_ns.max(at.stamp.0);
        }
        if is_over {
            self.message_ends(side, at.stamp.0, shared);
            self.hand_out(at, shared, out);
        }
        used
    }

    /// The message that is being read ends here, not as it should.
    fn end_message(&mut self, side: usize, why: Ending) {
        if self.client == Some(side) {
            self.lose_requests();
            if let Some(open) = self.open.iter_mut().rfind(|open| !open.is_asked) {
                open.is_asked = true;
            }
            return;
        }
        self.lose_responses();
        if let Some(open) = self.being_answered() {
            open.is_answered = true;
            open.ending = Some(why);
        }
    }

    /// Bytes of a direction are missing.
    pub(crate) fn gap(&mut self, bytes: u64, at: &At<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        let side = usize::from(at.from_high);
        let missing = match &mut self.readers[side].state {
            State::Tunnel => return,
            State::UntilClose => bytes,
            State::Length(left) => {
                let missing = bytes.min(*left);
                *left -= missing;
                missing
            }
            State::Chunked(chunks) => match chunks.skip(bytes) {
                true => bytes,
                false => {
                    self.readers[side].state = State::Lost;
                    self.end_message(side, Ending::Lost);
                    self.hand_out(at, shared, out);
                    return;
                }
            },
            State::Start | State::Lost => {
                self.gap_between(side, at, shared, out);
                return;
            }
        };
        if let Some((message, _)) = self.message(side) {
            message.missing_bytes += missing;
        }
        if matches!(self.readers[side].state, State::Length(0)) {
            self.readers[side].state = State::Start;
            self.message_ends(side, at.stamp.0, shared);
            if bytes > missing {
                self.gap_between(side, at, shared, out);
            }
        }
        self.hand_out(at, shared, out);
    }

    /// Bytes are missing in a head, or between messages.
    fn gap_between(&mut self, side: usize, at: &At<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        if shared.headers_only {
            self.end_head(side, at, shared, out);
            return;
        }
        let was_in_step = matches!(self.readers[side].state, State::Start);
        self.lose_head(side, shared);
        self.readers[side].state = State::Lost;
        match self.client {
            Some(client) if client != side => {
                self.lose_responses();
                // What is missing is at least the beginning of the next response.
                let next = self.open.iter_mut().find(|open| !open.is_answered);
                if let Some(open) = next.filter(|_| was_in_step) {
                    open.is_answered = true;
                    open.ending = Some(Ending::Lost);
                }
            }
            _ => self.lose_requests(),
        }
        self.hand_out(at, shared, out);
    }

    /// The rest of a head will not come.
    fn lose_head(&mut self, side: usize, shared: &mut Shared) {
        let kept = self.readers[side].kept();
        shared.ledger.heads_lost += u64::from(kept > 0);
        shared.ledger.unread_bytes += kept as u64;
        self.drop_kept(side, shared);
    }

    /// Takes the part of a head that is there for all of it.
    fn end_head(&mut self, side: usize, at: &At<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        let kept = self.readers[side].kept();
        if kept == 0 {
            return;
        }
        let mut head = self.readers[side].take();
        shared.kept_bytes -= kept;
        shared.kept_memory -= kept;
        shared.ledger.heads_lost += 1;
        // The last line may have been cut.
        head.truncate(head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1));
        head.extend(b"\r\n");
        let is_taken = Head::parse(&head)
            .is_some_and(|parsed| self.head(side, &parsed, kept, at, shared, out));
        match is_taken {
            true => shared.ledger.head_bytes += kept as u64,
            false => shared.ledger.unread_bytes += kept as u64,
        }
    }

    /// A direction has ended as it should.
    pub(crate) fn fin(&mut self, at: &At<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        let side = usize::from(at.from_high);
        if matches!(self.readers[side].state, State::UntilClose) {
            self.readers[side].state = State::Start;
            // The end is no byte of it.
            self.message_ends(side, 0, shared);
            self.hand_out(at, shared, out);
        }
    }

    /// The connection is over.
    pub(crate) fn close(
        &mut self,
        why: Closing,
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        for side in 0..2 {
            match shared.headers_only {
                true => self.end_head(side, at, shared, out),
                false => self.lose_head(side, shared),
            }
        }
        let why = match why {
            Closing::Fin => Ending::Closed,
            Closing::Reset => Ending::Reset,
            Closing::Reused => Ending::Reused,
            Closing::Idle => Ending::Idle,
            Closing::Displaced => Ending::Displaced,
            Closing::Forced => Ending::Forced,
        };
        while let Some(open) = self.open.front() {
            let is_whole = open.is_answered && open.ending.is_none();
            self.take_out(at, (!is_whole).then_some(why), shared, out);
        }
    }
}
