//! Connecting, on a thread of its own: a name server or a host that does not answer holds up
//! nothing.

use crate::address::Host;
use crate::desk::Desk;
use crate::options::Options;
use ringside_flow::Format;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long one address is tried.
const CONNECT_MAX: Duration = Duration::from_secs(5);

type Outcome = io::Result<TcpStream>;

pub(crate) struct Dialer {
    desk: Arc<Desk>,
    host: Host,
    format: Format,
    outcome: Arc<Mutex<Option<Outcome>>>,
    is_dialing: bool,
    /// The try that is under way began before one was asked for.
    is_stale: bool,
    /// Not before then; none: at once.
    due: Option<Instant>,
    /// The next pause, the first and the longest.
    pause: Duration,
    pause_first: Duration,
    pause_max: Duration,
}

impl Dialer {
    pub fn new(desk: Arc<Desk>, host: Host, format: Format, options: &Options) -> Dialer {
        let (pause_first, pause_max) = (options.pause, options.pause_max.max(options.pause));
        Dialer {
            desk,
            host,
            format,
            outcome: Arc::default(),
            is_dialing: false,
            is_stale: false,
            due: None,
            pause: pause_first,
            pause_first,
            pause_max,
        }
    }

    /// What became of the try to connect, if it is over; begins one if it is time.
    pub fn poll(&mut self, now: Instant) -> Option<Outcome> {
        if !self.is_dialing && self.due.is_none_or(|due| now >= due) {
            self.start();
        }
        let outcome = self.lock_outcome().take()?;
        self.is_dialing = false;
        if std::mem::take(&mut self.is_stale) && outcome.is_err() {
            self.start();
            return None;
        }
        // Also after a connection that was made: one that breaks at once is not made at once again.
        self.due = Some(now + self.pause);
        self.pause = (self.pause * 2).min(self.pause_max);
        Some(outcome)
    }

    /// True if [`Dialer::poll`] has something.
    pub fn has_result(&self) -> bool {
        self.lock_outcome().is_some()
    }

    /// When the next try is due, if none is under way.
    pub fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_dialing)
    }

    /// The connection delivers: after it the next is tried at once.
    pub fn worked(&mut self) {
        (self.due, self.pause) = (None, self.pause_first);
    }

    /// The next try is made at once. One that is under way does not count if it is vain: the
    /// collector may have come back since.
    pub fn soon(&mut self) {
        (self.due, self.is_stale) = (None, self.is_dialing);
    }

    fn lock_outcome(&self) -> std::sync::MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&mut self) {
        let (desk, host, format) = (Arc::clone(&self.desk), self.host.clone(), self.format);
        let outcome = Arc::clone(&self.outcome);
        let dial = move || {
            let result = dial(&host, format);
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            desk.bell.ring();
        };
        self.is_dialing = true;
        // It ends by itself, also if no connection is needed any more.
        if let Err(error) = thread::Builder::new().name("export-dial".into()).spawn(dial) {
            *self.lock_outcome() = Some(Err(error));
        }
    }
}

fn dial(host: &Host, format: Format) -> Outcome {
    let mut outcome = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in host.resolve(format)? {
        outcome = TcpStream::connect_timeout(&address, CONNECT_MAX);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::status::Status;
    use ringside_sys::bell::Bell;
    use ringside_testkit::wait_until;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

    #[test]
    fn a_vain_try_from_before_is_not_the_one_that_was_asked_for() {
        // The port is taken, and nothing listens yet.
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port();
        let desk = Arc::new(Desk::new(Bell::new().unwrap(), Status::default(), 0, false));
        let host = Host { name: "127.0.0.1".into(), port: Some(port) };
        let mut dialer = Dialer::new(desk, host, Format::Ipfix, &Options::default());
        assert!(dialer.poll(Instant::now()).is_none(), "it has just begun");
        wait_until("a vain try", || dialer.has_result());
        listen(&socket, 1).unwrap();
        dialer.soon();
        let mut outcome = None;
        wait_until("another try", || {
            outcome = dialer.poll(Instant::now());
            outcome.is_some()
        });
        outcome.unwrap().unwrap();
    }
}
