//! A child process and its parent: messages with descriptors over a socket pair.
//!
//! The pair is of type SOCK_SEQPACKET: a message arrives whole or not at all, in order, and the end
//! of the peer is seen as the end of the stream. The child finds its end by the number that an
//! environment variable names ([`leave_for_child`], [`inherited`]).

use crate::SysError;
use crate::fdpass::{self, FDS_MAX};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt::{socket_domain, socket_peercred, socket_type};
use rustix::net::{AddressFamily, ReturnFlags, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes in one message. Names and paths are the longest that is sent; the kernel takes about
/// 200 kB at once with its default buffers.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// A connected pair; both ends are closed at exec.
///
/// # Errors
/// No descriptors are left.
pub fn pair() -> Result<(OwnedFd, OwnedFd), SysError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|e| SysError::io("making a pair of sockets", e))
}

/// Lets the next child inherit `socket`; returns what to put into the environment variable that
/// [`inherited`] reads. To be called while no other thread starts programs.
///
/// # Errors
/// The system refused.
pub fn leave_for_child(socket: &OwnedFd) -> Result<String, SysError> {
    fcntl_setfd(socket, FdFlags::empty())
        .map_err(|e| SysError::io("leaving a socket to a child", e))?;
    Ok(format!("{}:{}", socket.as_raw_fd(), std::process::id()))
}

/// The socket that the parent left for this process and described as `text`, closed at exec from
/// now on. `None` if there is none: the text is not ours, or was meant for another process and
/// came here with the environment. Also `None` from the second call on.
pub fn inherited(text: &str) -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let (number, parent) = text.split_once(':')?;
    let (number, parent): (i32, i32) = (number.parse().ok()?, parent.parse().ok()?);
    if number <= 2 || TAKEN.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: `number` is not negative; the descriptor is only looked at, and if it is not open
    // the calls below fail.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    // A socket pair keeps the identity of the process that made it: that is the parent, even if it
    // has ended meanwhile. What this process opened itself bears its own id, or none.
    let peer = socket_peercred(socket).ok()?;
    let is_ours = peer.pid.as_raw_nonzero().get() == parent
        && parent.unsigned_abs() != std::process::id()
        && socket_domain(socket) == Ok(AddressFamily::UNIX)
        && socket_type(socket) == Ok(SocketType::SEQPACKET)
        && !fcntl_getfd(socket).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC));
    if !is_ours || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    fcntl_setfd(socket, FdFlags::CLOEXEC).ok()?;
    // SAFETY: the descriptor is open and was made by the parent for this call; descriptors of our
    // own are made with close-on-exec, which this one did not have; `TAKEN` says that no earlier
    // call took it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends one message, not empty, with descriptors; waits for room.
///
/// # Errors
/// The peer is gone (a broken pipe), or a limit was passed.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), SysError> {
    let within = |what, value: usize, limit: usize| {
        let error = || SysError::Limit { what, value: value as u64, limit: limit.to_string() };
        if value <= limit { Ok(()) } else { Err(error()) }
    };
    within("the length of a message in bytes", message.len(), MESSAGE_BYTES_MAX)?;
    within("the number of descriptors in a message", fds.len(), FDS_MAX)?;
    fdpass::send_with(socket, message, fds)
        .map(|_| ())
        .map_err(|e| SysError::io("sending a message", e))
}

/// One message.
#[derive(Debug)]
pub struct Received {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its descriptors, closed at exec.
    pub fds: Vec<OwnedFd>,
}

/// Receives the next message; `None` once the peer is gone and everything it sent was received.
///
/// # Errors
/// The socket would block and is not to, or a message was longer than ours are: then it is lost.
pub fn receive(socket: impl AsFd) -> Result<Option<Received>, SysError> {
    let error = |e: io::Error| SysError::io("receiving a message", e);
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut fds = Vec::new();
    let (count, flags) = match fdpass::receive_with(socket, &mut bytes, &mut fds) {
        // A peer that died with messages unread resets the connection.
        Err(reset) if reset.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        other => other.map_err(error)?,
    };
    if flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(error(io::ErrorKind::InvalidData.into()));
    }
    if count == 0 {
        return Ok(None);
    }
    bytes.truncate(count);
    Ok(Some(Received { bytes, fds }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::SendFlags;
    use std::io::{Read, Seek, Write};

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = pair().unwrap();
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(file);
        file.write_all(b"shared").unwrap();
        file.rewind().unwrap();
        send(&ours, b"one", &[file.as_fd(), file.as_fd()]).unwrap();
        send(&ours, b"two", &[]).unwrap();
        drop(ours);
        let mut first = receive(&theirs).unwrap().unwrap();
        assert_eq!((&first.bytes[..], first.fds.len()), (&b"one"[..], 2));
        let mut text = String::new();
        std::fs::File::from(first.fds.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "shared");
        assert!(fcntl_getfd(&first.fds[0]).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(receive(&theirs).unwrap().unwrap().bytes, b"two");
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn limits_are_named_and_a_foreign_message_is_refused() {
        let (ours, theirs) = pair().unwrap();
        let error = send(&ours, &vec![1; MESSAGE_BYTES_MAX + 1], &[]).unwrap_err().to_string();
        assert!(error.contains("65536"), "{error}");
        let many = [ours.as_fd(); FDS_MAX + 1];
        assert!(send(&ours, b"x", &many).is_err());
        rustix::net::send(&ours, &vec![1; MESSAGE_BYTES_MAX + 1], SendFlags::empty()).unwrap();
        assert!(receive(&theirs).is_err());
        drop(theirs);
        assert!(send(&ours, b"x", &[]).is_err());
    }

    #[test]
    fn only_what_a_parent_left_is_inherited() {
        let (ours, _theirs) = pair().unwrap();
        let number = ours.as_raw_fd();
        let own = leave_for_child(&ours).unwrap();
        for text in [own.as_str(), "", "7", "1:1", "-1:5", &format!("{number}:1"), "99999:1"] {
            assert!(inherited(text).is_none(), "{text}");
        }
    }
}
