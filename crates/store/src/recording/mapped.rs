//! Files in memory that stay mapped from one use to the next.
//!
//! To write a page by a call costs as much as to copy it, and to map one still more: so a file that
//! will be used again ([`crate::retention`]) is mapped when it is finished, and its mapping goes
//! with it through all its lives. A mapping keeps the file open, and one that is deleted keeps its
//! memory as long as it is open: who deletes [sweeps](MappedFiles::sweep), and what others delete
//! is looked for now and then.

use ringside_sys::file_map::FileMap;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that are kept of a directory, each with a descriptor and a mapping: those that retention
/// divides a limit into, of sixteen lanes. Of more, these are still found when their turn comes;
/// if the oldest were forgotten for new ones, none would be.
const FILES_MAX: usize = 256;

/// Finished files of a directory that are mapped.
#[derive(Debug, Default)]
pub struct MappedFiles {
    files: Mutex<Vec<Mapped>>,
    /// Others delete here too: their deletions are to free memory at once.
    is_shared: AtomicBool,
}

#[derive(Debug)]
struct Mapped {
    inode: u64,
    /// The opening through which it is mapped: a lease is to be had through no other.
    file: File,
    map: FileMap,
}

impl MappedFiles {
    /// Keeps `file`, if it still has a name, with its mapping of `bytes`, which is made if there is
    /// none. A file that is not kept is written by calls later, as ever.
    pub fn keep(&self, file: File, map: Option<FileMap>, bytes: u64) {
        let Ok(found) = file.metadata() else { return };
        let inode = found.ino();
        // Mapping takes long for large files; no other thread waits for it.
        if found.nlink() == 0 || !self.wants(&self.lock(), inode) {
            return;
        }
        let map = map.filter(|map| !map.is_torn());
        let made = || FileMap::new(&file, usize::try_from(bytes).ok()?).ok();
        let Some(map) = map.or_else(made) else { return };
        let mut files = self.lock();
        if self.wants(&files, inode) {
            files.push(Mapped { inode, file, map });
        }
    }

    /// Hands out the file of that number, if it is here.
    pub fn take(&self, inode: u64) -> Option<(File, FileMap)> {
        let mut files = self.lock();
        let at = files.iter().position(|mapped| mapped.inode == inode)?;
        let Mapped { file, map, .. } = files.remove(at);
        Some((file, map))
    }

    /// Forgets the files that were deleted: only then their memory is free.
    pub fn sweep(&self) {
        let has_name =
            |mapped: &Mapped| mapped.file.metadata().is_ok_and(|found| found.nlink() > 0);
        self.lock().retain(has_name);
    }

    /// Forgets the files whose numbers are not in `seen`: they have other names now, and do not
    /// come back.
    pub(crate) fn retain(&self, seen: &HashSet<u64>) {
        self.lock().retain(|mapped| seen.contains(&mapped.inode));
    }

    /// Keeps no file while others delete in the directory too.
    pub(crate) fn share(&self, is_shared: bool) {
        let mut files = self.lock();
        self.is_shared.store(is_shared, Ordering::Relaxed);
        if is_shared {
            files.clear();
        }
    }

    fn wants(&self, files: &[Mapped], inode: u64) -> bool {
        let is_new = files.iter().all(|mapped| mapped.inode != inode);
        !self.is_shared.load(Ordering::Relaxed) && files.len() < FILES_MAX && is_new
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Mapped>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    const BYTES: u64 = 64 << 10;

    fn file_in(dir: &Path, name: &str) -> File {
        let path = dir.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(BYTES).unwrap();
        file
    }

    fn inode(file: &File) -> u64 {
        file.metadata().unwrap().ino()
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_deleted() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let files = MappedFiles::default();
        let [kept, deleted, late] =
            ["kept", "deleted", "late"].map(|name| file_in(dir.path(), name));
        let inodes = [inode(&kept), inode(&deleted), inode(&late)];
        files.keep(kept, None, BYTES);
        files.keep(deleted, None, BYTES);
        for name in ["deleted", "late"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        files.keep(late, None, BYTES);
        files.sweep();
        let (file, mut map) = files.take(inodes[0]).unwrap();
        assert!(inodes.iter().all(|&inode| files.take(inode).is_none()));
        // It goes on with the mapping that it has.
        assert!(map.write(b"mapped", 0));
        files.keep(file, Some(map), 0);
        let (file, mut map) = files.take(inodes[0]).unwrap();
        assert!(map.write(b"again", BYTES - 5));
        let mut bytes = vec![0; BYTES as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.starts_with(b"mapped") && bytes.ends_with(b"again"));
    }

    #[test]
    fn one_too_many_is_not_kept_and_none_twice() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let files = MappedFiles::default();
        let keep = |number: usize| {
            let file = file_in(dir.path(), &number.to_string());
            let inode = inode(&file);
            files.keep(file.try_clone().unwrap(), None, BYTES);
            files.keep(file, None, BYTES);
            inode
        };
        let inodes: Vec<u64> = (0..=FILES_MAX).map(keep).collect();
        // One got another name, of which its directory knows nothing.
        files.retain(&inodes[1..].iter().copied().collect());
        let is_there = inodes.iter().map(|&inode| files.take(inode).is_some());
        let expected = (0..=FILES_MAX).map(|number| (1..FILES_MAX).contains(&number));
        assert!(is_there.eq(expected) && files.lock().is_empty());
    }

    #[test]
    fn none_is_kept_where_others_delete() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let files = MappedFiles::default();
        let [one, two, three] = ["one", "two", "three"].map(|name| file_in(dir.path(), name));
        let inodes = [&one, &two, &three].map(inode);
        files.keep(one, None, BYTES);
        files.share(true);
        files.keep(two, None, BYTES);
        files.share(false);
        files.keep(three, None, BYTES);
        assert_eq!(inodes.map(|inode| files.take(inode).is_some()), [false, false, true]);
    }
}
