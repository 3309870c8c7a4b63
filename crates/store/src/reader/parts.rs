//! A file read part by part, for those who note what lies in each.

use super::{Condition, FileSource, Parser, Progress, StoredSource, Wanted, unusable};
use crate::StoreError;
use crate::block::BlockHeader;
use crate::file_header::{FileHeader, is_finished};
use crate::part::Part;
use crate::reader::Notice;
use ringside_core::ledger::ByCause;
use ringside_core::{Batch, Source, SourceInterface, Stamps};
use std::path::Path;

/// A part of a file without ring blocks ends with the batch that reaches this size: the size of a
/// ring block, and of one read.
const PART_BYTES: u64 = 1 << 20;

/// How the records that follow are to be read: sections, byte order and interfaces so far.
pub(super) type Described = (usize, bool, usize);

/// What came next in a file.
pub enum PartStep<'a> {
    /// Frames of the part that is read.
    Frames(Batch<'a>),
    /// The part ended; its frames were those since the last step that was not `Frames`.
    Part(Part),
    /// The frames since then are in no part, nor are some that were not shown: interfaces were
    /// described among them, or the file ended within their ring block.
    Unfit,
    /// The file has nothing more that is whole.
    End,
}

struct Begun {
    start: u64,
    header: Option<BlockHeader>,
    frames: u64,
    stamps: Stamps,
    described: Described,
    /// Where its last frame ends.
    end: u64,
}

/// Divides a capture file into parts: the ring blocks of a recording's, or about a MiB of others.
pub struct PartReader {
    source: FileSource,
    begun: Option<Begun>,
    /// A batch that was found is the beginning of the next part.
    is_held: bool,
    is_ended: bool,
    next_header: Option<BlockHeader>,
}

impl PartReader {
    /// Opens a file that is not packed, or in frames that are found without reading others.
    ///
    /// # Errors
    /// It cannot be opened, or it is no capture file that can be read at places.
    pub fn open(path: &Path) -> Result<PartReader, StoreError> {
        let wanted = Wanted { reads_ahead: true, ..Wanted::default() };
        let mut source = FileSource::open_unread(path, &wanted)?;
        if !source.is_regular || source.packing().is_some() {
            let reason = "is compressed or a stream, which is always read from its beginning";
            return Err(unusable(path, reason.into()));
        }
        if let Parser::Pcapng(parser) = &mut source.parser {
            parser.keeps_ledger = true;
        }
        Ok(PartReader { source, begun: None, is_held: false, is_ended: false, next_header: None })
    }

    /// Reads on. A part that is damaged is none, and what follows it is not looked at.
    pub fn step(&mut self) -> PartStep<'_> {
        if std::mem::take(&mut self.is_held) {
            return self.begin_with_batch();
        }
        if let Some(header) = self.next_header.take() {
            self.begun = Some(self.begun_at(self.source.record_offset(), Some(header)));
        }
        if self.is_ended {
            return PartStep::End;
        }
        if let Some(part) = self.full_part() {
            return PartStep::Part(part);
        }
        match self.source.advance(None) {
            Ok(Progress::Frames) => self.take_batch(),
            Ok(Progress::RingBlock(header)) => {
                self.next_header = Some(header);
                self.finish(self.source.record_offset())
            }
            Ok(Progress::Passed(..)) => PartStep::Unfit,
            Ok(Progress::Nothing) => self.end(),
            Err(_) => self.end_unfit(),
        }
    }

    /// Bytes of the file that were looked at.
    pub fn bytes(&self) -> u64 {
        self.source.input.offset()
    }

    /// Bytes that the file held when it was opened, unpacked.
    pub fn file_bytes(&self) -> u64 {
        self.source.file_bytes.unwrap_or(0)
    }

    /// The interfaces so far.
    pub fn interfaces(&self) -> &[SourceInterface] {
        self.source.interfaces()
    }

    /// Frames that were lost since the run began, as far as a ledger was read that says so.
    pub fn dropped(&self) -> Option<&ByCause> {
        match &self.source.parser {
            Parser::Pcapng(parser) => parser.dropped.as_ref(),
            Parser::Pcap(_) => None,
        }
    }

    /// What is to be said about the file, so far as it was read.
    pub fn notices(&self) -> Vec<Notice> {
        self.source.notices()
    }

    /// What the header page says of a recording's file.
    pub fn recording(&self) -> Option<&FileHeader> {
        self.source.recording()
    }

    /// False for a file of a recording to which something may still be written.
    pub fn is_finished(&self) -> bool {
        self.recording().is_none_or(|header| is_finished(header.bytes_max, self.file_bytes()))
    }

    fn begun_at(&self, start: u64, header: Option<BlockHeader>) -> Begun {
        let (frames, stamps, described) = (0, Stamps::NONE, self.source.described());
        Begun { start, header, frames, stamps, described, end: start }
    }

    /// A batch came: it goes on with the part, or ends it and begins the next.
    fn take_batch(&mut self) -> PartStep<'_> {
        let (_, described) = self.source.batch_at;
        let is_of_recording = self.recording().is_some();
        match &self.begun {
            Some(begun) if begun.described == described && described == self.source.described() => {
                self.note_batch();
                PartStep::Frames(self.source.batch_from(0))
            }
            None if is_of_recording => PartStep::Frames(self.source.batch_from(0)),
            None => self.begin_with_batch(),
            // Something was described between the part and this batch.
            Some(begun) if begun.described != described && !is_of_recording => {
                self.is_held = true;
                let end = begun.end;
                self.finish(end)
            }
            Some(_) => {
                self.begun = None;
                PartStep::Unfit
            }
        }
    }

    /// Begins a part with the batch at hand, if nothing is described within it.
    fn begin_with_batch(&mut self) -> PartStep<'_> {
        let (start, described) = self.source.batch_at;
        if described != self.source.described() {
            return PartStep::Unfit;
        }
        self.begun = Some(self.begun_at(start, None));
        self.note_batch();
        PartStep::Frames(self.source.batch_from(0))
    }

    fn note_batch(&mut self) {
        let batch = self.source.batch_from(0);
        let stamps = batch.iter().map(|frame| Stamps::of(frame.meta.timestamp));
        let stamps = stamps.fold(Stamps::NONE, Stamps::with);
        let frames = batch.frame_count() as u64;
        let end = self.source.batch_end;
        if let Some(begun) = &mut self.begun {
            begun.frames += frames;
            begun.stamps = begun.stamps.with(stamps);
            begun.end = end;
        }
    }

    /// A part without a ring block that is large enough.
    fn full_part(&mut self) -> Option<Part> {
        let is_full =
            |begun: &mut Begun| begun.header.is_none() && begun.end - begun.start >= PART_BYTES;
        let begun = self.begun.take_if(is_full)?;
        let end = begun.end;
        Some(begun.part(end))
    }

    fn finish(&mut self, end: u64) -> PartStep<'static> {
        self.begun.take().map_or(PartStep::Unfit, |begun| PartStep::Part(begun.part(end)))
    }

    fn end(&mut self) -> PartStep<'static> {
        self.is_ended = true;
        let is_whole = *self.source.condition() == Condition::Complete;
        let end = match &self.begun {
            Some(begun) if begun.header.is_none() => Some(begun.end),
            // What a recorder may still continue is none yet.
            Some(_) => self.is_finished().then(|| self.source.record_end()),
            None => None,
        };
        match end {
            Some(end) if is_whole => self.finish(end),
            _ => self.end_unfit(),
        }
    }

    fn end_unfit(&mut self) -> PartStep<'static> {
        (self.is_ended, self.begun) = (true, None);
        PartStep::Unfit
    }
}

impl Begun {
    fn part(self, end: u64) -> Part {
        let Begun { start, header, frames, stamps, .. } = self;
        Part { start, end, header, frames, stamps }
    }
}

impl FileSource {
    /// How the records from here on are read.
    pub(super) fn described(&self) -> Described {
        match &self.parser {
            Parser::Pcap(_) => (0, false, 1),
            Parser::Pcapng(parser) => parser.described(),
        }
    }

    /// Where the last record of a complete file ends.
    fn record_end(&self) -> u64 {
        self.room_at.unwrap_or_else(|| self.input.offset())
    }
}
