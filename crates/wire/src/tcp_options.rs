//! TCP options (RFC 9293, RFC 7323, RFC 2018).

use crate::bytes::be32;

/// One option of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// End of the list.
    End,
    /// No operation.
    Nop,
    /// Maximum segment size.
    MaxSegmentSize(u16),
    /// Window scale, in bits.
    WindowScale(u8),
    /// Selective acknowledgment permitted.
    SackPermitted,
    /// Selective acknowledgment: the edges of its blocks.
    Sack(SackBlocks<'a>),
    /// Timestamps.
    Timestamps {
        /// Sender's value.
        value: u32,
        /// Echo of the other side's value.
        echo: u32,
    },
    /// Any other option, or one of the above with a length that it does not have.
    Other {
        /// Kind.
        kind: u8,
        /// What follows the length.
        data: &'a [u8],
    },
    /// An option that does not fit: nothing after it can be read.
    Damaged {
        /// Kind.
        kind: u8,
        /// Length as it stands; `None` where it is missing.
        length: Option<u8>,
    },
}

/// Blocks of a selective acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [[u8; 8]]);

impl<'a> SackBlocks<'a> {
    /// Left and right edge of each block.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + use<'a> {
        self.0.iter().map(|&[a, b, c, d, e, f, g, h]| (be32(a, b, c, d), be32(e, f, g, h)))
    }
}

/// Iterator over the options of a header; ends after `End` or `Damaged`.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// The options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> TcpOptions<'a> {
        TcpOptions { rest: bytes }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        let (&kind, after) = self.rest.split_first()?;
        match kind {
            0 => {
                self.rest = &[];
                return Some(TcpOption::End);
            }
            1 => {
                self.rest = after;
                return Some(TcpOption::Nop);
            }
            _ => {}
        }
        let length = after.first().copied();
        let fits = length.filter(|&l| l >= 2 && usize::from(l) <= self.rest.len());
        let Some((option, rest)) = fits.and_then(|l| self.rest.split_at_checked(usize::from(l)))
        else {
            self.rest = &[];
            return Some(TcpOption::Damaged { kind, length });
        };
        self.rest = rest;
        Some(decode(kind, option.get(2..).unwrap_or(&[])))
    }
}

fn decode(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (2, &[a, b]) => TcpOption::MaxSegmentSize(u16::from_be_bytes([a, b])),
        (3, &[shift]) => TcpOption::WindowScale(shift),
        (4, &[]) => TcpOption::SackPermitted,
        (5, _) if !data.is_empty() && data.len().is_multiple_of(8) => {
            TcpOption::Sack(SackBlocks(data.as_chunks::<8>().0))
        }
        (8, &[a, b, c, d, e, f, g, h]) => {
            TcpOption::Timestamps { value: be32(a, b, c, d), echo: be32(e, f, g, h) }
        }
        _ => TcpOption::Other { kind, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_syn_and_damaged_ones() {
        let bytes = [
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7, //
            5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 254, 3, 7, 8, 1, 0,
        ];
        let options: Vec<TcpOption<'_>> = TcpOptions::new(&bytes).collect();
        let blocks = [[0, 0, 0, 1, 0, 0, 0, 2]];
        assert_eq!(
            options,
            [
                TcpOption::MaxSegmentSize(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps { value: 9, echo: 0 },
                TcpOption::Nop,
                TcpOption::WindowScale(7),
                TcpOption::Sack(SackBlocks(&blocks)),
                TcpOption::Other { kind: 254, data: &[7] },
                TcpOption::Damaged { kind: 8, length: Some(1) },
            ]
        );
        let cut: Vec<TcpOption<'_>> = TcpOptions::new(&[3]).collect();
        assert_eq!(cut, [TcpOption::Damaged { kind: 3, length: None }]);
    }
}
