//! A word that a program reads and that is set from outside, also without privilege.

use super::arrays::{BPF_MAP_UPDATE_ELEM, ElementAttributes, create};
use super::{BpfError, bpf};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const BPF_MAP_TYPE_ARRAY: u32 = 2;

/// An array (BPF_MAP_TYPE_ARRAY) of one u64.
#[derive(Debug)]
pub struct MapWord {
    fd: OwnedFd,
}

impl MapWord {
    /// A word of 0.
    ///
    /// # Errors
    /// No privilege, or no memory.
    pub fn create(name: &str) -> Result<MapWord, BpfError> {
        Ok(MapWord { fd: create(BPF_MAP_TYPE_ARRAY, name, size_of::<u64>(), 1)? })
    }

    /// Sets the word: programs that begin after the return see it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set(&self, value: u64) -> Result<(), BpfError> {
        let key = 0u32;
        let mut attributes = ElementAttributes {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: &raw const key as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: the layout is that of BPF_MAP_UPDATE_ELEM; `key` has the map's 4 bytes and
        // `value` its 8 (`create`), and the kernel only reads them.
        let result = unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) };
        if result < 0 { Err(BpfError::last("setting a word of a BPF map")) } else { Ok(()) }
    }
}

impl AsFd for MapWord {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
