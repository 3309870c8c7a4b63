//! The Rust side of `bpf/abi.h`: the same fields in the same order, written out by hand so that
//! the bytes need no unsafe view. Integers are in host byte order.

/// Bytes at the start of a generated frame that are written every time.
pub const GENERATE_HEADER_BYTES: usize = 64;

/// Entries of the table of frame sizes.
pub const GENERATE_SIZES_MAX: usize = 1024;

/// `struct generate_config`: what a generator sends.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct GenerateConfig {
    /// Interface that the frames are redirected to, in the namespace of the calling thread.
    pub ifindex: u32,
    /// Flows, at least 1.
    pub flow_count: u32,
    /// Used entries of `sizes`, 1 to [`GENERATE_SIZES_MAX`].
    pub size_count: u32,
    /// IPv4 source address of flow 0.
    pub address_base: u32,
    /// UDP source port of flow 0.
    pub port_base: u32,
    /// Source ports in use, at least 1.
    pub port_count: u32,
    /// Sum of the words of the IPv4 header without length, checksum and source address.
    pub ip_sum: u32,
    /// Length of the input frame: the longest size, and at least [`GENERATE_HEADER_BYTES`].
    pub input_bytes: u32,
    /// First bytes of every frame.
    pub header: [u8; GENERATE_HEADER_BYTES],
    /// Frame sizes in bytes.
    pub sizes: [u16; GENERATE_SIZES_MAX],
}

const GENERATE_CONFIG_BYTES: usize = 2144;
const _: () = assert!(size_of::<GenerateConfig>() == GENERATE_CONFIG_BYTES);

impl GenerateConfig {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = [
            self.ifindex,
            self.flow_count,
            self.size_count,
            self.address_base,
            self.port_base,
            self.port_count,
            self.ip_sum,
            self.input_bytes,
        ];
        let mut bytes = Vec::with_capacity(GENERATE_CONFIG_BYTES);
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend_from_slice(&self.header);
        bytes.extend(self.sizes.iter().flat_map(|size| size.to_ne_bytes()));
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
    /// Flow of the next frame.
    pub next_flow: u32,
    /// Always 0.
    pub reserved: u32,
}

const GENERATE_STATE_BYTES: usize = 32;
const _: () = assert!(size_of::<GenerateState>() == GENERATE_STATE_BYTES);

impl GenerateState {
    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GENERATE_STATE_BYTES);
        for word in [self.stream, self.next_sequence, self.refused] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&self.next_flow.to_ne_bytes());
        bytes.extend_from_slice(&self.reserved.to_ne_bytes());
        bytes
    }

    /// Reads the bytes that the C program wrote; `None` if they are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<GenerateState> {
        let (stream, rest) = bytes.split_first_chunk::<8>()?;
        let (next_sequence, rest) = rest.split_first_chunk::<8>()?;
        let (refused, rest) = rest.split_first_chunk::<8>()?;
        let (next_flow, rest) = rest.split_first_chunk::<4>()?;
        let (reserved, _) = rest.split_first_chunk::<4>()?;
        Some(GenerateState {
            stream: u64::from_ne_bytes(*stream),
            next_sequence: u64::from_ne_bytes(*next_sequence),
            refused: u64::from_ne_bytes(*refused),
            next_flow: u32::from_ne_bytes(*next_flow),
            reserved: u32::from_ne_bytes(*reserved),
        })
    }
}
