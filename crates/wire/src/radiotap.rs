//! Radiotap: what a radio says of a frame (LINKTYPE_IEEE802_11_RADIOTAP, <https://radiotap.org>).

use crate::bytes::{head, part};
use crate::{LayerKind, WireError};

/// Size and alignment of the fields by number. A field that is not listed ends what can be read:
/// nothing in the header says how long it is.
const FIELDS: [(u8, u8); 28] = [
    (8, 8),  // 0, time of the radio
    (1, 1),  // 1, flags
    (1, 1),  // 2, rate
    (4, 2),  // 3, channel
    (2, 2),  // 4, hops
    (1, 1),  // 5, signal in dBm
    (1, 1),  // 6, noise in dBm
    (2, 2),  // 7, quality of the lock
    (2, 2),  // 8, attenuation
    (2, 2),  // 9, attenuation in dB
    (1, 1),  // 10, power in dBm
    (1, 1),  // 11, antenna
    (1, 1),  // 12, signal in dB
    (1, 1),  // 13, noise in dB
    (2, 2),  // 14, flags of what was received
    (2, 2),  // 15, flags of what was sent
    (1, 1),  // 16, retries of the announcement
    (1, 1),  // 17, retries of the data
    (8, 4),  // 18, extended channel
    (3, 1),  // 19, MCS
    (8, 4),  // 20, A-MPDU
    (12, 2), // 21, VHT
    (12, 8), // 22, time stamp
    (12, 2), // 23, HE
    (12, 2), // 24, HE of several users
    (6, 2),  // 25, HE of another user
    (1, 1),  // 26, frame without content
    (4, 2),  // 27, L-SIG
];
/// Bits of a word of presence that are the same in every name space.
const DEFAULT_NAMES: u32 = 1 << 29;
const VENDOR_NAMES: u32 = 1 << 30;
const MORE_WORDS: u32 = 1 << 31;

/// View of a radiotap header.
#[derive(Clone, Copy, Debug)]
pub struct Radiotap<'a> {
    /// Words of presence and fields.
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Radiotap<'a> {
    /// Bytes of a header without fields.
    pub const BYTES_MIN: usize = 8;
    /// Number of the field of flags.
    const FLAGS: u8 = 1;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it; a version other than 0; a length below 8.
    pub fn new(bytes: &'a [u8]) -> Result<Radiotap<'a>, WireError> {
        let (fixed, _) = head::<{ Radiotap::BYTES_MIN }>(bytes, LayerKind::Radiotap)?;
        let length = u16::from_le_bytes([fixed[2], fixed[3]]);
        let malformed = |field, value: u32| {
            Err(WireError::Malformed { header: LayerKind::Radiotap, field, value })
        };
        if fixed[0] != 0 {
            return malformed("version", fixed[0].into());
        }
        if usize::from(length) < Radiotap::BYTES_MIN {
            return malformed("length", length.into());
        }
        let (header, payload) = part(bytes, length.into(), 0, LayerKind::Radiotap)?;
        Ok(Radiotap { header, payload })
    }

    /// Numbers and bytes (little endian) of the fields that are known, in order, up to the first
    /// that is not; those of vendors are left out.
    pub fn fields(&self) -> Fields<'a> {
        let word = word(self.header, 4).unwrap_or(0);
        let mut at = Radiotap::BYTES_MIN;
        let mut last = word;
        while last & MORE_WORDS != 0 {
            last = self::word(self.header, at).unwrap_or(0);
            at += 4;
        }
        let next_word = Radiotap::BYTES_MIN;
        let (header, first, number) = (self.header, 0, 0);
        Fields { header, at, word, next_word, first, number, vendor: None, unread: None }
    }

    /// The flags, 0 where there are none.
    fn flags(&self) -> u8 {
        let mut flags = self.fields().filter(|(number, _)| *number == u32::from(Radiotap::FLAGS));
        flags.next().and_then(|(_, bytes)| bytes.first().copied()).unwrap_or(0)
    }

    /// True if the frame ends with its check sequence.
    pub fn has_check_sequence(&self) -> bool {
        self.flags() & 0x10 != 0
    }

    /// True if the header of the frame is padded to a multiple of 4.
    pub fn has_padding(&self) -> bool {
        self.flags() & 0x20 != 0
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.header.len()
    }

    /// The frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The fields of a header, one after the other.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    header: &'a [u8],
    at: usize,
    /// The word of presence that is read, and where the next one is.
    word: u32,
    next_word: usize,
    /// Number of the first field of this word.
    first: u32,
    /// Bits of the word that were read.
    number: u32,
    /// Bytes of a vendor's fields, while it is a vendor's name space.
    vendor: Option<usize>,
    unread: Option<Unread>,
}

/// The field at which reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The header ends within it.
    Cut,
    /// Its length is not known.
    Unknown(u32),
}

impl<'a> Fields<'a> {
    /// Why fields that the header has were not given, once there are no more.
    pub fn unread(&self) -> Option<Unread> {
        self.unread
    }

    fn take(&mut self, bytes: usize, align: usize) -> Option<&'a [u8]> {
        let start = self.at.next_multiple_of(align);
        let taken = self.header.get(start..start + bytes)?;
        self.at = start + bytes;
        Some(taken)
    }

    /// The word behind the one that is done with; nothing if that was the last.
    fn next_word(&mut self) -> Option<()> {
        if let Some(bytes) = self.vendor.take() {
            self.take(bytes, 1)?;
        }
        if self.word & MORE_WORDS == 0 {
            return None;
        }
        match self.word & (DEFAULT_NAMES | VENDOR_NAMES) {
            DEFAULT_NAMES => self.first = 0,
            VENDOR_NAMES => {
                self.first = 0;
                let &[_, _, _, _, low, high] = self.take(6, 2)? else { return None };
                self.vendor = Some(usize::from(u16::from_le_bytes([low, high])));
            }
            _ => self.first += 32,
        }
        self.word = word(self.header, self.next_word)?;
        self.next_word += 4;
        self.number = 0;
        Some(())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        loop {
            // Of a vendor's word the bits say nothing here.
            if self.number >= 29 || self.vendor.is_some() {
                self.next_word()?;
                continue;
            }
            let number = self.number;
            self.number += 1;
            if self.word & (1 << number) != 0 {
                let number = self.first + number;
                let field = FIELDS.get(number as usize);
                let taken = field.and_then(|&(bytes, align)| self.take(bytes.into(), align.into()));
                if taken.is_none() {
                    self.unread = Some(field.map_or(Unread::Unknown(number), |_| Unread::Cut));
                    // Where the next field begins is not known.
                    (self.word, self.number) = (0, 29);
                }
                return taken.map(|taken| (number, taken));
            }
        }
    }
}

/// Four bytes of the header, little endian.
fn word(header: &[u8], at: usize) -> Option<u32> {
    header.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
