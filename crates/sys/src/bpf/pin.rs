//! Names for BPF objects in a BPF file system (bpffs): an object that has one lives without a
//! process.

use super::{BpfError, bpf, owned};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;

/// BPF_FS_MAGIC of linux/magic.h.
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// Start of `union bpf_attr` for BPF_OBJ_PIN and BPF_OBJ_GET.
#[repr(C)]
struct ObjectAttributes {
    path: u64,
    fd: u32,
    flags: u32,
}

const _: () = assert!(size_of::<ObjectAttributes>() == 16);

/// True if a BPF file system is mounted at `path`.
pub fn is_bpf_fs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u32 == BPF_FS_MAGIC)
}

/// Gives a program, map or link a name in a BPF file system.
///
/// # Errors
/// The system's reason as it came: EEXIST where the name is taken, EPERM without privilege or
/// where no such file system is.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let fd = object.as_raw_fd() as u32;
    let mut attributes = ObjectAttributes { path: name.as_ptr() as u64, fd, flags: 0 };
    // SAFETY: the layout is that of BPF_OBJ_PIN; `path` is a string with a closing zero that lives
    // until the call returns, and is only read.
    let result = unsafe { bpf(BPF_OBJ_PIN, &mut attributes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A descriptor of what has this name.
///
/// # Errors
/// The system's reason as it came: ENOENT where there is no such name.
pub fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = ObjectAttributes { path: name.as_ptr() as u64, fd: 0, flags: 0 };
    // SAFETY: as in `pin`; the descriptor that it gives is new.
    let object = unsafe {
        let result = bpf(BPF_OBJ_GET, &mut attributes);
        owned(result, "opening a BPF object by its name")
    };
    object.map_err(BpfError::into_io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{FdArray, PerCpuArray};
    use std::os::fd::AsFd;

    #[test]
    fn what_has_a_name_is_found_by_it() {
        if !ringside_testkit::need_bpf_fs("names of BPF objects") {
            return;
        }
        let mount = Path::new("/sys/fs/bpf");
        assert!(!is_bpf_fs(Path::new("/")) && !is_bpf_fs(Path::new("/no/such/place")));
        assert!(is_bpf_fs(mount));
        let path = mount.join(format!("ringside-test-{}", std::process::id()));
        let array = FdArray::create_for_programs("test", 2).unwrap();
        let id = array.id().unwrap();
        pin(array.as_fd(), &path).unwrap();
        let taken = pin(array.as_fd(), &path).unwrap_err();
        drop(array);
        let again = FdArray::from_fd(pinned(&path).unwrap());
        let other = PerCpuArray::from_fd(pinned(&path).unwrap(), 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(again.unwrap().id().unwrap(), id);
        assert!(other.is_err(), "it is an array of programs");
        assert_eq!(pinned(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
