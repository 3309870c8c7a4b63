//! Writing the seekable format.

use super::{FOOTER_BYTES, SEEKABLE_MAGIC, SKIPPABLE_MAGIC};
use std::io::{self, Write};
use zstd::bulk::Compressor;

/// Level of Zstandard: its own default.
const LEVEL: i32 = 3;

/// Packs frames, each of which can be unpacked alone, to `out`. Each bears a checksum of its own.
pub(crate) struct SeekableWriter<W> {
    out: W,
    compressor: Compressor<'static>,
    entries: Vec<u8>,
    bytes: u64,
}

impl<W: Write> SeekableWriter<W> {
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(out: W) -> io::Result<SeekableWriter<W>> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        Ok(SeekableWriter { out, compressor, entries: Vec::new(), bytes: 0 })
    }

    /// Packs one frame.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn frame(&mut self, plain: &[u8]) -> io::Result<()> {
        let packed = self.compressor.compress(plain)?;
        for bytes in [packed.len(), plain.len()] {
            let bytes = u32::try_from(bytes).map_err(io::Error::other)?;
            self.entries.extend(bytes.to_le_bytes());
        }
        self.bytes += packed.len() as u64;
        self.out.write_all(&packed)
    }

    /// Bytes of the frames so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the table, and gives the output back.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let frames = u32::try_from(self.entries.len() / super::ENTRY_BYTES);
        let frames = frames.map_err(io::Error::other)?;
        let body = u32::try_from(self.entries.len() + FOOTER_BYTES).map_err(io::Error::other)?;
        let descriptor = [0];
        let parts: [&[u8]; 6] = [
            &SKIPPABLE_MAGIC.to_le_bytes(),
            &body.to_le_bytes(),
            &self.entries,
            &frames.to_le_bytes(),
            &descriptor,
            &SEEKABLE_MAGIC.to_le_bytes(),
        ];
        self.out.write_all(&parts.concat())?;
        self.out.flush()?;
        Ok(self.out)
    }
}
