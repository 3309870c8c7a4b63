//! Progress of a repair, and how long it may take.

use crate::StoreError;
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// Called after each step of looking at a file.
pub struct Watch<'w> {
    /// When looking ends. A recorder that starts cannot wait for as long as a file of a hostile
    /// size takes.
    pub deadline: Option<Instant>,
    /// Gets the path of a file, the offset that was reached, and the file's size in bytes.
    pub report: &'w dyn Fn(&Path, u64, u64),
}

impl Watch<'_> {
    /// No reports and no deadline.
    pub const NONE: Watch<'static> = Watch { deadline: None, report: &|_, _, _| {} };

    /// A step was made.
    ///
    /// # Errors
    /// The time is over.
    pub(super) fn step(&self, path: &Path, at: u64, bytes: u64) -> Result<(), StoreError> {
        (self.report)(path, at, bytes);
        if self.deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return Ok(());
        }
        let reason = "was looked at for as long as a start may take, and is left as it is: \
                      `ringside repair` takes the time";
        Err(StoreError::Unusable { path: path.to_owned(), reason: reason.into() })
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
