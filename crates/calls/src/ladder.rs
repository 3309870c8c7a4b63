//! The messages of one call, as a ladder: who said what to whom.

use crate::met::Met;
use crate::stream::Endpoint;
use ringside_proto::sip::Message;
use std::fmt::Write;

/// Messages that are kept; a call of an hour has some twenty.
const MESSAGES_MAX: usize = 10_000;
/// Bytes that are kept of a method: as many as one is read with.
const METHOD_BYTES_MAX: usize = 64;
/// From one line to the next.
const COLUMN: usize = 28;

/// The messages of one call.
#[derive(Clone, Debug)]
pub struct Ladder {
    call_id: Vec<u8>,
    hosts: Vec<Endpoint>,
    messages: Vec<Step>,
    left_out: u64,
}

/// A message of a call. A request has a method, a response a status.
#[derive(Clone, Debug)]
pub struct Step {
    /// When it came.
    pub now_ns: u64,
    /// Who sent it, and to whom, as indices of [`Ladder::hosts`].
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// Method, as its sender wrote it.
    pub method: Option<String>,
    /// Status code.
    pub status: Option<u16>,
    /// Number and method of CSeq: which request it is, or answers.
    pub cseq: (u32, String),
    /// It describes media.
    pub has_sdp: bool,
}

impl Ladder {
    /// Hosts that have a line of their own.
    pub const HOSTS_MAX: usize = 16;

    /// Of the call with this Call-ID.
    pub fn new(call_id: &str) -> Ladder {
        let (hosts, messages) = (Vec::new(), Vec::new());
        Ladder { call_id: call_id.as_bytes().to_vec(), hosts, messages, left_out: 0 }
    }

    /// True if no message of the call was seen.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn take(&mut self, met: &Met, message: &Message<'_>, call_id: &[u8]) {
        if call_id != self.call_id {
            return;
        }
        let (Some(from), Some(to)) = (self.host(met.source), self.host(met.destination)) else {
            self.left_out += 1;
            return;
        };
        if self.messages.len() >= MESSAGES_MAX {
            self.left_out += 1;
            return;
        }
        let (number, method) = message.cseq.unwrap_or_default();
        self.messages.push(Step {
            now_ns: met.now_ns,
            from,
            to,
            method: message.start.method.map(word),
            status: message.start.status,
            cseq: (number, word(method)),
            has_sdp: message.has_sdp(),
        });
    }

    fn host(&mut self, host: Endpoint) -> Option<usize> {
        let known = self.hosts.iter().position(|&other| other == host);
        known.or_else(|| {
            (self.hosts.len() < Ladder::HOSTS_MAX).then(|| self.hosts.push(host))?;
            Some(self.hosts.len() - 1)
        })
    }

    /// Who sent or received messages, in the order in which they appeared.
    pub fn hosts(&self) -> &[Endpoint] {
        &self.hosts
    }

    /// The messages, in the order in which they came.
    pub fn messages(&self) -> &[Step] {
        &self.messages
    }

    /// Messages for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The method or status of each message.
    pub fn said(&self) -> impl Iterator<Item = String> {
        self.messages.iter().map(Step::said)
    }

    /// The ladder as lines of text: times are seconds since the first message.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = write!(out, "{:>12}", "");
        for &(address, port) in &self.hosts {
            let host = match address.is_ipv6() {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            };
            let _ = write!(out, " {host:^width$}", width = COLUMN - 1);
        }
        out.push('\n');
        let begun_ns = self.messages.first().map_or(0, |step| step.now_ns);
        for step in &self.messages {
            let since = step.now_ns as f64 - begun_ns as f64;
            let _ = writeln!(out, "{:>12.6}{}", since / 1e9, self.rung(step));
        }
        if self.left_out > 0 {
            let _ = writeln!(out, "{} more messages were left out", self.left_out);
        }
        out
    }

    fn rung(&self, step: &Step) -> String {
        let middle = |host: usize| host * COLUMN + COLUMN / 2;
        let mut line = vec![' '; self.hosts.len() * COLUMN];
        (0..self.hosts.len()).for_each(|host| line[middle(host)] = '|');
        let (low, high) = (middle(step.from.min(step.to)), middle(step.from.max(step.to)));
        if low == high {
            let shown = format!(" {} to itself", step.text());
            line.truncate(low + 1);
            line.extend(shown.chars());
            return line.into_iter().collect();
        }
        line[low + 1..high].fill('-');
        match step.from < step.to {
            true => line[high - 1] = '>',
            false => line[low + 1] = '<',
        }
        let shown = format!(" {} ", step.text());
        let room = high - low - 4;
        let shown: Vec<char> = shown.chars().take(room).collect();
        let start = low + 2 + (room - shown.len()) / 2;
        line[start..start + shown.len()].copy_from_slice(&shown);
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}

/// What a sender likes, as text of bounded length.
fn word(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(METHOD_BYTES_MAX)]).into_owned()
}

impl Step {
    /// The method or status.
    fn said(&self) -> String {
        let status = || self.status.map(|status| status.to_string());
        self.method.clone().or_else(status).unwrap_or_default()
    }

    fn text(&self) -> String {
        // Methods are what a sender likes.
        let printable = |c: char| if c.is_control() { '?' } else { c };
        let said: String = self.said().chars().map(printable).collect();
        if self.has_sdp { said + " (SDP)" } else { said }
    }
}
