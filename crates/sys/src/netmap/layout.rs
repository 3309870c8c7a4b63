//! Where things lie in netmap's memory, in bytes, by its API 14 (sys/net/netmap.h).

/// The version that is asked for.
pub const API: u16 = 14;

/// Of `netmap_if`, which begins at the offset that a registration gives.
pub mod interface {
    /// Transmit rings of the card, u32.
    pub const TX_RINGS: usize = 24;
    /// Receive rings of the card, u32.
    pub const RX_RINGS: usize = 28;
    /// The first buffer beyond those of the rings, u32; each begins with the index of the next.
    pub const EXTRA_BUFFERS: usize = 32;
    /// Transmit rings of the host, u32.
    pub const HOST_TX_RINGS: usize = 36;
    /// Receive rings of the host, u32.
    pub const HOST_RX_RINGS: usize = 40;
    /// Where each ring begins, i64 from the interface on: transmit, host's transmit, receive,
    /// host's receive.
    pub const RING_OFFSETS: usize = 56;
}

/// Of `netmap_ring`.
pub mod ring {
    /// Where buffer 0 begins, i64 from the ring on.
    pub const BUFFERS: usize = 0;
    /// Slots, u32.
    pub const SLOTS: usize = 8;
    /// Bytes of a buffer, u32.
    pub const BUFFER_BYTES: usize = 12;
    /// The first slot that is ours and not given back, u32.
    pub const HEAD: usize = 20;
    /// The first slot that was not looked at, u32.
    pub const CUR: usize = 24;
    /// The first slot that is the kernel's, u32.
    pub const TAIL: usize = 28;
    /// Which bits of a slot's pointer are an offset in its buffer, u64.
    pub const OFFSET_MASK: usize = 56;
    /// Bytes before the slots.
    pub const HEADER_BYTES: usize = 256;
}

/// Of `netmap_slot`.
pub mod slot {
    /// Which buffer, u32.
    pub const BUFFER: usize = 0;
    /// Bytes in it, u16, and flags, u16.
    pub const LENGTH: usize = 4;
    /// An offset, where the ring has a mask for it, u64.
    pub const POINTER: usize = 8;
    /// Bytes of a slot.
    pub const BYTES: usize = 16;
    /// The slot got another buffer.
    pub const BUFFER_CHANGED: u16 = 1;
    /// The frame goes on in the next slot.
    pub const MORE_FRAGMENTS: u16 = 0x20;
}

/// Most slots of a frame (NETMAP_MAX_FRAGS).
pub const FRAGMENTS_MAX: usize = 64;

/// Buffers 0 and 1 are never a frame's.
pub const FIRST_BUFFER: u32 = 2;
