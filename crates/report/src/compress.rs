//! What was compressed of recordings.

use ringside_core::Shown;
use ringside_store::retention::{Deleted, Packed, PackedState};
use ringside_terminal::{say, units};
use serde_json::json;
use std::io;
use std::path::Path;

/// The sums over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Files that were compressed, and the bytes that they took before and take now.
    pub packed: (u64, u64, u64),
    /// Files that stay as they are.
    pub left: u64,
    /// Files that could not be compressed.
    pub failed: u64,
    /// Files that had to go for room, by the limits of the recorders there, and their bytes.
    pub deleted: (u64, u64),
}

impl Account {
    /// Adds what had to go for a file.
    pub fn note_deleted(&mut self, deleted: &[Deleted]) {
        self.deleted.0 += deleted.len() as u64;
        self.deleted.1 += deleted.iter().map(|file| file.bytes).sum::<u64>();
    }

    /// Adds a file.
    pub fn note(&mut self, packed: &Packed) {
        match packed.state {
            PackedState::Packed => {
                let (files, before, after) = &mut self.packed;
                *files += 1;
                *before += packed.bytes;
                *after += packed.packed_bytes;
            }
            PackedState::NotSmaller | PackedState::Gone => self.left += 1,
            PackedState::Stopped => {}
        }
    }
}

/// Says what became of a file.
///
/// # Errors
/// Standard output cannot be written.
pub fn file(directory: &Path, packed: &Packed, is_json: bool) -> io::Result<()> {
    let shown = directory.join(&packed.name).shown().to_string();
    if is_json {
        let Packed { state, bytes, packed_bytes, .. } = packed;
        return say::data(json!({
            "file": shown, "state": state, "bytes": bytes, "compressed_bytes": packed_bytes,
        }));
    }
    let (bytes, packed_bytes) = (units::grouped(packed.bytes), units::grouped(packed.packed_bytes));
    let text = match packed.state {
        PackedState::Packed => format!("{bytes} bytes compressed to {packed_bytes}"),
        PackedState::NotSmaller => {
            format!("{bytes} bytes would take {packed_bytes}: it stays as it is")
        }
        PackedState::Gone => "deleted or changed meanwhile".to_owned(),
        PackedState::Stopped => "stopped: it stays as it is".to_owned(),
    };
    say::message(format_args!("{shown}: {text}"));
    Ok(())
}

/// Says the sums.
///
/// # Errors
/// Standard output cannot be written.
pub fn account(account: &Account, is_stopped: bool, is_json: bool) -> io::Result<()> {
    let Account { packed: (files, before, after), left, failed, deleted } = account;
    if is_json {
        return say::data(json!({ "account": {
            "files_compressed": files, "bytes": before, "compressed_bytes": after,
            "files_left": left, "files_failed": failed, "files_deleted": deleted.0,
            "bytes_deleted": deleted.1, "stopped": is_stopped,
        }}));
    }
    say::message(format_args!(
        "ringside: {} compressed, from {} bytes to {}; {} left as they are, {} failed",
        units::counted(*files, "file"),
        units::grouped(*before),
        units::grouped(*after),
        units::grouped(*left),
        units::grouped(*failed),
    ));
    if deleted.0 > 0 {
        let (files, bytes) = (units::counted(deleted.0, "file"), units::grouped(deleted.1));
        say::message(format_args!("ringside: {files} of {bytes} bytes had to go to make room"));
    }
    if is_stopped {
        say::message("ringside: stopped by a signal: run it again for the rest");
    }
    Ok(())
}
