//! Layouts and calls of include/uapi/linux/if_xdp.h, asserted against libc's.

use super::ring::RingMemory;
use crate::SysError;
use crate::mmap::Mapping;
use crate::socket::{self, KernelData};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// `struct xdp_desc`: one frame, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawDescriptor {
    /// Offset of the first byte in the shared memory.
    pub(super) address: u64,
    pub(super) bytes: u32,
    /// [`libc::XDP_PKT_CONTD`].
    pub(super) options: u32,
}

impl RawDescriptor {
    /// The frame goes on in the next descriptor.
    #[inline]
    pub(super) fn continues(&self) -> bool {
        self.options & libc::XDP_PKT_CONTD != 0
    }
}

const _: () = {
    use libc::{xdp_desc, xdp_mmap_offsets, xdp_statistics, xdp_umem_reg};
    assert!(size_of::<RawDescriptor>() == size_of::<xdp_desc>());
    assert!(offset_of!(RawDescriptor, address) == offset_of!(xdp_desc, addr));
    assert!(offset_of!(RawDescriptor, bytes) == offset_of!(xdp_desc, len));
    assert!(offset_of!(RawDescriptor, options) == offset_of!(xdp_desc, options));
    assert!(size_of::<xdp_mmap_offsets>() == size_of::<[u64; 16]>());
    assert!(size_of::<xdp_statistics>() == size_of::<[u64; 6]>());
    assert!(size_of::<xdp_umem_reg>() == size_of::<[u64; 4]>());
};

// SAFETY: integers.
unsafe impl<const N: usize> KernelData for [u64; N] where [u64; N]: Default {}

/// A new AF_XDP socket.
pub(super) fn open() -> Result<OwnedFd, SysError> {
    let family = AddressFamily::from_raw(libc::AF_XDP as u16);
    socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(|e| SysError::io("opening an AF_XDP socket", e))
}

/// True if the driver uses the memory itself, as the kernel says (XDP_OPTIONS).
pub(super) fn is_zero_copy(socket: &OwnedFd) -> Result<bool, SysError> {
    let name = "XDP_OPTIONS";
    let options: u32 = socket::get_option(socket, libc::SOL_XDP, libc::XDP_OPTIONS, name)?;
    Ok(options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The rings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    Receive,
    Transmit,
    /// Never used by a socket that only sends, but the kernel binds none without it.
    Fill,
    /// Never used by a socket that only receives, but the kernel binds none without it.
    Completion,
}

impl Ring {
    fn option(self) -> i32 {
        match self {
            Ring::Receive => libc::XDP_RX_RING,
            Ring::Transmit => libc::XDP_TX_RING,
            Ring::Fill => libc::XDP_UMEM_FILL_RING,
            Ring::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Ring::Receive => "XDP_RX_RING",
            Ring::Transmit => "XDP_TX_RING",
            Ring::Fill => "XDP_UMEM_FILL_RING",
            Ring::Completion => "XDP_UMEM_COMPLETION_RING",
        }
    }

    /// Place of the ring's offsets in `xdp_mmap_offsets`, in u64: producer, consumer, descriptors,
    /// flags of each ring.
    fn offsets_at(self) -> usize {
        let bytes = match self {
            Ring::Receive => offset_of!(libc::xdp_mmap_offsets, rx),
            Ring::Transmit => offset_of!(libc::xdp_mmap_offsets, tx),
            Ring::Fill => offset_of!(libc::xdp_mmap_offsets, fr),
            Ring::Completion => offset_of!(libc::xdp_mmap_offsets, cr),
        };
        bytes / size_of::<u64>()
    }

    fn page_offset(self) -> u64 {
        match self {
            Ring::Receive => libc::XDP_PGOFF_RX_RING as u64,
            Ring::Transmit => libc::XDP_PGOFF_TX_RING as u64,
            Ring::Fill => libc::XDP_UMEM_PGOFF_FILL_RING,
            Ring::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        }
    }
}

/// Has the kernel make a ring of `entries` entries, a power of two.
pub(super) fn make_ring(socket: &OwnedFd, ring: Ring, entries: u32) -> Result<(), SysError> {
    socket::set_option(socket, libc::SOL_XDP, ring.option(), entries, ring.name())
}

/// Maps a ring that was made, of entries of `entry_bytes` bytes.
pub(super) fn map_ring(
    socket: &OwnedFd,
    ring: Ring,
    entries: u32,
    entry_bytes: usize,
) -> Result<RingMemory, SysError> {
    let name = "XDP_MMAP_OFFSETS";
    let offsets: [u64; 16] =
        socket::get_option(socket.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, name)?;
    let at = ring.offsets_at();
    let [producer, consumer, descriptors, flags] =
        [0, 1, 2, 3].map(|index| usize::try_from(offsets[at + index]).unwrap_or(usize::MAX));
    let bytes = descriptors.saturating_add(entries as usize * entry_bytes);
    let mapping = Mapping::shared_at(socket, bytes, ring.page_offset())?;
    RingMemory::new(mapping, [producer, consumer, flags, descriptors], entries, entry_bytes)
}

/// Registers `bytes` bytes at `address` as the memory that frames are put into. With
/// `metadata_bytes`, descriptors of frames to be sent may say that as many bytes before the data
/// are `struct xsk_tx_metadata`; kernels before 6.8 refuse that (EINVAL).
///
/// # Safety
/// The memory must stay mapped for as long as the socket, or one that shares it, lives, and its
/// owner must reckon with the kernel writing to every chunk that is in the fill ring.
pub(super) unsafe fn register_memory(
    socket: &OwnedFd,
    address: *mut u8,
    bytes: usize,
    chunk_bytes: u32,
    metadata_bytes: u32,
) -> Result<(), SysError> {
    // struct xdp_umem_reg: address and length, chunk size and headroom, flags and metadata length.
    // No headroom beyond the kernel's own.
    let headroom = 0;
    let flags = if metadata_bytes > 0 { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 };
    let (chunk, sending) = (two_words(chunk_bytes, headroom), two_words(flags, metadata_bytes));
    let request = [address as u64, bytes as u64, chunk, sending];
    socket::set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, request, "XDP_UMEM_REG")
}

/// Two u32 as they follow each other in memory.
fn two_words(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Flags of `sockaddr_xdp`, and a socket whose memory is shared.
pub(super) struct Address<'s> {
    pub(super) flags: u16,
    pub(super) ifindex: u32,
    pub(super) queue: u32,
    pub(super) shared_with: Option<&'s OwnedFd>,
}

/// How long the kernel takes to free the queue of a socket that was closed: it does so in the
/// background (xp_put_pool), within milliseconds unless the machine is very busy.
const QUEUE_FREED_WITHIN: Duration = Duration::from_secs(1);

/// How often a busy queue is tried.
const QUEUE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Binds; waits up to a second for a queue whose last socket was just closed.
pub(super) fn bind(socket: &OwnedFd, address: &Address<'_>) -> Result<(), io::Error> {
    let start = Instant::now();
    loop {
        match bind_once(socket, address) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy
                    && start.elapsed() < QUEUE_FREED_WITHIN =>
            {
                std::thread::sleep(QUEUE_LOOK_INTERVAL);
            }
            result => return result,
        }
    }
}

/// bind(2).
fn bind_once(socket: &OwnedFd, address: &Address<'_>) -> Result<(), io::Error> {
    use std::os::fd::AsRawFd;
    let raw = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: address.flags,
        sxdp_ifindex: address.ifindex,
        sxdp_queue_id: address.queue,
        sxdp_shared_umem_fd: address.shared_with.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    // SAFETY: the pointer and the length describe `raw`, which the kernel only reads.
    let result = unsafe {
        let pointer = std::ptr::from_ref(&raw).cast();
        libc::bind(socket.as_raw_fd(), pointer, size_of::<libc::sockaddr_xdp>() as u32)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
