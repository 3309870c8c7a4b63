//! What is to be said about an input: in what condition it was, and what is missing.

use crate::StoreError;
use crate::writer::Packing;
use ringside_core::{LaneId, Shown};
use std::fmt;
use std::path::{Path, PathBuf};

/// How the reading of a file stands, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There may be more.
    Reading,
    /// The input ended after a whole record.
    Complete,
    /// The input ended within a record: a capture that was stopped hard, or a copy cut off.
    CutShort {
        /// Where the torn record begins: the length of what is whole, in bytes.
        offset: u64,
        /// Bytes of the torn record that are there.
        left_bytes: u64,
    },
    /// A compressed input ended within what its compressor wrote.
    PackedCutShort {
        /// The compressor.
        packing: Packing,
        /// As in [`CutShort`](Condition::CutShort), of what was unpacked.
        offset: u64,
        /// Likewise; 0 if no record is torn.
        left_bytes: u64,
    },
    /// A record that cannot be read; what follows it was not looked at.
    Damaged {
        /// Where the record begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Frames were read whose time is before 1970 or after 2554: it is damaged, and they have none.
    TimesLost {
        /// Number of these frames.
        frames: u64,
        /// Where the record of the first begins, in bytes.
        offset: u64,
        /// What it says, in words.
        first: String,
    },
    /// Not read at all.
    Skipped {
        /// Why it was skipped, in words.
        reason: String,
    },
    /// Not read, because the system refused.
    Unreadable {
        /// What it said.
        reason: String,
    },
    /// The recorder of a run was killed: what was in its memory may be missing at the end.
    NotEnded {
        /// Name of the run.
        run: String,
    },
    /// The same, or it is being recorded: whose lock it is may see which.
    PerhapsNotEnded {
        /// Name of the run.
        run: String,
    },
    /// Part of a lane was not found before a ring block of this file, as the numbers of the ring
    /// blocks tell.
    Missing {
        /// The lane.
        lane: LaneId,
        /// Numbers of the first and last ring block that is missing; with `None` it is only the
        /// end of the one before.
        blocks: Option<(u64, u64)>,
        /// Frames that are missing.
        frames: u64,
    },
    /// As [`Missing`](Condition::Missing), for the gaps of a lane that are not reported one by one.
    MoreMissing {
        /// The lane.
        lane: LaneId,
        /// How many gaps.
        gaps: u64,
        /// Frames that are missing in them.
        frames: u64,
    },
    /// A ring block of this file was found before, in another: no frame of it is given twice.
    Repeated {
        /// The lane.
        lane: LaneId,
        /// Number of the ring block.
        block: u64,
    },
}

impl Condition {
    /// True if frames may be missing that were there or should have been, or times of frames. Files
    /// that are no part of what was asked for, and what retention deleted at a lane's beginning, do
    /// not count.
    pub fn is_loss(&self) -> bool {
        match self {
            Condition::CutShort { .. }
            | Condition::PackedCutShort { .. }
            | Condition::Damaged { .. }
            | Condition::TimesLost { .. }
            | Condition::Unreadable { .. }
            | Condition::NotEnded { .. }
            | Condition::MoreMissing { .. } => true,
            Condition::Missing { blocks, .. } => blocks.is_none_or(|(first, _)| first > 0),
            Condition::Reading
            | Condition::Complete
            | Condition::Skipped { .. }
            | Condition::PerhapsNotEnded { .. }
            | Condition::Repeated { .. } => false,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Reading => f.write_str("not read to its end"),
            Condition::Complete => f.write_str("complete"),
            Condition::CutShort { offset, left_bytes } => {
                write!(f, "cut short at byte {offset}: {left_bytes} bytes of a record are left")
            }
            Condition::PackedCutShort { packing, offset, left_bytes } => write!(
                f,
                "cut short where {} packed it: at byte {offset} of what was unpacked, with \
                 {left_bytes} bytes of a record left",
                packing.name()
            ),
            Condition::Damaged { offset, reason } => {
                write!(f, "damaged at byte {offset}: {reason}")
            }
            Condition::TimesLost { frames, offset, first } => {
                let (noun, have) = if *frames == 1 { ("frame", "has") } else { ("frames", "have") };
                write!(f, "{frames} {noun} {have} a damaged time and came without it; ")?;
                write!(f, "the first, at byte {offset}, says {first}")
            }
            Condition::Skipped { reason } => write!(f, "skipped: {reason}"),
            Condition::Unreadable { reason } => write!(f, "not read: {reason}"),
            Condition::NotEnded { run } => write!(
                f,
                "run {run} was never ended: its recorder was killed, and what it had in memory may \
                 be missing; `ringside repair` this directory"
            ),
            Condition::PerhapsNotEnded { run } => write!(
                f,
                "run {run} is being recorded, or its recorder was killed and what it had in memory \
                 may be missing: only the user who recorded it can tell"
            ),
            Condition::Missing { lane, blocks, frames } => {
                match blocks {
                    Some((first, last)) if first == last => {
                        write!(f, "ring block {first} of lane {lane} is missing")?;
                    }
                    Some((first, last)) => {
                        write!(f, "ring blocks {first}-{last} of lane {lane} are missing")?;
                    }
                    None => write!(f, "the end of a ring block of lane {lane} is missing")?,
                }
                write!(f, ": {frames} frame{}", if *frames == 1 { "" } else { "s" })
            }
            Condition::MoreMissing { lane, gaps, frames } => {
                let plural = if *gaps == 1 { "" } else { "s" };
                write!(
                    f,
                    "{gaps} more gap{plural} in lane {lane}, the last before a ring block of "
                )?;
                write!(f, "this file: {frames} frames in all")
            }
            Condition::Repeated { lane, block } => {
                write!(f, "ring block {block} of lane {lane} was read from another file already")
            }
        }
    }
}

/// What is to be said about one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// How it stands.
    pub condition: Condition,
}

impl Notice {
    /// A file was not read.
    pub(crate) fn skipped(path: &Path, reason: impl Into<String>) -> Notice {
        Notice { path: path.to_owned(), condition: Condition::Skipped { reason: reason.into() } }
    }

    /// A file could not be read.
    pub(crate) fn unreadable(path: &Path, error: &StoreError) -> Notice {
        let reason = error.to_string();
        Notice { path: path.to_owned(), condition: Condition::Unreadable { reason } }
    }

    /// A file went between the look into its directory and its turn: retention deletes.
    pub(crate) fn deleted(path: &Path) -> Notice {
        Notice::skipped(path, "was deleted meanwhile")
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.shown(), self.condition)
    }
}
