//! What a file system and its disk say of themselves: direct I/O, room.

use crate::SysError;
use ringside_core::Shown;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, fstatfs, openat, statx,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// Alignment that the capture ring and the files of a recording keep: a page. File systems that
/// want more are written through the page cache.
pub const DIRECT_ALIGN_BYTES: u32 = 4096;

/// As `write_all_at`, but tells how many bytes were written also when it fails.
pub fn write_counted(file: &File, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Opens an existing file of `directory` for writing past the page cache; `None` where the file
/// system does not say (statx, STATX_DIOALIGN, Linux 6.1) that [`DIRECT_ALIGN_BYTES`] are enough.
/// Trying O_DIRECT instead would not tell: tmpfs takes it, and writes to the page cache all the
/// same.
///
/// # Errors
/// The file cannot be opened.
pub fn open_direct(directory: impl AsFd, name: &OsStr) -> Result<Option<File>, SysError> {
    let fail = |errno| SysError::io(format!("opening {} for direct writes", name.shown()), errno);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let plain = File::from(openat(&directory, name, flags, Mode::empty()).map_err(fail)?);
    if !takes_direct_writes(&plain) {
        return Ok(None);
    }
    let direct = openat(&directory, name, flags | OFlags::DIRECT, Mode::empty());
    Ok(Some(File::from(direct.map_err(fail)?)))
}

/// A file without a name in `directory`, gone when it is closed, for direct writes; `None` where
/// these or such a file (O_TMPFILE) cannot be had.
pub fn unnamed_direct_file(directory: impl AsFd) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    let file = File::from(openat(directory, ".", flags, Mode::RUSR | Mode::WUSR).ok()?);
    takes_direct_writes(&file).then_some(file)
}

fn takes_direct_writes(file: &File) -> bool {
    let Ok(status) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return false;
    };
    let aligned = |bytes: u32| (1..=DIRECT_ALIGN_BYTES).contains(&bytes);
    StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN)
        && aligned(status.stx_dio_mem_align)
        && aligned(status.stx_dio_offset_align)
}

/// Reserves room for bytes `from..from + bytes` of a file without changing its size.
///
/// # Errors
/// The disk is too full, or the file system cannot reserve.
pub fn preallocate(file: &File, from: u64, bytes: u64) -> Result<(), SysError> {
    fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes)
        .map_err(|errno| SysError::io(format!("reserving {bytes} bytes"), errno))
}

/// Sends the first `bytes` of a file to the disk and waits until it has them (sync_file_range(2)).
/// What must be known to find them again, and the disk's own cache, are left to a sync.
///
/// # Errors
/// The disk did not take them.
pub fn write_out(file: &File, bytes: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let bytes = i64::try_from(bytes).map_err(|_| ErrorKind::InvalidInput)?;
    // SAFETY: the call takes numbers only; the descriptor is open as long as `file` is borrowed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, bytes, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the file system of a file keeps files in memory alone (tmpfs): there a page that is
/// written again costs a copy, and one that is new many times that.
pub fn is_in_memory(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

/// Which signal tells that a lease is wanted back (include/uapi/asm-generic/fcntl.h).
const F_SETSIG: i32 = 10;

/// A file that no other process has open or mapped. One that opens it waits until the lease is
/// given back (at most /proc/sys/fs/lease-break-time, 45 s), or is refused if it does not want to
/// wait.
#[derive(Debug)]
pub struct Lease(File);

impl Lease {
    /// Takes a lease on a file that was opened for writing.
    ///
    /// # Errors
    /// `WouldBlock` if it is open by another opening than `file`; `PermissionDenied` if this
    /// process is not its owner's and lacks CAP_LEASE; others if the file system does not tell.
    ///
    /// Such a lease is to be had only by who is alone (fcntl(2), F_SETLEASE; fs/locks.c,
    /// check_conflicting_open).
    pub fn take(file: File) -> io::Result<Lease> {
        // Who wants the file has a signal sent to the holder of its lease: one that is ignored
        // unless somebody asked for it, not SIGIO, which ends the process.
        let taken =
            set(&file, F_SETSIG, libc::SIGURG) && set(&file, libc::F_SETLEASE, libc::F_WRLCK);
        if taken { Ok(Lease(file)) } else { Err(io::Error::last_os_error()) }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Gives the lease back and keeps the file. (The end of its last descriptor and mapping gives
    /// it back too.)
    pub fn release(self) -> File {
        // It cannot fail for a lease that is held; if that was broken, there is none any more.
        set(&self.0, libc::F_SETLEASE, libc::F_UNLCK);
        self.0
    }
}

/// One of the calls of fcntl(2) that take a number; true if it succeeded.
fn set(file: &File, command: i32, value: i32) -> bool {
    // SAFETY: these commands take numbers only; the descriptor is open while `file` is borrowed.
    unsafe { libc::fcntl(file.as_raw_fd(), command, value) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::wait_for;
    use rustix::fs::CWD;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_reservation_keeps_the_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        match preallocate(&file, 0, 1 << 20) {
            Ok(()) => {
                let metadata = file.metadata().unwrap();
                assert_eq!(metadata.len(), 0);
                assert!(metadata.blocks() * 512 >= 1 << 20);
            }
            Err(error) => ringside_testkit::skip(
                "a_reservation_keeps_the_size",
                &format!("the file system of the temporary directory: {error}"),
            ),
        }
    }

    #[test]
    fn who_has_a_file_open_is_found() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        // A program that another test is about to run has all that is open here, until it runs.
        let alone = || wait_for("nobody else has it open", || Lease::take(open()).ok());
        assert!(is_in_memory(File::open(dir.path()).unwrap()));
        // Without the lease: it would hold up the next opening for the kernel's 45 seconds.
        let copy = alone().release();
        assert!(Lease::take(open()).is_err(), "a writer");
        let copies = copy.try_clone().unwrap();
        assert!(Lease::take(copy).is_ok(), "a second descriptor of the same opening is no other");
        drop(copies);
        let reader = File::open(&path).unwrap();
        assert!(Lease::take(open()).is_err(), "a reader");
        drop(reader);
        let lease = alone();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let early = rustix::fs::open(&path, flags, Mode::empty());
        assert_eq!(early.unwrap_err(), rustix::io::Errno::WOULDBLOCK);
        // And the signal that this sent did not end the process.
        let file = lease.release();
        assert!(File::open(&path).is_ok(), "{file:?}");
    }

    #[test]
    fn shared_memory_is_no_disk() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("file");
        File::create(&path).unwrap();
        assert!(open_direct(CWD, path.as_os_str()).unwrap().is_none());
        assert!(unnamed_direct_file(File::open(dir.path()).unwrap()).is_none());
    }
}
