//! Words in a mapping.

use super::Word;
use crate::SysError;
use crate::mmap::Mapping;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// An array of words. Clones are the same memory.
#[derive(Debug)]
pub struct Words<T> {
    first: NonNull<T>,
    count: usize,
    /// Keeps the memory.
    _memory: Arc<Mapping>,
}

// SAFETY: the memory is reached as atomic words only (`Deref`), and the mapping, which its last
// owner unmaps, is not tied to a thread.
unsafe impl<T: Word> Send for Words<T> {}
// SAFETY: as above.
unsafe impl<T: Word> Sync for Words<T> {}

impl<T: Word> Words<T> {
    /// `count` words of our own, all 0. Memory is taken when a word is first written.
    ///
    /// # Errors
    /// There is not enough address space.
    pub fn zeroed(count: usize) -> Result<Words<T>, SysError> {
        Ok(Words::of(Mapping::sparse(bytes_of::<T>(count))?, count))
    }

    /// The first `count` words of the values of a BPF array that can be mapped
    /// (BPF_F_MMAPABLE). Values whose size is a multiple of 8 bytes follow each other without gaps.
    ///
    /// # Errors
    /// It is no such array, or it is shorter.
    pub fn of_array(map: impl AsFd, count: usize) -> Result<Words<T>, SysError> {
        Ok(Words::of(Mapping::shared(map, bytes_of::<T>(count))?, count))
    }

    fn of(memory: Mapping, count: usize) -> Words<T> {
        let first = NonNull::new(memory.as_ptr().cast()).expect("a mapping is not at 0");
        // The clones of a value that is both Send and Sync share it.
        #[allow(clippy::arc_with_non_send_sync, reason = "Words says why it may be sent")]
        Words { first, count, _memory: Arc::new(memory) }
    }
}

/// Bytes of a mapping for `count` words: at least one.
fn bytes_of<T>(count: usize) -> usize {
    (count * size_of::<T>()).max(1)
}

impl<T> Clone for Words<T> {
    fn clone(&self) -> Words<T> {
        Words { first: self.first, count: self.count, _memory: self._memory.clone() }
    }
}

impl<T: Word> Deref for Words<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for `count` words (`bytes_of`), begins at a page, and lives
        // as long as this value; the words are atomic and any bytes are a value of them, so that
        // others, the kernel too, may write to them by whole words meanwhile.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}
