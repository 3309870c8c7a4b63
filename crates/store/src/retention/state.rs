//! What the lock file of a directory says: the next serial number, and who else has limits.

use super::Policy;
use super::folder::name_of_spare;
use crate::file_name::parts_of_name;
use serde::{Deserialize, Serialize};

/// Version of the lock file's content.
pub(super) const STATE_VERSION: u32 = 1;
/// Runs with limits in one directory at a time, so that the state fits its page.
pub(super) const RECORDERS_MAX: usize = 16;
/// The state is one page, written in one piece: a killed writer leaves the old or the new.
pub(super) const STATE_BYTES: usize = 4096;

/// Greatest serial number that is believed: no directory has had that many files. A larger one in
/// the lock file would use up the numbers.
pub(super) const SERIAL_MAX: u64 = u64::MAX / 2;

/// Kept from one reservation to the next, over all runs. It may be lost: then serials go on from
/// the greatest of the files that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) version: u32,
    /// No file of the directory ever had this serial or a greater one.
    pub(super) next_serial: u64,
    /// Name of the file that is being created. It did not exist before, so if it is there without
    /// a header page, its creator was killed.
    pub(super) creating: Option<String>,
    /// Limits of the runs that record here. Each honours those of all that live.
    pub(super) recorders: Vec<Recorder>,
}

/// True for the names that files of recordings have while they are made, which lead nowhere else.
fn is_of_recording(name: &str) -> bool {
    parts_of_name(name_of_spare(name).unwrap_or(name)).is_some()
}

/// The limits of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recorder {
    pub(super) run: String,
    pub(super) limit_bytes: Option<u64>,
    pub(super) min_free: Option<u64>,
    /// Bytes that may be pinned; of a recorder that says nothing, half of its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pin_bytes: Option<u64>,
}

impl Recorder {
    fn pin_budget(&self) -> Option<u64> {
        self.pin_bytes.or(self.limit_bytes.map(|bytes| bytes / 2))
    }
}

/// What the directory as a whole has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) bytes: Option<u64>,
    pub(super) min_free: Option<u64>,
    pub(super) pin_bytes: Option<u64>,
}

impl Default for State {
    /// A directory in which nothing was ever recorded.
    fn default() -> State {
        let recorders = Vec::new();
        State { version: STATE_VERSION, next_serial: 1, creating: None, recorders }
    }
}

impl State {
    /// From the bytes of the lock file. `Err` holds the version of a later program; what is no
    /// state at all counts as lost, and so does a part that none of ours can have written: in a
    /// directory of another user anybody may have.
    pub(super) fn decode(bytes: &[u8]) -> Result<State, u32> {
        let state: Option<State> = serde_json::from_slice(bytes).ok();
        let state = state.unwrap_or_default();
        if state.version > STATE_VERSION {
            return Err(state.version);
        }
        let state = if state.next_serial > SERIAL_MAX { State::default() } else { state };
        // What has this name will be removed.
        let creating = state.creating.filter(|name| is_of_recording(name));
        Ok(State { creating, ..state })
    }

    /// The page for the lock file; `None` if it does not fit.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self).ok()?;
        if bytes.len() >= STATE_BYTES {
            return None;
        }
        bytes.resize(STATE_BYTES - 1, b' ');
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Notes the limits of `run`, in place of what it said before.
    pub(super) fn note(&mut self, run: &str, policy: &Policy) {
        self.recorders.retain(|recorder| recorder.run != run);
        let Policy { limit_bytes, min_free, pin_bytes, .. } = *policy;
        if limit_bytes.is_some() || min_free.is_some() || pin_bytes.is_some() {
            self.recorders.push(Recorder { run: run.to_owned(), limit_bytes, min_free, pin_bytes });
        }
    }

    /// The strictest limits of all runs.
    pub(super) fn limits(&self) -> Limits {
        let recorders = || self.recorders.iter();
        let bytes = recorders().filter_map(|recorder| recorder.limit_bytes).min();
        let min_free = recorders().filter_map(|recorder| recorder.min_free).max();
        Limits { bytes, min_free, pin_bytes: recorders().filter_map(Recorder::pin_budget).min() }
    }
}
