//! Messages back to back in a file (RFC 5655).

use crate::desk::Desk;
use crate::error::ExportError;
use crate::message::{Message, Session};
use ringside_flow::RecordSums;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Opens a file that no other process writes, and empties it.
pub(crate) fn open(path: &Path) -> Result<File, ExportError> {
    let failed = ExportError::file("opening", path);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(&failed)?;
    let is_file = file.metadata().map_err(&failed)?.is_file();
    if !is_file {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    lock(&file, path)?;
    file.set_len(0).map_err(ExportError::file("emptying", path))?;
    Ok(file)
}

/// Holds off other processes as long as `file` is open.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), ExportError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ExportError::Busy { path: path.to_owned() }),
        Err(errno) => Err(ExportError::file("locking", path)(errno.into())),
    }
}

/// Writes what comes, until the desk is closed.
pub(crate) fn run(desk: &Desk, file: &File, templates: &[u8]) {
    let mut writer = Writer { file, templates, session: None, length: 0, buffer: Vec::new() };
    desk.serve(|batch| {
        let mut held = RecordSums::default();
        for message in batch {
            held += message.held;
        }
        let outcome = writer.write(batch);
        desk.change(|status| {
            status.counts.waiting -= held;
            match outcome {
                Ok(()) => {
                    status.counts.delivered += held;
                    status.messages += batch.len() as u64;
                }
                Err(error) => {
                    status.counts.write_failed += held;
                    status.error = Some(error.to_string());
                }
            }
        });
    });
    if let Err(error) = writer.finish() {
        // How much of it is on the disk is unknown: all of it may be lost.
        desk.change(|status| {
            status.counts.write_failed.take(&mut status.counts.delivered);
            status.error = Some(error.to_string());
        });
    }
}

struct Writer<'f> {
    file: &'f File,
    templates: &'f [u8],
    session: Option<Session>,
    /// Whole messages so far; what a vain write left behind them is written over.
    length: u64,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, batch: &[Message]) -> io::Result<()> {
        let Some(first) = batch.first() else { return Ok(()) };
        self.buffer.clear();
        let mut session = match self.session {
            Some(session) => session,
            None => Session::begin(self.templates, first, &mut self.buffer),
        };
        for message in batch {
            session.put(message, &mut self.buffer);
        }
        self.file.write_all_at(&self.buffer, self.length)?;
        self.length += self.buffer.len() as u64;
        self.session = Some(session);
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.sync_data()
    }
}
