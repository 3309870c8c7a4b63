//! Writers of single files and streams: pcapng, pcap and text behind one trait.
//!
//! All collect whole records and hand them over together, so that every write, and therefore
//! every growth of a file that someone else reads, ends at the end of a record. The writer below
//! needs no buffer of its own.

mod buffer;
mod lock;
mod open;
mod packed;
mod pcap;
mod pcapng;
mod text;

pub use lock::lock_for_writing;
pub use packed::Packing;
pub use pcap::{PcapWriter, Precision};
pub use pcapng::PcapngWriter;
pub(crate) use pcapng::{append_interface, append_section_header};
pub use text::{Describe, TextWriter};

use crate::StoreError;
use crate::block::{self, Statistics};
use crate::inputs::is_input;
use open::open_to_write;
use ringside_core::{Direction, Frame, InterfaceId, Shown, SourceInterface};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Something that stores frames in order.
///
/// After an error nothing more is written. [`frames_written`](FrameWriter::frames_written) then is
/// the number of frames that lie whole in the first
/// [`bytes_written`](FrameWriter::bytes_written) bytes of the output; a file is made valid again
/// by cutting it to that length.
pub trait FrameWriter: Send {
    /// Adds an interface; frames refer to it by the returned id, counted from 0.
    ///
    /// # Errors
    /// Too many interfaces.
    fn add_interface(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError>;

    /// Adds one frame.
    ///
    /// # Errors
    /// The frame cannot be stored in this format (it is not written, and the writer goes on), or
    /// the system refused a write.
    fn write(&mut self, frame: &Frame<'_>) -> Result<(), StoreError>;

    /// As [`write`](FrameWriter::write), with a comment where the format has a place for one.
    ///
    /// # Errors
    /// As for `write`.
    fn write_commented(&mut self, frame: &Frame<'_>, comment: &str) -> Result<(), StoreError>;

    /// Hands everything over that was added, so that a reader of the stream sees it.
    ///
    /// # Errors
    /// The system refused.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Adds the closing statistics, where the format has a place for them, and flushes.
    ///
    /// # Errors
    /// The system refused.
    fn finish(&mut self, statistics: &[Statistics<'_>]) -> Result<(), StoreError>;

    /// Size of the file once everything is handed over that was added so far, headers included.
    fn bytes_added(&self) -> u64;

    /// Bytes of whole records that the output has accepted.
    fn bytes_written(&self) -> u64;

    /// Frames that the output has accepted whole.
    fn frames_written(&self) -> u64;
}

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcapng: any number of interfaces and link types, times to the year 2554.
    Pcapng,
    /// pcap with stamps of nanoseconds: one link type, times to the year 2106.
    Pcap,
}

impl Format {
    /// By the ending, in capital or small letters: `.pcap` and `.cap` are pcap, `.pcapng` and
    /// `.ntar` pcapng, also with `.gz` or `.zst` behind. Other names, and standard output, do not
    /// tell.
    pub fn of_path(path: &Path) -> Option<Format> {
        if Packing::of_path(path).is_some() {
            return Format::of_path(Path::new(path.file_stem()?));
        }
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "pcap" | "cap" => Some(Format::Pcap),
            "pcapng" | "ntar" => Some(Format::Pcapng),
            _ => None,
        }
    }

    /// Bytes that a frame of which `captured` bytes are kept takes in a file, exactly.
    pub const fn record_bytes(self, captured: usize, direction: Direction) -> u64 {
        let bytes = match self {
            Format::Pcapng => block::packet_block_bytes(captured, direction),
            Format::Pcap => pcap::RECORD_HEADER_BYTES + captured,
        };
        bytes as u64
    }

    /// Bytes that `comment` adds to that, exactly.
    pub fn comment_bytes(self, comment: &str, direction: Direction) -> u64 {
        match self {
            Format::Pcapng => pcapng::comment_bytes(comment, direction) as u64,
            Format::Pcap => 0,
        }
    }

    /// A writer of this format over `out`, with `interfaces` as ids from 0, whose frames keep
    /// within their `snaplen_bytes`.
    ///
    /// # Errors
    /// Too many interfaces.
    pub fn writer<W: Write + Send + 'static>(
        self,
        out: W,
        interfaces: &[SourceInterface],
    ) -> Result<Box<dyn FrameWriter>, StoreError> {
        Ok(match self {
            Format::Pcapng => Box::new(PcapngWriter::new(out, interfaces)?),
            Format::Pcap => Box::new(PcapWriter::new(out, interfaces, Precision::Nanoseconds)?),
        })
    }
}

/// Mode of a new file: captures hold other people's traffic, so nothing for others.
pub(crate) const FILE_MODE: u32 = 0o640;
/// Of files that are only locked: any process that can open one can keep others waiting.
pub(crate) const LOCK_MODE: u32 = 0o600;

/// Creates the file at `path` with mode 0640, or empties it, as tcpdump does for `-w FILE`. A file
/// that exists keeps its mode; a FIFO or device is opened as it is. The file is
/// [locked](lock_for_writing).
///
/// # Errors
/// Another process writes the file, or the system refused.
pub fn create_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    // Emptied only once it is ours.
    options.write(true).create(true).truncate(false).mode(FILE_MODE);
    let file = open_to_write(&options, path).map_err(|error| cannot("create", path, error))?;
    empty(&file, path)?;
    Ok(file)
}

/// As [`create_file`], for a copy of `inputs` as [`open`](crate::open) takes them: a file that
/// belongs to them is refused and left as it is. What is compared is the file that was opened, so
/// no other name of it, and no change of names meanwhile, deceives.
///
/// # Errors
/// The file is one of the inputs, another process writes it, or the system refused.
pub fn create_copy(path: &Path, inputs: &[PathBuf]) -> Result<File, StoreError> {
    let file = match open_to_write(OpenOptions::new().write(true), path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return create_file(path),
        opened => opened.map_err(|error| cannot("write", path, error))?,
    };
    if is_input(inputs, &file)? {
        let reason = "is read and written at once: name another file".to_owned();
        return Err(StoreError::Unusable { path: path.to_owned(), reason });
    }
    empty(&file, path)?;
    Ok(file)
}

/// Locks and empties what is a regular file.
fn empty(file: &File, path: &Path) -> Result<(), StoreError> {
    lock_for_writing(file, path)?;
    let emptied = match file.metadata() {
        Ok(metadata) if metadata.is_file() => file.set_len(0),
        other => other.map(drop),
    };
    emptied.map_err(|error| cannot("empty", path, error))
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> StoreError {
    StoreError::io(format!("cannot {what} {}", path.shown()), error)
}

#[cfg(test)]
mod tests;
