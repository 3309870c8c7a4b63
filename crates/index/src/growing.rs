//! The index of a recording's file by those who write the file, from ring blocks that they have.
//!
//! It is what [`build`](fn@crate::build) would make of the file. As long as the file grows, it is
//! written anew now and then: full segments are copied from the file that was written before, so
//! that what is in memory is one segment, however large the file.

use crate::file::{Directory, HEADER_BYTES, Identity, Place, links_of};
use crate::parts::Collector;
use crate::segment::{Builder, Coded, SegmentEntry};
use ringside_core::ledger::ByCause;
use ringside_core::{LaneId, LinkType, SourceInterface, Stamps};
use ringside_store::block::{block_header, blocks, packet};
use ringside_store::dir::Entry;
use ringside_store::reader::ledger_of;
use ringside_store::{IndexMaker, Part, index_path};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// The draft is private. It gets the mode of its capture file before it gets its name.
const DRAFT_MODE: u32 = 0o600;

/// Bytes that were to be added are no whole ring block of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("what lies at {0} bytes of the file is no whole ring block")]
pub struct NoBlock(u64);

/// The index of a file that grows.
pub struct Growing {
    place: Place,
    /// Of the interfaces, by number.
    links: Vec<LinkType>,
    collector: Collector,
    builder: Builder,
    /// Of the segments that are full.
    segments: Vec<SegmentEntry>,
    /// Those that are in no file yet.
    unwritten: Vec<u8>,
    /// The index as it was written last, and how many of its bytes full segments are.
    written: Option<(File, u64)>,
    dropped: ByCause,
    covered_bytes: u64,
    parts: u64,
    frames: u64,
}

impl Growing {
    /// Of file `sequence` of a lane, whose frames are of `interfaces`.
    pub fn new(run: &str, lane: LaneId, sequence: u64, interfaces: &[SourceInterface]) -> Growing {
        Growing {
            place: (run.to_owned(), lane, sequence),
            links: interfaces.iter().map(|one| one.link_type).collect(),
            collector: Collector::new(),
            builder: Builder::default(),
            segments: Vec::new(),
            unwritten: Vec::new(),
            written: None,
            dropped: ByCause::new(),
            covered_bytes: 0,
            parts: 0,
            frames: 0,
        }
    }

    /// Adds the ring block that lies at `start` of the file, behind those before it; the last one
    /// may be short.
    ///
    /// # Errors
    /// It is no ring block, and nothing was added.
    pub fn add(&mut self, start: u64, block: &[u8]) -> Result<(), NoBlock> {
        let header = block_header(block).ok_or(NoBlock(start))?;
        let end = start + block.len() as u64;
        let mut part = Part { start, end, header: Some(header), frames: 0, stamps: Stamps::NONE };
        let mut walk = blocks(block);
        let mut dropped = None;
        for (_, one) in walk.by_ref() {
            if let Some(frame) = packet(one) {
                let link = self.links.get(frame.meta.interface.0 as usize);
                self.collector.see(frame.bytes, link.copied().unwrap_or(LinkType::UNKNOWN));
                part.frames += 1;
                part.stamps = part.stamps.with(Stamps::of(frame.meta.timestamp));
            } else if let Some(ledger) = ledger_of(one) {
                dropped = Some(ledger);
            }
        }
        let keys = self.collector.take();
        if walk.offset() != block.len() || start < self.covered_bytes {
            return Err(NoBlock(start));
        }
        self.dropped = dropped.unwrap_or(std::mem::take(&mut self.dropped));
        self.builder.add(part, keys.as_ref(), self.dropped.clone());
        (self.covered_bytes, self.parts) = (end, self.parts + 1);
        self.frames += part.frames;
        if self.builder.is_full() {
            let coded = self.builder.take();
            self.unwritten.extend_from_slice(&coded.head);
            self.unwritten.extend_from_slice(&coded.groups);
            self.segments.push(coded.entry());
        }
        Ok(())
    }

    /// Parts that were added.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// Bytes of the index when it was written last.
    pub fn bytes(&self) -> u64 {
        let file = self.written.as_ref().and_then(|(file, _)| file.metadata().ok());
        file.map_or(0, |metadata| metadata.len())
    }

    /// Writes the index next to its file, which is `capture` and open as `file`, in place of the
    /// one before. It is of all of the file if that is finished, else of its beginning.
    ///
    /// # Errors
    /// The system refused, or the name is of another file by now; nothing is left then.
    pub fn write(&mut self, capture: &Entry, file: &File, is_finished: bool) -> io::Result<()> {
        let draft = capture.dir().entry(IndexMaker::Recorder.draft_of(capture.name()));
        let written = self.write_as(&draft, file, is_finished).and_then(|made| {
            let index = capture.dir().entry(index_path(capture.name().as_ref()));
            draft.replace(&index)?;
            // Who deletes the file deletes its index after it: either there, or here.
            if !capture.is(file) {
                index.remove()?;
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            Ok(made)
        });
        if written.is_err() {
            // Best effort: the first error is what counts.
            let _ = draft.remove();
        }
        let full_bytes = self.full_bytes();
        self.written = Some((written?, full_bytes));
        self.unwritten.clear();
        Ok(())
    }

    fn write_as(&mut self, draft: &Entry, file: &File, is_finished: bool) -> io::Result<File> {
        let metadata = file.metadata()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut made = draft.open(flags, DRAFT_MODE)?;
        made.set_permissions(metadata.permissions())?;
        made.write_all(&[0; HEADER_BYTES])?;
        if let Some((written, full_bytes)) = &self.written {
            let mut before: &File = written;
            before.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
            io::copy(&mut before.take(*full_bytes), &mut made)?;
        }
        made.write_all(&self.unwritten)?;
        let last = if self.builder.is_empty() { None } else { Some(self.builder.coded()) };
        for part in last.iter().flat_map(|coded| [&coded.head, &coded.groups]) {
            made.write_all(part)?;
        }
        let offset = made.stream_position()?;
        let segments = self.segments.iter().copied().chain(last.as_ref().map(Coded::entry));
        let covered_bytes = if is_finished { metadata.len() } else { self.covered_bytes };
        let coded = Directory {
            identity: Identity::of(
                (&metadata, metadata.len()),
                Some(self.place.clone()),
                is_finished,
            ),
            covered_bytes,
            parts: self.parts,
            frames: self.frames,
            links: links_of(self.links.iter().copied()),
            segments: segments.collect(),
        }
        .coded();
        made.write_all(&coded)?;
        made.write_all_at(&Directory::header(&coded, offset), 0)?;
        Ok(made)
    }

    /// Bytes of the segments that are full.
    fn full_bytes(&self) -> u64 {
        self.segments.iter().map(|one| one.head_bytes as u64 + one.groups_bytes).sum()
    }
}
