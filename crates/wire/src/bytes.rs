//! Reading fixed parts of headers without a panic: a header is a reference to an array, and
//! constant indices into an array are checked when the crate is compiled.

use crate::{LayerKind, WireError};

/// The first `N` bytes and the rest.
#[inline]
pub(crate) fn head<const N: usize>(
    bytes: &[u8],
    header: LayerKind,
) -> Result<(&[u8; N], &[u8]), WireError> {
    bytes.split_first_chunk::<N>().ok_or(WireError::Truncated {
        header,
        needed: N,
        available: bytes.len(),
    })
}

/// The first `count` bytes and the rest, for parts whose length is in the header. `fixed` is the
/// number of header bytes before `bytes`, for the error.
#[inline]
pub(crate) fn part(
    bytes: &[u8],
    count: usize,
    fixed: usize,
    header: LayerKind,
) -> Result<(&[u8], &[u8]), WireError> {
    bytes.split_at_checked(count).ok_or(WireError::Truncated {
        header,
        needed: fixed + count,
        available: fixed + bytes.len(),
    })
}

/// The bytes up to `count`, or all where fewer were captured.
#[inline]
pub(crate) fn at_most(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(..count).unwrap_or(bytes)
}

/// 16 bits at `at`, if they are there.
#[inline]
pub(crate) fn be16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// 32 bits at `at`, if they are there.
#[inline]
pub(crate) fn be32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

/// Four bytes as a number.
#[inline]
pub(crate) fn be32(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Two bytes as a number.
#[inline]
pub(crate) fn be16(a: u8, b: u8) -> u16 {
    u16::from_be_bytes([a, b])
}
