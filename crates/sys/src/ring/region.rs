//! The memory of the ring: a memfd, mapped shared, by its owner to write, by others to read.

use super::board::{BOARDS_PER_LANE, Board, BoardMemory};
use super::cursor::{Lane, LaneHeader, Range, SlotHeader};
use super::header;
use super::layout::{HUGE_PAGE_BYTES, HugePages, RingError, RingLayout};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
// Blocks are no part of loom's models.
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What keeps other processes from writing to the memory and everybody from taking it away.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// A mapped ring.
pub(super) struct Region {
    layout: RingLayout,
    base: NonNull<u8>,
    huge: bool,
    memfd: OwnedFd,
}

// SAFETY: the region owns its mapping; what is shared in it is reached through atomics (headers,
// boards) or through the ring's protocol (blocks), whose callers say why at each use.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// New memory, touched, with its description in place and all other words zero.
    pub(super) fn create(layout: RingLayout, huge_pages: HugePages) -> Result<Region, RingError> {
        layout.check()?;
        let bytes = layout.total_bytes();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let with = |flags, pages| {
            let huge = pages == Pages::Reserved;
            map_new(bytes, flags, pages).map(|(base, memfd)| Region { layout, base, huge, memfd })
        };
        // memfd_create succeeds without free huge pages; mmap or the first touch then fails.
        let (in_huge_pages, else_in) = match huge_pages {
            HugePages::Try => {
                (with(flags | MemfdFlags::HUGETLB, Pages::Reserved).ok(), Pages::Transparent)
            }
            HugePages::No => (None, Pages::Ordinary),
        };
        let region = match in_huge_pages {
            Some(region) => region,
            None => with(flags, else_in)
                .map_err(|errno| RingError::Memory { bytes, source: errno.into() })?,
        };
        region.describe();
        Ok(region)
    }

    /// Memory for headers and boards only: the blocks are an empty range of addresses.
    pub(super) fn create_untouched(layout: RingLayout) -> Result<Region, RingError> {
        layout.check()?;
        let bytes = layout.total_bytes();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let (base, memfd) = map_file(bytes, flags)
            .map_err(|errno| RingError::Memory { bytes, source: errno.into() })?;
        let region = Region { layout, base, huge: false, memfd };
        region.describe();
        Ok(region)
    }

    /// Writes the description to new memory.
    fn describe(&self) {
        let header = header::encode(&self.layout);
        // SAFETY: the mapping is new, writable, longer than the header, and not shared yet.
        unsafe { self.base.as_ptr().copy_from_nonoverlapping(header.as_ptr(), header.len()) };
    }

    /// The ring behind `memfd`, to read.
    pub(super) fn attach(memfd: OwnedFd) -> Result<Region, RingError> {
        let refused = |errno: rustix::io::Errno| RingError::Attach(errno.into());
        let status = fstat(&memfd).map_err(refused)?;
        let mut first = [0; header::HEADER_BYTES];
        let read = rustix::io::pread(&memfd, &mut first, 0).map_err(refused)?;
        if read < first.len() {
            return Err(RingError::NotARing);
        }
        let layout = header::decode(&first, u64::try_from(status.st_size).unwrap_or(0))?;
        let huge = usize::try_from(status.st_blksize).is_ok_and(|page| page >= HUGE_PAGE_BYTES);
        let base = map(&memfd, layout.total_bytes(), ProtFlags::READ).map_err(refused)?;
        let region = Region { layout, base, huge, memfd };
        if huge {
            // A huge page that is not there would be a SIGBUS at its first touch.
            // SAFETY: populating a mapping changes none of its bytes.
            unsafe {
                madvise(base.as_ptr().cast(), layout.total_bytes(), Advice::LinuxPopulateRead)
            }
            .map_err(refused)?;
        }
        Ok(region)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// From now on no process can map the memory to write, nor change its size.
    pub(super) fn seal(&self) -> Result<(), RingError> {
        if is_sealed(&self.memfd) {
            return Ok(());
        }
        fcntl_add_seals(&self.memfd, SEALS).map_err(|errno| RingError::Seal(errno.into()))
    }

    pub(super) fn layout(&self) -> RingLayout {
        self.layout
    }

    pub(super) fn has_huge_pages(&self) -> bool {
        self.huge
    }

    pub(super) fn lane(&self, lane: usize) -> Lane<'_> {
        assert!(lane < self.layout.lanes, "lane {lane} of {}", self.layout.lanes);
        let slots_before = lane * self.layout.blocks_per_lane;
        // SAFETY: the offsets lie within the mapping by `RingLayout`; headers are 64-byte aligned
        // (page-aligned base, sizes that are multiples of 64), made of atomics only, for which any
        // bytes are valid; they live as long as `self`. Where the mapping is read-only, its users
        // only load, relaxed (see `load_acquire`).
        unsafe {
            let header = self.base.add(self.layout.lanes_offset()).cast::<LaneHeader>().add(lane);
            let slots = self.base.add(self.layout.slots_offset()).cast::<SlotHeader>();
            let slots = slots.add(slots_before).as_ptr();
            Lane {
                header: header.as_ref(),
                slots: std::slice::from_raw_parts(slots, self.layout.blocks_per_lane),
                block_bytes: self.layout.block_bytes,
            }
        }
    }

    pub(super) fn board(&self, lane: usize, board: Board) -> &BoardMemory {
        assert!(lane < self.layout.lanes, "lane {lane} of {}", self.layout.lanes);
        let index = lane * BOARDS_PER_LANE + board as usize;
        // SAFETY: as for the headers in `lane`.
        unsafe {
            let boards = self.base.add(self.layout.boards_offset()).cast::<BoardMemory>();
            boards.add(index).as_ref()
        }
    }

    /// First byte of a block.
    pub(super) fn block(&self, lane: usize, slot: usize) -> NonNull<u8> {
        assert!(lane < self.layout.lanes && slot < self.layout.blocks_per_lane);
        let block = self.layout.block_index(lane, slot);
        // SAFETY: the block lies within the mapping, by the assertion and `total_bytes`.
        unsafe { self.base.add(self.layout.data_offset() + block * self.layout.block_bytes) }
    }

    /// Bytes `from..to`, counted from the start of a block; they may go on into the next ones.
    ///
    /// # Safety
    /// Nothing writes them while the slice lives.
    pub(super) unsafe fn bytes(&self, lane: usize, slot: usize, from: usize, to: usize) -> &[u8] {
        let room = (self.layout.blocks_per_lane - slot) * self.layout.block_bytes;
        assert!(from <= to && to <= room);
        // SAFETY: in bounds by the assertion; no writer by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.block(lane, slot).add(from).as_ptr(), to - from) }
    }

    /// Appends the range to `buffer`, tolerating a writer in it: the caller confirms afterwards.
    pub(super) fn copy_out(&self, lane: usize, range: &Range, buffer: &mut Vec<u8>) {
        let (from, to) = (range.from as usize, range.to as usize);
        assert!(from <= to && to <= self.layout.block_bytes);
        let length = to - from;
        buffer.reserve(length);
        let out = buffer.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the range lies in the block by the assertion, `out` has room for it, and the two
        // do not overlap; all `length` bytes are set.
        unsafe {
            copy_words(self.block(lane, range.slot).add(from).as_ptr(), out, length);
            buffer.set_len(buffer.len() + length);
        }
    }

    /// The blocks in pieces that io_uring takes as registered buffers. No block lies in two.
    pub(super) fn data_regions(&self) -> Vec<(NonNull<u8>, usize)> {
        // SAFETY: the blocks lie within the mapping, and so do the pieces of them.
        let at = |offset| unsafe { self.base.add(self.layout.data_offset() + offset) };
        self.layout.data_regions().map(|(offset, bytes)| (at(offset), bytes)).collect()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no borrow outlives `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.layout.total_bytes()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

/// True if no process can change the size of the memory behind `memfd`, nor map it to write.
pub(super) fn is_sealed(memfd: &OwnedFd) -> bool {
    fcntl_get_seals(memfd).is_ok_and(|seals| seals.contains(SEALS))
}

/// Copies bytes that somebody may be changing: the result is then worthless, but nothing worse.
///
/// No writer stores through the mapping that is read here (`CaptureRing::view`), so for the
/// language the bytes change from outside, whether the writer's process is another one or this one:
/// its plain stores are accesses to other addresses, and no data race. Each byte that is loaded is
/// one that lay there at some time, as the hardware has it. That the loads are atomic orders them:
/// the acquire fence in `Lane::confirmed` holds them before the load of the block's number, which
/// it does not promise for volatile ones, and each word is loaded once. As instructions both are
/// the same. Were the writer's stores atomic too, one mapping would do, but the copy into the ring
/// would be by words (bench/record/2026-11-25/ring-words.txt).
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `length` bytes; they do not overlap.
unsafe fn copy_words(from: *const u8, to: *mut u8, length: usize) {
    const WORD: usize = size_of::<AtomicU64>();
    let head = from.align_offset(WORD).min(length);
    let words_end = head + (length - head) / WORD * WORD;
    let single = (0..head).chain(words_end..length);
    // SAFETY: every index is below `length`; words are read from aligned addresses and written
    // unaligned. Any bytes are a value, and relaxed loads work in read-only memory too.
    unsafe {
        for index in single {
            let byte = (*from.add(index).cast::<AtomicU8>()).load(Ordering::Relaxed);
            to.add(index).write(byte);
        }
        for index in (head..words_end).step_by(WORD) {
            let word = (*from.add(index).cast::<AtomicU64>()).load(Ordering::Relaxed);
            to.add(index).cast::<u64>().write_unaligned(word);
        }
    }
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

fn map_new(
    bytes: usize,
    flags: MemfdFlags,
    pages: Pages,
) -> rustix::io::Result<(NonNull<u8>, OwnedFd)> {
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
    // A core dump of the size of the ring, full of received frames, helps no one.
    let _ = advise(Advice::LinuxDontDump);
    // Touching the memory now, in one call, keeps first-touch faults out of the capture.
    if let Err(errno) = advise(Advice::LinuxPopulateWrite) {
        // SAFETY: the mapping is ours and nothing refers to it.
        unsafe { munmap(base.as_ptr().cast(), bytes)? };
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
fn private(bytes: usize, pages: Pages) -> rustix::io::Result<(NonNull<u8>, OwnedFd)> {
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
fn map_file(bytes: usize, flags: MemfdFlags) -> rustix::io::Result<(NonNull<u8>, OwnedFd)> {
    let memfd = memfd_create("ringside-capture-ring", flags)?;
    ftruncate(&memfd, bytes as u64)?;
    let base = map(&memfd, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
    Ok((base, memfd))
}

/// Maps the file, at a multiple of [`HUGE_PAGE_BYTES`] where huge pages can be. Nothing that lies
/// at an address is ever replaced: a refused `MAP_FIXED` leaves a hole, in which another thread may
/// have mapped something before the hole could be given back.
fn map(memfd: &OwnedFd, bytes: usize, prot: ProtFlags) -> rustix::io::Result<NonNull<u8>> {
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
fn free_place(bytes: usize) -> rustix::io::Result<*mut u8> {
    let room = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(rustix::io::Errno::NOMEM)?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours, and no
    // other code knows of it when it is given back.
    let start = unsafe {
        let start =
            mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::empty(), MapFlags::PRIVATE)?;
        munmap(start, room)?;
        start.cast::<u8>()
    };
    Ok(start.wrapping_add(start.align_offset(HUGE_PAGE_BYTES)))
}
