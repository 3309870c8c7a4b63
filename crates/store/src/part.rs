//! Parts of files that a reader passes by, because somebody knows what lies in them.

use crate::block::BlockHeader;
use crate::dir::Entry;
use crate::seekable::unpacked_name;
use ringside_core::{Stamps, TimeRange};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
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
        draft.push(match self {
            IndexMaker::Reader => ".next",
            IndexMaker::Recorder => ".recorder",
        });
        draft
    }
}

/// Removes what a recorder that died has left of the index of the file `capture`, if it left
/// something. Best effort: it means nothing.
pub fn remove_index_draft(capture: &Entry) {
    let draft = IndexMaker::Recorder.draft_of(capture.name());
    let _ = capture.dir().entry(draft).remove();
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
