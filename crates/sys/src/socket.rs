//! Socket calls that `rustix` does not have: options of packet sockets, their address.

use crate::SysError;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd};

/// Plain data that the kernel may fill with any bytes.
///
/// # Safety
/// Every bit pattern is a valid value, and there is no padding.
pub(crate) unsafe trait KernelData: Copy + Default {}

// SAFETY: integers.
unsafe impl KernelData for u32 {}
// SAFETY: integers.
unsafe impl<const N: usize> KernelData for [u32; N] where [u32; N]: Default {}

/// setsockopt(2) with plain data.
pub(crate) fn set_option<T: KernelData>(
    fd: impl AsFd,
    level: i32,
    option: i32,
    value: T,
    name: &'static str,
) -> Result<(), SysError> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads; it holds
    // no pointers.
    let result = unsafe {
        let pointer = std::ptr::from_ref(&value).cast();
        libc::setsockopt(fd, level, option, pointer, size_of_val(&value) as u32)
    };
    check(result, || format!("setting {name} of a socket"))
}

/// Switches an option of a netlink socket on.
///
/// # Errors
/// The kernel does not know it, or this is no netlink socket.
pub fn set_netlink_option(
    socket: impl AsFd,
    option: i32,
    name: &'static str,
) -> Result<(), SysError> {
    set_option(socket, libc::SOL_NETLINK, option, 1, name)
}

/// Has the packets of a socket leave by an interface, with a mark, and takes those alone that come
/// by it.
///
/// # Errors
/// CAP_NET_ADMIN is missing, or there is no such interface.
pub fn set_way(socket: impl AsFd, ifindex: u32, mark: u32) -> Result<(), SysError> {
    let socket = socket.as_fd();
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, mark, "SO_MARK")?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, ifindex, "SO_BINDTOIFINDEX")
}

/// getsockopt(2) of a fixed-size option.
pub(crate) fn get_option<T: KernelData>(
    fd: impl AsFd,
    level: i32,
    option: i32,
    name: &'static str,
) -> Result<T, SysError> {
    let fd = fd.as_fd().as_raw_fd();
    let mut value = T::default();
    let mut bytes = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `bytes` bytes to `value`, for which any bytes are valid.
    let result = unsafe {
        let pointer = std::ptr::from_mut(&mut value).cast();
        libc::getsockopt(fd, level, option, pointer, &mut bytes)
    };
    check(result, || format!("reading {name} of a socket"))?;
    Ok(value)
}

/// Bytes that may be on their way from one socket: some full batches of long frames.
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// Lets many frames be on their way. The force needs CAP_NET_ADMIN; without it the system's limit
/// stands.
pub(crate) fn set_send_buffer(fd: impl AsFd) {
    if sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER_BYTES);
    }
}

/// Binds a packet socket to an interface. `protocol` is an ETH_P_ value in host byte order; 0
/// binds without receiving.
pub(crate) fn bind_packet(fd: impl AsFd, ifindex: u32, protocol: u16) -> Result<(), SysError> {
    let context = || format!("binding a packet socket to the interface with index {ifindex}");
    // SAFETY: all zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = i32::try_from(ifindex)
        .map_err(|_| SysError::io(context(), io::Error::from(io::ErrorKind::InvalidInput)))?;
    // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
    let result = unsafe {
        let pointer = std::ptr::from_ref(&address).cast();
        let bytes = size_of::<libc::sockaddr_ll>() as u32;
        libc::bind(fd.as_fd().as_raw_fd(), pointer, bytes)
    };
    check(result, context)
}

/// TIOCOUTQ of asm-generic/ioctls.h, which tcp(7) calls SIOCOUTQ.
const SIOCOUTQ: Opcode = 0x5411;

/// Bytes that were written to a connection of TCP and that the other host has not acknowledged;
/// also after the connection broke, as of then.
///
/// # Errors
/// It is no such socket.
pub fn unacknowledged_bytes(socket: impl AsFd) -> Result<u64, SysError> {
    // SAFETY: with this opcode the kernel writes one `int` (net/ipv4/tcp.c, tcp_ioctl) and takes
    // nothing else.
    let bytes = unsafe { ioctl(socket, Getter::<SIOCOUTQ, i32>::new()) }
        .map_err(|errno| SysError::io("asking what a connection has not delivered", errno))?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn check(result: i32, context: impl Fn() -> String) -> Result<(), SysError> {
    if result == 0 { Ok(()) } else { Err(SysError::io(context(), io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_not_read_and_does_not_fit_is_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"a few bytes").unwrap();
        far.read_exact(&mut [0; 11]).unwrap();
        let begun = Instant::now();
        while unacknowledged_bytes(&near).unwrap() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they were read");
        }
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 65_536]).is_ok() {}
        assert!(unacknowledged_bytes(&near).unwrap() > 0, "the other side has no room for all");
    }
}
