//! Zstandard's seekable format: frames of which each is unpacked alone, and behind them, as a frame
//! that others skip, a table of their sizes. A place of what was packed costs one frame to read.
//! (facebook/zstd, contrib/seekable_format/zstd_seekable_compression_format.md, version 0.1.0.)

mod write;

pub(crate) use self::write::SeekableWriter;
use crate::pcapng::SECTION_HEADER;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zstd::bulk::Decompressor;

/// What is behind the name of a file that was packed.
const PACKED_ENDING: &str = ".zst";
/// Magic of the frame that holds the table: one of those that decoders skip.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a5e;
/// The last word of the file.
const SEEKABLE_MAGIC: u32 = 0x8f92_eab1;
/// Magic and length of a frame that is skipped.
const SKIPPABLE_BYTES: usize = 8;
/// Number of frames, descriptor, magic.
const FOOTER_BYTES: usize = 9;
/// Packed and unpacked size of a frame.
const ENTRY_BYTES: usize = 8;
/// Flag of the descriptor: each entry has a checksum too.
const HAS_CHECKSUMS: u8 = 0x80;
/// Bits of the descriptor that must be 0.
const RESERVED: u8 = 0x7c;
/// Frames of a file: a TiB of ring blocks of a MiB. The table takes 16 MiB of memory then.
const FRAMES_MAX: u32 = 1 << 20;
/// Unpacked bytes of a frame: twice the largest ring block. A file with larger ones is read from
/// its beginning, as any other that is packed.
const FRAME_BYTES_MAX: u32 = 16 << 20;

/// The name that a file had before it was packed, if it has an ending for that.
pub(crate) fn unpacked_name(name: &str) -> Option<&str> {
    name.strip_suffix(PACKED_ENDING).filter(|name| name.ends_with(".pcapng"))
}

/// The name that a file of that name gets when it is packed.
pub(crate) fn packed_name(name: &str) -> String {
    format!("{name}{PACKED_ENDING}")
}

/// As [`packed_name`], for a path.
pub(crate) fn packed_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PACKED_ENDING);
    name.into()
}

/// Bytes that a capture file holds: its size, or that of what was packed in it in frames.
///
/// # Errors
/// It cannot be read.
pub fn content_bytes(file: &File) -> io::Result<u64> {
    match SeekableFile::open(file)? {
        Some(packed) => Ok(packed.content_bytes()),
        None => Ok(file.metadata()?.len()),
    }
}

/// Where a frame ends, in the file and in what was packed.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    packed: u64,
    plain: u64,
}

/// A file in the seekable format, read at places of what was packed.
pub(crate) struct SeekableFile {
    file: File,
    ends: Vec<End>,
    decompressor: Decompressor<'static>,
    /// The frame that was unpacked last, and what it holds.
    unpacked: Option<usize>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    bytes_read: u64,
    /// Where [`Read`] goes on.
    position: u64,
}

impl SeekableFile {
    /// Of an open file; `None` if it is in another format.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(file: &File) -> io::Result<Option<SeekableFile>> {
        let Some((ends, table_bytes)) = read_table(file)? else { return Ok(None) };
        Ok(Some(SeekableFile {
            file: file.try_clone()?,
            ends,
            decompressor: Decompressor::new()?,
            unpacked: None,
            plain: Vec::new(),
            packed: Vec::new(),
            bytes_read: table_bytes,
            position: 0,
        }))
    }

    /// Bytes of what was packed.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.ends.last().map_or(0, |end| end.plain)
    }

    /// Bytes that were read of the file.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads what was packed at `offset`: up to the end of one frame.
    ///
    /// # Errors
    /// It cannot be read, or the frame is not what the table says.
    pub(crate) fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let number = self.ends.partition_point(|end| end.plain <= offset);
        if number == self.ends.len() {
            return Ok(0);
        }
        let start = self.start(number).plain;
        self.unpack(number)?;
        let rest = &self.plain[(offset - start) as usize..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    /// Fills `buffer` with what was packed at `offset`.
    ///
    /// # Errors
    /// As [`read_at`](SeekableFile::read_at), or it ends before.
    pub(crate) fn read_exact_at(&mut self, mut buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        while !buffer.is_empty() {
            let count = self.read_at(buffer, at)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[count..];
            at += count as u64;
        }
        Ok(())
    }

    fn start(&self, number: usize) -> End {
        number.checked_sub(1).map_or_else(End::default, |before| self.ends[before])
    }

    fn unpack(&mut self, number: usize) -> io::Result<()> {
        if self.unpacked == Some(number) {
            return Ok(());
        }
        self.unpacked = None;
        let (start, end) = (self.start(number), self.ends[number]);
        let (packed_bytes, plain_bytes) = (end.packed - start.packed, end.plain - start.plain);
        self.packed.resize(packed_bytes as usize, 0);
        self.file.read_exact_at(&mut self.packed, start.packed)?;
        self.bytes_read += packed_bytes;
        self.plain.clear();
        self.plain.reserve_exact(plain_bytes as usize);
        let count = self.decompressor.decompress_to_buffer(&self.packed, &mut self.plain);
        match count {
            Ok(count) if count as u64 == plain_bytes => {
                self.unpacked = Some(number);
                Ok(())
            }
            Ok(count) => Err(damaged(number, &format!("holds {count} bytes of {plain_bytes}"))),
            Err(error) => Err(damaged(number, &error.to_string())),
        }
    }
}

fn damaged(number: usize, reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("frame {number} is damaged: {reason}"))
}

impl Read for SeekableFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// The ends of the frames, and the bytes of the frame that tells them; `None` if the file does not
/// end with a table that can be right. Nothing is believed of it before a frame is unpacked.
fn read_table(file: &File) -> io::Result<Option<(Vec<End>, u64)>> {
    let file_bytes = file.metadata()?.len();
    let mut footer = [0; FOOTER_BYTES];
    let Some(footer_at) = file_bytes.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
    // The beginning is read in any case; the end of each file is a turn of the disk more.
    let mut first = [0; 4];
    file.read_exact_at(&mut first, 0)?;
    if word(&first, 0) == SECTION_HEADER {
        return Ok(None);
    }
    file.read_exact_at(&mut footer, footer_at)?;
    let (frames, descriptor) = (word(&footer, 0), footer[4]);
    if word(&footer, 5) != SEEKABLE_MAGIC || descriptor & RESERVED != 0 || frames > FRAMES_MAX {
        return Ok(None);
    }
    let entry_bytes = ENTRY_BYTES + if descriptor & HAS_CHECKSUMS != 0 { 4 } else { 0 };
    let body_bytes = frames as usize * entry_bytes + FOOTER_BYTES;
    let table_bytes = (SKIPPABLE_BYTES + body_bytes) as u64;
    let Some(table_at) = file_bytes.checked_sub(table_bytes) else { return Ok(None) };
    let mut table = vec![0; table_bytes as usize];
    file.read_exact_at(&mut table, table_at)?;
    if word(&table, 0) != SKIPPABLE_MAGIC || word(&table, 4) as usize != body_bytes {
        return Ok(None);
    }
    let mut ends = Vec::with_capacity(frames as usize);
    let mut end = End::default();
    for entry in table[SKIPPABLE_BYTES..table.len() - FOOTER_BYTES].chunks_exact(entry_bytes) {
        let (packed, plain) = (word(entry, 0), word(entry, 4));
        if plain > FRAME_BYTES_MAX || packed > 2 * FRAME_BYTES_MAX {
            return Ok(None);
        }
        end = End { packed: end.packed + u64::from(packed), plain: end.plain + u64::from(plain) };
        ends.push(end);
    }
    // So no frame is read beyond the table, and none is larger than the file.
    Ok((end.packed == table_at).then_some((ends, table_bytes)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
