//! Queries that wait for their answers.

use crate::ledger::DnsLedger;
use crate::limits::ANSWER_WAIT_NS;
use crate::read::Read;
use crate::transaction::{
    Ending, Endpoint, Protocol, Query, Question, Response, Transaction, Transport,
};
use ringside_core::{RecentTable, Timestamp};
use ringside_inspect::Key;
use std::collections::BTreeSet;

/// Takes transactions that are over.
pub(crate) type Out<'o> = dyn FnMut(Transaction) + 'o;

/// Where a message was met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met<'k> {
    pub key: &'k Key,
    pub from_high: bool,
    pub stamp: Timestamp,
    pub protocol: Protocol,
    pub transport: Transport,
    /// Bytes of the message on the wire.
    pub bytes: u32,
}

/// What a query and its answer have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    key: Key,
    client_high: bool,
    id: u16,
}

#[derive(Debug)]
enum State {
    Waiting(Box<Transaction>),
    /// More messages may follow the first of a zone transfer.
    Answered {
        is_transfer: bool,
    },
}

#[derive(Debug)]
struct Known {
    state: State,
    /// When it is forgotten.
    due_ns: u64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Transactions {
    table: RecentTable<Id, Known>,
    /// Times at which places are due, in order.
    dues: BTreeSet<(u64, usize)>,
    open: u64,
    open_messages: u64,
    now: Timestamp,
}

/// Types of questions whose answers are whole zones.
const IXFR: u16 = 251;
const AXFR: u16 = 252;

impl Transactions {
    pub fn new(transactions_max: usize) -> Transactions {
        Transactions {
            table: RecentTable::new(transactions_max.max(1)),
            dues: BTreeSet::new(),
            open: 0,
            open_messages: 0,
            now: Timestamp::default(),
        }
    }

    /// Memory of a table of `transactions_max`, with the longest names.
    #[cfg(test)]
    pub fn bytes(transactions_max: usize) -> usize {
        const NAME_BYTES_MAX: usize = 255;
        // A set of the standard library has nodes that are at least half full.
        let due_bytes = 2 * size_of::<(u64, usize)>() + size_of::<usize>();
        RecentTable::<Id, Known>::bytes(transactions_max)
            + transactions_max * (size_of::<Transaction>() + NAME_BYTES_MAX + due_bytes)
    }

    /// Transactions that are not over, and their messages.
    pub fn open(&self) -> (u64, u64) {
        (self.open, self.open_messages)
    }

    /// Takes a message in.
    pub fn take_in(
        &mut self,
        met: &Met<'_>,
        read: Read,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        if met.stamp != Timestamp::default() {
            self.now = met.stamp;
        }
        match read.is_response {
            false => ledger.queries += 1,
            true => ledger.responses += 1,
        }
        if met.protocol != Protocol::Dns {
            let transaction = self.begin(met, read, Ending::Multicast, ledger);
            self.end(transaction, Ending::Multicast, self.now.0, ledger, out);
            return;
        }
        let client_high = met.from_high != read.is_response;
        let id = Id { key: met.key.paired(), client_high, id: read.id };
        let hash = self.table.hash(&id);
        let known = self.table.find(&id, hash);
        let known = known.filter(|&at| !self.is_overdue(at, ledger, out));
        match read.is_response {
            false => self.query(met, read, (id, hash), known, ledger, out),
            true => self.response(met, read, known, ledger, out),
        }
    }

    /// True if a place was due before now, and is free now.
    fn is_overdue(&mut self, at: usize, ledger: &mut DnsLedger, out: &mut Out<'_>) -> bool {
        let due_ns = self.table.at(at).value.due_ns;
        let is_overdue = due_ns <= self.now.0;
        if is_overdue {
            self.leave(at, Ending::TimedOut, due_ns, ledger, out);
        }
        is_overdue
    }

    fn query(
        &mut self,
        met: &Met<'_>,
        read: Read,
        (id, hash): (Id, u32),
        known: Option<usize>,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        let now_ns = self.now.0;
        if let Some(at) = known {
            let Known { state, .. } = &mut self.table.at_mut(at).value;
            if let State::Waiting(waiting) = state
                && waiting.question == read.question
                && let Some(query) = &mut waiting.query
            {
                query.retransmissions = query.retransmissions.saturating_add(1);
                query.last_ns = now_ns;
                ledger.retransmitted += 1;
                self.open_messages += 1;
                self.set_due(at);
                return;
            }
            self.leave(at, Ending::IdReused, now_ns, ledger, out);
        }
        if let Some(at) = self.table.must_go() {
            self.leave(at, Ending::Displaced, now_ns, ledger, out);
        }
        let transaction = Box::new(self.begin(met, read, Ending::TimedOut, ledger));
        let known = Known { state: State::Waiting(transaction), due_ns: 0 };
        let at = self.table.put(id, hash, now_ns, known);
        self.set_due(at);
    }

    fn response(
        &mut self,
        met: &Met<'_>,
        read: Read,
        known: Option<usize>,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        let Some(at) = known else {
            return self.alone(met, read, Ending::QueryUnseen, ledger, out);
        };
        let entry = self.table.at_mut(at);
        match &mut entry.value.state {
            State::Answered { is_transfer: true } if met.transport == Transport::Tcp => {
                ledger.continued += 1;
                self.set_due(at);
            }
            State::Answered { .. } => self.alone(met, read, Ending::AnsweredBefore, ledger, out),
            State::Waiting(waiting) if !is_answer(waiting, &read) => {
                self.alone(met, read, Ending::OtherQuestion, ledger, out);
            }
            State::Waiting(waiting) => {
                let qtype = waiting.question.as_ref().map(|question| question.qtype);
                let is_transfer = matches!(qtype, Some(IXFR | AXFR));
                let answered = State::Answered { is_transfer };
                // The next query that needs a place may have this one's.
                entry.seen = 0;
                let state = std::mem::replace(&mut entry.value.state, answered);
                self.set_due(at);
                if let State::Waiting(mut transaction) = state {
                    transaction.response = Some(response(met, self.now.0, read));
                    self.open_messages += 1;
                    self.end(*transaction, Ending::Answered, self.now.0, ledger, out);
                }
            }
        }
    }

    /// An answer that is a transaction of its own.
    fn alone(
        &mut self,
        met: &Met<'_>,
        read: Read,
        why: Ending,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        let transaction = self.begin(met, read, why, ledger);
        self.end(transaction, why, self.now.0, ledger, out);
    }

    /// A transaction that begins with a message.
    fn begin(
        &mut self,
        met: &Met<'_>,
        mut read: Read,
        ending: Ending,
        ledger: &mut DnsLedger,
    ) -> Transaction {
        let (low, high) = (met.key.low(), met.key.high());
        let (from, to): (Endpoint, Endpoint) =
            if met.from_high { (high, low) } else { (low, high) };
        let (client, server) = if read.is_response { (to, from) } else { (from, to) };
        ledger.begun += 1;
        self.open += 1;
        self.open_messages += 1;
        let question: Option<Question> = read.question.take();
        let (id, questions, flags) = (read.id, read.counts[0], read.flags);
        let now_ns = self.now.0;
        let is_response = read.is_response;
        let query = Query {
            first_ns: now_ns,
            last_ns: now_ns,
            flags,
            bytes: met.bytes,
            ..Query::default()
        };
        Transaction {
            protocol: met.protocol,
            transport: met.transport,
            interface: met.key.interface(),
            vlan: met.key.vlan(),
            client,
            server,
            id,
            question,
            questions,
            query: (!is_response).then_some(query),
            response: is_response.then(|| response(met, now_ns, read)),
            ending,
            end_ns: now_ns,
        }
    }

    fn end(
        &mut self,
        mut transaction: Transaction,
        ending: Ending,
        end_ns: u64,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        let messages = transaction.messages();
        self.open -= 1;
        self.open_messages -= messages;
        ledger.in_transactions += messages;
        ledger.ended[ending.index()] += 1;
        (transaction.ending, transaction.end_ns) = (ending, end_ns);
        out(transaction);
    }

    /// Frees a place; a query that waits there ends.
    fn leave(
        &mut self,
        at: usize,
        why: Ending,
        end_ns: u64,
        ledger: &mut DnsLedger,
        out: &mut Out<'_>,
    ) {
        let known = self.table.remove(at).value;
        self.dues.remove(&(known.due_ns, at));
        if let State::Waiting(transaction) = known.state {
            self.end(*transaction, why, end_ns, ledger, out);
        }
    }

    fn set_due(&mut self, at: usize) {
        let known = &mut self.table.at_mut(at).value;
        self.dues.remove(&(known.due_ns, at));
        known.due_ns = self.now.0.saturating_add(ANSWER_WAIT_NS);
        self.dues.insert((known.due_ns, at));
    }

    /// Time has come to `now`: queries that waited for long enough are over, each at the time at
    /// which that was due.
    pub fn tick(&mut self, now: Timestamp, ledger: &mut DnsLedger, out: &mut Out<'_>) {
        while let Some(&(due_ns, at)) = self.dues.first() {
            if due_ns > now.0 {
                break;
            }
            self.leave(at, Ending::TimedOut, due_ns, ledger, out);
        }
    }

    /// Ends all, in the order in which they would have been due.
    pub fn finish(&mut self, ledger: &mut DnsLedger, out: &mut Out<'_>) {
        while let Some(&(_, at)) = self.dues.first() {
            self.leave(at, Ending::Forced, self.now.0, ledger, out);
        }
    }
}

/// True if an answer repeats the question that waits, or has none: as those of some failures.
fn is_answer(waiting: &Transaction, read: &Read) -> bool {
    read.question.is_none() || waiting.question == read.question
}

fn response(met: &Met<'_>, stamp_ns: u64, read: Read) -> Response {
    let [_, answers, authority, additional] = read.counts;
    Response {
        stamp_ns,
        flags: read.flags,
        rcode: read.rcode,
        counts: [answers, authority, additional],
        answers: read.answers,
        bytes: met.bytes,
        is_whole: read.is_whole,
    }
}

#[cfg(test)]
mod tests;
