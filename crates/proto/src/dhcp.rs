//! DHCP (RFC 2131) and BOOTP (RFC 951): the fixed part, and options (RFC 2132).

use core::net::Ipv4Addr;

/// Bytes of the fixed part up to the client's hardware address of Ethernet's length.
const HEADER_BYTES: usize = 34;
/// Where the name of the server stands, that of the boot file, and the magic cookie.
const SERVER_NAME: core::ops::Range<usize> = 44..108;
const BOOT_FILE: core::ops::Range<usize> = 108..236;
const COOKIE: usize = 236;

/// A message whose fixed part is there, up to the client's address.
#[derive(Clone, Copy, Debug)]
pub struct Dhcp<'a> {
    header: &'a [u8; HEADER_BYTES],
    bytes: &'a [u8],
}

impl<'a> Dhcp<'a> {
    /// Operation of what a client sends.
    pub const REQUEST: u8 = 1;
    /// Operation of what a server sends.
    pub const REPLY: u8 = 2;
    /// What stands before options (RFC 2131 section 3).
    pub const MAGIC_COOKIE: u32 = 0x6382_5363;

    /// `None` if the fixed part is cut.
    pub fn new(bytes: &'a [u8]) -> Option<Dhcp<'a>> {
        bytes.first_chunk().map(|header| Dhcp { header, bytes })
    }

    /// Operation: who sends.
    pub fn operation(&self) -> u8 {
        self.header[0]
    }

    /// Type and length of the hardware address.
    pub fn hardware(&self) -> (u8, u8) {
        (self.header[1], self.header[2])
    }

    /// Relays on the way.
    pub fn hops(&self) -> u8 {
        self.header[3]
    }

    /// What joins an answer to its request.
    pub fn transaction(&self) -> u32 {
        self.number(4)
    }

    /// Seconds since the client began.
    pub fn seconds(&self) -> u16 {
        (self.number(8) >> 16) as u16
    }

    /// Flags: the highest asks for answers by broadcast.
    pub fn flags(&self) -> u16 {
        (self.number(8) & 0xffff) as u16
    }

    /// Addresses: the client's own, the one it gets, that of the next server, and of the relay.
    pub fn addresses(&self) -> [Ipv4Addr; 4] {
        [12, 16, 20, 24].map(|at| Ipv4Addr::from(self.number(at)))
    }

    /// The client's address if it is that of Ethernet.
    pub fn client_mac(&self) -> Option<[u8; 6]> {
        let mac = self.header[28..].first_chunk().copied();
        mac.filter(|_| self.hardware() == (1, 6))
    }

    /// The name of the server, up to a zero; `None` if it is cut.
    pub fn server_name(&self) -> Option<&'a [u8]> {
        self.text(SERVER_NAME)
    }

    /// The name of the boot file, up to a zero; `None` if it is cut.
    pub fn boot_file(&self) -> Option<&'a [u8]> {
        self.text(BOOT_FILE)
    }

    /// What stands behind the fixed part; options are there if it is [`Self::MAGIC_COOKIE`].
    pub fn cookie(&self) -> Option<u32> {
        self.bytes.get(COOKIE..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The options behind the cookie.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.bytes.get(COOKIE + 4..).unwrap_or_default() }
    }

    fn text(&self, range: core::ops::Range<usize>) -> Option<&'a [u8]> {
        let field = self.bytes.get(range)?;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        field.get(..end)
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = self.header.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpOption<'a> {
    /// Which one; 0 pads and 255 ends, both without length and value.
    pub code: u8,
    /// Length of the value as it says; `None` if the bytes end before it.
    pub length: Option<u8>,
    /// The value, as far as it is there.
    pub value: &'a [u8],
}

impl DhcpOption<'_> {
    /// Fills up.
    pub const PAD: u8 = 0;
    /// Stands behind the last one.
    pub const END: u8 = 255;

    /// True if length and value are there.
    pub fn is_whole(&self) -> bool {
        self.length.is_some_and(|length| usize::from(length) == self.value.len())
    }
}

/// The options of a message, in order. After one that is cut there is none.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = DhcpOption<'a>;

    fn next(&mut self) -> Option<DhcpOption<'a>> {
        let (&code, rest) = self.rest.split_first()?;
        if matches!(code, DhcpOption::PAD | DhcpOption::END) {
            self.rest = rest;
            return Some(DhcpOption { code, length: Some(0), value: &[] });
        }
        let Some((&length, rest)) = rest.split_first() else {
            self.rest = &[];
            return Some(DhcpOption { code, length: None, value: &[] });
        };
        let (value, rest) = rest.split_at(usize::from(length).min(rest.len()));
        self.rest = rest;
        Some(DhcpOption { code, length: Some(length), value })
    }
}
