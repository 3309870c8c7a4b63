//! One direction of a conversation: where messages begin and end in it.

use crate::limits::HEAD_BYTES_MAX;
use ringside_proto::http1::{Beginning, Body, Chunks, beginning, head_end};
use std::borrow::Cow;

/// What a direction is in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// In front of a message, or in its head.
    Start,
    /// Out of step: a message is looked for where pieces begin.
    Lost,
    /// In a body of which as much is left.
    Length(u64),
    /// In a body in chunks.
    Chunked(Chunks),
    /// In a body that the end of the connection ends.
    UntilClose,
    /// In something else.
    Tunnel,
}

/// Reads one direction.
#[derive(Debug)]
pub(crate) struct Reader {
    pub state: State,
    /// The beginning of a head that has not come whole yet.
    buffer: Vec<u8>,
    /// When its first byte came.
    pub first_ns: u64,
}

/// What the next bytes are.
#[derive(Debug)]
pub(crate) enum Found<'b> {
    /// A head, with what was kept of it, and how many of the bytes belong to it.
    Head(Cow<'b, [u8]>, usize),
    /// A head that has not come whole.
    Part,
    /// Nothing that begins a message.
    Other,
    /// A head that goes on for too long.
    TooLong,
}

impl Reader {
    pub(crate) fn new(state: State) -> Reader {
        Reader { state, buffer: Vec::new(), first_ns: 0 }
    }

    /// Bytes that it keeps.
    pub(crate) fn kept(&self) -> usize {
        self.buffer.len()
    }

    /// Forgets what it keeps; how many bytes that were.
    pub(crate) fn forget(&mut self) -> usize {
        std::mem::take(&mut self.buffer).len()
    }

    /// Takes out what it keeps.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Looks for a head in the bytes that come next. They are all kept if the head is not whole.
    #[inline]
    pub(crate) fn head<'b>(&mut self, bytes: &'b [u8], stamp: u64) -> Found<'b> {
        let seen = self.buffer.len();
        if seen == 0 {
            self.first_ns = stamp;
            return match beginning(bytes) {
                Beginning::Other => Found::Other,
                Beginning::Undecided => self.keep(bytes),
                Beginning::Request | Beginning::Response => match head_end(bytes, 0) {
                    Some(end) if end > HEAD_BYTES_MAX => Found::TooLong,
                    Some(end) => Found::Head(Cow::Borrowed(&bytes[..end]), end),
                    None => self.keep(bytes),
                },
            };
        }
        // Empty lines in front belong to no message, and may have come with the one before.
        if self.buffer.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            self.first_ns = stamp;
        }
        let room = (HEAD_BYTES_MAX + 1).saturating_sub(seen);
        self.buffer.extend(&bytes[..bytes.len().min(room)]);
        match beginning(&self.buffer) {
            Beginning::Other => Found::Other,
            Beginning::Undecided => Found::Part,
            Beginning::Request | Beginning::Response => match head_end(&self.buffer, seen) {
                Some(end) if end <= HEAD_BYTES_MAX => {
                    let mut head = std::mem::take(&mut self.buffer);
                    head.truncate(end);
                    // An end that was there before would have been found.
                    Found::Head(Cow::Owned(head), end.saturating_sub(seen))
                }
                _ if self.buffer.len() > HEAD_BYTES_MAX => Found::TooLong,
                _ => Found::Part,
            },
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Found<'static> {
        if bytes.len() > HEAD_BYTES_MAX {
            return Found::TooLong;
        }
        self.buffer.extend(bytes);
        Found::Part
    }

    /// Goes into the body behind a head.
    pub(crate) fn enter(&mut self, body: Body) {
        self.state = match body {
            Body::None => State::Start,
            Body::Length(0) => State::Start,
            Body::Length(bytes) => State::Length(bytes),
            Body::Chunked => State::Chunked(Chunks::default()),
            Body::UntilClose => State::UntilClose,
            Body::Tunnel => State::Tunnel,
        };
    }

    /// Takes the next bytes of a body: how many belong to it, how many of those to its contents,
    /// and whether it is over; none if they contradict what it is.
    #[inline]
    pub(crate) fn body(&mut self, bytes: &[u8]) -> Option<(usize, u64, bool)> {
        match &mut self.state {
            State::Length(left) => {
                let here = (*left).min(bytes.len() as u64);
                *left -= here;
                let is_over = *left == 0;
                if is_over {
                    self.state = State::Start;
                }
                Some((here as usize, here, is_over))
            }
            State::Chunked(chunks) => {
                let (used, contents) = chunks.take_in(bytes);
                if chunks.is_broken() {
                    self.state = State::Lost;
                    return None;
                }
                let is_over = chunks.is_done();
                if is_over {
                    self.state = State::Start;
                }
                Some((used, contents, is_over))
            }
            _ => Some((bytes.len(), bytes.len() as u64, false)),
        }
    }
}
