//! Owned memory mappings.

use crate::SysError;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Huge pages on x86-64 and most others; mappings in them are rounded up to them.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A readable and writable mapping, unmapped on drop.
///
/// It gives out a pointer, not a slice: who else writes to the memory, and when, is known to the
/// module that made the mapping.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Private zeroed memory.
    ///
    /// # Errors
    /// There is not enough memory, or `bytes` is 0.
    pub fn anonymous(bytes: usize) -> Result<Mapping, SysError> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address hint and MAP_FIXED no existing mapping is replaced.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE) };
        Mapping::from_result(base, bytes)
    }

    /// The same in huge pages, as far as the system has some when a page is first touched.
    ///
    /// # Errors
    /// There is not enough address space, or `bytes` is 0.
    pub fn sparse(bytes: usize) -> Result<Mapping, SysError> {
        let mapping = Mapping::anonymous(bytes)?;
        // Miri knows no advice.
        if cfg!(miri) {
            return Ok(mapping);
        }
        // SAFETY: the advice changes no byte of our own new mapping.
        let _ = unsafe { madvise(mapping.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// The memory behind `fd`, shared with the kernel or with other processes that map it.
    ///
    /// # Errors
    /// `fd` cannot be mapped at this length.
    pub fn shared(fd: impl AsFd, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared_at(fd, bytes, 0)
    }

    /// The same, from `offset` of it on. Its pages are there at once.
    ///
    /// # Errors
    /// `fd` cannot be mapped there at this length.
    pub fn shared_at(fd: impl AsFd, bytes: usize, offset: u64) -> Result<Mapping, SysError> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: without an address hint and MAP_FIXED no existing mapping is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, fd, offset) };
        Mapping::from_result(base, bytes)
    }

    /// Private zeroed memory that is touched: in huge pages that the system has set aside, else in
    /// those that it finds, else in ordinary ones. Its length is rounded up to huge pages.
    ///
    /// # Errors
    /// There is not enough memory, or `bytes` is 0.
    pub fn huge(bytes: usize) -> Result<Mapping, SysError> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::POPULATE;
        // SAFETY: without an address hint and MAP_FIXED no existing mapping is replaced.
        let reserved = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) };
        if reserved.is_ok() {
            return Mapping::from_result(reserved, bytes);
        }
        // An anonymous mapping of this size begins where huge pages can be (THP alignment of
        // mmap, Linux 6.7); before that some of it lies in ordinary ones.
        let mapping = Mapping::anonymous(bytes)?;
        let base = mapping.as_ptr().cast();
        // SAFETY: none of the two advices changes a byte of our own new mapping.
        unsafe {
            let _ = madvise(base, bytes, Advice::LinuxHugepage);
            madvise(base, bytes, Advice::LinuxPopulateWrite)
                .map_err(|e| SysError::io(format!("touching {bytes} bytes of memory"), e))?;
        }
        Ok(mapping)
    }

    fn from_result(
        base: rustix::io::Result<*mut std::ffi::c_void>,
        bytes: usize,
    ) -> Result<Mapping, SysError> {
        let base = base.map_err(|e| SysError::io(format!("mapping {bytes} bytes of memory"), e))?;
        let base = NonNull::new(base.cast()).expect("mmap without MAP_FIXED returns no null");
        Ok(Mapping { base, bytes })
    }

    /// The first byte; page-aligned, valid for [`len`](Mapping::len) bytes while `self` lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in bytes, never 0.
    #[allow(clippy::len_without_is_empty, reason = "an empty mapping cannot be made")]
    pub fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of the mapping that this value owns; references into it
        // do not outlive this value.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the arguments are those of mmap");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anonymous_mapping_is_zeroed_and_an_empty_one_is_refused() {
        let mapping = Mapping::anonymous(8192).unwrap();
        assert_eq!(mapping.len(), 8192);
        // SAFETY: the mapping has 8192 bytes and no other thread writes to it.
        let memory = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
        assert!(memory.iter().all(|&byte| byte == 0));
        assert!(Mapping::anonymous(0).is_err());
    }
}
