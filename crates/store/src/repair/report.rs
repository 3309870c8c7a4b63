//! What a repair found and did, to be reported to people and programs.

use ringside_core::{LaneId, Shown, Timestamp};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// What was found in the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every run that was looked at, by name.
    pub runs: Vec<RunReport>,
    /// Capture files of no recording, which were named alone.
    pub captures: Vec<CaptureReport>,
    /// Files that cannot be read, or bear the name of a recording's file and cannot be said to
    /// belong to one.
    pub unreadable: Vec<Unreadable>,
    /// Directories without any file of a recording.
    #[serde(serialize_with = "lossy_all")]
    pub empty: Vec<PathBuf>,
}

/// A file that was left, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Why, to be read behind its name.
    pub reason: String,
}

impl Report {
    /// True if a run or a capture file is in this state.
    pub fn has(&self, state: RunState) -> bool {
        self.runs.iter().any(|run| run.state == state)
            || self.captures.iter().any(|capture| capture.state == state)
    }
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Nothing is to be done.
    Clean,
    /// A process records it: it was left alone.
    Live,
    /// Something is to be done, and was not: the repair only looked.
    Broken,
    /// It was repaired.
    Repaired,
    /// Some of it could not be repaired; the next repair tries again.
    Failed,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// Its name.
    pub run: String,
    /// How it stands.
    pub state: RunState,
    /// Its files, in the order of lanes and numbers.
    pub files: Vec<FileReport>,
    /// What is missing of its lanes.
    pub lanes: Vec<LaneReport>,
}

/// One capture file that is of no recording: of `-w FILE`, or of another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureReport {
    /// Where it is.
    #[serde(rename = "file", serialize_with = "lossy")]
    pub path: PathBuf,
    /// How it stands: clean, broken, repaired or failed.
    pub state: RunState,
    /// Packets in it, up to a torn end or damage.
    pub frames: u64,
    /// What was done, or is to be done.
    pub changes: Vec<Change>,
    /// Why it could not be repaired.
    pub error: Option<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Where it is, or was.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Complete ring blocks in it.
    pub ring_blocks: u64,
    /// Frames in it; `None` if not all of it was looked at.
    pub frames: Option<u64>,
    /// What was done, or is to be done, in order.
    pub changes: Vec<Change>,
    /// Why it could not be repaired.
    pub error: Option<String>,
}

/// One change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The header page was lost and is made again from that of another file of the run.
    HeaderMade,
    /// Bytes that cannot be read became padding.
    Padded {
        /// Where they begin.
        offset: u64,
        /// How many bytes they are.
        bytes: u64,
    },
    /// The file was cut at the end of its last whole record.
    Cut {
        /// Where the file ends now, in bytes.
        offset: u64,
        /// Bytes of a torn record, or zeros, that went.
        bytes: u64,
    },
    /// A mark was appended that says from when on nothing is known.
    Marked {
        /// Nanoseconds of UTC after which nothing is known.
        unknown_after_ns: Timestamp,
    },
    /// The header page counts the complete ring blocks rightly.
    Counted {
        /// What it said.
        before: u64,
        /// What is there.
        now: u64,
    },
    /// The header page says which ring block is the first, or that the file is finished.
    HeaderRepaired,
    /// Space that was reserved for more was given back.
    Released {
        /// Bytes that were given back.
        bytes: u64,
    },
    /// The file came into its name, under which it was about to be used.
    Renamed,
    /// The file held nothing and was removed.
    Removed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::HeaderMade => f.write_str("lost header page made again"),
            Change::Padded { offset, bytes } => {
                write!(f, "{bytes} unreadable bytes at byte {offset} made padding")
            }
            Change::Cut { offset, bytes } => {
                write!(f, "cut at byte {offset}: {bytes} bytes of a torn end")
            }
            Change::Marked { .. } => f.write_str("end marked"),
            Change::Counted { before, now } => {
                write!(f, "{now} complete ring blocks counted (the header said {before})")
            }
            Change::HeaderRepaired => f.write_str("header page brought up to date"),
            Change::Released { bytes } => write!(f, "{bytes} reserved bytes given back"),
            Change::Renamed => f.write_str("given the name that it was made ready for"),
            Change::Removed => f.write_str("empty, removed"),
        }
    }
}

/// One lane of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneReport {
    /// Its number in the run.
    pub lane: LaneId,
    /// What is missing between the ring blocks that are there, as far as they were looked at.
    pub missing: Vec<Missing>,
    /// The lane was not ended in order: what was in memory after this time is unknown.
    pub unknown_after_ns: Option<Timestamp>,
}

/// Part of a lane that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Number of the first ring block that is missing, wholly or from some frame on.
    pub first_block: u64,
    /// Number of the last.
    pub last_block: u64,
    /// Frames that are missing; `None` if the numbers contradict each other.
    pub frames: Option<u64>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first_block, self.last_block) {
            (first, last) if first == last => write!(f, "ring block {first}")?,
            (first, last) => write!(f, "ring blocks {first}-{last}")?,
        }
        match self.frames {
            Some(1) => f.write_str(": 1 frame"),
            Some(frames) => write!(f, ": {frames} frames"),
            None => f.write_str(": an unknown number of frames"),
        }
    }
}

fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.shown())
}

fn lossy_all<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.shown().to_string()))
}
