//! A host's name as text, in memory of the caller.

/// Bytes of a name on the wire, of DNS (RFC 1035 section 3.1) and so of every host.
pub(crate) const WIRE_BYTES_MAX: usize = 255;
/// Each of them may be written as `\DDD`, so that every name fits.
const TEXT_BYTES_MAX: usize = 4 * WIRE_BYTES_MAX;

/// A name in lower case. Bytes that are no printing ASCII stand as `\DDD` in decimal, and a
/// backslash as `\\` (RFC 4343 section 2.1), so that different names are different texts.
///
/// One serves for any number of payloads; a parser overwrites what was in it.
#[derive(Clone)]
pub struct Name {
    text: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl Name {
    /// An empty name.
    pub const fn new() -> Name {
        Name { text: [0; TEXT_BYTES_MAX], length: 0 }
    }

    /// The name as text.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends one byte of a name, in lower case and escaped.
    pub(crate) fn push(&mut self, byte: u8) {
        match byte {
            b'\\' => self.append(b"\\\\"),
            b'!'..=b'~' => self.append(&[byte.to_ascii_lowercase()]),
            _ => {
                let digit = |unit: u8| b'0' + byte / unit % 10;
                self.append(&[b'\\', digit(100), digit(10), digit(1)]);
            }
        }
    }

    /// Appends one byte of a DNS label, where a dot is no separator.
    pub(crate) fn push_in_label(&mut self, byte: u8) {
        match byte {
            b'.' => self.append(b"\\."),
            _ => self.push(byte),
        }
    }

    fn append(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        // Parsers refuse names that are longer on the wire, so there is room.
        let Some(room) = self.text.get_mut(self.length..end) else { return };
        room.copy_from_slice(text);
        self.length = end;
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::new()
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Name(\"{}\")", self.as_bytes().escape_ascii())
    }
}
