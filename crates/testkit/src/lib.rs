#![forbid(unsafe_code)]
//! For tests only: where real captures are, what a test needs, and bounded seeded fuzzing.
//!
//! A test that cannot run here is *skipped visibly*: [`skip`] prints the reason and, when the test
//! run collects skips (`RINGSIDE_SKIPS` names a file), appends it there, so that the summary can
//! count it.

mod agreement;
pub mod captures;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod classbench;
pub mod driver_ring;
pub mod fakes;
pub mod fuzz;
pub mod judge;
pub mod kafka;
pub mod netmap;
pub mod quic;
pub mod random;
pub mod rules;
pub mod server;
pub mod stacks;
mod wait;

pub use agreement::{Agreement, Difference, Messages};
pub use captures::{capture_dir, capture_files, capture_sample};
pub use fuzz::{each_number_at_most, fuzz};
pub use random::Random;
pub use wait::{WAIT_MAX, wait_for, wait_until};

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Says that `test` did not run, and why.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    let Some(path) = std::env::var_os("RINGSIDE_SKIPS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Ok(mut file) = file {
        // One write, so that lines of parallel tests do not mix.
        let _ = file.write_all(format!("{test}: {reason}\n").as_bytes());
    }
}

/// `short` in the run behind `make test`, `long` in that behind `make test-all`, which sets
/// `RINGSIDE_TESTS=long`: how many frames, kills or files a test takes.
pub fn by_run<T>(short: T, long: T) -> T {
    match std::env::var("RINGSIDE_TESTS").as_deref() {
        Ok("long") => long,
        _ => short,
    }
}

/// The number in an environment variable, by which a user sizes or seeds a test; none if it is not
/// set.
///
/// # Panics
/// If it holds something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// True if this process may use packet sockets, namespaces and BPF; else skips `test`.
pub fn need_root(test: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1))
        == Some("0");
    if !root {
        skip(test, "needs root");
    }
    root
}

/// True if a BPF file system is at its usual place, where it is mounted if it is not; else skips
/// `test`. systemd mounts it; a machine that something else started has none.
pub fn need_bpf_fs(test: &str) -> bool {
    // Two tests that both find none must not mount two, one upon the other.
    static ONE_LOOKS: Mutex<()> = Mutex::new(());
    let _alone = ONE_LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    if !need_root(test) {
        return false;
    }
    let is_there = has_bpf_fs() || mount_bpf_fs();
    if !is_there {
        skip(test, &format!("needs a BPF file system: `mount -t bpf bpf {BPF_FS}`"));
    }
    is_there
}

/// Where a BPF file system is mounted on every distribution.
const BPF_FS: &str = "/sys/fs/bpf";

fn has_bpf_fs() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(BPF_FS) && words.next() == Some("bpf")
    })
}

fn mount_bpf_fs() -> bool {
    let outcome = Command::new("mount").args(["-t", "bpf", "bpf", BPF_FS]).status();
    outcome.is_ok_and(|status| status.success())
}

/// Waits until no other test on this machine, also of another run, changes or counts its huge
/// pages; none does until the lock is dropped. A long test takes it for each of its rounds.
///
/// # Panics
/// The lock's file in the temporary directory cannot be made.
pub fn huge_pages_lock() -> File {
    let path = std::env::temp_dir().join("ringside-test-huge-pages.lock");
    let file = File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    flock(&file, FlockOperation::LockExclusive).expect("a lock of a file");
    file
}

/// True if `tool` is installed; else skips `test`.
pub fn need_tool(test: &str, tool: &str) -> bool {
    let found = program_file(tool).is_some();
    if !found {
        skip(test, &format!("needs {tool}, which `make deps` or `make bench-deps` installs"));
    }
    found
}

/// The file of a program in `PATH`. Starting it to see whether it is there would cost a test of
/// tshark's a third of a second of CPU.
pub fn program_file(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(tool));
    files.find(|file| file.is_file())
}

/// The project's root folder.
pub fn project_root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/testkit lies two levels deep").to_path_buf()
}

/// True for what the kernel's test run of a socket filter takes: a link header and something behind
/// it, the whole IP header where the type says that there is one, at most a page in all.
pub fn is_runnable(frame: &[u8]) -> bool {
    let shortest = match frame.get(12..14) {
        Some([0x08, 0x00]) => 14 + 20,
        Some([0x86, 0xdd]) => 14 + 40,
        _ => 15,
    };
    (shortest..3_000).contains(&frame.len())
}
