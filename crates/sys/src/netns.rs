//! Entering a network namespace.
//!
//! A namespace belongs to a thread: call this before other threads exist, or once per thread. A
//! socket stays in the namespace where it was opened.

use crate::SysError;
use ringside_core::Shown;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where `ip netns` keeps its names.
const NAMED_DIR: &str = "/run/netns";

/// Names and processes that a search looks at. More of them hide what is sought.
const SEARCHED_MAX: usize = 100_000;

/// An open network namespace; it lives at least as long as this handle.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    path: PathBuf,
}

impl Namespace {
    /// By `spec`: a name as `ip netns` lists it, a path (anything with a slash), or a process id.
    /// A name wins over a process id.
    ///
    /// # Errors
    /// There is no such namespace, or it may not be opened.
    pub fn open(spec: &str) -> Result<Namespace, SysError> {
        let named = Path::new(NAMED_DIR).join(spec);
        if spec.contains('/') {
            Namespace::open_path(Path::new(spec))
        } else if !named.exists() && spec.parse::<u32>().is_ok() {
            Namespace::open_path(&Path::new("/proc").join(spec).join("ns/net"))
        } else {
            Namespace::open_path(&named)
        }
    }

    /// The calling thread's.
    ///
    /// # Errors
    /// /proc is not there.
    pub fn current() -> Result<Namespace, SysError> {
        Namespace::open_path(Path::new("/proc/thread-self/ns/net"))
    }

    /// The namespace with this [`identity`](Namespace::identity): the calling thread's, a named
    /// one, or one that a process is in. `None` if it is gone, or this process may not look into
    /// it.
    pub fn find(identity: u64) -> Option<Namespace> {
        let entries =
            |directory: &str| std::fs::read_dir(directory).into_iter().flatten().flatten();
        let named = entries(NAMED_DIR).map(|entry| entry.path());
        let of_processes = entries("/proc")
            .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
            .map(|entry| entry.path().join("ns/net"));
        let own = std::iter::once(PathBuf::from("/proc/thread-self/ns/net"));
        own.chain(named)
            .chain(of_processes)
            .take(SEARCHED_MAX)
            .filter_map(|path| Namespace::open_path(&path).ok())
            .find(|namespace| namespace.identity().is_ok_and(|found| found == identity))
    }

    /// From a descriptor that another process gave.
    pub fn from_fd(fd: OwnedFd) -> Namespace {
        Namespace { fd, path: PathBuf::from("of another process") }
    }

    /// A number that no other living namespace has until the system starts anew.
    ///
    /// # Errors
    /// The system refused.
    pub fn identity(&self) -> Result<u64, SysError> {
        let status = rustix::fs::fstat(&self.fd)
            .map_err(|e| SysError::io("looking at a network namespace", e))?;
        Ok(status.st_ino)
    }

    fn open_path(path: &Path) -> Result<Namespace, SysError> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(
            |e| {
                let context = format!(
                    "opening the network namespace {} (`ip netns list` shows the names)",
                    path.shown()
                );
                SysError::io(context, e)
            },
        )?;
        Ok(Namespace { fd, path: path.to_path_buf() })
    }

    /// Moves the calling thread into it.
    ///
    /// # Errors
    /// It is no network namespace, or CAP_SYS_ADMIN is missing.
    pub fn enter(&self) -> Result<(), SysError> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|e| {
            let path = self.path.shown();
            SysError::io(format!("entering the network namespace {path} (needs root)"), e)
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_does_not_exist_is_named_in_the_error() {
        let error = Namespace::open("rsafp-none").unwrap_err().to_string();
        assert!(error.contains("/run/netns/rsafp-none"), "{error}");
        assert!(Namespace::open("/proc/self/none").is_err());
    }

    #[test]
    fn entering_the_own_namespace_by_pid_works_and_a_file_is_refused() {
        if !ringside_testkit::need_root("netns") {
            return;
        }
        let own = std::process::id().to_string();
        Namespace::open(&own).unwrap().enter().unwrap();
        Namespace::current().unwrap().enter().unwrap();
        let identity = Namespace::current().unwrap().identity().unwrap();
        assert_eq!(Namespace::find(identity).unwrap().identity().unwrap(), identity);
        assert!(Namespace::find(1).is_none());
        assert!(Namespace::open("/etc/passwd").unwrap().enter().is_err());
    }
}
