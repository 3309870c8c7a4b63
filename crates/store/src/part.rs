//! Parts of files that a reader passes by, because somebody knows what lies in them.

use crate::block::BlockHeader;
use crate::dir::{Dir, Entry};
use crate::seekable::unpacked_name;
use ringside_core::{Stamps, TimeRange};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Behind the name of a capture file, that of its index.
const INDEX_ENDING: &str = ".index";

/// The name of the index of a capture file (docs/formats/index.md): that of the file before it was
/// packed, so that it need not be built anew. An index goes with its file: retention deletes both.
pub(crate) fn index_name(capture: &str) -> String {
    format!("{}{INDEX_ENDING}", unpacked_name(capture).unwrap_or(capture))
}

/// Where the index of a capture file lies.
pub fn index_path(capture: &Path) -> PathBuf {
    let name = capture.file_name().unwrap_or_default();
    let name = match name.to_str() {
        Some(name) => index_name(name).into(),
        None => {
            let mut name = name.to_owned();
            name.push(INDEX_ENDING);
            name
        }
    };
    capture.with_file_name(name)
}

/// Behind that, who makes an index that is not whole yet. Its name is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexMaker {
    /// A program that reads the file.
    Reader,
    /// The recorder that writes it.
    Recorder,
}

impl IndexMaker {
    /// All of them.
    pub(crate) const ALL: [IndexMaker; 2] = [IndexMaker::Reader, IndexMaker::Recorder];

    /// Where the index of the capture file `name` is made: hidden, so that no half of one is ever
    /// found.
    pub fn draft_of(self, name: &OsStr) -> OsString {
        let mut draft = OsString::from(".");
        draft.push(name);
        draft.push(INDEX_ENDING);
        draft.push(self.ending());
        draft
    }

    fn ending(self) -> &'static str {
        match self {
            IndexMaker::Reader => ".next",
            IndexMaker::Recorder => ".recorder",
        }
    }

    /// The capture file that a draft is of; none if it is no draft of this maker's.
    fn capture_of(self, draft: &OsStr) -> Option<&OsStr> {
        let name = draft.as_bytes().strip_prefix(b".")?.strip_suffix(self.ending().as_bytes())?;
        name.strip_suffix(INDEX_ENDING.as_bytes()).map(OsStr::from_bytes)
    }
}

/// Removes what a recorder that died has left of the index of the file `capture`, if it left
/// something. Best effort: it means nothing.
pub fn remove_index_draft(capture: &Entry) {
    let draft = IndexMaker::Recorder.draft_of(capture.name());
    let _ = capture.dir().entry(draft).remove();
}

/// Removes what recorders that died have left of the indexes of files that are gone: retention
/// deletes a file and its drafts, and the thread that makes indexes may begin one more. Best
/// effort, as above.
pub fn remove_orphaned_index_drafts(dir: &Dir) {
    for (draft, _) in dir.names().into_iter().flatten().flatten() {
        let capture = IndexMaker::Recorder.capture_of(&draft);
        if capture.is_some_and(|capture| !dir.entry(capture).exists().unwrap_or(true)) {
            let _ = dir.entry(&draft).remove();
        }
    }
}

/// A part of a file: whole records, of which none describes an interface or a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where its first record begins, in bytes of the file.
    pub start: u64,
    /// Where its last record ends.
    pub end: u64,
    /// The ring block that it is, in a file of a recording.
    pub header: Option<BlockHeader>,
    /// Frames in it.
    pub frames: u64,
    /// Their stamps.
    pub stamps: Stamps,
}

/// Somebody who knows of files which of their parts hold nothing that is asked for.
pub trait Pruner: fmt::Debug + Send + Sync {
    /// The parts of the file at `path` that need not be read, in the order of the file: none of
    /// their frames lies in `range`, or none is asked for. It is called once or twice for a file,
    /// before that is read.
    fn passed(&self, path: &Path, file: &File, range: TimeRange) -> Vec<Part>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_files_that_are_gone_go_and_all_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let gone = ".gone.pcapng.index.recorder";
        let kept = ["here.pcapng", ".here.pcapng.index.recorder", ".gone.pcapng.index.next"];
        let also = [".index.recorder", "gone.pcapng.index.recorder", "gone.pcapng.index"];
        let mut expected = [&kept[..], &also[..]].concat();
        for name in expected.iter().chain([&gone]) {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        remove_orphaned_index_drafts(&Dir::open(folder.path()).unwrap());
        let left = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
        expected.sort_unstable();
        left.sort_unstable();
        assert_eq!(left, expected);
    }
}
