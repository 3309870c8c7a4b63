//! One connection: a request is read, an answer is written, and that was all.

use super::answer::Answer;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest request, headers and all.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Most headers of a request; more than browsers send.
const HEADERS_MAX: usize = 64;

/// A client that sends nothing, or half a request, for this time is cut off.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// So is one that takes nothing of an answer for this time: losses that repeat may take a minute.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// A connection for one client after the other.
pub struct Connection {
    pub handle: SocketHandle,
    request: Vec<u8>,
    /// Once the request is there.
    answer: Option<Answer>,
    /// When the client came, or something was last read or written.
    since: Option<Instant>,
}

/// What a call did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// It read or wrote something.
    pub is_some: bool,
    /// It read the end of a request.
    pub has_request: bool,
}

impl Connection {
    pub fn new(handle: SocketHandle) -> Connection {
        Connection { handle, request: Vec::new(), answer: None, since: None }
    }

    /// Reads the received bytes, or writes what there is room for.
    pub fn go_on(
        &mut self,
        socket: &mut Socket<'_>,
        directory: Option<&Path>,
        now: Instant,
    ) -> Progress {
        let mut progress = Progress::default();
        if socket.is_listening() || !socket.is_open() {
            return progress;
        }
        let since = *self.since.get_or_insert(now);
        if self.answer.is_none() {
            progress.is_some = self.read(socket);
            // Before the handshake is over nothing may be received either.
            let may_go_on = socket.may_recv() || socket.state() == State::SynReceived;
            self.answer = answer(&self.request, may_go_on, directory);
            progress.has_request = self.answer.is_some();
        }
        if let Some(answer) = &mut self.answer {
            progress.is_some |= write(answer, socket);
        }
        let patience = if self.answer.is_none() { REQUEST_PATIENCE } else { ANSWER_PATIENCE };
        if progress.is_some {
            self.since = Some(now);
        } else if now.duration_since(since) > patience {
            socket.abort();
        }
        progress
    }

    /// True once nothing more will come of the connection. What TIME-WAIT waits for, a repeated
    /// FIN, would be answered with RST here: to a client that has read everything.
    pub fn is_over(&self, socket: &Socket<'_>) -> bool {
        self.since.is_some() && matches!(socket.state(), State::Closed | State::TimeWait)
    }

    fn read(&mut self, socket: &mut Socket<'_>) -> bool {
        let room = REQUEST_BYTES_MAX - self.request.len();
        let request = &mut self.request;
        let taken = socket.recv(|bytes| {
            let taken = bytes.len().min(room);
            request.extend_from_slice(&bytes[..taken]);
            (taken, taken)
        });
        taken.is_ok_and(|taken| taken > 0)
    }
}

/// The answer to a request that is complete, or that cannot become one.
fn answer(request: &[u8], may_go_on: bool, directory: Option<&Path>) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => {
            let (method, path) = (parsed.method.unwrap_or(""), parsed.path.unwrap_or(""));
            Some(Answer::to(method, path, directory))
        }
        Ok(httparse::Status::Partial) if request.len() >= REQUEST_BYTES_MAX => {
            Some(Answer::error(431, "Request Header Fields Too Large"))
        }
        Ok(httparse::Status::Partial) if may_go_on => None,
        Ok(httparse::Status::Partial) | Err(_) => Some(Answer::error(400, "Bad Request")),
    }
}

/// Writes as much of the answer as there is room for, and closes behind its end.
fn write(answer: &mut Answer, socket: &mut Socket<'_>) -> bool {
    let mut written = 0;
    while socket.can_send() && !answer.is_finished() {
        let filled = socket.send(|room| {
            let filled = answer.fill(room);
            (filled, filled)
        });
        match filled {
            Ok(0) => {
                // The file has become shorter than was promised: the client must not believe it.
                socket.abort();
                return true;
            }
            Ok(bytes) => written += bytes,
            Err(_) => break,
        }
    }
    if answer.is_finished() && socket.may_send() {
        socket.close();
        return true;
    }
    written > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::fuzz;

    /// All that the client would read.
    fn written(mut answer: Answer) -> Vec<u8> {
        let (mut all, mut room) = (Vec::new(), [0; 1000]);
        while !answer.is_finished() {
            let filled = answer.fill(&mut room);
            assert!(filled > 0 && all.len() < 1 << 20);
            all.extend_from_slice(&room[..filled]);
        }
        all
    }

    #[test]
    fn any_request_has_an_answer_or_goes_on() {
        let seeds = [
            "GET /bytes/5000 HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /file HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "GET / HTTP/1.1\r\nLong: ",
        ];
        let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
        fuzz("http-request", 100_000, &seeds, |request| {
            let request = &request[..request.len().min(REQUEST_BYTES_MAX)];
            let ended = answer(request, false, None);
            assert!(ended.is_some(), "nothing more would come");
            let open = answer(request, true, None);
            assert!(open.is_some() || request.len() < REQUEST_BYTES_MAX);
        });
        let answered = |request: &[u8]| written(answer(request, true, None).expect("complete"));
        let pattern = answered(&seeds[0]);
        let at = pattern.len() - 5000;
        assert!(pattern.starts_with(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n"));
        assert!(pattern[..at].ends_with(b"\r\n\r\n"));
        assert!((0..5000).all(|n| usize::from(pattern[at + n]) == n % 251));
        assert!(answered(&seeds[1]).starts_with(b"HTTP/1.1 404"));
        assert!(answered(&seeds[2]).ends_with(b"\r\n\r\nMethod Not Allowed"));
        assert!(answer(&seeds[3], true, None).is_none());
    }
}
