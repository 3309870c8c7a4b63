//! Files in memory that are written by stores into a mapping, without a call for each page.
//!
//! A store to a mapped page that the file does not have any more (somebody cut it, or there is no
//! memory for a hole) is a SIGBUS, which ends the process. Here it ends the mapping alone: the
//! handler of that signal puts an anonymous page in its place, and the writer gets an error. Where
//! the signal comes of anything else, the handler that was there before is set again and gets it.

use crate::SysError;
use crate::mmap::Mapping;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Mappings at a time: the files of a few directories of recordings. The handler may not wait for a
/// lock, so what it has to know of them lies in an array.
const MAPS_MAX: usize = 1024;

/// Longest mapping, 1 TiB: its length in [`UNIT_BYTES`] has [`LENGTH_BITS`] bits in a range.
const BYTES_MAX: usize = (1 << (LENGTH_BITS as usize)) * UNIT_BYTES - UNIT_BYTES;
const LENGTH_BITS: u32 = 28;
/// Unit of addresses and lengths in a range; mappings begin at whole pages, which are no smaller.
const UNIT_BYTES: usize = 4096;

static MAP_SLOTS: [MapSlot; MAPS_MAX] = [const { MapSlot::free() }; MAPS_MAX];

/// The handler that was there before this module's; an error number if that could not be set.
static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

/// `si_code` of a store beyond the end of a file (include/uapi/asm-generic/siginfo.h).
const BUS_ADRERR: i32 = 2;
/// `si_code` of memory that was found broken while no thread used it: no store is tried again.
const BUS_MCEERR_AO: i32 = 5;
/// The system's page, for the handler, which may not ask.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// A file's memory, from its beginning on. Readers of the file see what is stored here.
#[derive(Debug)]
pub struct FileMap {
    mapping: Mapping,
    slot: &'static MapSlot,
}

/// What the handler knows of a mapping.
#[derive(Debug)]
struct MapSlot {
    is_taken: AtomicBool,
    /// A page of it is not the file's any more.
    is_torn: AtomicBool,
    /// Where it is mapped: start and length in one word, so that the handler never sees the one of
    /// this mapping and the other of the next; 0 while nothing is mapped.
    range: AtomicU64,
}

impl FileMap {
    /// Maps the first `bytes` of `file`, which is open for reading and writing; those that it has
    /// are there at once, others when the file has come to have them.
    ///
    /// # Errors
    /// The file cannot be mapped at this length, there are 1,024 mappings, or the signal cannot be
    /// caught.
    pub fn new(file: &File, bytes: usize) -> Result<FileMap, SysError> {
        catch_signal()?;
        let free = |slot: &&MapSlot| !slot.is_taken.swap(true, Ordering::AcqRel);
        let refuse = |why: String| SysError::io("mapping a file", io::Error::other(why));
        if bytes > BYTES_MAX {
            return Err(refuse(format!("{bytes} bytes are more than {BYTES_MAX}")));
        }
        let slot = MAP_SLOTS.iter().find(free);
        let slot = slot.ok_or_else(|| refuse(format!("{MAPS_MAX} are mapped already")))?;
        let mapping = Mapping::shared(file, bytes).inspect_err(|_| slot.give_back())?;
        let units = (mapping.as_ptr() as usize / UNIT_BYTES, bytes.div_ceil(UNIT_BYTES));
        slot.is_torn.store(false, Ordering::Relaxed);
        slot.range.store((units.0 as u64) << LENGTH_BITS | units.1 as u64, Ordering::Release);
        Ok(FileMap { mapping, slot })
    }

    /// Stores `bytes` at `offset`; they are seen before what later calls store. False if the
    /// mapping is too short, or is torn: then some of them may be in the file.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> bool {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(bytes.len()));
        if self.is_torn() || end.is_none_or(|end| end > self.mapping.len()) {
            return false;
        }
        // SAFETY: the bytes from `offset` on are within the mapping, to which only `self` stores
        // and there is no reference, so `bytes` lie elsewhere. A page that the file has lost is
        // replaced by the handler.
        unsafe {
            let to = self.mapping.as_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        fence(Ordering::SeqCst);
        !self.is_torn()
    }

    /// True once a store met a page that the file does not have.
    pub fn is_torn(&self) -> bool {
        self.slot.is_torn.load(Ordering::Acquire)
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        self.slot.give_back();
    }
}

impl MapSlot {
    const fn free() -> MapSlot {
        MapSlot {
            is_taken: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
            range: AtomicU64::new(0),
        }
    }

    fn holds(&self, address: usize) -> bool {
        let range = self.range.load(Ordering::Acquire);
        let (start, length) = (range >> LENGTH_BITS, range & ((1 << LENGTH_BITS) - 1));
        (start..start + length).contains(&((address / UNIT_BYTES) as u64))
    }

    fn give_back(&self) {
        self.range.store(0, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
    }
}

/// Sets the handler, once in the life of the process.
fn catch_signal() -> Result<(), SysError> {
    let result = BEFORE.get_or_init(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: an action of zeros is one; `on_bus_error` has the signature that SA_SIGINFO
        // asks for and calls only what a signal handler may; `before` is written if it succeeds.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            match libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) {
                0 => Ok(before.assume_init()),
                _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or_default()),
            }
        }
    });
    let failed = |code: &i32| SysError::io("catching SIGBUS", io::Error::from_raw_os_error(*code));
    result.as_ref().map(|_| ()).map_err(failed)
}

extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system hands over a valid description.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let hit = MAP_SLOTS.iter().find(|slot| code == BUS_ADRERR && slot.holds(address));
    if let Some(slot) = hit {
        slot.is_torn.store(true, Ordering::Release);
        let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
        let page = (address & !(page_bytes - 1)) as *mut libc::c_void;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page is one of a mapping that a `FileMap` owns and is storing to, through a
        // pointer: there is no reference into it, and it stays mapped.
        if unsafe { libc::mmap(page, page_bytes, prot, flags, -1, 0) } != libc::MAP_FAILED {
            return;
        }
    }
    if let Some(Ok(before)) = BEFORE.get() {
        // SAFETY: it is an action that was in force.
        unsafe { libc::sigaction(signal, before, null_mut()) };
    }
    // A store is tried again, and meets that action; what somebody sent comes but once.
    if code <= 0 || code == BUS_MCEERR_AO {
        // SAFETY: raise may be called in a handler.
        unsafe { libc::raise(signal) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::{Mutex, PoisonError};

    /// Held by each test: one of them takes all slots.
    static ALONE: Mutex<()> = Mutex::new(());

    fn file(bytes: usize) -> File {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.write_all_at(&vec![1; bytes], 0).unwrap();
        file
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let page_bytes = rustix::param::page_size();
        let file = file(3 * page_bytes);
        let mut map = FileMap::new(&file, 4 * page_bytes).unwrap();
        assert!(map.write(&[7; 5000], 4000) && map.write(&[], 0));
        let mut read = vec![0; 3 * page_bytes];
        file.read_exact_at(&mut read, 0).unwrap();
        let expected = [vec![1; 4000], vec![7; 5000], vec![1; 3 * page_bytes - 9000]].concat();
        assert!(read == expected && !map.is_torn());
        // Beyond the mapping, and where numbers end.
        for offset in [4 * page_bytes as u64, u64::MAX] {
            assert!(!map.write(&[7], offset));
        }
        // A page that the file comes to have is there.
        file.set_len(4 * page_bytes as u64).unwrap();
        assert!(map.write(&[9], 3 * page_bytes as u64));
    }

    #[test]
    fn a_file_that_is_cut_tears_its_mapping_and_nothing_else() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let page_bytes = rustix::param::page_size();
        let (cut, whole) = (file(4 * page_bytes), file(page_bytes));
        let mut maps = [&cut, &whole].map(|file| FileMap::new(file, 4 * page_bytes).unwrap());
        cut.set_len(page_bytes as u64).unwrap();
        assert!(!maps[0].write(&vec![3; 3 * page_bytes], 100), "it is not all in the file");
        assert!(maps[0].is_torn() && !maps[0].write(&[3], 0), "and nothing is from then on");
        assert_eq!(cut.metadata().unwrap().len(), page_bytes as u64);
        assert!(maps[1].write(&vec![3; page_bytes], 0));
        // Its slot is free again, and knows nothing of it.
        drop(maps);
        assert!(FileMap::new(&whole, page_bytes).unwrap().write(&[3], 0));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let page_bytes = rustix::param::page_size();
        let file = file(page_bytes);
        let mut maps = Vec::new();
        let error = loop {
            match FileMap::new(&file, page_bytes) {
                Ok(map) => maps.push(map),
                Err(error) => break error,
            }
        };
        assert!(maps.len() == MAPS_MAX && error.to_string().contains("1024"), "{error}");
        maps.pop();
        maps.push(FileMap::new(&file, page_bytes).unwrap());
        assert!(FileMap::new(&file, BYTES_MAX + 1).is_err(), "more than a range can tell");
    }
}
