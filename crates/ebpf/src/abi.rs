//! The Rust side of `bpf/abi.h`: the same fields in the same order, written out by hand so that
//! the bytes need no unsafe view. Integers are in host byte order.

pub(crate) mod balance;
pub mod fast;
pub mod route;
pub mod rules;

/// Bytes at the start of a generated frame that may differ from flow to flow: headers and number.
pub const GENERATE_HEADER_BYTES_MAX: usize = 192;

/// Entries of the table of frame sizes.
pub const GENERATE_SIZES_MAX: usize = 1024;

/// `struct generate_config`: what a generator sends. Places are bytes from the start of a frame, 0
/// where there is no such field.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct GenerateConfig {
    /// Interface that the frames are redirected to, in the namespace of the calling thread.
    pub ifindex: u32,
    /// Flows, at least 1.
    pub flow_count: u32,
    /// Used entries of `sizes`, 1 to [`GENERATE_SIZES_MAX`].
    pub size_count: u32,
    /// Length of the input frame: the longest size, and at least `header_bytes`.
    pub input_bytes: u32,
    /// Bytes of one flow's header, a multiple of 8, at most [`GENERATE_HEADER_BYTES_MAX`].
    pub header_bytes: u32,
    /// Where the headers end: lengths in them are never shorter.
    pub payload_at: u32,
    /// IPv4 header, whose length and checksum are written.
    pub ipv4_at: u32,
    /// IPv6 header, whose length is written.
    pub ipv6_at: u32,
    /// TCP or UDP header.
    pub transport_at: u32,
    /// UDP header, whose length is written.
    pub udp_at: u32,
    /// Checksum of the transport.
    pub checksum_at: u32,
    /// Number of the frame, 8 bytes.
    pub number_at: u32,
    /// When the frame was made, the lower 48 bits of nanoseconds of TAI, 6 bytes.
    pub stamp_at: u32,
    /// 1 if a page keeps the frame that was written into it first, else 0.
    pub is_kept: u32,
    /// 1 if what the interface receives meanwhile is discarded inside the driver, else 0.
    pub discards: u32,
    /// 0.
    pub reserved: u32,
    /// From frame to frame, in 1/256 ns; 0: as fast as it goes.
    pub gap: u64,
    /// Frame sizes in bytes.
    pub sizes: [u16; GENERATE_SIZES_MAX],
    /// Of each size: what its payload adds to the transport's checksum.
    pub sums: [u16; GENERATE_SIZES_MAX],
}

const GENERATE_CONFIG_BYTES: usize = 4168;

impl GenerateConfig {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = [
            self.ifindex,
            self.flow_count,
            self.size_count,
            self.input_bytes,
            self.header_bytes,
            self.payload_at,
            self.ipv4_at,
            self.ipv6_at,
            self.transport_at,
            self.udp_at,
            self.checksum_at,
            self.number_at,
            self.stamp_at,
            self.is_kept,
            self.discards,
            self.reserved,
        ];
        let mut bytes = Vec::with_capacity(GENERATE_CONFIG_BYTES);
        bytes.extend(words.iter().flat_map(|word: &u32| word.to_ne_bytes()));
        bytes.extend_from_slice(&self.gap.to_ne_bytes());
        let tables = self.sizes.iter().chain(&self.sums);
        bytes.extend(tables.flat_map(|entry| entry.to_ne_bytes()));
        assert_eq!(bytes.len(), GENERATE_CONFIG_BYTES, "fields and size of generate_config");
        bytes
    }
}

/// `struct generate_state`: where one CPU's stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GenerateState {
    /// Added to every sequence number: the sender's number in bits 48 to 63.
    pub stream: u64,
    /// Frames that were made.
    pub next_sequence: u64,
    /// Frames that could not be shaped; anything but 0 is a bug.
    pub refused: u64,
    /// When the next frame is due, by the monotonic clock, in 1/256 ns; 0 without a gap.
    pub due: u64,
    /// Before which it must not leave though it is due; 0 without a gap.
    pub earliest: u64,
    /// Address of the far end's ring, if frames wait for room there, else 0.
    pub ring: u64,
    /// Flow of the next frame.
    pub next_flow: u32,
    /// Frames that may leave before the clock is read again; 0 without a gap.
    pub granted: u32,
    /// Frames that have room for sure.
    pub fitting: u32,
    /// 0.
    pub reserved: u32,
}

const GENERATE_STATE_BYTES: usize = 64;
const _: () = assert!(size_of::<GenerateState>() == GENERATE_STATE_BYTES);

impl GenerateState {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GENERATE_STATE_BYTES);
        let long =
            [self.stream, self.next_sequence, self.refused, self.due, self.earliest, self.ring];
        bytes.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
        let short = [self.next_flow, self.granted, self.fitting, self.reserved];
        bytes.extend(short.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    /// Reads the bytes that the C program wrote; `None` if they are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<GenerateState> {
        let (long, rest) = bytes.split_first_chunk::<48>()?;
        let (short, _) = rest.split_first_chunk::<16>()?;
        let [stream, next_sequence, refused, due, earliest, ring] =
            *<&[[u8; 8]; 6]>::try_from(long.as_chunks::<8>().0).ok()?;
        let [next_flow, granted, fitting, reserved] =
            *<&[[u8; 4]; 4]>::try_from(short.as_chunks::<4>().0).ok()?;
        Some(GenerateState {
            stream: u64::from_ne_bytes(stream),
            next_sequence: u64::from_ne_bytes(next_sequence),
            refused: u64::from_ne_bytes(refused),
            due: u64::from_ne_bytes(due),
            earliest: u64::from_ne_bytes(earliest),
            ring: u64::from_ne_bytes(ring),
            next_flow: u32::from_ne_bytes(next_flow),
            granted: u32::from_ne_bytes(granted),
            fitting: u32::from_ne_bytes(fitting),
            reserved: u32::from_ne_bytes(reserved),
        })
    }
}

/// Segments of one run at most.
pub const SEGMENT_PLACES: usize = 1024;

/// Longest segment that a live frame carries.
pub const SEGMENT_FRAME_BYTES_MAX: usize = 3408;

/// `struct segment_config`: how segments are sent.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SegmentConfig {
    /// Interface to redirect to.
    pub ifindex: u32,
    /// Of the input frame: the longest segment.
    pub input_bytes: u32,
    /// Of headers and payload, and [`SEGMENT_FRAME_BYTES_MAX`] more.
    pub memory_bytes: u32,
    /// Always 0.
    pub reserved: u32,
}

const SEGMENT_CONFIG_BYTES: usize = 16;
const _: () = assert!(size_of::<SegmentConfig>() == SEGMENT_CONFIG_BYTES);

impl SegmentConfig {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> [u8; SEGMENT_CONFIG_BYTES] {
        let words = [self.ifindex, self.input_bytes, self.memory_bytes, self.reserved];
        let mut bytes = [0; SEGMENT_CONFIG_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Numbers of 32 bits in `struct segment_place`: of the header where it begins and its bytes, and
/// of the payload.
pub const SEGMENT_PLACE_WORDS: usize = 4;

/// Numbers of 32 bits in `struct segment_state`: the next place, and segments that were refused.
pub const SEGMENT_STATE_WORDS: usize = 2;

/// Steps of the classes of times under way: half as many for each power of two.
const LATENCY_STEPS_LOG2: u32 = 7;

/// Classes of times under way, up to 2^41 ns.
pub const LATENCY_CLASSES: usize =
    (41 - LATENCY_STEPS_LOG2 as usize + 2) << (LATENCY_STEPS_LOG2 - 1);

/// Times under way, in nanoseconds, that fall into class `class`: its first, and how many.
pub fn latency_class(class: usize) -> (u64, u64) {
    let half = 1u64 << (LATENCY_STEPS_LOG2 - 1);
    let class = class as u64;
    let shift = (class / half).saturating_sub(1);
    ((class - shift * half) << shift, 1 << shift)
}

/// `struct latency_counts`: what one CPU counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LatencyCounts {
    /// Frames that bore a number.
    pub frames: u64,
    /// Frames after one with a higher number.
    pub reordered: u64,
    /// Frames whose stamp is in the future: clocks that disagree.
    pub early: u64,
    /// One more than the highest number.
    pub next: u64,
}

const _: () = assert!(size_of::<LatencyCounts>() == 32);

impl LatencyCounts {
    /// Reads the bytes that the C program wrote; `None` if they are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<LatencyCounts> {
        let (words, _) = bytes.first_chunk::<32>()?.as_chunks::<8>();
        let [frames, reordered, early, next] = *<&[[u8; 8]; 4]>::try_from(words).ok()?;
        let [frames, reordered, early, next] =
            [frames, reordered, early, next].map(u64::from_ne_bytes);
        Some(LatencyCounts { frames, reordered, early, next })
    }
}

/// Places for programs that share one interface, tried in this order.
pub const ROOT_POSITIONS: u32 = 4;

/// Bytes of the metadata with a stamp alone: the first member of [`XdpMetadata`].
pub const METADATA_STAMP_BYTES: u32 = 8;

/// Bytes of [`XdpMetadata`].
pub const METADATA_FULL_BYTES: u32 = 24;

/// Bit of [`XdpMetadata::flags`]: the stamp is the NIC's, by its own clock.
pub const METADATA_HARDWARE_STAMP: u32 = 1;

/// Bit of [`XdpMetadata::flags`]: the hash is valid.
pub const METADATA_HASH: u32 = 2;

/// Bit of [`XdpMetadata::flags`]: a VLAN tag was taken out of the frame.
pub const METADATA_VLAN: u32 = 4;

/// `struct xdp_metadata`: what stands in front of the first byte of a frame that was handed to a
/// socket. Of a run with stamps only, just the first member is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct XdpMetadata {
    /// Nanoseconds since 1970, of TAI unless the flags say hardware; 0: none.
    pub stamp: u64,
    /// The bits named above.
    pub flags: u32,
    /// What receive-side scaling computed.
    pub hash: u32,
    /// Type of the tag, 0x8100 or 0x88a8.
    pub vlan_tpid: u16,
    /// The tag: priority and VLAN.
    pub vlan_tci: u16,
    /// Always 0.
    pub reserved: u32,
}

const _: () = assert!(size_of::<XdpMetadata>() == METADATA_FULL_BYTES as usize);
// Translated filters read it too.
const _: () = {
    use ringside_filter::translate as filter;
    use std::mem::offset_of;
    assert!(filter::METADATA_BYTES as u32 == METADATA_FULL_BYTES);
    assert!(filter::METADATA_FLAGS as usize == offset_of!(XdpMetadata, flags));
    assert!(filter::METADATA_TPID as usize == offset_of!(XdpMetadata, vlan_tpid));
    assert!(filter::METADATA_TCI as usize == offset_of!(XdpMetadata, vlan_tci));
    assert!(filter::METADATA_VLAN as u32 == METADATA_VLAN);
};

impl XdpMetadata {
    /// The bytes as the programs write them.
    pub fn to_bytes(&self) -> [u8; METADATA_FULL_BYTES as usize] {
        let mut bytes = [0; METADATA_FULL_BYTES as usize];
        bytes[..8].copy_from_slice(&self.stamp.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.hash.to_ne_bytes());
        bytes[16..18].copy_from_slice(&self.vlan_tpid.to_ne_bytes());
        bytes[18..20].copy_from_slice(&self.vlan_tci.to_ne_bytes());
        bytes[20..].copy_from_slice(&self.reserved.to_ne_bytes());
        bytes
    }

    /// Reads what the programs wrote.
    pub fn from_bytes(bytes: &[u8; METADATA_FULL_BYTES as usize]) -> XdpMetadata {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [a, b, c, d, e, f, g, h, ..] = *bytes;
        XdpMetadata {
            stamp: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            flags: word(8),
            hash: word(12),
            vlan_tpid: half(16),
            vlan_tci: half(18),
            reserved: word(20),
        }
    }
}

/// `struct capture_config`: what a capture leaf does.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CaptureLeafConfig {
    /// Entries of the map of sockets.
    pub queues: u32,
    /// Its own place among the leaves.
    pub position: u32,
    /// Bytes of metadata: 0, [`METADATA_STAMP_BYTES`] or [`METADATA_FULL_BYTES`].
    pub metadata: u32,
    /// 1: steers nothing, is what a rejected frame goes to.
    pub passes: u32,
}

const CAPTURE_CONFIG_BYTES: usize = 16;
const _: () = assert!(size_of::<CaptureLeafConfig>() == CAPTURE_CONFIG_BYTES);

impl CaptureLeafConfig {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> [u8; CAPTURE_CONFIG_BYTES] {
        let words = [self.queues, self.position, self.metadata, self.passes];
        let mut bytes = [0; CAPTURE_CONFIG_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Numbers in `struct capture_counters`, each a u64: seen, passed, steered, unmarked, no room, too
/// long.
pub const CAPTURE_COUNTERS: usize = 6;

/// `struct ring_config`: what a leaf does that copies frames into rings.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RingLeafConfig {
    /// As for any leaf; of the metadata it only knows whether it must be dropped.
    pub leaf: CaptureLeafConfig,
    /// Bytes of each ring, a power of two.
    pub ring_bytes: u32,
    /// Bytes of the ring that are used again and again while the reader keeps up, a power of two.
    pub window_bytes: u32,
    /// Bytes kept of each frame, at least 1; a frame of which more than
    /// [`FRAME_BYTES_MAX`](ringside_sys::xdp_ring::FRAME_BYTES_MAX) would be kept is dropped.
    pub kept_bytes_max: u32,
    /// 1: each frame is stamped.
    pub has_stamps: u32,
    /// 1: this CPU's stores may be seen in another order than they are made.
    pub is_weakly_ordered: u32,
    /// The interface whose frames go there.
    pub ifindex: u32,
}

const RING_CONFIG_BYTES: usize = 40;
const _: () = assert!(size_of::<RingLeafConfig>() == RING_CONFIG_BYTES);

impl RingLeafConfig {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> [u8; RING_CONFIG_BYTES] {
        let words = [
            self.ring_bytes,
            self.window_bytes,
            self.kept_bytes_max,
            self.has_stamps,
            self.is_weakly_ordered,
            self.ifindex,
        ];
        let mut bytes = [0; RING_CONFIG_BYTES];
        let (leaf, rest) = bytes.split_at_mut(CAPTURE_CONFIG_BYTES);
        leaf.copy_from_slice(&self.leaf.to_bytes());
        for (to, word) in rest.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}
