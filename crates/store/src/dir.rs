//! A directory that is held open, and names in it.
//!
//! What is done through them is done in this directory, wherever it is moved and whatever is put
//! where it was: a recording neither leaves its limits behind with its old directory, nor goes
//! through a link to where others want it. A name is never followed if it is a symbolic link, and
//! no FIFO is waited for.

use crate::links;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// With which every name is opened.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// An open directory. Two are equal, and lie in order, by the path that they were opened by.
#[derive(Clone, Debug)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    path: Arc<Path>,
}

/// Where a [`Dir`] is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Where it was opened.
    Here,
    /// There, as far as the system tells: its old path leads to nothing or to another directory.
    Moved(PathBuf),
    /// It was deleted.
    Deleted,
}

impl Dir {
    /// Opens the directory at `path`, "" being the current one. If the path itself is a symbolic
    /// link, it must be root's or the user's own.
    ///
    /// # Errors
    /// There is none, the link is another user's, or the system refused.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let at = named(path);
        let link = links::own_link(at)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(at, flags, Mode::empty())?;
        links::still(at, &link)?;
        Ok(Dir::of(directory, path))
    }

    /// A directory that was opened by `path`.
    pub fn of(directory: OwnedFd, path: &Path) -> Dir {
        Dir { fd: Arc::new(directory), path: Arc::from(path) }
    }

    /// Where it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of that name, which need not exist.
    pub fn entry(&self, name: impl AsRef<OsStr>) -> Entry {
        let name = name.as_ref().to_owned();
        Entry { path: self.path.join(&name), dir: self.clone(), name }
    }

    /// The names in it, with what they are as far as the directory tells without a look at each.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<(OsString, FileType)>>> {
        let names = fs::Dir::read_from(&*self.fd)?.filter_map(|found| match found {
            Err(error) => Some(Err(error.into())),
            Ok(found) if matches!(found.file_name().to_bytes(), b"." | b"..") => None,
            Ok(found) => {
                let name = OsStr::from_bytes(found.file_name().to_bytes()).to_owned();
                Some(Ok((name, found.file_type())))
            }
        });
        Ok(names)
    }

    /// Waits until the names in it are on the medium: those of files made or renamed there.
    ///
    /// # Errors
    /// The system refused.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&*self.fd)?)
    }

    /// Bytes of its file system that an ordinary user may still write.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let found = fs::fstatvfs(&*self.fd)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Where it is now.
    pub fn whereabouts(&self) -> Whereabouts {
        let Ok(held) = fs::fstat(&*self.fd) else { return Whereabouts::Here };
        let is_here = |found: fs::Stat| (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino);
        if fs::stat(named(&self.path)).is_ok_and(is_here) {
            return Whereabouts::Here;
        }
        if held.st_nlink == 0 {
            return Whereabouts::Deleted;
        }
        let link = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Whereabouts::Moved(std::fs::read_link(link).unwrap_or_default())
    }
}

/// The path as the system takes it: without a slash at its end, which would follow a link.
fn named(path: &Path) -> &Path {
    let path = path.components().as_path();
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl PartialEq for Dir {
    fn eq(&self, other: &Dir) -> bool {
        self.path == other.path
    }
}

impl Eq for Dir {}

impl PartialOrd for Dir {
    fn partial_cmp(&self, other: &Dir) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dir {
    fn cmp(&self, other: &Dir) -> Ordering {
        self.path.cmp(&other.path)
    }
}

/// A name in a [`Dir`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    dir: Dir,
    name: OsString,
    path: PathBuf,
}

impl Entry {
    /// The name that `path` ends with, in the directory before it, which is opened.
    ///
    /// # Errors
    /// The path ends with no name, or the directory cannot be opened.
    pub fn at(path: &Path) -> io::Result<Entry> {
        let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
        Ok(Dir::open(path.parent().unwrap_or(Path::new("")))?.entry(name))
    }

    /// The directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Where it was when the directory was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it as `flags` say, a new file with `mode`.
    ///
    /// # Errors
    /// It is a symbolic link, or the system refused.
    pub fn open(&self, flags: OFlags, mode: u32) -> io::Result<File> {
        let opened = fs::openat(&self.dir, &self.name, flags | SAFELY, Mode::from_raw_mode(mode));
        Ok(File::from(opened?))
    }

    /// As [`open`](Entry::open), and it must be a regular file.
    ///
    /// # Errors
    /// As there, or it is something else.
    pub fn open_regular(&self, flags: OFlags) -> io::Result<File> {
        let file = self.open(flags, 0)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// True if there is anything of this name.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn exists(&self) -> io::Result<bool> {
        match self.stat() {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// True if this names the file behind `file`.
    pub fn is(&self, file: impl AsFd) -> bool {
        let (Ok(named), Ok(held)) = (self.stat(), fs::fstat(file)) else { return false };
        (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    }

    /// What it is, if it is there.
    pub fn file_type(&self) -> Option<FileType> {
        self.stat().ok().map(|found| FileType::from_raw_mode(found.st_mode))
    }

    /// Deletes it.
    ///
    /// # Errors
    /// The system refused.
    pub fn remove(&self) -> io::Result<()> {
        Ok(fs::unlinkat(&self.dir, &self.name, AtFlags::empty())?)
    }

    /// Gives the file the name `to`, in the same file system, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the system refused.
    pub fn rename(&self, to: &Entry) -> io::Result<()> {
        let (from_dir, to_dir) = (&self.dir, &to.dir);
        let flags = RenameFlags::NOREPLACE;
        match fs::renameat_with(from_dir, &self.name, to_dir, &to.name, flags) {
            // Some file systems cannot look and rename in one step. Linking does look.
            Err(Errno::INVAL) => {
                let flags = AtFlags::empty();
                fs::linkat(from_dir, &self.name, to_dir, &to.name, flags)?;
                self.remove()
            }
            other => Ok(other?),
        }
    }

    /// Gives the file the name `to`, in the same file system, in place of what has it.
    ///
    /// # Errors
    /// The system refused.
    pub fn replace(&self, to: &Entry) -> io::Result<()> {
        let flags = RenameFlags::empty();
        Ok(fs::renameat_with(&self.dir, &self.name, &to.dir, &to.name, flags)?)
    }

    fn stat(&self) -> rustix::io::Result<fs::Stat> {
        fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_done_in_a_directory_is_done_there_wherever_it_went() {
        let root = tempfile::tempdir().unwrap();
        let (old, new, other) =
            (root.path().join("rec"), root.path().join("rec.old"), root.path().join("private"));
        [&old, &other].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let dir = Dir::open(&old).unwrap();
        assert_eq!(dir.whereabouts(), Whereabouts::Here);
        std::fs::rename(&old, &new).unwrap();
        symlink(&other, &old).unwrap();
        let entry = dir.entry("a");
        entry.open(OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, 0o600).unwrap();
        entry.rename(&dir.entry("b")).unwrap();
        assert!(new.join("b").exists() && !dir.entry("a").exists().unwrap());
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
        assert_eq!(dir.whereabouts(), Whereabouts::Moved(new.clone()));
        let names: Vec<_> = dir.names().unwrap().map(|name| name.unwrap().0).collect();
        assert_eq!(names, ["b"]);
        dir.entry("b").remove().unwrap();
        std::fs::remove_dir(&new).unwrap();
        assert_eq!(dir.whereabouts(), Whereabouts::Deleted);
        let gone = dir.entry("c").open(OFlags::CREATE | OFlags::WRONLY, 0o600).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_name_is_followed_and_none_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        std::fs::write(root.path().join("target"), "precious").unwrap();
        symlink("target", root.path().join("link")).unwrap();
        let link = dir.entry("link");
        let opened = link.open(OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC, 0o600);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert!(link.open_regular(OFlags::RDONLY).is_err());
        assert!(link.rename(&dir.entry("target")).is_err());
        std::fs::create_dir(root.path().join("inner")).unwrap();
        assert!(dir.entry("inner").open_regular(OFlags::RDONLY).is_err(), "a directory");
        assert_eq!(std::fs::read(root.path().join("target")).unwrap(), b"precious");
    }

    #[test]
    fn a_link_of_another_user_is_refused() {
        if !ringside_testkit::need_root("a_link_of_another_user_is_refused") {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::fs::create_dir(root.path().join("rec")).unwrap();
        symlink("rec", &link).unwrap();
        Dir::open(&link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        let error = Dir::open(&link).unwrap_err().to_string();
        assert!(error.contains("another user made"), "{error}");
    }
}
