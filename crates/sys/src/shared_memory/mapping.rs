//! Where shared memory comes from: memfds, their pages and seals, and mappings of them.

use crate::mmap::HUGE_PAGE_BYTES;
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, Stat, fcntl_add_seals, fcntl_get_seals, ftruncate,
    memfd_create,
};
use rustix::io::Result;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// What keeps other processes from writing to the memory and everybody from taking it away.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// What a new file in memory can be.
const FLAGS: MemfdFlags = MemfdFlags::CLOEXEC.union(MemfdFlags::ALLOW_SEALING);

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Take those set aside if there are enough, else as many transparent ones as there are, else
    /// ordinary pages.
    Try,
    /// Ordinary pages.
    No,
}

/// New memory, touched; true if in huge pages that were set aside.
pub(super) fn create(bytes: usize, huge_pages: HugePages) -> Result<(NonNull<u8>, OwnedFd, bool)> {
    // memfd_create succeeds without free huge pages; mmap or the first touch then fails.
    let else_in = match huge_pages {
        HugePages::Try => {
            if let Ok((base, memfd)) = map_new(bytes, FLAGS | MemfdFlags::HUGETLB, Pages::Reserved)
            {
                return Ok((base, memfd, true));
            }
            Pages::Transparent
        }
        HugePages::No => Pages::Ordinary,
    };
    map_new(bytes, FLAGS, else_in).map(|(base, memfd)| (base, memfd, false))
}

/// New memory of zeros that takes no space.
pub(super) fn create_untouched(bytes: usize) -> Result<(NonNull<u8>, OwnedFd)> {
    map_file(bytes, FLAGS)
}

/// The memory behind `memfd`, whose status is `status`, to read; true if in huge pages.
pub(super) fn attach(memfd: &OwnedFd, bytes: usize, status: &Stat) -> Result<(NonNull<u8>, bool)> {
    let is_huge = usize::try_from(status.st_blksize).is_ok_and(|page| page >= HUGE_PAGE_BYTES);
    let base = map(memfd, bytes, ProtFlags::READ)?;
    if is_huge {
        // A huge page that is not there would be a SIGBUS at its first touch.
        // SAFETY: populating a mapping changes none of its bytes.
        let populated = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxPopulateRead) };
        if let Err(errno) = populated {
            // SAFETY: the mapping is ours and nothing refers to it.
            unsafe { unmap(base, bytes) };
            return Err(errno);
        }
    }
    Ok((base, is_huge))
}

/// # Safety
/// The mapping is the caller's, of this length, and nothing refers to it any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    let unmapped = unsafe { munmap(base.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
}

/// From now on no process can map the memory to write, nor change its size.
pub(super) fn seal(memfd: &OwnedFd) -> std::io::Result<()> {
    if is_sealed(memfd) {
        return Ok(());
    }
    Ok(fcntl_add_seals(memfd, SEALS)?)
}

/// True if no process can change the size of the memory behind `memfd`, nor map it to write.
pub fn is_sealed(memfd: &OwnedFd) -> bool {
    fcntl_get_seals(memfd).is_ok_and(|seals| seals.contains(SEALS))
}

/// Pages of new memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Huge pages that the system has set aside.
    Reserved,
    /// Huge pages as far as the system finds some.
    Transparent,
    Ordinary,
}

fn map_new(bytes: usize, flags: MemfdFlags, pages: Pages) -> Result<(NonNull<u8>, OwnedFd)> {
    if cfg!(miri) {
        return private(bytes, pages);
    }
    let (base, memfd) = map_file(bytes, flags)?;
    let advise = |advice| {
        // SAFETY: none of the advices given here changes a byte of our own new mapping.
        unsafe { madvise(base.as_ptr().cast(), bytes, advice) }
    };
    if pages == Pages::Transparent {
        collapse(base, bytes);
    }
    // A core dump of the size of the ring, full of what others sent, is of no use.
    let _ = advise(Advice::LinuxDontDump);
    // Touching the memory now, in one call, keeps first-touch faults out of the capture.
    if let Err(errno) = advise(Advice::LinuxPopulateWrite) {
        // SAFETY: the mapping is ours and nothing refers to it.
        unsafe { unmap(base, bytes) };
        return Err(errno);
    }
    Ok((base, memfd))
}

/// Lets the memory lie in transparent huge pages (MADV_COLLAPSE, Linux 6.1), which for shared
/// memory the system's setting alone would not give. In ordinary pages the copy into the ring takes
/// up to four times as long on a virtual machine, and a write to a disk is of 256 pieces instead of
/// one. What the system refuses stays in ordinary pages.
fn collapse(base: NonNull<u8>, bytes: usize) {
    for offset in (0..bytes).step_by(HUGE_PAGE_BYTES) {
        // The kernel collapses only where there is a page already. Asked for one, it refuses when
        // there is no memory, where a write would be a SIGBUS.
        // SAFETY: the page lies in our own new mapping, and touching it changes no byte.
        let touched =
            unsafe { madvise(base.add(offset).as_ptr().cast(), 1, Advice::LinuxPopulateWrite) };
        if touched.is_err() {
            return;
        }
    }
    // SAFETY: the advice changes no byte of our own mapping.
    unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_COLLAPSE) };
}

/// Memory for Miri, which has no shared one: nothing can attach to it, by a descriptor of nothing.
fn private(bytes: usize, pages: Pages) -> Result<(NonNull<u8>, OwnedFd)> {
    if pages == Pages::Reserved {
        return Err(rustix::io::Errno::NOMEM);
    }
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE)? };
    let base = NonNull::new(base.cast()).expect("mmap does not return null");
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok((base, nothing))
}

/// A new file in memory, mapped, of zeros that take no space.
fn map_file(bytes: usize, flags: MemfdFlags) -> Result<(NonNull<u8>, OwnedFd)> {
    let memfd = memfd_create("ringside-capture-ring", flags)?;
    ftruncate(&memfd, bytes as u64)?;
    let base = map(&memfd, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
    Ok((base, memfd))
}

/// Maps the file, at a multiple of [`HUGE_PAGE_BYTES`] where huge pages can be. Nothing that lies
/// at an address is ever replaced: a refused `MAP_FIXED` leaves a hole, in which another thread may
/// have mapped something before the hole could be given back.
fn map(memfd: &OwnedFd, bytes: usize, prot: ProtFlags) -> Result<NonNull<u8>> {
    /// Another thread may take the place that was found; so often in a row it does not.
    const ATTEMPTS: usize = 16;
    let at = |address: *mut u8, flags| {
        // SAFETY: a mapping at an address of the kernel's choice, or where nothing is, touches
        // nothing of ours.
        let base = unsafe { mmap(address.cast(), bytes, prot, flags, memfd, 0)? };
        Ok(NonNull::new(base.cast()).expect("mmap does not return null"))
    };
    for _ in 0..ATTEMPTS {
        let place = free_place(bytes)?;
        match at(place, MapFlags::SHARED | MapFlags::FIXED_NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => {}
            mapped => return mapped,
        }
    }
    at(std::ptr::null_mut(), MapFlags::SHARED)
}

/// Where `bytes` could be mapped just now, at a multiple of [`HUGE_PAGE_BYTES`].
fn free_place(bytes: usize) -> Result<*mut u8> {
    let room = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(rustix::io::Errno::NOMEM)?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours, and
    // no thread knows of it when it is given back.
    let start = unsafe {
        let start =
            mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::empty(), MapFlags::PRIVATE)?;
        munmap(start, room)?;
        start.cast::<u8>()
    };
    Ok(start.wrapping_add(start.align_offset(HUGE_PAGE_BYTES)))
}
