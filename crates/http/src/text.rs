//! Texts of heads.

/// Bytes of a head, in whatever encoding they were sent.
pub type Text = Box<[u8]>;

pub(crate) fn at_most(bytes: &[u8], max: usize) -> &[u8] {
    bytes.get(..max).unwrap_or(bytes)
}

pub(crate) fn cut(bytes: &[u8], max: usize) -> Text {
    at_most(bytes, max).into()
}
