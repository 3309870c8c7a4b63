//! Repair of a capture file that is of no recording: of `-w FILE`, or of another program.
//!
//! Such a file is whole up to a torn end, which is cut. Nothing in it says that it was ended, and
//! no lock that it is being written: it is cut only while no other process has it open.

use super::{CaptureReport, Change, Options, RunState};
use crate::StoreError;
use crate::reader::{Condition, FileSource};
use crate::writer::Packing;
use ringside_core::Source;
use ringside_sys::disk::Lease;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Looks at the capture file at `path` and cuts its torn end.
pub(super) fn repair(path: &Path, options: &Options) -> CaptureReport {
    let (state, frames, changes) = (RunState::Clean, 0, Vec::new());
    let mut report = CaptureReport { path: path.to_owned(), state, frames, changes, error: None };
    let failed = match read_through(path, &mut report.frames) {
        Ok((Condition::CutShort { offset, left_bytes }, None)) => {
            report.changes.push(Change::Cut { offset, bytes: left_bytes });
            report.state = if options.dry_run { RunState::Broken } else { RunState::Repaired };
            if options.dry_run { Ok(()) } else { cut(path, offset, left_bytes) }
        }
        Ok((Condition::Damaged { offset, reason }, _)) => Err(format!(
            "damaged at byte {offset}: {reason}; left as it is; `ringside read -r FILE -w NEW` \
             copies the packets before"
        )),
        Ok((
            Condition::PackedCutShort { offset, .. } | Condition::CutShort { offset, .. },
            Some(packing),
        )) => Err(format!(
            "is compressed ({}), and such a file is not repaired: it is cut short at byte \
             {offset} of what was unpacked; `ringside read -r FILE -w NEW` copies the packets that \
             are whole",
            packing.name()
        )),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = failed {
        report.state = RunState::Failed;
        report.changes.clear();
        report.error = Some(error);
    }
    report
}

/// Reads all of a file and counts its packets. Returns how it ended, and how it is packed.
fn read_through(path: &Path, frames: &mut u64) -> Result<(Condition, Option<Packing>), StoreError> {
    let mut source = FileSource::open(path)?;
    while !source.is_finished() {
        let step = source.next_batch(Duration::MAX);
        match step.map(|batch| batch.map_or(0, |batch| batch.frame_count() as u64)) {
            Ok(count) => *frames += count,
            // The condition says what is wrong.
            Err(_) => break,
        }
    }
    Ok((source.condition().clone(), source.packing()))
}

/// Cuts `left_bytes` of a torn record at `offset`, the end of a file that no process writes.
fn cut(path: &Path, offset: u64, left_bytes: u64) -> Result<(), String> {
    let refused = |error: std::io::Error| format!("cannot be cut: {error}");
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(refused)?;
    // A process that writes it would go on behind a hole.
    let lease = Lease::take(file).map_err(|error| not_alone(&error))?;
    let file = lease.file();
    if file.metadata().map_err(refused)?.len() != offset + left_bytes {
        return Err("left as it is: it has changed since it was looked at".into());
    }
    file.set_len(offset).and_then(|()| file.sync_all()).map_err(refused)
}

/// What it means, and what to do, if there is no lease of a file.
fn not_alone(error: &std::io::Error) -> String {
    const COPY: &str = "copy what is whole: `ringside read -r FILE -w NEW`";
    match error.kind() {
        ErrorKind::WouldBlock => {
            format!("left as it is: another process has it open; end that process first, or {COPY}")
        }
        ErrorKind::PermissionDenied => format!(
            "left as it is: only its owner or root can find out whether another process has it \
             open; repair it as one of them, or {COPY}"
        ),
        _ => format!(
            "left as it is: its file system does not say whether another process has it open \
             ({error}); {COPY}"
        ),
    }
}
