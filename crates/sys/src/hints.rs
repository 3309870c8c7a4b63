//! Hints about memory, to the processor and to the kernel. They change no result.

use rustix::mm::{Advice, madvise};

/// Bytes that come into a cache together, on the processors that this is measured on.
const LINE_BYTES: usize = 64;

/// Has the processor fetch the first `bytes` of a place, whole lines of the cache, so that they are
/// there when they are read, some hundred nanoseconds later. Where there is no such instruction
/// that is known here, nothing happens.
#[inline(always)]
pub fn prefetch<T>(place: &T, bytes: usize) {
    let at = std::ptr::from_ref(place).cast::<i8>();
    for offset in (0..bytes.min(size_of::<T>())).step_by(LINE_BYTES) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: SSE belongs to x86-64, `offset` lies within the place, and a prefetch shows
            // the program nothing of the memory and has no faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.add(offset)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (at, offset);
    }
}

/// Asks the kernel for transparent huge pages (MADV_HUGEPAGE) where this memory has no pages yet,
/// if the system gives them on request. With ordinary pages each look at a random place of a large
/// table is also one into the page tables, which on a virtual machine are two.
pub fn ask_for_huge_pages<T>(memory: &[T]) {
    let page = rustix::param::page_size();
    let start = memory.as_ptr().addr().next_multiple_of(page);
    let end = memory.as_ptr_range().end.addr() / page * page;
    if start < end {
        let at = memory.as_ptr().with_addr(start).cast_mut().cast();
        // SAFETY: the pages lie within `memory`, and the advice changes no byte of them.
        let asked = unsafe { madvise(at, end - start, Advice::LinuxHugepage) };
        // A kernel without huge pages refuses; then they are ordinary ones.
        let _ = asked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing_wherever_the_memory_lies() {
        let memory: Vec<u16> = (0..40_000).collect();
        for from in [0, 1, 39_999, 40_000] {
            ask_for_huge_pages(&memory[from..]);
        }
        for place in &memory {
            prefetch(place, 1 << 20);
            prefetch(place, 0);
        }
        assert!(memory.iter().copied().eq(0..40_000));
    }
}
