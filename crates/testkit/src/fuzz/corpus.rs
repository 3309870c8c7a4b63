//! What guided runs have found to reach something, a file for each target: an input a line, bytes
//! that do not print escaped. Text shows in a review what an input is, and is small enough here.

use crate::project_root;
use std::path::PathBuf;

/// The targets, a line each: name, test program, test.
pub const LIST: &str = "crates/testkit/fuzz/targets.txt";
const FOLDER: &str = "crates/testkit/fuzz/corpora";

/// A target of fuzzing, as [`LIST`] has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it gives `fuzz` as its name, written as in [`file_name`].
    pub name: String,
    /// Test program and test, as `ringside-store/all fuzz::pcap_files`.
    pub test: String,
}

/// All targets.
///
/// # Panics
/// The list cannot be read, or a line is not NAME: PROGRAM TEST.
pub fn targets() -> Vec<Target> {
    let path = project_root().join(LIST);
    let list = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let target = |line: &str| {
        let (name, test) = line.split_once(": ")?;
        Some(Target { name: name.to_owned(), test: test.to_owned() })
    };
    lines.map(|line| target(line).unwrap_or_else(|| panic!("{LIST}: {line}"))).collect()
}

pub(super) fn is_listed(name: &str) -> bool {
    targets().iter().any(|target| target.name == file_name(name))
}

/// A target's name as that of a file: `proto HTTP/1` is `proto-http-1`.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect()
}

/// The corpus of a target; empty if no guided run has kept one.
///
/// # Panics
/// A line is not what [`write()`] writes.
pub fn read(name: &str) -> Vec<Vec<u8>> {
    let path = path(name);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let bytes = |line: &str| {
        unescaped(line.as_bytes()).unwrap_or_else(|| panic!("{}: {line}", path.display()))
    };
    text.lines().map(bytes).collect()
}

/// Replaces the corpus of a target.
///
/// # Errors
/// The file cannot be written.
pub fn write(name: &str, inputs: &[Vec<u8>]) -> std::io::Result<()> {
    let lines: String = inputs.iter().map(|input| format!("{}\n", input.escape_ascii())).collect();
    std::fs::write(path(name), lines)
}

fn path(name: &str) -> PathBuf {
    project_root().join(FOLDER).join(file_name(name)).with_extension("txt")
}

/// What `escape_ascii` made `text` of.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, behind) = match (byte, behind) {
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                ((digit(high)? << 4 | digit(low)?) as u8, behind)
            }
            (b'\\', [b't', behind @ ..]) => (b'\t', behind),
            (b'\\', [b'r', behind @ ..]) => (b'\r', behind),
            (b'\\', [b'n', behind @ ..]) => (b'\n', behind),
            (b'\\', [b'\\' | b'\'' | b'"', ..]) => (behind[0], &behind[1..]),
            (b'\\', _) => return None,
            _ => (byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_its_line() {
        let all: Vec<u8> = (0..=255).collect();
        let line = all.escape_ascii().to_string();
        assert_eq!(line.lines().count(), 1);
        assert_eq!(unescaped(line.as_bytes()), Some(all));
        for wrong in ["\\", "\\x", "\\x4", "\\x4g", "\\q"] {
            assert_eq!(unescaped(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn every_corpus_is_of_a_listed_target_and_small() {
        /// A few tens of kilobytes are read in no time and seen through in a review.
        const FILE_BYTES_MAX: u64 = 64 << 10;
        let targets = targets();
        for entry in std::fs::read_dir(project_root().join(FOLDER)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let name = name.strip_suffix(".txt").unwrap();
            assert!(targets.iter().any(|target| target.name == name), "{name}");
            assert!(entry.metadata().unwrap().len() <= FILE_BYTES_MAX, "{name}");
            read(name);
        }
    }
}
