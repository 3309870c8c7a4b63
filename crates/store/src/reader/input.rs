//! One bounded buffer over a stream of bytes.

use super::packed::Unpacker;
use crate::seekable::SeekableFile;
use crate::writer::Packing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes that are read at once: far above a batch of ordinary frames, and 256 lanes of it still
/// fit a small machine.
const BUFFER_BYTES: usize = 512 << 10;

/// Bytes of a file that are read first, there and wherever the reading jumps to; twice as many each
/// time, up to the buffer. The header of a file of a recording is a page.
const STEP_BYTES_MIN: usize = 4 << 10;

/// Bytes of the buffer of a file of which perhaps no more than its header is read: thousands of
/// such files are opened for a search. It gets the others once more is read.
const SPARING_BUFFER_BYTES: usize = 4 * STEP_BYTES_MIN;

/// A window that moves over the input. It grows beyond [`BUFFER_BYTES`] only for a record that is
/// longer, and its caller bounds records.
pub(super) struct Input {
    reader: Reader,
    /// What is polled before a read, of an input whose bytes come when they come.
    polled: Option<OwnedFd>,
    /// Nothing more can be unpacked before there is something to read there.
    is_starved: bool,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the input before `start`.
    offset: u64,
    /// Where the input ends, although more may come.
    end_at: u64,
    ended: bool,
    bytes_read: u64,
    /// Of a file: bytes that the next read takes, where no record needs more.
    step_bytes: usize,
    /// Of a file: no read goes beyond, as long as it has not come there.
    border: u64,
}

enum Reader {
    /// Read at places.
    File(File),
    /// The same, of what was packed.
    Seekable(Box<SeekableFile>),
    Plain(Box<dyn Read + Send>),
    Packed(Unpacker),
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    Bytes,
    /// Nothing, as long as the input is not readable.
    Nothing,
    End,
}

impl Input {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Input {
        Input::over(Reader::Plain(reader), vec![0; BUFFER_BYTES])
    }

    fn over(reader: Reader, buffer: Vec<u8>) -> Input {
        Input {
            reader,
            polled: None,
            is_starved: false,
            buffer,
            start: 0,
            end: 0,
            offset: 0,
            end_at: u64::MAX,
            ended: false,
            bytes_read: 0,
            step_bytes: BUFFER_BYTES,
            border: u64::MAX,
        }
    }

    /// As [`new`](Input::new), of a regular file, which is read in small steps first if little of
    /// it may be wanted.
    pub(super) fn of_file(file: File, is_sparing: bool) -> Input {
        let (step_bytes, buffer_bytes) = match is_sparing {
            true => (STEP_BYTES_MIN, SPARING_BUFFER_BYTES),
            false => (BUFFER_BYTES, BUFFER_BYTES),
        };
        let (reader, buffer) = (Reader::File(file), vec![0; buffer_bytes]);
        Input { step_bytes, ..Input::over(reader, buffer) }
    }

    /// As [`new`](Input::new), of a pipe, a socket or a terminal, for whose bytes
    /// [`is_readable`](Input::is_readable) waits.
    pub(super) fn of_stream(stream: File) -> Result<Input> {
        let polled = stream.try_clone()?.into();
        Ok(Input { polled: Some(polled), ..Input::new(Box::new(stream)) })
    }

    /// From here on gives what `packing` has made of the input, of which nothing was consumed.
    ///
    /// # Errors
    /// The system refused.
    pub(super) fn unpack(&mut self, packing: Packing) -> Result<()> {
        if let Reader::File(file) = &self.reader
            && packing == Packing::Zstd
            && let Some(packed) = SeekableFile::open(file)?
        {
            (self.start, self.end, self.ended) = (0, 0, false);
            self.reader = Reader::Seekable(Box::new(packed));
            return Ok(());
        }
        let first = self.available().to_vec();
        let polled = self.polled.as_ref().map(OwnedFd::try_clone).transpose()?;
        (self.start, self.end, self.ended) = (0, 0, false);
        let nothing = Reader::Plain(Box::new(std::io::empty()));
        let rest: Box<dyn Read + Send> = match std::mem::replace(&mut self.reader, nothing) {
            Reader::File(mut file) => {
                file.seek(SeekFrom::Start(first.len() as u64))?;
                Box::new(file)
            }
            Reader::Seekable(packed) => packed,
            Reader::Plain(rest) => rest,
            Reader::Packed(unpacker) => Box::new(unpacker),
        };
        self.reader = Reader::Packed(Unpacker::new(packing, first, rest, polled)?);
        Ok(())
    }

    /// How the input is packed, and whether it ended where that may not end.
    pub(super) fn packing(&self) -> Option<(Packing, bool)> {
        match &self.reader {
            Reader::File(_) | Reader::Seekable(_) | Reader::Plain(_) => None,
            Reader::Packed(unpacker) => Some((unpacker.packing(), unpacker.is_cut())),
        }
    }

    /// True if the input is read at places, which are those of the file.
    pub(super) fn is_plain_file(&self) -> bool {
        matches!(self.reader, Reader::File(_))
    }

    /// Bytes of an input of `file_bytes` that is read at places: its own, or what was packed in it.
    pub(super) fn place_bytes(&self, file_bytes: u64) -> Option<u64> {
        match &self.reader {
            Reader::File(_) => Some(file_bytes),
            Reader::Seekable(packed) => Some(packed.content_bytes()),
            Reader::Plain(_) | Reader::Packed(_) => None,
        }
    }

    /// True if a read would not wait: at once, by the deadline, or without one in the end. A signal
    /// ends the waiting early.
    pub(super) fn is_readable(&self, deadline: Option<Instant>) -> bool {
        let Some(polled) = &self.polled else { return true };
        if matches!(self.reader, Reader::Packed(_)) && !self.is_starved {
            return true;
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let found = poll(&mut [PollFd::new(polled, PollFlags::IN)], left.as_ref());
        // What an error means, the read says.
        !matches!(found, Ok(0) | Err(rustix::io::Errno::INTR))
    }

    /// As [`new`](Input::new), where the first byte that `reader` gives is at `offset`.
    pub(super) fn starting_at(reader: Box<dyn Read + Send>, offset: u64) -> Input {
        Input { offset, ..Input::new(reader) }
    }

    /// Ends the input at `offset`, whatever comes after it. What was consumed stays so.
    pub(super) fn end_at(&mut self, offset: u64) {
        self.end_at = offset;
        let left = offset.saturating_sub(self.offset);
        let available = self.end - self.start;
        self.end = self.start + available.min(usize::try_from(left).unwrap_or(usize::MAX));
    }

    /// Where the input was made to end.
    pub(super) fn end(&self) -> u64 {
        self.end_at
    }

    /// Bytes of the input that were consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads a place of a file outside the window; false if it is not there.
    pub(super) fn read_place(&mut self, buffer: &mut [u8], offset: u64) -> bool {
        match &mut self.reader {
            Reader::File(file) => {
                let is_read = file.read_exact_at(buffer, offset).is_ok();
                self.bytes_read += if is_read { buffer.len() as u64 } else { 0 };
                is_read
            }
            Reader::Seekable(packed) => packed.read_exact_at(buffer, offset).is_ok(),
            Reader::Plain(_) | Reader::Packed(_) => false,
        }
    }

    /// Has no read go beyond `offset` before it has come there.
    pub(super) fn stop_at(&mut self, offset: u64) {
        self.border = offset;
    }

    /// Goes on at `offset` of a file, further on.
    pub(super) fn jump(&mut self, offset: u64) {
        match usize::try_from(offset - self.offset) {
            Ok(by) if by <= self.end - self.start => self.consume(by),
            _ => {
                (self.start, self.end, self.offset) = (0, 0, offset);
                self.step_bytes = STEP_BYTES_MIN;
            }
        }
    }

    /// Bytes that are read at `at` of a file next, if there is room for `room` and a record wants
    /// `wanted`.
    fn file_step(&mut self, at: u64, room: usize, wanted: usize) -> usize {
        let step = self.step_bytes.max(wanted);
        self.step_bytes = (2 * self.step_bytes).min(BUFFER_BYTES);
        let to_border = self.border.checked_sub(at).filter(|&bytes| bytes > 0);
        let to_border = usize::try_from(to_border.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        room.min(step).min(to_border)
    }

    /// Bytes that were read, of whatever place.
    pub(super) fn bytes_read(&self) -> u64 {
        match &self.reader {
            Reader::Seekable(packed) => packed.bytes_read(),
            _ => self.bytes_read,
        }
    }

    /// What is read and not consumed.
    pub(super) fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The whole buffer, into which positions point.
    pub(super) fn memory(&self) -> &[u8] {
        &self.buffer
    }

    /// Where [`available`](Input::available) begins in [`memory`](Input::memory).
    pub(super) fn position(&self) -> usize {
        self.start
    }

    /// Gives up the first `count` available bytes. They stay in memory until the next read.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "consumed more than was read");
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads once, so that up to `bytes` or more are available. Positions in memory become invalid.
    pub(super) fn read_towards(&mut self, bytes: usize) -> Result<Arrived> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if bytes <= BUFFER_BYTES && self.buffer.len() > BUFFER_BYTES {
                self.buffer.truncate(BUFFER_BYTES);
                self.buffer.shrink_to_fit();
            }
        }
        if self.buffer.len() < BUFFER_BYTES && self.step_bytes.max(bytes) > self.buffer.len() {
            self.buffer.resize(BUFFER_BYTES, 0);
        }
        if self.start + bytes > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if bytes > self.buffer.len() {
                self.buffer.resize(bytes, 0);
            }
        }
        let at = self.offset + (self.end - self.start) as u64;
        let left = self.end_at.saturating_sub(at);
        let mut room =
            (self.buffer.len() - self.end).min(usize::try_from(left).unwrap_or(usize::MAX));
        if matches!(self.reader, Reader::File(_) | Reader::Seekable(_)) {
            room = self.file_step(at, room, bytes.saturating_sub(self.end - self.start));
        }
        self.is_starved = false;
        while !self.ended {
            let buffer = &mut self.buffer[self.end..self.end + room];
            let read = match &mut self.reader {
                Reader::File(file) => file.read_at(buffer, at),
                Reader::Seekable(packed) => packed.read_at(buffer, at),
                Reader::Plain(reader) => reader.read(buffer),
                Reader::Packed(unpacker) => unpacker.read(buffer),
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.end += count;
                    self.bytes_read += count as u64;
                    return Ok(Arrived::Bytes);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.polled.is_some() => {
                    self.is_starved = true;
                    return Ok(Arrived::Nothing);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Arrived::End)
    }
}
