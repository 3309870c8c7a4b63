//! What is asked of the kernel.

use super::layout::API;
use crate::SysError;
use crate::mmap::Mapping;
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::c_ulong;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Requests of ioctl(2): `_IOWR('i', 151, struct nmreq_header)`, `_IO('i', 148)` and
/// `_IO('i', 149)`.
const CONTROL: c_ulong = 3 << 30 | (size_of::<Header>() as c_ulong) << 16 | 0x69 << 8 | 151;
const TRANSMIT_SYNC: c_ulong = 0x69 << 8 | 148;
const RECEIVE_SYNC: c_ulong = 0x69 << 8 | 149;

/// Kinds of control requests.
const REGISTER: u16 = 1;
const PORT_INFO_GET: u16 = 2;

/// Modes of a registration.
const ONE_OF_CARD: u32 = 4;
const ONE_OF_HOST: u32 = 8;
/// Flags of a registration: rings of one way alone, and nothing is sent by the way.
const RECEIVE_ONLY: u64 = 0x2000;
const TRANSMIT_ONLY: u64 = 0x4000;
const NO_TRANSMIT_POLL: u64 = 0x20000;

/// Bytes of a name, with the 0 at its end.
const NAME_BYTES: usize = 64;

#[repr(C)]
struct Header {
    version: u16,
    kind: u16,
    reserved: u32,
    name: [u8; NAME_BYTES],
    options: u64,
    body: u64,
}

#[repr(C)]
#[derive(Default)]
struct RegisterBody {
    offset: u64,
    memory_bytes: u64,
    tx_slots: u32,
    rx_slots: u32,
    tx_rings: u16,
    rx_rings: u16,
    host_tx_rings: u16,
    host_rx_rings: u16,
    memory_id: u16,
    ring: u16,
    mode: u32,
    extra_buffers: u32,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct InfoBody {
    memory_bytes: u64,
    tx_slots: u32,
    rx_slots: u32,
    tx_rings: u16,
    rx_rings: u16,
    host_tx_rings: u16,
    host_rx_rings: u16,
    memory_id: u16,
    padding: [u16; 3],
}

// By sys/net/netmap.h.
const _: () = assert!(size_of::<Header>() == 88 && std::mem::offset_of!(Header, body) == 80);
const _: () = assert!(size_of::<RegisterBody>() == 56);
const _: () = assert!(std::mem::offset_of!(RegisterBody, mode) == 36);
const _: () = assert!(std::mem::offset_of!(RegisterBody, flags) == 48);
const _: () = assert!(size_of::<InfoBody>() == 32);

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To us.
    Receive,
    /// From us.
    Transmit,
}

/// Which ring of a port, of those of one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingChoice {
    /// One of the card's.
    Card(u16),
    /// One of the host's: what the host sends, or is to receive.
    Host(u16),
}

/// What is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The port's name, as netmap knows it.
    pub port: String,
    /// The ring.
    pub ring: RingChoice,
    /// Whether it receives or sends.
    pub way: Way,
    /// Buffers that are wanted beyond those of the ring.
    pub extra_buffers: u32,
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Where the interface begins in the memory.
    pub offset: u64,
    /// Bytes of the memory.
    pub memory_bytes: u64,
    /// Buffers beyond those of the ring, at most as many as were wanted.
    pub extra_buffers: u32,
}

/// What a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Receive rings of the card.
    pub rx_rings: u16,
    /// Receive rings of the host.
    pub host_rx_rings: u16,
}

/// The kernel's side: one port at a time, let go when it is dropped.
pub trait Control: Send {
    /// What a port has, which need not be taken.
    ///
    /// # Errors
    /// There is no such port.
    fn info(&mut self, port: &str) -> io::Result<PortInfo>;
    /// Takes a port.
    ///
    /// # Errors
    /// There is no such port, or somebody else has it.
    fn register(&mut self, request: &Register) -> io::Result<Registered>;
    /// Maps its memory.
    ///
    /// # Errors
    /// It cannot be mapped.
    fn map(&self, bytes: usize) -> Result<Mapping, SysError>;
    /// Tells the kernel how far the ring was used, and asks what came or was sent.
    ///
    /// # Errors
    /// The port is gone, or a cursor was wrong.
    fn sync(&mut self, way: Way) -> io::Result<()>;
    /// Waits for frames.
    ///
    /// # Errors
    /// The system refused.
    fn wait(&self, time: Duration) -> io::Result<()>;
}

/// /dev/netmap, open.
pub struct Device {
    file: File,
}

/// Opens it.
///
/// # Errors
/// The module is not loaded, or a privilege is missing.
pub fn open() -> io::Result<Device> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/netmap")?;
    Ok(Device { file })
}

impl Device {
    fn control<T>(&self, kind: u16, port: &str, body: &mut T) -> io::Result<()> {
        let mut name = [0; NAME_BYTES];
        let Some(room) = name[..NAME_BYTES - 1].get_mut(..port.len()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        room.copy_from_slice(port.as_bytes());
        let body = std::ptr::from_mut(body) as u64;
        let mut header = Header { version: API, kind, reserved: 0, name, options: 0, body };
        // SAFETY: the header and the body of this kind of request are structs of netmap's sizes
        // that outlive the call, and nothing else is written.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), CONTROL as _, &raw mut header) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Control for Device {
    fn info(&mut self, port: &str) -> io::Result<PortInfo> {
        let mut body = InfoBody::default();
        self.control(PORT_INFO_GET, port, &mut body)?;
        Ok(PortInfo { rx_rings: body.rx_rings, host_rx_rings: body.host_rx_rings })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let (mode, ring) = match request.ring {
            RingChoice::Card(ring) => (ONE_OF_CARD, ring),
            RingChoice::Host(ring) => (ONE_OF_HOST, ring),
        };
        let only = match request.way {
            Way::Receive => RECEIVE_ONLY,
            Way::Transmit => TRANSMIT_ONLY,
        };
        let (flags, extra_buffers) = (only | NO_TRANSMIT_POLL, request.extra_buffers);
        let mut body = RegisterBody { mode, ring, flags, extra_buffers, ..Default::default() };
        self.control(REGISTER, &request.port, &mut body)?;
        let RegisterBody { offset, memory_bytes, extra_buffers, .. } = body;
        Ok(Registered { offset, memory_bytes, extra_buffers })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(&self.file, bytes)
    }

    fn sync(&mut self, way: Way) -> io::Result<()> {
        let request = match way {
            Way::Receive => RECEIVE_SYNC,
            Way::Transmit => TRANSMIT_SYNC,
        };
        // SAFETY: the request takes no argument.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        let time = rustix::event::Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
