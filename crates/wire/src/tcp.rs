//! TCP (RFC 9293).

use crate::bytes::{be16, be32, head, part};
use crate::tcp_options::TcpOptions;
use crate::{LayerKind, Port, WireError};

/// View of a TCP header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    header: &'a [u8; Tcp::BYTES_MIN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Bytes of a header without options.
    pub const BYTES_MIN: usize = 20;
    /// FIN in [`Tcp::flags`].
    pub const FIN: u16 = 0x01;
    /// SYN.
    pub const SYN: u16 = 0x02;
    /// RST.
    pub const RST: u16 = 0x04;
    /// PSH.
    pub const PSH: u16 = 0x08;
    /// ACK.
    pub const ACK: u16 = 0x10;
    /// URG.
    pub const URG: u16 = 0x20;
    /// ECE.
    pub const ECE: u16 = 0x40;
    /// CWR.
    pub const CWR: u16 = 0x80;
    /// AE (formerly NS).
    pub const AE: u16 = 0x100;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within the header, or the data offset is below 20.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Tcp<'a>, WireError> {
        let (header, rest) = head::<{ Tcp::BYTES_MIN }>(bytes, LayerKind::Tcp)?;
        let header_bytes = 4 * usize::from(header[12] >> 4);
        let Some(option_bytes) = header_bytes.checked_sub(Tcp::BYTES_MIN) else {
            let value = header_bytes as u32;
            let field = "data offset";
            return Err(WireError::Malformed { header: LayerKind::Tcp, field, value });
        };
        let (options, payload) = part(rest, option_bytes, Tcp::BYTES_MIN, LayerKind::Tcp)?;
        Ok(Tcp { header, options, payload })
    }

    /// Source port.
    pub fn source(&self) -> Port {
        Port(be16(self.header[0], self.header[1]))
    }

    /// Destination port.
    pub fn destination(&self) -> Port {
        Port(be16(self.header[2], self.header[3]))
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// Acknowledgment number; means something only with [`Tcp::ACK`].
    pub fn acknowledgment(&self) -> u32 {
        be32(self.header[8], self.header[9], self.header[10], self.header[11])
    }

    /// Bytes of the header, options included: 20 to 60.
    pub fn header_bytes(&self) -> usize {
        Tcp::BYTES_MIN + self.options.len()
    }

    /// The twelve bits after the data offset: nine flags and three reserved bits.
    pub fn flags(&self) -> u16 {
        be16(self.header[12], self.header[13]) & 0x0fff
    }

    /// True if all bits of `mask` are set.
    pub fn has(&self, mask: u16) -> bool {
        self.flags() & mask == mask
    }

    /// Window as it stands, not scaled.
    pub fn window(&self) -> u16 {
        be16(self.header[14], self.header[15])
    }

    /// Checksum as it stands.
    pub fn checksum(&self) -> u16 {
        be16(self.header[16], self.header[17])
    }

    /// Urgent pointer; means something only with [`Tcp::URG`].
    pub fn urgent(&self) -> u16 {
        be16(self.header[18], self.header[19])
    }

    /// The options as bytes.
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// The options one by one.
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(self.options)
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
