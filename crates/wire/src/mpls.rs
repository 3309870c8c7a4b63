//! MPLS label stacks (RFC 3032).

use crate::bytes::be32;
use crate::{LayerKind, WireError};

/// Labels of one stack that are followed. Routers push a handful; entropy and segment routing
/// reach about ten.
pub const LABELS_MAX: usize = 16;

/// One entry of a label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u32);

impl Label {
    /// Label value, 20 bits.
    pub fn value(self) -> u32 {
        self.0 >> 12
    }

    /// Traffic class (formerly EXP), 3 bits.
    pub fn traffic_class(self) -> u8 {
        (self.0 >> 9 & 7) as u8
    }

    /// Bottom of stack.
    pub fn is_bottom(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Time to live.
    pub fn ttl(self) -> u8 {
        self.0 as u8
    }
}

/// View of a whole label stack, at least one label.
#[derive(Clone, Copy, Debug)]
pub struct Mpls<'a> {
    entries: &'a [[u8; 4]],
    payload: &'a [u8],
}

impl<'a> Mpls<'a> {
    /// Views the stack at the start of `bytes`, down to its bottom.
    ///
    /// # Errors
    /// The bytes end before the bottom of the stack, or there are more than [`LABELS_MAX`] labels.
    pub fn new(bytes: &'a [u8]) -> Result<Mpls<'a>, WireError> {
        let (all, _) = bytes.as_chunks::<4>();
        let window = all.get(..LABELS_MAX).unwrap_or(all);
        let Some(bottom) = window.iter().position(|entry| entry[2] & 1 != 0) else {
            return Err(match window.len() {
                LABELS_MAX => WireError::Malformed {
                    header: LayerKind::Mpls,
                    field: "labels without a bottom of stack",
                    value: LABELS_MAX as u32,
                },
                count => WireError::Truncated {
                    header: LayerKind::Mpls,
                    needed: 4 * (count + 1),
                    available: bytes.len(),
                },
            });
        };
        let (entries, _) = window.split_at_checked(bottom + 1).unwrap_or((window, &[]));
        Ok(Mpls { entries, payload: bytes.get(4 * entries.len()..).unwrap_or(&[]) })
    }

    /// The labels, top first.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = Label> + use<'a> {
        self.entries.iter().map(|&[a, b, c, d]| Label(be32(a, b, c, d)))
    }

    /// Bytes of the stack.
    pub fn header_bytes(&self) -> usize {
        4 * self.entries.len()
    }

    /// What follows the bottom of the stack.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
