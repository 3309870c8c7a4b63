//! Memory that a program reads while it is run: the one value of a BPF array.

use crate::SysError;
use crate::mmap::Mapping;
use std::os::fd::AsFd;

/// The bytes of a BPF array's value, mapped.
#[derive(Debug)]
pub struct ArrayMemory {
    memory: Mapping,
    bytes: usize,
}

impl ArrayMemory {
    /// The first `bytes` of an array that can be mapped (BPF_F_MMAPABLE). It is for arrays of
    /// `bpf/segment.bpf.c`, which only reads them: the holder of the bytes would not notice another
    /// writer.
    ///
    /// # Errors
    /// It is no such array, or it is shorter.
    pub fn of_array(map: impl AsFd, bytes: usize) -> Result<ArrayMemory, SysError> {
        Ok(ArrayMemory { memory: Mapping::shared(map, bytes.max(1))?, bytes })
    }

    /// All of it.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `bytes` bytes and lives as long as this value; any byte is a
        // value. No other process writes: the array has no name that one could open, its program
        // only reads (bpf/segment.bpf.c), and `&mut self` keeps our own side apart.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}
