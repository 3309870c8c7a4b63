//! Memory that direct writes take.

/// Direct writes want their memory aligned to this at most (`disk::DIRECT_ALIGN_BYTES`).
pub(super) const PAGE_BYTES: usize = 4096;

/// A buffer that begins at a page's border.
pub(super) struct PageBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl PageBuffer {
    /// `bytes` zeros; untouched memory costs nothing.
    pub(super) fn new(bytes: usize) -> PageBuffer {
        let memory = vec![0; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        assert!(start <= PAGE_BYTES, "the next page's border is at most a page away");
        PageBuffer { memory, start, bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.bytes]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_page_and_has_its_length() {
        for bytes in [0, 1, 4096, 12_345] {
            let mut buffer = PageBuffer::new(bytes);
            assert_eq!(buffer.bytes().as_ptr().addr() % PAGE_BYTES, 0);
            assert_eq!((buffer.bytes().len(), buffer.bytes_mut().len()), (bytes, bytes));
        }
    }
}
