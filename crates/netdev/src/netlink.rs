//! Netlink, blocking: a question, and all of its answers (netlink(7), linux/netlink.h).
//!
//! What is read from the kernel is decoded by safe functions on slices ([`message`]). A question
//! is asked anew if the kernel says that the list changed during the answer.

pub(crate) mod generic;
pub(crate) mod message;

use message::{Attribute, Message, Request, attributes, damaged, messages};
use ringside_sys::SysError;
use ringside_sys::socket::set_netlink_option;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, sendto, socket_with};
use std::io;
use std::os::fd::OwnedFd;

/// The kernel answers a dump in pieces of 32 KiB at most where the reader offers so much; a single
/// message may be longer (an interface with many virtual functions).
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Pieces of one dump: bounds the time for a table without end.
const ANSWERS_MAX: usize = 1 << 16;
/// Messages of a listener that are taken at a time; what is left is taken the next time.
const TOLD_MAX: usize = 1024;
/// How often a dump is begun anew because the list changed meanwhile.
const TRIES_MAX: usize = 4;
/// NLM_F_DUMP_INTR: the list changed during the answer.
const DUMP_INTERRUPTED: u16 = 0x10;
/// `struct nlmsgerr` with a capped original: the code, and the header of the question.
const ERROR_BYTES: usize = 20;
/// NLMSGERR_ATTR_MSG: the kernel's own words.
const ERROR_TEXT: u16 = 1;

/// An open netlink socket, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Connection {
    /// To rtnetlink.
    pub(crate) fn route() -> Result<Connection, SysError> {
        // No protocol stands for 0, which is NETLINK_ROUTE.
        Connection::open(None)
    }

    /// To sock_diag.
    pub(crate) fn diagnosis() -> io::Result<Connection> {
        let opened = Connection::open(Some(rustix::net::netlink::SOCK_DIAG));
        opened.map_err(io::Error::other)
    }

    fn open(protocol: Option<Protocol>) -> Result<Connection, SysError> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)
            .map_err(|e| SysError::io("opening a netlink socket", e))?;
        // Refusals in words, and no echo of the question; older kernels have neither.
        let _ = set_netlink_option(&socket, libc::NETLINK_EXT_ACK, "netlink words");
        let _ = set_netlink_option(&socket, libc::NETLINK_CAP_ACK, "netlink echo");
        // Where it is known, a dump can be asked for one interface.
        let strict = libc::NETLINK_GET_STRICT_CHK;
        let _ = set_netlink_option(&socket, strict, "netlink's strict questions");
        Ok(Connection { socket, sequence: 0, buffer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Asks for a list; keeps what `decode` makes of each message, at most `count_max` of them.
    ///
    /// # Errors
    /// The kernel refused, or its answer is damaged.
    pub(crate) fn dump<T>(
        &mut self,
        request: Request,
        count_max: usize,
        decode: impl Fn(&Message<'_>) -> io::Result<Option<T>>,
    ) -> io::Result<Vec<T>> {
        let request = request.with_flags(libc::NLM_F_DUMP as u16);
        let mut tries = 0;
        loop {
            let mut answers = Answers::new(count_max);
            self.exchange(&request, &mut answers, &decode)?;
            tries += 1;
            if !answers.interrupted || tries == TRIES_MAX {
                return Ok(answers.kept);
            }
        }
    }

    /// Asks for one thing, or orders one; gives what `decode` makes of the answer, if there is one
    /// in addition to the acknowledgement.
    ///
    /// # Errors
    /// The kernel refused, or its answer is damaged.
    pub(crate) fn ask<T>(
        &mut self,
        request: Request,
        decode: impl Fn(&Message<'_>) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let request = request.with_flags(libc::NLM_F_ACK as u16);
        let mut answers = Answers::new(1);
        self.exchange(&request, &mut answers, &decode)?;
        Ok(answers.kept.pop())
    }

    fn exchange<T>(
        &mut self,
        request: &Request,
        answers: &mut Answers<T>,
        decode: &impl Fn(&Message<'_>) -> io::Result<Option<T>>,
    ) -> io::Result<()> {
        self.sequence += 1;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request.bytes(self.sequence), SendFlags::empty(), &kernel)?;
        for _ in 0..ANSWERS_MAX {
            let flags = RecvFlags::TRUNC;
            let (_, length) = recv(&self.socket, &mut self.buffer[..], flags)?;
            // An empty answer is none of netlink's; a longer one than the buffer has lost its end.
            let answer = self.buffer.get(..length).filter(|answer| !answer.is_empty());
            if answers.read(answer.ok_or_else(damaged)?, self.sequence, decode)? {
                return Ok(());
            }
        }
        Err(io::Error::other(format!("the answer has more than {ANSWERS_MAX} pieces")))
    }
}

/// A netlink socket that the kernel tells of changes, in the network namespace of the thread that
/// opened it. What they are is not looked at: the kernel leaves some out when there are many.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
}

impl Listener {
    /// To rtnetlink, for the groups of these bits (RTMGRP_ of linux/rtnetlink.h).
    pub(crate) fn route(groups: u32) -> Result<Listener, SysError> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let failed = |e: rustix::io::Errno| SysError::io("listening to rtnetlink", e);
        let socket = socket_with(family, kind, flags, None).map_err(failed)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups)).map_err(failed)?;
        Ok(Listener { socket })
    }

    /// True if there was something, which is taken.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn any(&mut self) -> io::Result<bool> {
        let mut is_there = false;
        // One byte of each is enough: the rest of a message goes with it.
        for _ in 0..TOLD_MAX {
            match recv(&self.socket, &mut [0u8; 1][..], RecvFlags::empty()) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => is_there = true,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_there)
    }
}

/// What is kept of the answers to one question.
struct Answers<T> {
    kept: Vec<T>,
    count_max: usize,
    interrupted: bool,
}

impl<T> Answers<T> {
    fn new(count_max: usize) -> Answers<T> {
        Answers { kept: Vec::new(), count_max, interrupted: false }
    }

    /// Takes one piece of the answer; true if it is the last.
    fn read(
        &mut self,
        answer: &[u8],
        sequence: u32,
        decode: &impl Fn(&Message<'_>) -> io::Result<Option<T>>,
    ) -> io::Result<bool> {
        for message in messages(answer) {
            let message = message?;
            if message.sequence != sequence {
                // Of a question that was given up.
                continue;
            }
            self.interrupted |= message.flags & DUMP_INTERRUPTED != 0;
            match i32::from(message.kind) {
                // The end of a list has a code too, for what went wrong in the midst of it.
                libc::NLMSG_DONE if message.body.is_empty() => return Ok(true),
                libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                    return refusal(&message).map_or(Ok(true), Err);
                }
                _ if self.kept.len() < self.count_max => self.kept.extend(decode(&message)?),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// The error that a message of type NLMSG_ERROR or NLMSG_DONE tells; none if all is well.
fn refusal(message: &Message<'_>) -> Option<io::Error> {
    let Some(code) = message::u32_at(message.body, 0) else { return Some(damaged()) };
    if code == 0 {
        return None;
    }
    let error = io::Error::from_raw_os_error((code as i32).saturating_neg());
    let rest = message.body.get(ERROR_BYTES..).unwrap_or_default();
    let told = attributes(rest).unwrap_or_default().into_iter();
    let text = told.filter(|attribute| attribute.kind == ERROR_TEXT).map(Attribute::text).next();
    Some(match text {
        Some(text) => io::Error::new(error.kind(), format!("{text} ({error})")),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::message::tests::message;
    use super::*;

    fn read(answer: &[u8]) -> io::Result<(bool, Vec<u16>)> {
        let mut answers = Answers::new(2);
        let done = answers.read(answer, 0, &|message| Ok(Some(message.kind)))?;
        Ok((done, answers.kept))
    }

    #[test]
    fn answers_are_kept_up_to_the_limit_until_the_last() {
        let mut answer = [16, 17, 18].map(|kind| message(kind, &[1, 2])).concat();
        assert_eq!(read(&answer).unwrap(), (false, vec![16, 17]));
        answer.extend(message(libc::NLMSG_DONE as u16, &[0; 4]));
        assert_eq!(read(&answer).unwrap(), (true, vec![16, 17]));
        answer[8] = 1;
        assert_eq!(read(&answer).unwrap(), (true, vec![17, 18]), "one has another sequence");
    }

    #[test]
    fn a_refusal_has_its_code_and_the_words_of_the_kernel() {
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&refused).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let mut body = (-libc::ENOENT).to_ne_bytes().to_vec();
        body.extend([0; 16]);
        body.extend([8, 0, 1, 0, b'n', b'o', b'!', 0]);
        let error = read(&message(libc::NLMSG_ERROR as u16, &body)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("no! ("), "{error}");
        let done = message(libc::NLMSG_ERROR as u16, &[0; 4]);
        assert_eq!(read(&done).unwrap(), (true, vec![]), "an acknowledgement");
        assert!(read(&refused[..18]).is_err(), "a cut answer is damage");
    }

    #[test]
    fn mutated_answers_end() {
        let mut body = (-libc::ENOENT).to_ne_bytes().to_vec();
        body.extend([0; 16]);
        body.extend([8, 0, 1, 0, b'n', b'o', b'!', 0]);
        let seeds = [[16, 17].map(|kind| message(kind, &body)).concat(), message(2, &body)];
        ringside_testkit::fuzz("netlink-answers", 500_000, &seeds, |input| {
            let _ = read(input);
        });
    }
}
