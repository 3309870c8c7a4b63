//! Building the index of a file: one pass over its frames, in bounded memory.

use crate::file::{Directory, HEADER_BYTES, Identity, links_of};
use crate::parts::Collector;
use crate::path_of;
use crate::segment::{Builder, SegmentEntry};
use ringside_core::{LinkType, Shown};
use ringside_store::{IndexMaker, Notice, PartReader, PartStep, StoreError};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Bytes of the capture file that were looked at.
    pub bytes: u64,
    /// Frames of parts.
    pub frames: u64,
    /// Parts.
    pub parts: u64,
    /// Of these, parts with too many keys, or with frames that were cut within an indexed field:
    /// they may hold anything.
    pub anything: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// What is to be said of the capture file.
    pub notices: Vec<Notice>,
    /// It was ended before the end of the file; nothing was written.
    pub is_stopped: bool,
}

/// Why no index was built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The capture file cannot be read.
    #[error(transparent)]
    Capture(#[from] StoreError),
    /// The index cannot be written.
    #[error("cannot write {}", path.shown())]
    Write {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Builds the index of the capture file at `path` next to it, in place of one that is there.
/// `go_on` gets the bytes read so far, and ends the work if it says so.
///
/// # Errors
/// The file is no capture, is compressed, or the index cannot be written.
pub fn build(path: &Path, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Built, BuildError> {
    // What is written to the file from now on makes the index older than it.
    let metadata = fs::metadata(path);
    let mut reader = PartReader::open(path)?;
    let target = path_of(path);
    let fail = |source| BuildError::Write { path: target.clone(), source };
    let draft = IndexMaker::Reader.draft_of(path.file_name().unwrap_or_default());
    let (metadata, draft) = (metadata.map_err(fail)?, target.with_file_name(draft));
    let made = File::create(&draft).map_err(fail)?;
    let built = write(&mut reader, &made, &metadata, go_on).and_then(|built| {
        if built.is_stopped {
            fs::remove_file(&draft)?;
        } else {
            made.set_permissions(metadata.permissions())?;
            fs::rename(&draft, &target)?;
        }
        Ok(built)
    });
    built.map_err(|error| {
        // Best effort: the first error is what counts.
        let _ = fs::remove_file(&draft);
        fail(error)
    })
}

fn write(
    reader: &mut PartReader,
    file: &File,
    metadata: &fs::Metadata,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> io::Result<Built> {
    let mut out = Output {
        file: BufWriter::with_capacity(1 << 20, file),
        offset: HEADER_BYTES as u64,
        segments: Vec::new(),
        builder: Builder::default(),
    };
    out.file.write_all(&[0; HEADER_BYTES])?;
    let mut built = Built::default();
    let mut collector = Collector::new();
    loop {
        let part = match reader.step() {
            PartStep::Frames(batch) => {
                for frame in batch.iter() {
                    // A frame of no interface is refused before it comes here.
                    let interface = batch.interface_of(&frame.meta);
                    let link = interface.map_or(LinkType::UNKNOWN, |one| one.link_type);
                    collector.see(frame.bytes, link);
                }
                continue;
            }
            PartStep::Part(part) => Some(part),
            PartStep::Unfit => None,
            PartStep::End => break,
        };
        let keys = collector.take();
        if let Some(part) = part {
            built.parts += 1;
            built.frames += part.frames;
            built.anything += u64::from(keys.is_none());
            out.builder.add(part, keys.as_ref(), reader.dropped().cloned().unwrap_or_default());
            out.end_segment(false)?;
        }
        built.bytes = reader.bytes();
        if !go_on(built.bytes) {
            return Ok(Built { is_stopped: true, ..built });
        }
    }
    out.end_segment(true)?;
    built.bytes = reader.bytes();
    built.notices = reader.notices();
    let directory = directory(reader, metadata, &built, out.segments);
    let coded = directory.coded();
    out.file.write_all(&coded)?;
    out.file.flush()?;
    file.write_all_at(&Directory::header(&coded, out.offset), 0)?;
    built.index_bytes = out.offset + coded.len() as u64;
    Ok(built)
}

fn directory(
    reader: &PartReader,
    metadata: &fs::Metadata,
    built: &Built,
    segments: Vec<SegmentEntry>,
) -> Directory {
    let place = reader.recording().map(|it| (it.run.clone(), it.lane, it.sequence));
    Directory {
        identity: Identity::of((metadata, reader.file_bytes()), place, reader.is_finished()),
        covered_bytes: built.bytes,
        parts: built.parts,
        frames: built.frames,
        links: links_of(reader.interfaces().iter().map(|one| one.link_type)),
        segments,
    }
}

struct Output<'f> {
    file: BufWriter<&'f File>,
    offset: u64,
    segments: Vec<SegmentEntry>,
    builder: Builder,
}

impl Output<'_> {
    /// Writes the segment if it is full, or if it is the last.
    fn end_segment(&mut self, is_last: bool) -> io::Result<()> {
        if self.builder.is_empty() || !(is_last || self.builder.is_full()) {
            return Ok(());
        }
        let coded = self.builder.take();
        self.file.write_all(&coded.head)?;
        self.file.write_all(&coded.groups)?;
        self.offset += (coded.head.len() + coded.groups.len()) as u64;
        self.segments.push(coded.entry());
        Ok(())
    }
}
