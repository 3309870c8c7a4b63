//! What another program says of a file, kept: each answer is asked for once on a machine.
//!
//! tshark takes a tenth of a second to start, and the tests ask it about every real capture several
//! times. Answers lie under `target/judges`, named by a hash of the program's file, its
//! arguments and the bytes of the file: a new version or another file is a new question. Only what
//! is the same in every run may be asked about: real captures, and what is made of them without a
//! clock.

use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a program put out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// True if its exit status was 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error. It may name the file by the path of the run that asked first.
    pub stderr: Vec<u8>,
}

impl Answer {
    /// Standard output as text.
    ///
    /// # Panics
    /// It is no UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }
}

/// What `TOOL ARGS FILE` says, from an earlier run where there was one.
///
/// # Panics
/// The program cannot be started, or a file cannot be read or written.
pub fn ask(tool: &str, args: &[&str], file: &Path) -> Answer {
    let folder = folder();
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let content = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let path = folder.join(name(tool, &version(tool), args, &content));
    if let Some(answer) = kept(&path) {
        return answer;
    }
    // Tests that want the same answer at the same time wait for the first of them.
    let lock = fs::File::create(path.with_extension("lock")).expect("a file under target");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock of a file under target");
    kept(&path).unwrap_or_else(|| {
        let output = Command::new(tool).args(args).arg(file).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|e| panic!("{tool}: {e}"));
        let answer = Answer {
            success: output.status.success(),
            stdout: output.stdout,
            stderr: output.stderr,
        };
        keep(&path, &answer);
        // A process that waits for the lock has the file open; the name is not needed any more.
        let _ = fs::remove_file(path.with_extension("lock"));
        answer
    })
}

/// `target/judges` of the build that this test belongs to.
fn folder() -> PathBuf {
    // target/debug/deps/TEST
    let test = std::env::current_exe().expect("this program has a path");
    test.ancestors().nth(3).expect("a folder of what is built").join("judges")
}

/// What tells one version of a program from another: the length and the time of its file, which a
/// package brings along. Asking for the version would start it in every test.
fn version(tool: &str) -> Vec<u8> {
    let file = crate::program_file(tool).unwrap_or_else(|| panic!("{tool} is not installed"));
    let metadata = fs::metadata(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    format!("{} {} {}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()).into_bytes()
}

/// 128 bits of hash: enough that two answers do not get the same name.
fn name(tool: &str, version: &[u8], args: &[&str], content: &[u8]) -> String {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, tool, version, args, content).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(1), half(2))
}

/// The kept answer: a line with the status and the length of standard output, then both outputs.
fn kept(path: &Path) -> Option<Answer> {
    let bytes = fs::read(path).ok()?;
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let (status, length) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let (stdout, stderr) = bytes[end + 1..].split_at_checked(length.parse().ok()?)?;
    let success = status == "ok";
    Some(Answer { success, stdout: stdout.to_vec(), stderr: stderr.to_vec() })
}

fn keep(path: &Path, answer: &Answer) {
    let status = if answer.success { "ok" } else { "failed" };
    let head = format!("{status} {}\n", answer.stdout.len());
    let bytes = [head.as_bytes(), &answer.stdout, &answer.stderr].concat();
    // A run that is killed leaves no half of an answer.
    let part = path.with_extension("part");
    fs::write(&part, bytes).and_then(|()| fs::rename(&part, path)).expect("room under target");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_asked_for_once_and_anew_for_other_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"one\n").unwrap();
        let first = ask("sh", &["-c", "cat $0; echo $0 $$ >&2; exit 3"], &file);
        assert_eq!((first.success, first.text()), (false, "one\n"));
        // The process number would be another one.
        assert_eq!(ask("sh", &["-c", "cat $0; echo $0 $$ >&2; exit 3"], &file), first);
        fs::write(&file, b"two\n").unwrap();
        assert_eq!(ask("sh", &["-c", "cat $0; echo $0 $$ >&2; exit 3"], &file).text(), "two\n");
    }

    #[test]
    fn what_was_damaged_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer");
        let answer = Answer { success: true, stdout: b"a\nb".to_vec(), stderr: b"c".to_vec() };
        keep(&path, &answer);
        assert_eq!(kept(&path), Some(answer));
        for damage in ["", "ok", "ok 9\nabc", "ok x\nabc"] {
            fs::write(&path, damage).unwrap();
            assert_eq!(kept(&path), None, "{damage}");
        }
    }
}
