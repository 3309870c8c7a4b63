//! Numbers of the pcapng format, and the two pieces that every writer needs: options and blocks.
//!
//! Format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>. Everything written
//! here is little endian, as the hosts that Ringside runs on; the reader takes both orders.

/// Section Header Block.
pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Interface Description Block.
pub const INTERFACE_DESCRIPTION: u32 = 1;
/// Packet Block, obsolete since 2007 and still found.
pub const PACKET: u32 = 2;
/// Simple Packet Block.
pub const SIMPLE_PACKET: u32 = 3;
/// Interface Statistics Block.
pub const INTERFACE_STATISTICS: u32 = 5;
/// Enhanced Packet Block.
pub const ENHANCED_PACKET: u32 = 6;
/// Padding of Ringside: a local-use type, which other tools skip silently.
pub const RINGSIDE_PADDING: u32 = 0x8052_5350;
/// Room for a ring block in a file that is used again: a local-use type.
pub const RINGSIDE_ROOM: u32 = 0x8052_5352;
/// Header of a ring block: a local-use type.
pub const RINGSIDE_BLOCK: u32 = 0x8052_5342;
/// End of a ring block: a local-use type.
pub const RINGSIDE_END: u32 = 0x8052_5345;
/// Header of a file of a recording: a local-use type.
pub const RINGSIDE_HEADER: u32 = 0x8052_5348;

/// Byte-order magic of a section header.
pub const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Smallest block: type, length, length.
pub const BLOCK_BYTES_MIN: usize = 12;
/// Largest block that is read: where libpcap stops (MAX_BLOCKSIZE, sf-pcapng.c). Blocks of types
/// that are skipped anyway pass up to this size without being held in memory.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// Option codes, by the block in which they stand.
pub mod option {
    /// Any block: end of the options.
    pub const END: u16 = 0;
    /// Any block: free text.
    pub const COMMENT: u16 = 1;
    /// Section: the application that wrote it.
    pub const USER_APPLICATION: u16 = 4;
    /// Interface: name.
    pub const IF_NAME: u16 = 2;
    /// Interface: description.
    pub const IF_DESCRIPTION: u16 = 3;
    /// Interface: resolution of stamps.
    pub const IF_TSRESOL: u16 = 9;
    /// Interface: filter.
    pub const IF_FILTER: u16 = 11;
    /// Interface: seconds to be added to stamps.
    pub const IF_TSOFFSET: u16 = 14;
    /// Packet: direction and link-layer flags.
    pub const EPB_FLAGS: u16 = 2;
    /// Statistics: start of the capture.
    pub const ISB_START_TIME: u16 = 2;
    /// Statistics: end of the capture.
    pub const ISB_END_TIME: u16 = 3;
    /// Statistics: frames received.
    pub const ISB_RECEIVED: u16 = 4;
    /// Statistics: frames dropped.
    pub const ISB_DROPPED: u16 = 5;
    /// Statistics: frames that the filter accepted.
    pub const ISB_FILTER_ACCEPTED: u16 = 6;
    /// Statistics: frames dropped by the operating system.
    pub const ISB_OS_DROPPED: u16 = 7;
    /// Statistics: frames delivered to the user.
    pub const ISB_DELIVERED: u16 = 8;
}

/// Longest option value that is written: the largest multiple of 4 in 16 bits. Longer texts are
/// cut at a character.
pub(crate) const OPTION_BYTES_MAX: usize = 65_532;

/// `length` rounded up to a multiple of 4, as pcapng aligns everything.
pub const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Appends one whole block to `out`; `body` appends what stands between the lengths and leaves
/// a multiple of 4.
///
/// # Panics
/// If the block reaches 4 GiB or `body` breaks the alignment: bugs of the caller.
pub(crate) fn append_block(out: &mut Vec<u8>, block_type: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&block_type.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = out.len() - start + 4;
    assert!(length.is_multiple_of(4), "a pcapng block is a multiple of 4 bytes");
    let length = u32::try_from(length).expect("a block that is written is far below 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Appends one option with its padding.
pub(crate) fn append_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(OPTION_BYTES_MAX)];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + aligned(value.len()) - value.len(), 0);
}

/// Appends a text option; an empty text is left out, a too long one cut at a character.
pub(crate) fn append_text(out: &mut Vec<u8>, code: u16, text: &str) {
    if !text.is_empty() {
        append_option(out, code, cut_text(text, OPTION_BYTES_MAX).as_bytes());
    }
}

/// The longest beginning of `text` of at most `bytes_max` bytes that ends at a character.
pub(crate) fn cut_text(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
