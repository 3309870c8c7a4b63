//! A log as a file that is cut: when it is long enough, it is put aside as `NAME.1`, the one before
//! as `NAME.2`, and so on, as logrotate does.

use crate::log::LogOutput;
use ringside_core::Timestamp;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// When a file is put aside, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes after which a file is put aside.
    pub bytes: Option<u64>,
    /// Nanoseconds of the packets' time after which a file is put aside, at multiples of that.
    pub time_ns: Option<u64>,
    /// Files that are kept in addition to the one that is written.
    pub kept: u32,
}

impl Rotation {
    /// Files that are kept unless asked otherwise.
    pub const KEPT: u32 = 7;
    /// Most files that are kept: each is renamed when one is put aside.
    pub const KEPT_MAX: u32 = 1_000;
}

/// Writes a file, and puts it aside.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    file: BufWriter<File>,
    bytes: u64,
    /// Which span of time the file belongs to, once it has a line.
    span: Option<u64>,
}

impl LogFile {
    /// Opens a file; what is in it stays, and lines are put behind it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, rotation: Rotation) -> io::Result<LogFile> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        let file = BufWriter::new(file);
        Ok(LogFile { path: path.to_owned(), rotation, file, bytes, span: None })
    }

    fn span_of(&self, now: Timestamp) -> Option<u64> {
        self.rotation.time_ns.map(|span| now.0 / span.max(1))
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let is_full = self.rotation.bytes.is_some_and(|bytes| self.bytes >= bytes);
        let is_over = self.span.is_some_and(|span| self.span_of(now).is_some_and(|now| now > span));
        self.bytes > 0 && (is_full || is_over)
    }

    /// Puts the file aside, and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let numbered = |number: u32| {
            let mut name = OsString::from(&self.path);
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.rotation.kept).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.rotation.kept {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, numbered(1))?,
        }
        let file = OpenOptions::new().create_new(true).append(true).open(&self.path)?;
        (self.file, self.bytes, self.span) = (BufWriter::new(file), 0, None);
        Ok(())
    }
}

impl LogOutput for LogFile {
    fn ready(&mut self, now: Timestamp) -> io::Result<bool> {
        if self.is_due(now) {
            self.rotate()?;
        }
        self.span = self.span.or(self.span_of(now));
        Ok(self.bytes == 0)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
