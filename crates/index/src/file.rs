//! An index as a file: which capture it is of, and where its segments lie.

use crate::code::{Reader, checksum, put, put_stamps};
use crate::segment::{HEAD_BYTES_MAX, SegmentEntry};
use ringside_core::{LaneId, LinkType};
use ringside_store::{FileHeader, content_bytes, index_path};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use thiserror::Error;

pub(crate) const MAGIC: [u8; 8] = *b"RINGSIDX";
/// Version of the format. Another one is not read: it is built anew.
pub(crate) const VERSION: u32 = 1;
/// Magic, version, bytes of the directory, its offset, its checksum, that of all this.
pub(crate) const HEADER_BYTES: usize = 32;
/// A file of 256 TiB has a directory of this size.
const DIRECTORY_BYTES_MAX: usize = 16 << 20;
/// Link types that are kept one by one. A file of more is pruned by time alone.
pub(crate) const LINKS_MAX: usize = 16;

/// The link types of all interfaces, each once; none if they are too many.
pub(crate) fn links_of(interfaces: impl Iterator<Item = LinkType>) -> Option<Vec<LinkType>> {
    let mut links: Vec<_> = interfaces.collect();
    links.sort_unstable();
    links.dedup();
    Some(links).filter(|links| links.len() <= LINKS_MAX)
}

/// Run, lane and number of a file of a recording.
pub(crate) type Place = (String, LaneId, u64);

/// Which file an index is of, and in what state that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) file_bytes: u64,
    pub(crate) modified_ns: i64,
    /// Of a file of a recording.
    pub(crate) place: Option<Place>,
    /// Something may have come to that file since.
    pub(crate) is_growing: bool,
}

/// All of an index but its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) identity: Identity,
    /// Bytes of the file that were looked at.
    pub(crate) covered_bytes: u64,
    pub(crate) parts: u64,
    pub(crate) frames: u64,
    /// Of all interfaces; none if there are too many.
    pub(crate) links: Option<Vec<LinkType>>,
    pub(crate) segments: Vec<SegmentEntry>,
}

impl Directory {
    pub(crate) fn coded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Identity { file_bytes, modified_ns, place, is_growing } = &self.identity;
        put(&mut out, *file_bytes);
        put(&mut out, *modified_ns as u64);
        put(&mut out, u8::from(place.is_some()) | u8::from(*is_growing) << 1);
        if let Some((run, lane, sequence)) = place {
            put(&mut out, run.len() as u64);
            out.extend_from_slice(run.as_bytes());
            put(&mut out, lane.0);
            put(&mut out, *sequence);
        }
        [self.covered_bytes, self.parts, self.frames].iter().for_each(|&n| put(&mut out, n));
        let links = self.links.as_deref();
        put(&mut out, links.map_or(0, |links| links.len() as u64 + 1));
        links.into_iter().flatten().for_each(|link| put(&mut out, link.0));
        put(&mut out, self.segments.len() as u64);
        for segment in &self.segments {
            put(&mut out, segment.head_bytes as u64);
            put(&mut out, segment.head_checksum);
            put(&mut out, segment.groups_bytes);
            put_stamps(&mut out, segment.stamps);
        }
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Directory> {
        let mut reader = Reader(bytes);
        let (file_bytes, modified_ns) = (reader.number()?, reader.number::<u64>()? as i64);
        let flags = reader.number::<u8>().filter(|&flags| flags < 4)?;
        let (is_recording, is_growing) = (flags & 1 != 0, flags & 2 != 0);
        let place = if is_recording { Some(read_place(&mut reader)?) } else { None };
        let (covered_bytes, parts, frames) = (reader.number()?, reader.number()?, reader.number()?);
        let links = match reader.number::<usize>()?.checked_sub(1) {
            None => None,
            Some(count) if count > LINKS_MAX => return None,
            Some(count) => {
                let link = |_| reader.number().map(LinkType);
                Some((0..count).map(link).collect::<Option<_>>()?)
            }
        };
        let count: usize = reader.number()?;
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push(SegmentEntry {
                head_bytes: reader.number().filter(|&bytes| bytes <= HEAD_BYTES_MAX)?,
                head_checksum: reader.number()?,
                groups_bytes: reader.number()?,
                stamps: reader.stamps()?,
            });
        }
        reader.end()?;
        let identity = Identity { file_bytes, modified_ns, place, is_growing };
        Some(Directory { identity, covered_bytes, parts, frames, links, segments })
    }

    /// The header of a file whose directory, of these bytes, lies at `offset`.
    pub(crate) fn header(coded: &[u8], offset: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(coded.len() as u32).to_le_bytes());
        header[16..24].copy_from_slice(&offset.to_le_bytes());
        header[24..28].copy_from_slice(&checksum(coded).to_le_bytes());
        let sum = checksum(&header[..28]);
        header[28..].copy_from_slice(&sum.to_le_bytes());
        header
    }
}

/// Why an index is of no use.
#[derive(Debug, Error)]
pub enum Unusable {
    /// There is none.
    #[error("no index")]
    Missing,
    /// The file was changed since.
    #[error("the index is older than its file")]
    Stale,
    /// It is not what was written.
    #[error("the index is damaged")]
    Damaged,
    /// The system refused.
    #[error("the index cannot be read: {0}")]
    Io(io::Error),
}

/// How much of a file its index covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it.
    Whole,
    /// All that was complete when it was built; the recorder has written more since.
    Beginning,
}

/// The index of a capture file, opened.
#[derive(Debug)]
pub struct Index {
    pub(crate) file: File,
    pub(crate) directory: Directory,
    state: State,
}

impl Index {
    /// Opens the index of the capture file at `path`, which is open as `capture`.
    ///
    /// # Errors
    /// There is none, or it is of no use.
    pub fn open(path: &Path, capture: &File) -> Result<Index, Unusable> {
        let file = File::open(index_path(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unusable::Missing,
            _ => Unusable::Io(error),
        })?;
        let is_file = file.metadata().map_err(Unusable::Io)?.is_file();
        let directory =
            if is_file { read_directory(&file)? } else { return Err(Unusable::Damaged) };
        let metadata = capture.metadata().map_err(Unusable::Io)?;
        let bytes = content_bytes(capture).map_err(Unusable::Io)?;
        let state = directory.identity.state((&metadata, bytes), directory.covered_bytes, || {
            ringside_store::recording::read_header(path).ok().flatten()
        });
        Ok(Index { file, directory, state: state.ok_or(Unusable::Stale)? })
    }

    /// How much of the file it covers.
    pub fn state(&self) -> State {
        self.state
    }

    /// Parts that it knows of.
    pub fn parts(&self) -> u64 {
        self.directory.parts
    }

    /// Bytes of the capture file that it covers.
    pub fn covered_bytes(&self) -> u64 {
        self.directory.covered_bytes
    }
}

impl Identity {
    /// Of a file with these metadata and this number of bytes, unpacked.
    pub(crate) fn of(
        (metadata, file_bytes): (&Metadata, u64),
        place: Option<Place>,
        is_finished: bool,
    ) -> Identity {
        let modified_ns = modified_ns(metadata);
        Identity { file_bytes, modified_ns, place, is_growing: !is_finished }
    }

    /// How an index stands to the file that has these metadata and bytes now; none if to another
    /// one.
    fn state(
        &self,
        (metadata, bytes): (&Metadata, u64),
        covered_bytes: u64,
        header: impl Fn() -> Option<FileHeader>,
    ) -> Option<State> {
        let is_same = bytes == self.file_bytes && modified_ns(metadata) == self.modified_ns;
        if !self.is_growing {
            return is_same.then_some(State::Whole);
        }
        // Complete ring blocks do not change. Room is written over, but with another header.
        let (run, lane, sequence) = self.place.as_ref()?;
        let now = header().filter(|_| bytes >= covered_bytes)?;
        let is_there = (&now.run, &now.lane, &now.sequence) == (run, lane, sequence);
        is_there.then_some(State::Beginning)
    }
}

fn read_place(reader: &mut Reader<'_>) -> Option<Place> {
    let length = reader.number()?;
    let run = String::from_utf8(reader.bytes(length)?.to_vec()).ok()?;
    Some((run, LaneId(reader.number()?), reader.number()?))
}

fn modified_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec())
}

fn read_directory(file: &File) -> Result<Directory, Unusable> {
    let mut header = [0; HEADER_BYTES];
    read_at(file, &mut header, 0)?;
    let (bytes, offset, sum) = directory_at(&header).ok_or(Unusable::Damaged)?;
    let mut coded = vec![0; bytes];
    read_at(file, &mut coded, offset)?;
    let directory = Some(()).filter(|()| checksum(&coded) == sum);
    directory.and_then(|()| Directory::read(&coded)).ok_or(Unusable::Damaged)
}

/// Bytes, offset and checksum of the directory.
fn directory_at(header: &[u8; HEADER_BYTES]) -> Option<(usize, u64, u32)> {
    let word = |at: usize| header[at..].first_chunk().map(|word| u32::from_le_bytes(*word));
    let offset = header[16..].first_chunk().map(|long| u64::from_le_bytes(*long))?;
    let is_ours = header[..8] == MAGIC && word(8)? == VERSION;
    let bytes = word(12)? as usize;
    let is_sound = is_ours && word(28)? == checksum(&header[..28]) && bytes <= DIRECTORY_BYTES_MAX;
    is_sound.then_some((bytes, offset, word(24)?))
}

/// Reads a place of an index; one that ends before is damaged.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), Unusable> {
    file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Unusable::Damaged,
        _ => Unusable::Io(error),
    })
}
