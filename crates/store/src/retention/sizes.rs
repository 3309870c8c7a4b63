//! How large files are under a limit, and how small a limit may be.

use super::{Policy, RetentionError};
use crate::recording::END_BYTES;
use std::time::Duration;

/// Files that a limit is divided into, for each lane. Two of them are being written or made ready,
/// so at least seven eighths of the limit hold what is kept.
pub const FILES_PER_LANE: u64 = 16;
/// Largest file unless asked otherwise: large enough that its creation costs nothing at 10 GB/s,
/// small enough to be deleted, copied and opened as a whole.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Files that a limit of age is divided into: a file goes when its first frame is past the age, so
/// its last frame goes at most this part of the age early.
const FILES_PER_AGE: u32 = 24;
/// Bounds of the default time of a file under a limit of age: files are made and synced each time,
/// and an hour is what people look for.
const FILE_TIME: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// What determines the sizes of a run's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lanes, each of which has files in every directory.
    pub lanes: usize,
    /// Directories, which share the limit evenly.
    pub directories: usize,
    /// Bytes of a ring block.
    pub block_bytes: usize,
    /// Bytes of a file's header page(s).
    pub header_bytes: usize,
}

impl Shape {
    /// The smallest file: its header, one ring block, and [`END_BYTES`].
    pub fn file_bytes_min(&self) -> u64 {
        (self.header_bytes + self.block_bytes) as u64 + END_BYTES
    }

    /// Ring blocks that fit a file of at most `file_bytes`: at least one.
    pub fn blocks_in(&self, file_bytes: u64) -> u64 {
        let around = self.header_bytes as u64 + END_BYTES;
        (file_bytes.saturating_sub(around) / self.block_bytes as u64).max(1)
    }

    /// The least limit that is enough for files of `file_bytes`: each lane has one that is being
    /// written and one that is made ready, in each directory.
    pub fn limit_bytes_min(&self, file_bytes: u64) -> u64 {
        file_bytes
            .saturating_mul(2)
            .saturating_mul(self.lanes as u64)
            .saturating_mul(self.directories as u64)
    }

    /// Largest size of each file: what was asked for, else as the policy of the whole recording
    /// makes it: a sixteenth of each lane's part of the limit in each directory, in whole ring
    /// blocks, at least one and at most 1 GiB. `None`: files without a limit.
    ///
    /// # Errors
    /// The limit is too small, or the files that were asked for are too large for it.
    pub fn file_bytes(
        &self,
        policy: &Policy,
        asked: Option<u64>,
    ) -> Result<Option<u64>, RetentionError> {
        let least_file = self.file_bytes_min();
        let asked = asked.map(|bytes| bytes.max(least_file));
        let Some(limit) = policy.limit_bytes else {
            let default = (!policy.is_unlimited()).then(|| self.whole_blocks(FILE_BYTES_MAX));
            return Ok(asked.or(default));
        };
        let least = self.limit_bytes_min(least_file);
        if limit < least {
            let (lanes, directories) = (self.lanes, self.directories);
            return Err(RetentionError::LimitTooSmall { limit, least, lanes, directories });
        }
        let parts = (self.lanes * self.directories) as u64;
        if let Some(file_bytes) = asked
            && self.limit_bytes_min(file_bytes) > limit
        {
            let (least, lanes) = (self.limit_bytes_min(file_bytes), self.lanes);
            let most = self.whole_blocks(limit / (2 * parts));
            return Err(RetentionError::FilesTooLarge { file_bytes, most, limit, least, lanes });
        }
        let part = (limit / (FILES_PER_LANE * parts)).min(FILE_BYTES_MAX);
        Ok(asked.or(Some(self.whole_blocks(part))))
    }

    /// The largest file of whole ring blocks within `bytes`, at least one block.
    fn whole_blocks(&self, bytes: u64) -> u64 {
        let blocks = self.blocks_in(bytes) * self.block_bytes as u64;
        self.header_bytes as u64 + blocks + END_BYTES
    }
}

/// Time after which a new file is begun under a limit of age, unless asked otherwise.
pub fn file_interval(limit_age: Duration) -> Duration {
    (limit_age / FILES_PER_AGE).clamp(*FILE_TIME.start(), *FILE_TIME.end())
}
