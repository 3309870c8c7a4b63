//! Which process writes a file: no other may empty it meanwhile.
//!
//! An exclusive flock(2) of the file itself, so that nothing is left behind, whatever happens to
//! the writer: it lasts as long as the open file description. It binds only programs that ask for
//! it: every writer of this one; readers and other programs are not in its way.

use crate::StoreError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Locks a regular file for its writer, as long as a handle of this opening lasts. Other kinds have
/// no content to destroy; a file system without locks never refuses.
///
/// # Errors
/// Another process writes the file; the message names it, where the system tells.
pub fn lock_for_writing(file: &File, path: &Path) -> Result<(), StoreError> {
    let fail = |error| StoreError::io(format!("cannot look at {}", path.display()), error);
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Ok(());
    }
    let is_locked = loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            result => break result == Err(Errno::WOULDBLOCK),
        }
    };
    if !is_locked {
        return Ok(());
    }
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let by = match holder(&locks, metadata.dev(), metadata.ino()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    };
    let reason = format!("is being written by {by}: name another file, or end that process first");
    Err(StoreError::Unusable { path: path.to_owned(), reason })
}

/// The process that holds a flock(2) of a file, by the text of /proc/locks (proc_locks(5)).
fn holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let mut lines = locks.lines().map(|line| line.split_ascii_whitespace());
    lines.find_map(|mut fields| {
        let kind = fields.nth(1)?;
        let pid = fields.nth(2)?;
        // Of a process outside this one's namespace the number is 0 or -1.
        let pid = pid.parse().ok().filter(|&pid| pid > 0);
        pid.filter(|_| kind == "FLOCK" && fields.next() == Some(file.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_lasts_until_the_last_handle_is_closed_and_names_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        let first = File::create(&path).unwrap();
        lock_for_writing(&first, &path).unwrap();
        let copy = first.try_clone().unwrap();
        lock_for_writing(&copy, &path).unwrap();
        drop(first);
        let second = File::options().write(true).open(&path).unwrap();
        let error = lock_for_writing(&second, &path).unwrap_err().to_string();
        assert!(error.contains("a.pcap: is being written by "), "{error}");
        let (own, unseen) = (format!("process {}:", std::process::id()), "another process:");
        assert!(error.contains(&own) || error.contains(unseen), "{error}");
        drop(copy);
        lock_for_writing(&second, &path).unwrap();
    }

    #[test]
    fn a_holder_is_found_in_any_list() {
        let line = "3: FLOCK  ADVISORY  WRITE 9 fe:01:12 0 EOF";
        let other = "2: -> FLOCK  ADVISORY  WRITE -1 fe:01:12 0 EOF\ntorn\n1: POSIX";
        let seeds = [line, other].map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("proc-locks-of-writers", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let found = |text: &str| holder(text, rustix::fs::makedev(0xfe, 1), 12);
            assert!(found(&text).is_none_or(|pid| pid > 0 && text.contains("fe:01:12")));
            assert!(found(&format!("{text}\n{line}")).is_some());
        });
    }

    #[test]
    fn holders_are_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:01:12 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 8 fe:01:12 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE -1 fe:01:12 0 EOF\n\
                     torn\n\
                     3: FLOCK  ADVISORY  WRITE 9 fe:01:12 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 10 00:2b:12 0 EOF\n";
        assert_eq!(holder(locks, rustix::fs::makedev(0xfe, 1), 12), Some(9));
        assert_eq!(holder(locks, rustix::fs::makedev(0, 0x2b), 12), Some(10));
        assert_eq!(holder(locks, rustix::fs::makedev(0, 0x2b), 13), None);
    }
}
