//! Numbers of any size as bytes: seven bits a byte, the lowest first, the highest bit set on all
//! but the last. Reading refuses what writing never writes.

use ringside_core::Stamps;
use ringside_wire::crc32c::Crc32c;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, number: impl Into<u128>) {
    let mut number: u128 = number.into();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends two stamps, the earlier one first.
pub(crate) fn put_stamps(out: &mut Vec<u8>, stamps: Stamps) {
    put(out, stamps.earliest.0);
    put(out, stamps.latest.0.wrapping_sub(stamps.earliest.0));
}

/// The checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    Crc32c::new().bytes(bytes).finish()
}

/// Reads numbers from bytes. Whatever the bytes are, it ends: nothing is read twice.
#[derive(Debug)]
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn long(&mut self) -> Option<u128> {
        let mut number = 0_u128;
        for shift in (0..128).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u128::from(byte & 0x7f);
            number |= bits << shift;
            if number >> shift != bits {
                return None;
            }
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that fits.
    pub(crate) fn number<N: TryFrom<u64>>(&mut self) -> Option<N> {
        // Most take one byte, and a search reads hundreds of thousands.
        let number = match self.0.split_first() {
            Some((&byte, rest)) if byte & 0x80 == 0 => {
                self.0 = rest;
                u64::from(byte)
            }
            _ => u64::try_from(self.long()?).ok()?,
        };
        N::try_from(number).ok()
    }

    /// Skips `count` numbers.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        let mut ends = self.0.iter().enumerate().filter(|(_, byte)| **byte & 0x80 == 0);
        let (last, _) = ends.nth(count.checked_sub(1)?)?;
        self.bytes(last + 1).map(drop)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn stamps(&mut self) -> Option<Stamps> {
        let (earliest, more) = (self.number::<u64>()?, self.number::<u64>()?);
        let latest = earliest.wrapping_add(more);
        Some(Stamps {
            earliest: ringside_core::Timestamp(earliest),
            latest: ringside_core::Timestamp(latest),
        })
    }

    /// Of a whole: nothing may be left.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::Timestamp;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u128::from(u64::MAX), u128::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| put(&mut bytes, number));
        let mut reader = Reader(&bytes);
        numbers.iter().for_each(|&number| assert_eq!(reader.long(), Some(number)));
        assert_eq!(reader.end(), Some(()));
        assert_eq!(reader.long(), None, "nothing is left");
        assert_eq!(Reader(&[0x80; 30]).long(), None, "a number without an end");
        assert_eq!(Reader(&[0xff; 18].map(|_| 0xff)).long(), None);
        let mut large = vec![0x80; 18];
        large.push(0x04);
        assert_eq!(Reader(&large).long(), None, "the 129th bit");
        assert_eq!(Reader(&[0x80, 0x02]).number::<u8>(), None, "256 is no byte");
    }

    #[test]
    fn stamps_come_back_also_those_of_no_frame() {
        let some = Stamps { earliest: Timestamp(5), latest: Timestamp(u64::MAX) };
        for stamps in [Stamps::NONE, Stamps::of(Timestamp(0)), some] {
            let mut bytes = Vec::new();
            put_stamps(&mut bytes, stamps);
            assert_eq!(Reader(&bytes).stamps(), Some(stamps));
        }
    }
}
