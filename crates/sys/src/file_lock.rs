//! Who holds the lock of a file (flock(2)), by the kernel's list of locks.

use ringside_core::Shown;
use rustix::fs::{fstat, major, minor};
use std::fmt;
use std::os::fd::AsFd;

/// The list (proc_pid_locks(5)): of this process's user namespace, processes that it sees.
const LOCKS: &str = "/proc/locks";

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Name of its program; empty if it is gone, and left the lock to a child.
    pub program: String,
}

impl Holder {
    /// The process `pid`, with the name of its program as far as that is known.
    pub fn of(pid: u32) -> Holder {
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Holder { pid, program: program.trim().to_owned() }
    }

    /// For messages: who it is, as far as that is known.
    pub fn name_of(holder: &Option<Holder>) -> String {
        holder.as_ref().map_or_else(|| "another process".to_owned(), Holder::to_string)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program.as_str() {
            "" => write!(f, "a child of process {}", self.pid),
            program => write!(f, "process {} ({})", self.pid, program.shown()),
        }
    }
}

/// The process that took the lock of `file` by flock(2); `None` if none did, or it cannot be seen
/// from here.
pub fn holder(file: impl AsFd) -> Option<Holder> {
    let found = fstat(file).ok()?;
    let (device, inode) = ((major(found.st_dev), minor(found.st_dev)), found.st_ino);
    let list = std::fs::read_to_string(LOCKS).ok()?;
    flock_in(&list, device, inode).map(Holder::of)
}

/// The process that holds the lock of a file, in the text of /proc/locks.
fn flock_in(list: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    list.lines().find_map(|line| flock_of(line, device, inode))
}

/// The process of a line as `1: FLOCK  ADVISORY  WRITE 708 00:1b:1234 0 EOF`, if it is of that
/// file; one that waits has an arrow before the kind.
fn flock_of(line: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    // Of a process outside this one's namespace the number is 0 or -1.
    let pid = words.nth(2)?.parse().ok().filter(|&pid| pid > 0)?;
    let mut of = words.next()?.split(':');
    let mut number = || u32::from_str_radix(of.next()?, 16).ok();
    let is_device = (number()?, number()?) == device;
    let is_file = of.next()?.parse() == Ok(inode);
    (is_device && is_file).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn a_lock_is_found_in_any_list_and_no_other_is_taken_for_it() {
        let line = "1: FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF\n";
        let other = "2: FLOCK  ADVISORY  WRITE 0 fe:00:1235 0 EOF\n1: -> FLOCK\n2: POSIX\n";
        let seeds = [line, other].map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("proc-locks", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Some(pid) = flock_in(&text, (0xfe, 0), 1234) {
                let (pid, file) = (pid.to_string(), "1234");
                let is_between = |c: char| c == ':' || c.is_ascii_whitespace();
                let words: Vec<&str> = text.split(is_between).collect();
                assert!(pid != "0", "a process that is not seen from here");
                assert!(words.iter().any(|word| word.ends_with(file)), "{text}");
                assert!(words.iter().any(|word| word.ends_with(&pid)), "{text}");
            }
            assert!(flock_in(&format!("{text}\n{line}"), (0xfe, 0), 1234).is_some());
        });
    }

    #[test]
    fn the_holder_of_a_lock_is_named_as_long_as_it_holds_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (first, second) = (file.reopen().unwrap(), file.reopen().unwrap());
        assert_eq!(holder(&second), None);
        flock(&first, FlockOperation::LockExclusive).unwrap();
        let found = holder(&second).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert!(!found.program.is_empty());
        assert!(found.to_string().contains(&format!("process {} (", found.pid)));
        drop(first);
        assert_eq!(holder(&second), None);
    }

    #[test]
    fn lines_of_other_locks_and_torn_ones_are_passed_over() {
        let line = "1: FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF";
        assert_eq!(flock_of(line, (0xfe, 0), 1234), Some(708));
        assert_eq!(flock_of(line, (0xfe, 1), 1234), None);
        assert_eq!(flock_of(line, (0xfe, 0), 1235), None);
        for line in [
            "1: POSIX  ADVISORY  WRITE 708 fe:00:1234 0 EOF",
            "1: -> FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF",
            "1: FLOCK  ADVISORY  WRITE -1 fe:00:1234 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 708 fe:00",
            "1: FLOCK",
            "",
        ] {
            assert_eq!(flock_of(line, (0xfe, 0), 1234), None, "{line}");
        }
    }
}
