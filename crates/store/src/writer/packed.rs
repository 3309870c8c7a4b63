//! Compressed files: gzip and Zstandard, written in parts of which each can be unpacked when the
//! file ends behind it.
//!
//! Records are collected and compressed together. A part of gzip is a member, which readers take
//! one after the other (RFC 1952 section 2.2). A part of Zstandard is blocks that were flushed (RFC
//! 8878 section 3.1.1.2): several frames would be as valid, but Wireshark 4.0 loses its way between
//! them.
//! What was accepted is then known to the frame as for plain files, and a file whose writer died is
//! made valid by cutting it behind its last whole part. The price is memory of a part, and some
//! percent of size.

use super::{Format, FrameWriter};
use crate::StoreError;
use crate::block::Statistics;
use flate2::Compression;
use flate2::write::GzEncoder;
use ringside_core::{Frame, InterfaceId, SourceInterface};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of records that make a part: thirty windows of gzip, and little to lose with a process
/// that dies.
const PART_BYTES: usize = 1 << 20;
/// Level of Zstandard: its own default, which is faster than the fastest of gzip.
const ZSTD_LEVEL: i32 = 3;
/// The last block of a frame of Zstandard, with nothing in it (RFC 8878 section 3.1.1.2).
const ZSTD_END: [u8; 3] = [1, 0, 0];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip at its fastest level: a capture must keep up.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// By the last ending, in capital or small letters: `.gz`, `.zst`.
    pub fn of_path(path: &Path) -> Option<Packing> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "gz" => Some(Packing::Gzip),
            "zst" => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }

    /// Makes a file whole that was cut to `bytes`, behind a part that is not its last: behind the
    /// end of a file, another one is garbage.
    ///
    /// # Errors
    /// The system refused.
    pub fn end_cut_file(self, file: &File, bytes: u64) -> io::Result<()> {
        match self {
            Packing::Zstd if bytes > 0 => file.write_all_at(&ZSTD_END, bytes),
            _ => Ok(()),
        }
    }

    /// As [`Format::writer`], compressed. A [`flush`](FrameWriter::flush) ends a part, so it is to
    /// be asked for seldom.
    ///
    /// # Errors
    /// As for [`Format::writer`].
    pub fn writer<W: Write + Send + 'static>(
        self,
        format: Format,
        out: W,
        interfaces: &[SourceInterface],
    ) -> Result<Box<dyn FrameWriter>, StoreError> {
        let plain = Plain::default();
        let inner = format.writer(plain.clone(), interfaces)?;
        let (bytes_written, frames_written, plain_ended) = (0, 0, 0);
        let (failed, finished) = (false, false);
        let encoder = self.encoder();
        let encoder = encoder.map_err(|error| StoreError::io("cannot begin to compress", error))?;
        Ok(Box::new(PackedWriter {
            encoder,
            inner,
            plain,
            out,
            bytes_written,
            frames_written,
            plain_ended,
            failed,
            finished,
        }))
    }

    fn encoder(self) -> io::Result<Encoder> {
        Ok(match self {
            Packing::Gzip => Encoder::Gzip,
            Packing::Zstd => Encoder::Zstd(Box::new(zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?)),
        })
    }
}

/// Makes parts.
enum Encoder {
    /// Each on its own.
    Gzip,
    /// One after the other.
    Zstd(Box<zstd::Encoder<'static, Vec<u8>>>),
}

impl Encoder {
    /// The next part, or the last.
    fn pack(&mut self, plain: &[u8], is_last: bool) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip if plain.is_empty() => Ok(Vec::new()),
            Encoder::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain)?;
                encoder.finish()
            }
            Encoder::Zstd(encoder) => {
                encoder.write_all(plain)?;
                if is_last {
                    encoder.do_finish()?
                } else {
                    encoder.flush()?
                }
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }
}

/// Records that wait for the end of their part.
#[derive(Clone, Default)]
struct Plain(Arc<Mutex<Vec<u8>>>);

impl Plain {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct PackedWriter<W> {
    encoder: Encoder,
    /// Writes to `plain`.
    inner: Box<dyn FrameWriter>,
    plain: Plain,
    out: W,
    /// Of whole parts, and the frames in them.
    bytes_written: u64,
    frames_written: u64,
    /// Bytes of records in whole parts.
    plain_ended: u64,
    failed: bool,
    finished: bool,
}

impl<W: Write + Send> PackedWriter<W> {
    /// Bytes of records since the last part.
    fn waiting(&self) -> u64 {
        self.inner.bytes_added() - self.plain_ended
    }

    fn end_full_part(&mut self) -> Result<(), StoreError> {
        if self.waiting() >= PART_BYTES as u64 { self.end_part(false) } else { Ok(()) }
    }

    fn end_part(&mut self, is_last: bool) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::FailedBefore);
        }
        self.inner.flush()?;
        let plain = self.plain.take();
        if self.finished || plain.is_empty() && !is_last {
            return Ok(());
        }
        self.finished = is_last;
        let packed = self.encoder.pack(&plain, is_last).and_then(|packed| {
            self.out.write_all(&packed)?;
            self.out.flush()?;
            Ok(packed.len() as u64)
        });
        let bytes = packed.map_err(|error| {
            self.failed = true;
            StoreError::io("cannot write the capture file", error)
        })?;
        self.bytes_written += bytes;
        self.frames_written = self.inner.frames_written();
        self.plain_ended = self.inner.bytes_written();
        Ok(())
    }
}

impl<W: Write + Send> FrameWriter for PackedWriter<W> {
    fn add_interface(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        self.inner.add_interface(interface)
    }

    fn write(&mut self, frame: &Frame<'_>) -> Result<(), StoreError> {
        self.inner.write(frame)?;
        self.end_full_part()
    }

    fn write_commented(&mut self, frame: &Frame<'_>, comment: &str) -> Result<(), StoreError> {
        self.inner.write_commented(frame, comment)?;
        self.end_full_part()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.end_part(false)
    }

    fn finish(&mut self, statistics: &[Statistics<'_>]) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::FailedBefore);
        }
        self.inner.finish(statistics)?;
        self.end_part(true)
    }

    /// What waits counts uncompressed: its packed size is not known yet.
    fn bytes_added(&self) -> u64 {
        self.bytes_written + self.waiting()
    }

    fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    fn frames_written(&self) -> u64 {
        self.frames_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::MultiGzDecoder;
    use ringside_core::FrameMeta;
    use std::io::Read;

    const CASES: [(Format, Packing); 4] = [
        (Format::Pcap, Packing::Gzip),
        (Format::Pcapng, Packing::Gzip),
        (Format::Pcap, Packing::Zstd),
        (Format::Pcapng, Packing::Zstd),
    ];

    fn unpack(packing: Packing, packed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match packing {
            Packing::Gzip => MultiGzDecoder::new(packed).read_to_end(&mut plain).unwrap(),
            Packing::Zstd => zstd::Decoder::new(packed).unwrap().read_to_end(&mut plain).unwrap(),
        };
        plain
    }

    /// Writes frames until the writer refuses; the same to both.
    fn write(writers: &mut [Box<dyn FrameWriter>], frames: u32) -> Result<(), StoreError> {
        for number in 0..frames {
            let bytes: Vec<u8> = (0..1_000u32).map(|at| ((at * (number | 1)) >> 3) as u8).collect();
            let meta = FrameMeta { wire_bytes: 1_000, ..FrameMeta::default() };
            for writer in &mut *writers {
                writer.write(&Frame { bytes: &bytes, meta })?;
            }
        }
        writers.iter_mut().try_for_each(|writer| writer.finish(&[]))
    }

    #[test]
    fn unpacked_it_is_the_plain_file() {
        let interfaces = [SourceInterface::ethernet("eth1")];
        for (format, packing) in CASES {
            let (plain, packed) = (Plain::default(), Plain::default());
            let mut writers = [
                format.writer(plain.clone(), &interfaces).unwrap(),
                packing.writer(format, packed.clone(), &interfaces).unwrap(),
            ];
            write(&mut writers, 3_000).unwrap();
            let packed = packed.take();
            assert_eq!(writers[1].bytes_written(), packed.len() as u64);
            assert_eq!(writers[1].bytes_added(), packed.len() as u64);
            assert_eq!(writers[1].frames_written(), 3_000);
            assert!(unpack(packing, &packed) == plain.take(), "{format:?} {packing:?}");
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_parts_and_their_exact_count() {
        let interfaces = [SourceInterface::ethernet("eth1")];
        for (format, packing) in CASES {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut writers = [packing.writer(format, full, &interfaces).unwrap()];
            assert!(write(&mut writers, 3_000).unwrap_err().is_disk_full());
            assert_eq!((writers[0].bytes_written(), writers[0].frames_written()), (0, 0));

            // Of a disk with room for two parts, and some.
            let (whole, room) = (Plain::default(), Plain::default());
            write(&mut [packing.writer(format, whole.clone(), &interfaces).unwrap()], 4_000)
                .unwrap();
            let limit = whole.take().len() * 2 / 3;
            let out = Limited { out: room.clone(), left: limit };
            let mut writers = [packing.writer(format, out, &interfaces).unwrap()];
            write(&mut writers, 4_000).unwrap_err();
            assert!(matches!(writers[0].flush(), Err(StoreError::FailedBefore)));
            let (bytes, frames) = (writers[0].bytes_written(), writers[0].frames_written());
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&room.take(), 0).unwrap();
            file.set_len(bytes).unwrap();
            packing.end_cut_file(&file, bytes).unwrap();
            let mut packed = Vec::new();
            (&file).read_to_end(&mut packed).unwrap();
            let plain = unpack(packing, &packed);
            let path = Path::new("unpacked");
            let plain = io::Cursor::new(plain);
            let mut source = crate::FileSource::from_reader(path, Box::new(plain)).unwrap();
            let mut found = 0;
            while let Some(batch) =
                ringside_core::Source::next_batch(&mut source, Default::default()).unwrap()
            {
                found += batch.frame_count() as u64;
            }
            assert!(frames > 1_000, "{frames}");
            assert_eq!(found, frames, "{format:?} {packing:?}");
        }
    }

    struct Limited {
        out: Plain,
        left: usize,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = self.out.write(&bytes[..bytes.len().min(self.left)])?;
            self.left -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
