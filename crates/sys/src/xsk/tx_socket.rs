//! A socket that sends: opened, bound to one transmit queue, woken, counted.

use super::layout::{self, Address, RawDescriptor, Ring};
use super::socket::BindStep;
use super::transmit::TxRing;
use super::tx_memory::{METADATA_BYTES, TxLayout, TxMemory};
use crate::SysError;
use crate::socket::{self, set_send_buffer};
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Entries of the fill ring, which the kernel wants and nothing uses: the fewest that it takes.
const FILL_ENTRIES: u32 = 1;

/// Descriptors that the kernel sends in one call (include/uapi/linux/if_xdp.h of Linux 6.17; libc
/// does not have it).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// As many unless they are raised, and before Linux 6.17 (net/xdp/xsk.c).
const TX_BATCH_SIZE: u32 = 32;

/// What a socket is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxConfig {
    /// Kernel index of the interface.
    pub ifindex: u32,
    /// Transmit queue.
    pub queue: u32,
    /// Its memory.
    pub layout: TxLayout,
}

/// What came of waking the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// It has taken all that was shown to it, or goes on by itself.
    Done,
    /// It could not take all: try again when something came back.
    Again,
    /// The driver refused exactly one frame, which came back or will; what is behind it waits for
    /// the next call. Only where the kernel copies.
    Refused,
}

/// An AF_XDP socket that sends.
pub struct TxSocket {
    fd: OwnedFd,
    config: TxConfig,
    has_metadata: bool,
    is_zero_copy: bool,
    call_parts_max: u32,
    /// Pinned by the kernel for as long as the socket lives.
    _memory: Arc<TxMemory>,
}

impl TxSocket {
    /// Makes the socket, its memory and its rings; not bound yet.
    ///
    /// # Errors
    /// A privilege is missing (CAP_NET_RAW), the kernel has no AF_XDP, or not enough memory.
    pub fn open(config: TxConfig) -> Result<(TxSocket, TxRing), SysError> {
        let memory = Arc::new(TxMemory::new(config.layout)?);
        let fd = layout::open()?;
        let register = |metadata_bytes| {
            let TxLayout { chunk_bytes, .. } = config.layout;
            let bytes = config.layout.total_bytes();
            // SAFETY: the socket keeps the memory alive (`_memory`), and the kernel has its pages
            // pinned; it writes stamps to slots in flight, and else nothing, since its fill ring
            // stays empty.
            unsafe {
                layout::register_memory(&fd, memory.as_ptr(), bytes, chunk_bytes, metadata_bytes)
            }
        };
        // Before Linux 6.8 there is no metadata. A refusal leaves the socket as it was.
        let has_metadata = match register(METADATA_BYTES) {
            Err(error) if error.io_kind() == Some(io::ErrorKind::InvalidInput) => {
                register(0)?;
                false
            }
            result => result.map(|()| true)?,
        };
        let entries = config.layout.entries;
        for (ring, entries) in
            [(Ring::Fill, FILL_ENTRIES), (Ring::Completion, entries), (Ring::Transmit, entries)]
        {
            layout::make_ring(&fd, ring, entries)?;
        }
        let name = "XDP_MAX_TX_SKB_BUDGET";
        let raised = socket::set_option(&fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, entries, name);
        let call_parts_max = if raised.is_ok() { entries } else { TX_BATCH_SIZE };
        set_send_buffer(&fd);
        let ring = layout::map_ring(&fd, Ring::Transmit, entries, size_of::<RawDescriptor>())?;
        let completions = layout::map_ring(&fd, Ring::Completion, entries, size_of::<u64>())?;
        let ring = TxRing::new(memory.clone(), ring, completions);
        let is_zero_copy = false;
        let socket =
            TxSocket { fd, config, has_metadata, is_zero_copy, call_parts_max, _memory: memory };
        Ok((socket, ring))
    }

    /// Binds to the queue. A refusal leaves the socket as it was. Waits up to a second for a queue
    /// whose last socket was just closed.
    ///
    /// # Errors
    /// What the kernel said to this step.
    pub fn bind(&mut self, step: BindStep) -> Result<(), io::Error> {
        let TxConfig { ifindex, queue, .. } = self.config;
        let address = Address { flags: step.flags(), ifindex, queue, shared_with: None };
        layout::bind(&self.fd, &address)?;
        self.is_zero_copy = layout::is_zero_copy(&self.fd).unwrap_or(step.is_zero_copy());
        Ok(())
    }

    /// Frames may come with requests ([`TxRequest`](super::TxRequest)).
    pub fn has_metadata(&self) -> bool {
        self.has_metadata
    }

    /// Most descriptors that one [`kick`](Self::kick) sends where the kernel copies.
    pub fn call_parts_max(&self) -> u32 {
        self.call_parts_max
    }

    /// The driver reads our memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Has the kernel send what it was shown.
    ///
    /// Nothing else may have it do so: poll(2) sends too, and does not say what was refused.
    ///
    /// # Errors
    /// The interface is down (ENETDOWN) or gone (ENXIO), or the kernel refused otherwise. What it
    /// has not taken stays in the ring.
    pub fn kick(&self) -> io::Result<Kick> {
        let Err(error) = send(&self.fd, &[], SendFlags::DONTWAIT) else { return Ok(Kick::Done) };
        match error.raw_os_error() {
            // NET_XMIT_DROP: "SKB completed but not sent". A driver without copy means that it is
            // busy with something else.
            libc::EBUSY if !self.is_zero_copy => Ok(Kick::Refused),
            // The driver or the socket's buffer is full, more is there than one call sends, or
            // memory is short: what was not sent stays in the ring.
            libc::EBUSY | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR => {
                Ok(Kick::Again)
            }
            _ => Err(error.into()),
        }
    }

    /// Descriptors that the kernel found wrong, of which it sent none. There are none unless
    /// something is broken.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn invalid_descriptors(&self) -> Result<u64, SysError> {
        let name = "XDP_STATISTICS";
        let words: [u64; 6] =
            socket::get_option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS, name)?;
        Ok(words[2])
    }
}
