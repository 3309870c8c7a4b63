//! One connection.

use crate::message::{Message, Session};
use ringside_sys::socket::unacknowledged_bytes;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Bytes that are given to the kernel with one call.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a host may acknowledge nothing, or a collector read nothing, until the connection is
/// given up, in milliseconds. Without it, that of a host that vanished stays for a quarter of an
/// hour.
const SILENCE_MS_MAX: u32 = 60_000;

/// Where templates begin to differ: before are version, length, time and sequence number.
const DOMAIN_AT: usize = 12;

pub(super) struct Link {
    stream: TcpStream,
    /// From the first message on.
    session: Option<(Session, Arc<[u8]>)>,
    /// What the kernel did not take yet begins at `at`.
    buffer: Vec<u8>,
    at: usize,
    /// Bytes that the kernel took.
    written: u64,
    /// The most that was seen to be acknowledged.
    acknowledged: u64,
}

impl Link {
    pub fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_tcp_user_timeout(&stream, SILENCE_MS_MAX)?;
        // A host that vanished while nothing was sent.
        sockopt::set_socket_keepalive(&stream, true)?;
        let (buffer, at, written, acknowledged) = (Vec::new(), 0, 0, 0);
        Ok(Link { stream, session: None, buffer, at, written, acknowledged })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// True if messages of these templates can be sent in this session.
    pub fn is_of(&self, templates: &[u8]) -> bool {
        let is_same = |own: &[u8]| own.get(DOMAIN_AT..) == templates.get(DOMAIN_AT..);
        self.session.as_ref().is_none_or(|(_, own)| is_same(own))
    }

    /// Bytes that the kernel took.
    pub fn written(&self) -> u64 {
        self.written
    }

    pub fn has_room(&self) -> bool {
        self.buffer.len() - self.at < BUFFER_BYTES
    }

    pub fn wants_write(&self) -> bool {
        self.at < self.buffer.len()
    }

    /// Adds a message, behind its templates if it is the first: where it ends in the stream.
    pub fn put(&mut self, message: &Message, templates: &Arc<[u8]>) -> u64 {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
        let buffer = &mut self.buffer;
        let (session, _) = self.session.get_or_insert_with(|| {
            (Session::begin(templates, message, buffer), Arc::clone(templates))
        });
        session.put(message, buffer);
        self.written + (self.buffer.len() - self.at) as u64
    }

    /// Writes what the kernel takes.
    pub fn write(&mut self) -> io::Result<()> {
        while self.wants_write() {
            match self.stream.write(&self.buffer[self.at..]) {
                Ok(bytes) => {
                    self.at += bytes;
                    self.written += bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Looks whether the other side is still there; what it says means nothing.
    pub fn look(&mut self) -> io::Result<()> {
        match self.stream.read(&mut [0; 512]) {
            Ok(0) => Err(io::Error::new(ErrorKind::ConnectionAborted, "the collector closed it")),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Bytes that the other host has acknowledged, also of a connection that broke.
    pub fn acknowledged(&mut self) -> u64 {
        if let Ok(bytes) = unacknowledged_bytes(&self.stream) {
            // Never less than was seen before: of a broken connection the kernel may know less.
            self.acknowledged = self.acknowledged.max(self.written.saturating_sub(bytes));
        }
        self.acknowledged
    }

    /// Nothing more will be sent.
    pub fn close(&mut self) {
        // A connection that broke is closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
