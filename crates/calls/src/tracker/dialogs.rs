//! What messages make of a call.

use crate::call::{Dialog, Ending, Party};
use crate::limits::{FIELD_BYTES_MAX, FORKS_MAX};
use crate::met::Met;
use ringside_proto::HeaderValue;
use ringside_proto::sip::{Address, Message};

impl Dialog {
    /// A call that begins with an INVITE.
    pub(super) fn begin(met: &Met, message: &Message<'_>, call_id: &[u8]) -> Dialog {
        let (from, to) = (message.start.from, message.start.to);
        let [from_uri, to_uri] = [from, to].map(|party| party.and_then(Address::uri));
        Dialog {
            call_id: text(call_id, usize::MAX),
            from_tag: from.and_then(Address::tag).map(field),
            to_tag: None,
            caller: from_uri.map(field),
            callee: to_uri.map(field),
            caller_agent: message.agent.map(agent),
            callee_agent: None,
            caller_at: met.source,
            callee_at: met.destination,
            transport: met.transport,
            invite_ns: met.now_ns,
            progress_ns: None,
            ringing_ns: None,
            answered_ns: None,
            confirmed_ns: None,
            ended_ns: None,
            status: None,
            hung_up_by: None,
            has_early_media: false,
            retries: 0,
            reinvites: 0,
            forks: Vec::new(),
            messages: 1,
            repeated: 0,
            cseq: message.cseq.map_or(0, |(number, _)| number),
            last_ns: met.now_ns,
            over: None,
            is_cancelled: false,
            is_self: is_same_party(from_uri, to_uri),
        }
    }

    /// Another message of the call.
    pub(super) fn go_on(&mut self, met: &Met, message: &Message<'_>) {
        self.messages += 1;
        self.last_ns = self.last_ns.max(met.now_ns);
        let (number, cseq_method) = message.cseq.unwrap_or((0, b""));
        match (message.start.method, message.start.status) {
            (Some(b"INVITE"), _) => self.invited(number, met, message),
            (Some(b"CANCEL"), _) if self.answered_ns.is_none() => {
                self.is_cancelled = true;
                self.ends(Ending::Cancelled, met.now_ns);
            }
            (Some(b"BYE"), _) => self.hung_up(met.now_ns, message),
            (Some(b"ACK"), _) if self.answered_ns.is_some() => {
                self.confirmed_ns.get_or_insert(met.now_ns);
            }
            (None, Some(status)) if cseq_method == b"INVITE" => {
                self.responded(status, number, met.now_ns, message);
            }
            _ => {}
        }
    }

    fn invited(&mut self, number: u32, met: &Met, message: &Message<'_>) {
        if number <= self.cseq {
            self.repeated += 1;
            return;
        }
        self.cseq = number;
        if message.start.to.is_some_and(|to| to.tag().is_some()) && self.answered_ns.is_some() {
            self.reinvites += 1;
            return;
        }
        // Another attempt, for one with the password that was asked for.
        self.retries += 1;
        self.is_cancelled = false;
        (self.over, self.ended_ns) = (None, None);
        (self.caller_at, self.callee_at) = (met.source, met.destination);
    }

    /// A response to an INVITE.
    fn responded(&mut self, status: u16, number: u32, now_ns: u64, message: &Message<'_>) {
        self.fork(message);
        if self.answered_ns.is_some() || number != self.cseq {
            return;
        }
        if status > 100 && !matches!(status, 401 | 407) {
            self.progress_ns.get_or_insert(now_ns);
        }
        match status {
            180 => drop(self.ringing_ns.get_or_insert(now_ns)),
            100..=199 => {}
            200..=299 => {
                (self.over, self.ended_ns) = (None, None);
                self.answered_ns = Some(now_ns);
                self.status = Some(status);
                self.to_tag = message.start.to.and_then(Address::tag).map(field);
                self.callee_agent = message.agent.map(agent);
            }
            _ => self.refused(status, now_ns),
        }
        if (101..=199).contains(&status) && message.has_sdp() {
            self.has_early_media = true;
        }
    }

    fn refused(&mut self, status: u16, now_ns: u64) {
        if self.status == Some(status) && self.over.is_some() {
            self.repeated += 1;
            return;
        }
        self.status = Some(status);
        let ending = match status {
            _ if self.is_cancelled => Ending::Cancelled,
            300..=399 => Ending::Redirected,
            401 | 407 => Ending::Challenged,
            _ => Ending::Rejected,
        };
        self.ends(ending, now_ns);
    }

    fn hung_up(&mut self, now_ns: u64, message: &Message<'_>) {
        if self.hung_up_by.is_some() {
            self.repeated += 1;
            return;
        }
        let tag = message.start.from.and_then(Address::tag).map(field);
        let is_caller = tag.is_some() && tag == self.from_tag;
        self.hung_up_by = Some(if is_caller { Party::Caller } else { Party::Callee });
        match self.answered_ns {
            Some(_) => self.ends(Ending::HungUp, now_ns),
            None => self.ends(Ending::Cancelled, now_ns),
        }
    }

    fn ends(&mut self, ending: Ending, now_ns: u64) {
        self.over = Some(ending);
        self.ended_ns.get_or_insert(now_ns);
    }

    /// Notes which party answers.
    fn fork(&mut self, message: &Message<'_>) {
        let Some(tag) = message.start.to.and_then(Address::tag).map(field) else { return };
        if self.forks.len() < FORKS_MAX && !self.forks.contains(&tag) {
            self.forks.push(tag);
        }
    }
}

/// A call to oneself, which keeps a line open.
fn is_same_party(from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
    // What stands behind the address says how to reach it.
    let party = |uri: &[u8]| uri.split(|byte| b";?".contains(byte)).next().map(<[u8]>::to_vec);
    from.and_then(party).is_some_and(|from| Some(from) == to.and_then(party))
}

fn agent(value: HeaderValue<'_>) -> String {
    field(&value.bytes().take(FIELD_BYTES_MAX).collect::<Vec<u8>>())
}

fn field(bytes: &[u8]) -> String {
    text(bytes, FIELD_BYTES_MAX)
}

/// Bytes as text, as far as they are kept. What is no UTF-8 is taken for Latin 1.
fn text(bytes: &[u8], bytes_max: usize) -> String {
    let bytes = bytes.get(..bytes_max).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}
