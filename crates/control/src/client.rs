//! A client of the control socket.

use super::place::{connect, running};
use super::protocol::{Command, Reply, VERSION};
use anyhow::{Context, bail};
use ringside_core::Shown;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a capture may take to answer: it does at once, unless the machine stands still.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest reply that is read: the ledger of 256 lanes has 100 KiB, the status of a balancer with
/// 65,536 reals some 30 MiB.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// A connection to a running capture.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    /// Bytes that came after the last reply.
    rest: Vec<u8>,
}

/// The captures that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that could be connected to.
    pub clients: Vec<Client>,
    /// Why others could not.
    pub errors: Vec<anyhow::Error>,
}

impl Found {
    /// The capture at `socket`, or all in the default directories.
    pub fn at(socket: Option<&Path>) -> Found {
        let mut found = Found::default();
        for path in socket.map_or_else(running, |path| vec![path.to_owned()]) {
            match Client::connect(&path) {
                Ok(client) => found.clients.extend(client),
                Err(error) => found.errors.push(error),
            }
        }
        found
    }
}

impl Client {
    /// The one capture that answers at `socket` or, without one, in the default directories; none
    /// if there is none.
    ///
    /// # Errors
    /// There are several, or it could not be connected to.
    pub fn only(socket: Option<&Path>) -> anyhow::Result<Option<Client>> {
        let mut found = Found::at(socket);
        if let Some(error) = found.errors.pop() {
            return Err(error);
        }
        if found.clients.len() > 1 {
            let paths: Vec<_> = found.clients.iter().map(|c| c.path.shown().to_string()).collect();
            bail!("{} captures run: name one of {}", paths.len(), paths.join(", "));
        }
        Ok(found.clients.pop())
    }

    /// Connects to the socket at `path`; `None` if no process listens there.
    ///
    /// # Errors
    /// This user may not connect, or the listening process is too busy.
    pub fn connect(path: &Path) -> anyhow::Result<Option<Client>> {
        let stream = match connect(path, ANSWER_WAIT_MAX) {
            Err(error) if is_no_listener(error.kind()) => return Ok(None),
            stream => stream.and_then(|stream| stream.set_nonblocking(false).map(|()| stream)),
        };
        let stream = stream.with_context(|| format!("cannot connect to {}", path.shown()))?;
        Ok(Some(Client { stream, path: path.to_owned(), rest: Vec::new() }))
    }

    /// Where its socket lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The capture refused, in its own words; or it did not answer, or not in this protocol.
    pub fn ask(&mut self, command: &Command) -> anyhow::Result<Reply> {
        self.ask_for(command, ANSWER_WAIT_MAX)
    }

    /// The same for a command that may take longer.
    ///
    /// # Errors
    /// As [`ask`](Client::ask).
    pub fn ask_for(&mut self, command: &Command, wait_max: Duration) -> anyhow::Result<Reply> {
        let reply = self.exchange(command, wait_max);
        reply.with_context(|| format!("asking at {}", self.path.shown()))
    }

    fn exchange(&mut self, command: &Command, wait_max: Duration) -> anyhow::Result<Reply> {
        self.stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
        let sent = self.stream.write_all(format!("{}\n", command.line()).as_bytes());
        // The answer first: a capture that refuses a client says why and closes.
        let line = match (self.read_line(wait_max), sent) {
            (Err(_), Err(error)) => return Err(error.into()),
            (line, _) => line?,
        };
        read_reply(&line)
    }

    /// Waits until the capture has ended.
    pub fn wait_for_end(mut self) {
        let _ = self.stream.set_read_timeout(None);
        while let Ok(1..) = self.stream.read(&mut [0; 512]) {}
    }

    fn read_line(&mut self, wait_max: Duration) -> anyhow::Result<Vec<u8>> {
        let until = Instant::now() + wait_max;
        let (mut searched, mut bytes) = (0, vec![0; READ_BYTES]);
        loop {
            let new = &self.rest[searched..];
            if let Some(end) = new.iter().position(|&byte| byte == b'\n') {
                return Ok(self.rest.drain(..=searched + end).collect());
            }
            searched = self.rest.len();
            if self.rest.len() > REPLY_BYTES_MAX {
                bail!("the answer is longer than {REPLY_BYTES_MAX} bytes");
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {wait_max:?}");
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut bytes) {
                Ok(0) => bail!("the connection was closed without an answer"),
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What a capture did not do, and why, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// True for the errors of a socket path on which no process listens: there is no file, or a stale
/// one.
/// What a capture answers in this line, if it has done what was asked.
///
/// # Errors
/// The capture refused, in its own words ([`Refusal`]); or it does not speak this protocol.
pub fn read_reply(line: &[u8]) -> anyhow::Result<Reply> {
    let reply: Reply = serde_json::from_slice(line)?;
    if reply.version != VERSION {
        bail!("the capture speaks version {}, this program {VERSION}", reply.version);
    }
    if !reply.ok {
        return Err(Refusal(reply.error.unwrap_or_else(|| "refused".to_owned())).into());
    }
    Ok(reply)
}

fn is_no_listener(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}
