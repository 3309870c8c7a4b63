//! The simulated disk as a mounted file system (FUSE), so that what runs on it is what runs on any:
//! directories, locks, renaming, direct and queued writes.

use super::disk::{Disk, State};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, Request, TimeOrNow,
};
use fuser::{BsdFileFlags, WriteFlags};
use fuser::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite,
};
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the kernel remembers of names and sizes: nothing.
const TTL: Duration = Duration::ZERO;
/// The directory's number; file `n` of the disk has the number `n` above the next.
const ROOT: INodeNo = INodeNo::ROOT;
const FIRST_FILE: u64 = 2;
/// Pages of the disk, all of them free.
const PAGES: u64 = 1 << 28;
const PAGE_BYTES: u32 = 4096;

/// No other thread but those that this one starts sees what is mounted from now on, and it goes
/// with them, however they end.
pub(super) fn mount_in_private() {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
}

/// Mounts `disk` at `directory`.
pub(super) fn mount(disk: &Disk, directory: &Path) -> BackgroundSession {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("simulated".into())];
    fuser::spawn_mount(Mounted(disk.clone()), directory, &config).unwrap()
}

struct Mounted(Disk);

fn file_of(inode: INodeNo) -> Result<usize, Errno> {
    inode.0.checked_sub(FIRST_FILE).map(|file| file as usize).ok_or(Errno::EISDIR)
}

fn attributes(state: &State, inode: INodeNo) -> Result<FileAttr, Errno> {
    let state = state.read_call()?;
    let (kind, perm, size) = match file_of(inode) {
        Ok(file) => (FileType::RegularFile, 0o600, state.bytes(file)),
        Err(_) => (FileType::Directory, 0o700, 0),
    };
    Ok(FileAttr {
        ino: inode,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: PAGE_BYTES,
        flags: 0,
    })
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn entry(state: &State, name: &str) -> Result<INodeNo, Errno> {
    let file = state.read_call()?.names().get(name).ok_or(Errno::ENOENT)?;
    Ok(INodeNo(*file as u64 + FIRST_FILE))
}

impl Mounted {
    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        attributes(&self.0.lock(), inode)
    }

    fn look_up(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        let state = self.0.lock();
        attributes(&state, entry(&state, text(name)?)?)
    }

    fn make(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        let mut state = self.0.lock();
        if entry(&state, text(name)?).is_ok() {
            return Err(Errno::EEXIST);
        }
        let file = state.create(text(name)?)?;
        attributes(&state, INodeNo(file as u64 + FIRST_FILE))
    }

    fn write_some(&self, inode: INodeNo, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let mut state = self.0.lock();
        let (written, result) = state.write(file_of(inode)?, data, offset, 1);
        // Half of the writes that end early say so only by what they wrote.
        match result {
            Err(_) if written > 0 && written % 2 == 0 => Ok(written as u32),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(written as u32),
        }
    }

    fn change_name(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Result<(), Errno> {
        let mut state = self.0.lock();
        let (from, to) = (text(from)?, text(to)?);
        entry(&state, from)?;
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && entry(&state, to).is_ok() {
            return Err(Errno::EEXIST);
        }
        Ok(state.rename(from, to)?)
    }

    fn delete(&self, name: &OsStr) -> Result<(), Errno> {
        let mut state = self.0.lock();
        entry(&state, text(name)?)?;
        Ok(state.remove(text(name)?)?)
    }

    fn cut(&self, inode: INodeNo, bytes: u64) -> Result<(), Errno> {
        Ok(self.0.lock().set_len(file_of(inode)?, bytes)?)
    }

    /// What asks for room beyond the end only.
    fn reserve(&self, mode: i32) -> Result<(), Errno> {
        match mode == rustix::fs::FallocateFlags::KEEP_SIZE.bits() as i32 {
            true => Ok(self.0.lock().call()?),
            false => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// Answers a call that gives nothing back.
fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(name) {
            Ok(found) => reply.entry(&TTL, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(found) => reply.attr(&TTL, &found),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = size.map_or(Ok(()), |bytes| self.cut(inode, bytes));
        match cut.and_then(|()| self.attributes(inode)) {
            Ok(found) => reply.attr(&TTL, &found),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(name) {
            Ok(made) => {
                reply.created(&TTL, &made, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.lock().read_call() {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |file| Ok(self.0.lock().read(file, offset, size as usize)?);
        match file_of(inode).and_then(read) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_some(inode, offset, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, file_of(inode).and_then(|file| Ok(self.0.lock().sync(file)?)));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.0.lock().sync_names().map_err(Errno::from));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _offset: u64,
        _bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.reserve(mode));
    }

    fn unlink(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.delete(name));
    }

    fn rename(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _to_parent: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.change_name(name, to, flags));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.0.lock();
        if state.has_crashed() {
            return reply.error(Errno::EIO);
        }
        let itself = [(".", ROOT, FileType::Directory), ("..", ROOT, FileType::Directory)];
        let file = |(name, &file): (&'_ String, &usize)| (name.clone(), file as u64 + FIRST_FILE);
        let files: Vec<_> = state.names().iter().map(file).collect();
        let files = files.iter().map(|(name, at)| (&**name, INodeNo(*at), FileType::RegularFile));
        for (at, (name, inode, kind)) in itself.into_iter().chain(files).enumerate() {
            if at as u64 >= offset && reply.add(inode, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(PAGES, PAGES, PAGES, PAGES, PAGES, PAGE_BYTES, 255, PAGE_BYTES);
    }
}
