//! A merged file whose writer died: cut to its last whole record.
//!
//! The writer publishes how far it had got with what it had handed over. From there on records are
//! walked by their lengths; what is whole counts, what is torn goes.

use super::io_error;
use crate::config::FileFormat;
use crate::output::{Position, name_of};
use ringside_store::pcapng::ENHANCED_PACKET;
use ringside_store::writer::lock_for_writing;
use ringside_store::{Packing, StoreError};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest record that the writer makes, with room: a frame of 256 KiB and its options.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// The file that was written, or several.
pub(super) struct Series {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
    pub(super) rotates: bool,
}

/// Cuts the last file to what is whole, and counts the frames beyond `known`.
///
/// # Errors
/// The file cannot be opened, read, cut or synced.
pub(super) fn finish(series: &Series, known: Position) -> Result<u64, StoreError> {
    let path = name_of(&series.path, series.rotates, known.named);
    let fail = |error| io_error("cannot finish", &path, error);
    let file = open(&path).map_err(fail)?;
    // Another run may have begun to write it since.
    lock_for_writing(&file, &path)?;
    let size = file.metadata().map_err(fail)?.len();
    if let Some(packing) = Packing::of_path(&path) {
        // Whole parts are whole records; the frames of what came after them are not known.
        let bytes = known.bytes.min(size);
        file.set_len(bytes).map_err(fail)?;
        if !known.is_ended {
            packing.end_cut_file(&file, bytes).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        return Ok(0);
    }
    let start = match (known.bytes, series.format) {
        (0, FileFormat::Pcap) => PCAP_HEADER_BYTES.min(size),
        (bytes, _) => bytes.min(size),
    };
    let Walked { end, frames } = walk(&file, series.format, start, size).map_err(fail)?;
    if end < size {
        file.set_len(end).map_err(fail)?;
    }
    file.sync_all().map_err(fail)?;
    Ok(frames)
}

/// Bytes of the header of a pcap file.
const PCAP_HEADER_BYTES: u64 = 24;

fn open(path: &Path) -> io::Result<File> {
    // No link is followed, and no FIFO waited for.
    let safely = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(safely).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Walked {
    end: u64,
    frames: u64,
}

/// Walks records from `start`, which is a record's border.
fn walk(file: impl Read + Seek, format: FileFormat, start: u64, size: u64) -> io::Result<Walked> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(start))?;
    let mut walked = Walked { end: start, frames: 0 };
    while let Some((bytes, is_frame)) = record(&mut reader, format)? {
        if walked.end + bytes > size {
            break;
        }
        walked.end += bytes;
        walked.frames += u64::from(is_frame);
    }
    Ok(walked)
}

/// The length of the next record, and whether it holds a frame; the reader is then behind it.
/// `None` if it is torn, or none.
fn record(reader: &mut (impl Read + Seek), format: FileFormat) -> io::Result<Option<(u64, bool)>> {
    let word = |at: usize, head: &[u8]| {
        u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
    };
    match format {
        FileFormat::Pcap => {
            let mut head = [0; 16];
            if !is_whole(reader.read_exact(&mut head))? {
                return Ok(None);
            }
            let bytes = word(8, &head);
            if bytes > RECORD_BYTES_MAX {
                return Ok(None);
            }
            reader.seek(SeekFrom::Current(bytes as i64))?;
            Ok(Some((bytes + 16, true)))
        }
        FileFormat::Pcapng => {
            let mut head = [0; 8];
            if !is_whole(reader.read_exact(&mut head))? {
                return Ok(None);
            }
            let (kind, bytes) = (word(0, &head), word(4, &head));
            if !(12..=RECORD_BYTES_MAX).contains(&bytes) || bytes % 4 != 0 {
                return Ok(None);
            }
            reader.seek(SeekFrom::Current(bytes as i64 - 12))?;
            let mut last = [0; 4];
            if !is_whole(reader.read_exact(&mut last))? || word(0, &last) != bytes {
                return Ok(None);
            }
            Ok(Some((bytes, kind == u64::from(ENHANCED_PACKET))))
        }
    }
}

/// False at the end of the file.
fn is_whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rotation;
    use crate::output::Sink;
    use ringside_core::{Consumer, Frame, FrameMeta, SourceInterface};
    use ringside_store::Format;

    /// A file of `frames` frames, and where each record of it ends.
    fn file(format: FileFormat, frames: u64) -> (tempfile::NamedTempFile, Vec<u64>) {
        let store = match format {
            FileFormat::Pcap => Format::Pcap,
            FileFormat::Pcapng => Format::Pcapng,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let interface = SourceInterface::ethernet("eth1");
        let mut writer = store.writer(file.reopen().unwrap(), &[interface]).unwrap();
        writer.flush().unwrap();
        let mut ends = vec![writer.bytes_written()];
        for frame in 0..frames {
            let bytes = vec![7; 60 + frame as usize];
            let meta = FrameMeta { wire_bytes: bytes.len() as u32, ..FrameMeta::default() };
            writer.write(&Frame { bytes: &bytes, meta }).unwrap();
            writer.flush().unwrap();
            ends.push(writer.bytes_written());
        }
        (file, ends)
    }

    #[test]
    fn a_torn_record_goes_and_whole_ones_are_counted_from_wherever() {
        for format in [FileFormat::Pcap, FileFormat::Pcapng] {
            let (file, ends) = file(format, 20);
            let whole = std::fs::read(file.path()).unwrap();
            for cut in [0, 1, 5, 16, 30] {
                for known in [0, 3, 18] {
                    std::fs::write(file.path(), &whole[..whole.len() - cut]).unwrap();
                    let path = file.path().to_owned();
                    let series = Series { path, format, rotates: false };
                    let bytes = if known == 0 { 0 } else { ends[known] };
                    let frames =
                        finish(&series, Position { bytes, ..Position::default() }).unwrap();
                    let left = 20 - u64::from(cut > 0) - known as u64;
                    assert_eq!(frames, left, "{format:?} {cut} {known}");
                    let size = std::fs::metadata(file.path()).unwrap().len();
                    assert_eq!(size, ends[20 - usize::from(cut > 0)]);
                }
            }
        }
    }

    #[test]
    fn a_compressed_file_gets_its_end_once_whenever_the_worker_dies() {
        for name in ["a.pcapng.zst", "a.pcap.gz"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let format = FileFormat::Pcapng;
            let interfaces = vec![SourceInterface::ethernet("eth1")];
            let mut sink =
                Sink::file(path.clone(), format, Rotation::default(), interfaces).unwrap();
            let meta = FrameMeta { wire_bytes: 60, ..FrameMeta::default() };
            sink.write(&Frame { bytes: &[7; 60], meta }, None, 0).unwrap();
            let before = sink.position();
            sink.finish(&[]).unwrap();
            let after = sink.position();
            drop(sink);
            let whole = std::fs::read(&path).unwrap();
            let series = Series { path: path.clone(), format, rotates: false };
            let finished = |position: Position| {
                let mut words = Consumer::default().to_words();
                position.add_to(&mut words);
                finish(&series, Position::from_words(&words)).unwrap();
                std::fs::read(&path).unwrap()
            };
            assert_eq!(finished(after), whole, "{name}: killed after the end");
            assert!(finished(before).len() < whole.len(), "{name}: killed before it was known");
        }
    }

    #[test]
    fn garbage_ends_the_walk() {
        for format in [FileFormat::Pcap, FileFormat::Pcapng] {
            for tail in [&[0xff; 40][..], &[0; 40], &[4, 0, 0, 0, 8, 0, 0, 0]] {
                let (file, ends) = file(format, 5);
                let mut bytes = std::fs::read(file.path()).unwrap();
                bytes.extend_from_slice(tail);
                std::fs::write(file.path(), &bytes).unwrap();
                let series = Series { path: file.path().to_owned(), format, rotates: false };
                let frames =
                    finish(&series, Position { bytes: ends[2], ..Position::default() }).unwrap();
                // A pcap record has nothing that tells zeros from a frame without bytes.
                let zeros = format == FileFormat::Pcap && tail.starts_with(&[0; 32]);
                assert_eq!(frames, if zeros { 5 } else { 3 }, "{format:?} {tail:?}");
            }
        }
    }
}
