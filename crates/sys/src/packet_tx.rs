//! A packet socket that sends whole frames.

use crate::{SysError, socket};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Frames of one sendmmsg call (UIO_MAXIOV would allow 1,024): enough that the call does not show.
pub const SEND_FRAMES_MAX: usize = 64;

/// Longest frame, in bytes: a packet of the largest MTU (65,535) with its link-layer header.
pub const SEND_FRAME_BYTES_MAX: usize = 65_535 + 18;

/// Bounds the waits for room in the buffer of a socket that sends: after `timeout` a call fails
/// with [`io::ErrorKind::WouldBlock`], and what it was to send is not taken (SO_SNDTIMEO of
/// socket(7)). A signal ends such a call, whatever its handler says (signal(7)).
///
/// # Errors
/// The system refused.
pub fn bound_wait(socket: impl AsFd, timeout: Duration) -> Result<(), SysError> {
    set_socket_timeout(socket, Timeout::Send, Some(timeout))
        .map_err(|e| SysError::io("SO_SNDTIMEO of a socket that sends", e))
}

/// Sends frames on one interface; receives nothing.
pub struct PacketTx {
    socket: OwnedFd,
    ifindex: u32,
}

impl PacketTx {
    /// Opens it. With `qdisc_bypass` frames go straight to the driver, which then refuses those
    /// for which it has no room.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn open(ifindex: u32, qdisc_bypass: bool) -> Result<PacketTx, SysError> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|e| SysError::io("opening a packet socket to send", e))?;
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS);
        let bypass = u32::from(qdisc_bypass);
        socket::set_option(&socket, level, option, bypass, "PACKET_QDISC_BYPASS")?;
        socket::set_send_buffer(&socket);
        // Protocol 0: the socket receives nothing.
        socket::bind_packet(&socket, ifindex, 0)?;
        Ok(PacketTx { socket, ifindex })
    }

    /// Sends the first frames of `frames`, in order, at most [`SEND_FRAMES_MAX`]; returns how many.
    /// May wait for room in the socket's buffer, see [`bound_wait`]. When fewer went out than were
    /// given, the next one was refused: sending it again tells why. Exactly the frames that are
    /// counted here were handed to the interface.
    ///
    /// # Errors
    /// The first frame was refused: ENOBUFS where the driver had no room for it, EMSGSIZE where it
    /// is longer than the interface takes.
    pub fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        self.send(frames, 0)
    }

    /// The same, and never waits.
    ///
    /// # Errors
    /// As [`send_batch`](PacketTx::send_batch), and EAGAIN where the socket's buffer has no room.
    pub fn send_batch_now(&self, frames: &[&[u8]]) -> io::Result<usize> {
        self.send(frames, libc::MSG_DONTWAIT)
    }

    fn send(&self, frames: &[&[u8]], flags: i32) -> io::Result<usize> {
        let count = frames.len().min(SEND_FRAMES_MAX);
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vectors = [empty; SEND_FRAMES_MAX];
        // SAFETY: all zero bytes are a valid mmsghdr: no address, no vectors, no control data.
        let mut messages: [libc::mmsghdr; SEND_FRAMES_MAX] = unsafe { std::mem::zeroed() };
        let slots = vectors.iter_mut().zip(&mut messages);
        for (frame, (vector, message)) in frames.iter().zip(slots) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: the first `count` messages point to one vector each, which describes a frame;
        // vectors and frames live during the call, and the kernel only reads what they describe.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Kernel index of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

impl AsFd for PacketTx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
