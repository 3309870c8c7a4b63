//! One large buffer that threads fill from front to back, each reserving what it needs by one
//! atomic addition: the intermediate buffer of HPCAP, for comparison.
//!
//! The order is that of the additions alone, and readers get no notice of what is filled: they wait
//! until all threads have ended. HPCAP's is a circle. It takes the time that a reader needs to get
//! to the bytes as proof that they are there; here the buffer is filled once.

use crate::SysError;
use crate::mmap::Mapping;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where bytes begin: one cache line is not written by two threads more often than by their
/// lengths.
const ALIGN: usize = 4;

/// The buffer.
pub struct FlatBuffer {
    memory: Mapping,
    next: AtomicUsize,
}

// SAFETY: shared, it gives out disjoint parts of its memory only (`reserve`).
unsafe impl Sync for FlatBuffer {}

/// A part of the buffer that belongs to who reserved it.
pub struct Part<'b> {
    bytes: &'b mut [u8],
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Part<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl FlatBuffer {
    /// A buffer of `bytes` bytes, zeroed and touched.
    ///
    /// # Errors
    /// There is not enough memory, or `bytes` is 0.
    pub fn new(bytes: usize) -> Result<FlatBuffer, SysError> {
        let memory = Mapping::anonymous(bytes)?;
        // SAFETY: the advice changes no byte of our own mapping, which no other code knows yet.
        let touched = unsafe {
            let advice = rustix::mm::Advice::LinuxPopulateWrite;
            rustix::mm::madvise(memory.as_ptr().cast(), bytes, advice)
        };
        touched
            .map_err(|errno| SysError::io(format!("touching {bytes} bytes of memory"), errno))?;
        Ok(FlatBuffer { memory, next: AtomicUsize::new(0) })
    }

    /// The next `bytes` of the buffer; `None` once they do not fit any more. One atomic addition.
    #[inline]
    pub fn reserve(&self, bytes: usize) -> Option<Part<'_>> {
        let length = self.memory.len();
        // Each thread adds at most once after the buffer is full, and no more than its length: the
        // sum does not wrap.
        if bytes > length || self.next.load(Ordering::Relaxed) > length {
            return None;
        }
        let bytes_taken = bytes.next_multiple_of(ALIGN);
        let from = self.next.fetch_add(bytes_taken, Ordering::Relaxed);
        if length.checked_sub(from)? < bytes_taken {
            return None;
        }
        // SAFETY: the part lies within the mapping. Each addition gives its bytes to one thread, as
        // the counter only grows while the buffer is shared (`clear` takes it by `&mut`), and the
        // part lives no longer than the borrow of the buffer.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(from), bytes) };
        Some(Part { bytes })
    }

    /// The bytes that were reserved, up to the first that found no room.
    pub fn filled(&mut self) -> &[u8] {
        let filled = (*self.next.get_mut()).min(self.memory.len());
        // SAFETY: the bytes are initialised (zeroed by the system), and `&mut self` ends all parts.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), filled) }
    }

    /// Begins from the front.
    pub fn clear(&mut self) {
        *self.next.get_mut() = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_end_with_the_buffer() {
        let mut buffer = FlatBuffer::new(1 << 16).unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 1..=4u8 {
                let (buffer, count) = (&buffer, &count);
                scope.spawn(move || {
                    while let Some(mut part) = buffer.reserve(6) {
                        assert!(part.iter().all(|&byte| byte == 0), "somebody has it");
                        part.fill(thread);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let parts = buffer.filled().chunks_exact(8);
        assert_eq!(parts.len(), count.into_inner());
        assert!(parts.into_iter().all(|part| part[0] > 0 && part[..6] == [part[0]; 6]));
        buffer.clear();
        assert!(buffer.filled().is_empty());
        assert!(buffer.reserve((1 << 16) + 1).is_none());
        assert!(buffer.reserve(usize::MAX - 7).is_none());
    }
}
