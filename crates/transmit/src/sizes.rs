//! Frame sizes of a generated load.

use crate::Error;
use std::ops::Range;
use std::str::FromStr;

/// Shortest frame: an Ethernet header.
pub const FRAME_BYTES_MIN: u16 = 14;

/// Longest frame: what an interface with the largest MTU (65,535) takes, and no more than 16 bits.
pub const FRAME_BYTES_MAX: u16 = 65_535;

/// Entries of the table, as in `bpf/abi.h`.
const TABLE_MAX: usize = ringside_ebpf::abi::GENERATE_SIZES_MAX;

/// A table of frame sizes. Frame `n` has the entry that a multiplicative hash of `n` selects, so
/// that every entry is used evenly and independently of the flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    table: Vec<u16>,
}

impl Sizes {
    /// All frames of one size.
    ///
    /// # Errors
    /// Outside [`FRAME_BYTES_MIN`] to [`FRAME_BYTES_MAX`].
    pub fn fixed(bytes: u16) -> Result<Sizes, Error> {
        Sizes::list(&[bytes])
    }

    /// Each of `list` equally often; a size may stand several times.
    ///
    /// # Errors
    /// A size outside the limits, an empty list, or more than 1,024 entries.
    pub fn list(list: &[u16]) -> Result<Sizes, Error> {
        if list.is_empty() || list.len() > TABLE_MAX {
            return Err(Error::size(format!("a list of {} sizes", list.len())));
        }
        if let Some(bytes) = list.iter().find(|&&bytes| bytes < FRAME_BYTES_MIN) {
            return Err(Error::size(format!("{bytes} bytes")));
        }
        Ok(Sizes { table: list.to_vec() })
    }

    /// The simple IMIX: 7 of 64, 4 of 594 and 1 of 1,518 bytes with the frame check sequence, which
    /// no frame here has: 60, 590 and 1,514.
    pub fn imix() -> Sizes {
        let mut table = vec![60; 7];
        table.extend([590; 4]);
        table.push(1514);
        Sizes { table }
    }

    /// Spread evenly from `low` to `high`, both included; more than 1,024 different sizes are
    /// thinned out to 1,024 of equal distance.
    ///
    /// # Errors
    /// `low` above `high`, or outside the limits.
    pub fn uniform(low: u16, high: u16) -> Result<Sizes, Error> {
        if low > high {
            return Err(Error::size(format!("a range from {low} down to {high}")));
        }
        let span = usize::from(high - low);
        let count = (span + 1).min(TABLE_MAX);
        let step = |index: usize| low + (index * span / (count - 1).max(1)) as u16;
        Sizes::list(&(0..count).map(step).collect::<Vec<u16>>())
    }

    /// Size of frame `sequence`, in bytes. The same computation as in `bpf/generate.bpf.c`.
    pub fn of(&self, sequence: u64) -> u16 {
        self.table[self.index_of(sequence)]
    }

    /// Which entry of the table frame `sequence` has.
    pub fn index_of(&self, sequence: u64) -> usize {
        let spread = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((spread * self.table.len() as u64) >> 32) as usize
    }

    /// Bytes of the frames `sequences`. Takes a nanosecond for each unless all are equal.
    pub fn bytes_of(&self, sequences: Range<u64>) -> u64 {
        match self.table[..] {
            [bytes] => (sequences.end - sequences.start) * u64::from(bytes),
            _ => sequences.map(|n| u64::from(self.of(n))).sum(),
        }
    }

    /// The longest.
    pub fn longest(&self) -> u16 {
        self.table.iter().copied().max().unwrap_or(FRAME_BYTES_MIN)
    }

    /// The shortest.
    pub fn shortest(&self) -> u16 {
        self.table.iter().copied().min().unwrap_or(FRAME_BYTES_MIN)
    }

    /// The table, 1 to 1,024 entries.
    pub fn table(&self) -> &[u16] {
        &self.table
    }
}

impl FromStr for Sizes {
    type Err = Error;

    /// `512`, `64,512,1514`, `64-1514` or `imix`.
    fn from_str(text: &str) -> Result<Sizes, Error> {
        let number = |text: &str| {
            text.trim().parse::<u16>().map_err(|_| Error::size(format!("`{}`", text.trim())))
        };
        if text.trim().eq_ignore_ascii_case("imix") {
            return Ok(Sizes::imix());
        }
        if let Some((low, high)) = text.split_once('-') {
            return Sizes::uniform(number(low)?, number(high)?);
        }
        Sizes::list(&text.split(',').map(number).collect::<Result<Vec<u16>, Error>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_tables() {
        let table = |text: &str| text.parse::<Sizes>().unwrap().table().to_vec();
        assert_eq!(table("512"), [512]);
        assert_eq!(table("64, 512,1514"), [64, 512, 1514]);
        assert_eq!(table("60-63"), [60, 61, 62, 63]);
        assert_eq!(table("100-100"), [100]);
        assert_eq!(table("IMIX").len(), 12);
        for text in ["", "13", "64,", "65536", "9-20", "100-64", "64-", "abc", "-5"] {
            let error = text.parse::<Sizes>().expect_err(text).to_string();
            assert!(error.contains("14 to 65535"), "{error}");
        }
    }

    #[test]
    fn a_wide_range_is_thinned_and_keeps_its_ends() {
        let sizes = Sizes::uniform(14, 65_535).unwrap();
        assert_eq!(sizes.table().len(), 1024);
        assert_eq!((sizes.table()[0], sizes.table()[1023]), (14, 65_535));
        assert!(sizes.table().is_sorted());
    }

    #[test]
    fn sizes_come_evenly() {
        let sizes = Sizes::imix();
        let mut counts = [0u32; 3];
        for sequence in 0..12_000 {
            match sizes.of(sequence) {
                60 => counts[0] += 1,
                590 => counts[1] += 1,
                _ => counts[2] += 1,
            }
        }
        let near = |count: u32, wanted: u32| count.abs_diff(wanted) <= 20;
        assert!(near(counts[0], 7000) && near(counts[1], 4000) && near(counts[2], 1000));
    }
}
