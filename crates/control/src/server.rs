//! The server of the control socket: one thread that waits in poll(2), for as long as the run
//! lasts.

use super::ControlSocket;
use super::connection::{Connection, LIMITS, Limits};
use super::protocol::{Command, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// After each round the server rests this many times as long as the round took, so that clients
/// that ask without a pause cost at most a tenth of a core.
const REST_FACTOR: u32 = 9;
/// Longest rest: what others then wait for an answer.
const REST_MAX: Duration = Duration::from_millis(50);
/// How long no client is accepted after the system could not (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The clients that were connected when serving ended: their connections end when this is dropped,
/// so that who gave the order to stop can wait for the end of the run.
#[derive(Debug, Default)]
pub struct Remaining {
    _streams: Vec<UnixStream>,
}

/// Runs `body`, and answers the clients of `socket` on a thread of its own meanwhile. Without a
/// socket, or without a thread, it only runs `body`.
pub fn serve_while<T>(
    socket: Option<ControlSocket>,
    answer: impl Fn(Command) -> Reply + Sync,
    body: impl FnOnce() -> T,
) -> (T, Remaining) {
    let Some(socket) = socket else { return (body(), Remaining::default()) };
    let (waker, wake) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => {
            tracing::warn!("the control socket does not answer: {error}");
            return (body(), Remaining::default());
        }
    };
    std::thread::scope(|scope| {
        let serve = || {
            let server = Server::new(&socket.listener, wake, &answer, LIMITS);
            server.run()
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn_scoped(scope, serve);
        let result = body();
        // Its other end wakes the server, which ends.
        drop(waker);
        let remaining = match thread.map(|thread| thread.join()) {
            Ok(Ok(remaining)) => remaining,
            Ok(Err(_)) => {
                tracing::warn!("the thread of the control socket died");
                Remaining::default()
            }
            Err(error) => {
                tracing::warn!("the control socket did not answer: {error}");
                Remaining::default()
            }
        };
        (result, remaining)
    })
}

/// Answers clients until it is woken.
pub(super) struct Server<'a> {
    listener: &'a UnixListener,
    /// Readable, or closed at its other end, when the server is to end.
    wake: UnixStream,
    answer: &'a dyn Fn(Command) -> Reply,
    limits: Limits,
    clients: Vec<Connection>,
    accept_from: Instant,
}

/// What poll(2) found.
struct Ready {
    ending: bool,
    listener: bool,
    /// As the clients stand.
    clients: Vec<bool>,
}

impl<'a> Server<'a> {
    /// `listener` does not block.
    pub(super) fn new(
        listener: &'a UnixListener,
        wake: UnixStream,
        answer: &'a dyn Fn(Command) -> Reply,
        limits: Limits,
    ) -> Server<'a> {
        let (clients, accept_from) = (Vec::new(), Instant::now());
        Server { listener, wake, answer, limits, clients, accept_from }
    }

    pub(super) fn run(mut self) -> Remaining {
        loop {
            let ready = self.wait();
            if ready.ending {
                break;
            }
            let begun = Instant::now();
            self.serve(&ready, begun);
            if ready.listener {
                self.accept(begun);
            }
            let rest = begun.elapsed().saturating_mul(REST_FACTOR).min(REST_MAX);
            if self.is_woken_within(rest) {
                break;
            }
        }
        let now = Instant::now();
        for client in &mut self.clients {
            // What has been asked is answered, as far as it goes without waiting.
            client.step(now, &self.limits, self.answer);
        }
        let open = self.clients.into_iter().filter(|client| !client.is_closed());
        Remaining { _streams: open.map(Connection::into_stream).collect() }
    }

    /// Waits until something is to be done.
    fn wait(&self) -> Ready {
        let now = Instant::now();
        let accepting = now >= self.accept_from;
        let clients_due = self.clients.iter().map(|client| client.due(now));
        let due = clients_due.chain((!accepting).then_some(self.accept_from)).min();
        let timeout = due.map(|due| timespec(due.saturating_duration_since(now)));
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(self.clients.iter().map(|c| PollFd::new(c.stream(), c.interest())));
        if accepting {
            polled.push(PollFd::new(self.listener, PollFlags::IN));
        }
        // An error (a signal, no memory) leaves nothing to be done; the rest follows all the same.
        let found = poll(&mut polled, timeout.as_ref()).is_ok();
        let mut ready = polled.iter().map(|polled| found && !polled.revents().is_empty());
        Ready {
            ending: ready.next().unwrap_or(false),
            clients: ready.by_ref().take(self.clients.len()).collect(),
            listener: ready.next().unwrap_or(false),
        }
    }

    /// One step of every client for whom there is something to do.
    fn serve(&mut self, ready: &Ready, now: Instant) {
        for (client, &is_ready) in self.clients.iter_mut().zip(&ready.clients) {
            if is_ready || client.due(now) <= now {
                let begun = Instant::now();
                client.step(now, &self.limits, self.answer);
                client.prolong(begun.elapsed());
            }
        }
        self.clients.retain(|client| !client.is_closed());
    }

    /// Takes the clients that wait; those over the limit get a message.
    fn accept(&mut self, now: Instant) {
        for _ in 0..self.limits.clients_max {
            let accepted = self.listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(stream)
            });
            match accepted {
                Ok(stream) if self.clients.len() < self.limits.clients_max => {
                    self.clients.push(Connection::new(stream, now, &self.limits));
                }
                Ok(mut stream) => {
                    let most = self.limits.clients_max;
                    let mut line = Vec::new();
                    Reply::refused(&format!("{most} clients are connected, and no more may be"))
                        .append_line(&mut line);
                    // Best effort: the buffer of a new connection has room for a line.
                    let _ = stream.write(&line);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::debug!("accepting at the control socket: {error}");
                    self.accept_from = now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    /// Rests, unless the server is to end.
    fn is_woken_within(&self, rest: Duration) -> bool {
        let mut polled = [PollFd::new(&self.wake, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&timespec(rest))), Ok(1..))
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests;
