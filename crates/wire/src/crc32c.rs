//! CRC-32C (Castagnoli), the checksum of SCTP (RFC 9260, appendix A), eight bytes at a time.

/// Reversed polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: the CRC of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// A running CRC-32C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// The start of a CRC.
    #[allow(clippy::new_without_default)] // a start value is not an empty one
    pub fn new() -> Crc32c {
        Crc32c(u32::MAX)
    }

    /// Adds bytes; pieces of any length.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Crc32c {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut crc = self.0;
        for &[a, b, c, d, e, f, g, h] in words {
            let low = crc ^ u32::from_le_bytes([a, b, c, d]);
            let [a, b, c, d] = low.to_le_bytes().map(usize::from);
            crc = TABLES[7][a] ^ TABLES[6][b] ^ TABLES[5][c] ^ TABLES[4][d];
            crc ^= TABLES[3][usize::from(e)] ^ TABLES[2][usize::from(f)];
            crc ^= TABLES[1][usize::from(g)] ^ TABLES[0][usize::from(h)];
        }
        for &byte in tail {
            crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        }
        Crc32c(crc)
    }

    /// The CRC. SCTP writes it least significant byte first.
    pub fn finish(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            for bit in 0..8 {
                let one = (crc ^ u32::from(byte >> bit)) & 1;
                crc = (crc >> 1) ^ (POLYNOMIAL * one);
            }
        }
        !crc
    }

    #[test]
    fn the_check_value_and_the_examples_of_rfc_3720() {
        assert_eq!(Crc32c::new().bytes(b"123456789").finish(), 0xe306_9283);
        assert_eq!(Crc32c::new().bytes(&[0; 32]).finish(), 0x8a91_36aa);
        assert_eq!(Crc32c::new().bytes(&[0xff; 32]).finish(), 0x62a8_ab43);
    }

    proptest! {
        #[test]
        fn equals_the_reference_in_pieces(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300,
        ) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(Crc32c::new().bytes(a).bytes(b).finish(), reference(&bytes));
        }
    }
}
