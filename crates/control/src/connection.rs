//! One client: its half line, its reply, its time limit.
//!
//! At most one line and one reply are held; while a reply waits to be taken nothing more is read,
//! so a client that does not read holds up only itself.

use super::protocol::{Command, LINE_BYTES_MAX, Reply};
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of one read: several requests of the usual length, or a piece of an upload.
const READ_BYTES: usize = 16 << 10;

/// How long a client may take, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Clients at a time.
    pub(super) clients_max: usize,
    /// Without a request: longer than anybody who watches pauses.
    pub(super) idle: Duration,
    /// From the first byte of a line to its last, and from a reply, or a part of it that is taken,
    /// to the next part: on one machine both are done at once.
    pub(super) exchange: Duration,
}

/// The limits of a run.
pub(super) const LIMITS: Limits =
    Limits { clients_max: 16, idle: Duration::from_secs(60), exchange: Duration::from_secs(5) };

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Request,
    RestOfLine,
    ReplyTaken,
}

/// A client that is connected.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    /// Bytes read and not yet answered: at most a line and one read.
    input: Vec<u8>,
    /// The reply, of which `written` bytes are taken.
    output: Vec<u8>,
    written: usize,
    waiting: Waiting,
    deadline: Instant,
    /// Nothing more is read: the end of the input, or a line that is none.
    ending: bool,
    closed: bool,
}

impl Connection {
    /// `stream` does not block.
    pub(super) fn new(stream: UnixStream, now: Instant, limits: &Limits) -> Connection {
        Connection {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            waiting: Waiting::Request,
            deadline: now + limits.idle,
            ending: false,
            closed: false,
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// What to wait for at the socket.
    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// When [`step`](Self::step) is due even if the socket says nothing: now, if a request is
    /// here already.
    pub(super) fn due(&self, now: Instant) -> Instant {
        let ready = self.output.is_empty() && (self.ending || self.line_end().is_some());
        if ready { now } else { self.deadline }
    }

    /// True once the client is gone or was given up.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reads, answers and writes once, as far as it goes without waiting: at most one request.
    pub(super) fn step(
        &mut self,
        now: Instant,
        limits: &Limits,
        answer: &dyn Fn(Command) -> Reply,
    ) {
        let mut exchanged = self.write();
        if self.output.is_empty() && !self.closed {
            self.read();
            exchanged |= self.answer(answer);
            self.write();
        }
        if self.closed {
            return;
        }
        let waiting = match (self.output.is_empty(), self.input.is_empty()) {
            (false, _) => Waiting::ReplyTaken,
            (true, false) => Waiting::RestOfLine,
            (true, true) => Waiting::Request,
        };
        if exchanged || waiting != self.waiting {
            self.waiting = waiting;
            let limit = if waiting == Waiting::Request { limits.idle } else { limits.exchange };
            self.deadline = now + limit;
        } else if now >= self.deadline {
            self.give_up();
        }
    }

    /// Time that the server took is not the client's.
    pub(super) fn prolong(&mut self, by: Duration) {
        self.deadline += by;
    }

    /// Hands the reply over, as far as it is taken. True if some of it was.
    fn write(&mut self) -> bool {
        let written = self.written;
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count @ 1..) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.written > written;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.closed = true;
                    return false;
                }
            }
        }
        let taken = !self.output.is_empty();
        self.output.clear();
        self.written = 0;
        taken
    }

    /// Reads once if no request is here yet.
    fn read(&mut self) {
        if self.ending || self.line_end().is_some() {
            return;
        }
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.ending = true,
            Ok(count) => self.input.extend_from_slice(&bytes[..count]),
            Err(error) if is_passing(error.kind()) => {}
            Err(_) => self.closed = true,
        }
    }

    /// Answers the first line that is here; also the last one of a client that sends no more,
    /// though it lacks its end. True if there was one.
    fn answer(&mut self, answer: &dyn Fn(Command) -> Reply) -> bool {
        let end = self.line_end();
        if end.unwrap_or(self.input.len()) > LINE_BYTES_MAX {
            self.refuse(&format!("a request is at most {LINE_BYTES_MAX} bytes long"));
            return true;
        }
        let line: Vec<u8> = match end {
            Some(end) => self.input.drain(..=end).collect(),
            None if self.ending => std::mem::take(&mut self.input),
            None => return false,
        };
        let line = line.trim_ascii();
        if !line.is_empty() {
            let reply = match Command::parse(line) {
                Ok(command) => answer(command),
                Err(error) => Reply::refused(&error),
            };
            reply.append_line(&mut self.output);
        } else if self.ending && self.input.is_empty() {
            self.closed = true;
        }
        true
    }

    /// Says why, and reads nothing more.
    fn refuse(&mut self, error: &str) {
        self.input = Vec::new();
        self.ending = true;
        Reply::refused(error).append_line(&mut self.output);
    }

    /// The time is over. A client in the middle of a line gets a message. An idle one needs none,
    /// and one that reads no replies cannot get it.
    fn give_up(&mut self) {
        if self.waiting == Waiting::RestOfLine {
            self.refuse("the rest of the line did not come in time");
            self.write();
        }
        self.closed = true;
    }

    fn line_end(&self) -> Option<usize> {
        self.input.iter().position(|&byte| byte == b'\n')
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
