//! Where the fields of a TPACKET_V3 block lie, in bytes (linux/if_packet.h). All fields are in
//! host byte order.
//!
//! A block begins with `struct tpacket_block_desc`; its frames are chained by offsets, each begins
//! with `struct tpacket3_hdr` and, 16-byte aligned behind it, `struct sockaddr_ll`.

use std::mem::{offset_of, size_of};

/// The word that says who owns the block; the only one that both sides touch at the same time.
pub(super) const BLOCK_STATUS: usize = 8;
/// Where the rest of the block begins, which only its owner touches.
pub(super) const BODY: usize = BLOCK_STATUS + 4;
pub(super) const BLOCK_FRAME_COUNT: usize = 12;
pub(super) const BLOCK_FIRST_FRAME: usize = 16;
/// `sizeof(struct tpacket_block_desc)`; no frame begins before.
pub(super) const BLOCK_HEADER_BYTES: usize = 48;

pub(super) const FRAME_NEXT: usize = 0;
pub(super) const FRAME_SECONDS: usize = 4;
pub(super) const FRAME_NANOS: usize = 8;
pub(super) const FRAME_SNAPLEN: usize = 12;
pub(super) const FRAME_LEN: usize = 16;
pub(super) const FRAME_STATUS: usize = 20;
pub(super) const FRAME_MAC: usize = 24;
pub(super) const FRAME_HASH: usize = 28;
pub(super) const FRAME_VLAN_TCI: usize = 32;
pub(super) const FRAME_VLAN_TPID: usize = 36;
pub(super) const FRAME_ADDRESS: usize = 48;
pub(super) const FRAME_PACKET_TYPE: usize = FRAME_ADDRESS + 10;
/// `TPACKET3_HDRLEN`: header and link-level address; the bytes of the frame come after.
pub(super) const FRAME_HEADER_BYTES: usize = 68;

// The kernel's headers, as the libc crate has them, are the judge.
const _: () = {
    use libc::{TPACKET3_HDRLEN, tpacket3_hdr};
    use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1};
    let block = offset_of!(tpacket_block_desc, hdr);
    assert!(block + offset_of!(tpacket_hdr_v1, block_status) == BLOCK_STATUS);
    assert!(block + offset_of!(tpacket_hdr_v1, num_pkts) == BLOCK_FRAME_COUNT);
    assert!(block + offset_of!(tpacket_hdr_v1, offset_to_first_pkt) == BLOCK_FIRST_FRAME);
    assert!(size_of::<tpacket_block_desc>() == BLOCK_HEADER_BYTES);
    assert!(offset_of!(tpacket3_hdr, tp_next_offset) == FRAME_NEXT);
    assert!(offset_of!(tpacket3_hdr, tp_sec) == FRAME_SECONDS);
    assert!(offset_of!(tpacket3_hdr, tp_nsec) == FRAME_NANOS);
    assert!(offset_of!(tpacket3_hdr, tp_snaplen) == FRAME_SNAPLEN);
    assert!(offset_of!(tpacket3_hdr, tp_len) == FRAME_LEN);
    assert!(offset_of!(tpacket3_hdr, tp_status) == FRAME_STATUS);
    assert!(offset_of!(tpacket3_hdr, tp_mac) == FRAME_MAC);
    let variant = offset_of!(tpacket3_hdr, hv1);
    assert!(variant + offset_of!(tpacket_hdr_variant1, tp_rxhash) == FRAME_HASH);
    assert!(variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tci) == FRAME_VLAN_TCI);
    assert!(variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid) == FRAME_VLAN_TPID);
    assert!(size_of::<tpacket3_hdr>() == FRAME_ADDRESS);
    assert!(FRAME_ADDRESS + offset_of!(sockaddr_ll, sll_pkttype) == FRAME_PACKET_TYPE);
    assert!(TPACKET3_HDRLEN == FRAME_HEADER_BYTES);
};
