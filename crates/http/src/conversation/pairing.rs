//! Which response belongs to which request.
//!
//! The first response belongs to the first request, however they come: a response whose request has
//! not come waits for it, unless bytes of requests are missing. Behind missing bytes of responses
//! it is not known how many are gone. Then a response belongs to the last request that came before
//! it: of a client that waits for each answer that is the right one.

use super::{Conversation, Out, Shared};
use crate::limits::{EARLY_MAX, KEPT_BYTES_MAX, PIPELINED_MAX};
use crate::transaction::{Ending, Request, Response, Transaction};
use ringside_proto::http1::{Body, Head};
use ringside_streams::At;

#[derive(Debug)]
pub(super) struct Open {
    pub(super) transaction: Transaction,
    /// Nothing more of the request will come.
    pub(super) is_asked: bool,
    /// Nothing more of the response will come.
    pub(super) is_answered: bool,
    /// Why it ended, if not as it should.
    pub(super) ending: Option<Ending>,
    pub(super) memory: usize,
}

/// Memory of a transaction without its texts.
const OPEN_BYTES: usize = size_of::<Open>();

impl Shared {
    fn has_room(&self, bytes: usize) -> bool {
        self.kept_memory.saturating_add(bytes) <= KEPT_BYTES_MAX
    }
}

impl Open {
    /// Counts its texts anew.
    fn recount(&mut self, shared: &mut Shared) {
        let memory = OPEN_BYTES + self.transaction.texts_bytes();
        shared.kept_memory = shared.kept_memory + memory - self.memory;
        self.memory = memory;
    }
}

impl Conversation {
    /// A request begins: how long its body is.
    pub(super) fn request(
        &mut self,
        request: Request,
        head: &Head<'_>,
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> Body {
        shared.ledger.requests += 1;
        let body = head.body(None);
        // A response that came before its request.
        let early = self.early_response(request.message.first_ns);
        if let Some(early) = early {
            let open = &mut self.open[early];
            if shared.has_room(request.texts_bytes()) {
                open.transaction.request = Some(request);
                open.is_asked = false;
                open.recount(shared);
                return body;
            }
            // Each goes alone.
            open.ending = Some(Ending::RequestUnseen);
        }
        let transaction = self.new_transaction(Some(request), at);
        if !self.put(transaction, false, shared, out) && early.is_none() {
            // What answers it is known by its place alone.
            self.without_room += 1;
        }
        body
    }

    /// The response that came before the request that begins at `first_ns`. Behind missing requests
    /// those that are older answer what is missing.
    fn early_response(&mut self, first_ns: u64) -> Option<usize> {
        self.waits_for_requests = true;
        let is_behind_lost = std::mem::take(&mut self.has_lost_requests);
        for (place, open) in self.open.iter_mut().enumerate() {
            let is_early = open.transaction.request.is_none() && open.ending.is_none();
            let response = open.transaction.response.as_ref().filter(|_| is_early);
            let Some(response) = response else { continue };
            if is_behind_lost && response.message.first_ns < first_ns {
                open.ending = Some(Ending::RequestUnseen);
                continue;
            }
            return Some(place);
        }
        None
    }

    pub(super) fn new_transaction(&mut self, request: Option<Request>, at: &At<'_>) -> Transaction {
        self.transactions = self.transactions.saturating_add(1);
        let (low, high) = (at.key.low(), at.key.high());
        let is_high = self.client == Some(1);
        Transaction {
            connection: at.connection,
            depth: self.transactions,
            interface: at.key.interface(),
            vlan: at.key.vlan(),
            client: if is_high { high } else { low },
            server: if is_high { low } else { high },
            request,
            response: None,
            interim: None,
            ending: Ending::Complete,
            end_ns: at.stamp.0,
        }
    }

    /// Puts a transaction behind those that are open. False if there is no room: then it is over.
    pub(super) fn put(
        &mut self,
        mut transaction: Transaction,
        is_asked: bool,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> bool {
        shared.ledger.begun += 1;
        let memory = OPEN_BYTES + transaction.texts_bytes();
        let has_room =
            self.open.len() < PIPELINED_MAX && self.without_room == 0 && shared.has_room(memory);
        if !has_room {
            transaction.ending = Ending::NoRoom;
            shared.ledger.ended[Ending::NoRoom.index()] += 1;
            out(transaction);
            return false;
        }
        shared.kept_memory += memory;
        shared.open += 1;
        let open = Open { transaction, is_asked, is_answered: false, ending: None, memory };
        self.open.push_back(Box::new(open));
        true
    }

    /// A response begins: how long its body is.
    pub(super) fn response(
        &mut self,
        mut response: Response,
        head: &Head<'_>,
        at: &At<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> Body {
        shared.ledger.responses += 1;
        let is_interim = matches!(response.status, 100 | 102..200);
        let is_behind_both = self.is_behind_gap && self.ever_lost_requests;
        let place = self.place_of(&response, is_interim);
        if is_interim {
            shared.ledger.interim += 1;
            if let Some(place) = place {
                self.open[place].transaction.interim = Some(response.status);
            }
            return Body::None;
        }
        let place = match place {
            Some(place) => place,
            None if self.without_room > 0 => {
                self.without_room -= 1;
                shared.ledger.responses_without_room += 1;
                return head.body(None);
            }
            None => {
                let transaction = self.new_transaction(None, at);
                if !self.put(transaction, true, shared, out) {
                    return head.body(None);
                }
                let place = self.open.len() - 1;
                // Requests that came later wait: its own is missing.
                let waits = |open: &Open| open.transaction.response.is_none() && !open.is_answered;
                if is_behind_both || self.open.iter().take(place).any(|open| waits(open)) {
                    self.open[place].ending = Some(Ending::RequestUnseen);
                }
                place
            }
        };
        let next = self.open.get(place + 1).and_then(|open| open.transaction.request.as_ref());
        self.is_pipelined |= next.is_some_and(|r| r.message.first_ns < response.message.first_ns);
        let open = &mut self.open[place];
        let method = open.transaction.request.as_ref().map(|request| &*request.method);
        let body = head.body(method);
        if !shared.has_room(response.texts_bytes()) {
            response.forget_texts();
        }
        open.transaction.response = Some(response);
        open.recount(shared);
        body
    }

    /// The open transaction that a response answers.
    fn place_of(&mut self, response: &Response, is_interim: bool) -> Option<usize> {
        let is_waiting = |open: &Open| open.transaction.response.is_none() && !open.is_answered;
        let came_before = |open: &Open| {
            let request = open.transaction.request.as_ref();
            request.is_none_or(|r| r.message.last_ns <= response.message.first_ns)
        };
        let mut waiting = self.open.iter().enumerate().filter(|(_, open)| is_waiting(open));
        if !self.is_behind_gap || is_interim {
            let (place, next) = waiting.next()?;
            return (!self.ever_lost_requests || came_before(next)).then_some(place);
        }
        self.is_behind_gap = false;
        let place = match self.is_pipelined {
            // Where both are missing nothing tells which request a response is for.
            _ if self.ever_lost_requests => None,
            true => waiting.next(),
            false => waiting.rfind(|(_, open)| came_before(open)),
        };
        let place = place.map(|(place, _)| place);
        // The responses of those before are what is missing.
        let before = place.unwrap_or(self.open.len());
        let is_missing =
            |open: &&mut Box<Open>| is_waiting(open) && (place.is_some() || came_before(open));
        for open in self.open.iter_mut().take(before).filter(is_missing) {
            open.is_answered = true;
            open.ending = Some(Ending::Lost);
        }
        place
    }

    /// Hands out the transactions that are over, in order.
    pub(super) fn hand_out(&mut self, at: &At<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        // Of a direction that is not seen nothing comes, however long one waits.
        let early = |open: &Open| open.transaction.request.is_none();
        let early = self.open.iter().filter(|open| early(open)).count();
        let waits = self.waits_for_requests && early <= EARLY_MAX;
        while let Some(open) = self.open.front() {
            let is_over = match open.transaction.request {
                None => open.is_answered && (open.ending.is_some() || !waits),
                Some(_) => open.is_answered && (open.is_asked || open.ending.is_some()),
            };
            if !is_over {
                break;
            }
            self.take_out(at, None, shared, out);
        }
    }

    /// Takes the first transaction out.
    pub(super) fn take_out(
        &mut self,
        at: &At<'_>,
        why: Option<Ending>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        let Some(open) = self.open.pop_front() else { return };
        let Open { mut transaction, ending, memory, .. } = *open;
        // An idle connection keeps no room for what it once pipelined.
        let len = self.open.len();
        if self.open.capacity() > 4 * len.max(1) {
            self.open.shrink_to(2 * len);
        }
        let status = transaction.response.as_ref().map(|response| response.status);
        let method = transaction.request.as_ref().map(|request| &*request.method);
        let is_connected = method.is_some_and(|method| method == b"CONNECT");
        let usual = match status {
            Some(101) => Ending::Tunnel,
            Some(200..300) if is_connected => Ending::Tunnel,
            _ if transaction.request.is_none() => Ending::RequestUnseen,
            _ if shared.headers_only => Ending::HeadersOnly,
            _ => Ending::Complete,
        };
        transaction.ending = ending.or(why).unwrap_or(usual);
        transaction.end_ns = at.stamp.0;
        shared.kept_memory -= memory;
        shared.open -= 1;
        shared.ledger.ended[transaction.ending.index()] += 1;
        out(transaction);
    }
}
