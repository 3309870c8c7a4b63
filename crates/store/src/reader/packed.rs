//! Compressed captures, by their first bytes. gzip and Zstandard are unpacked as they are read, in
//! memory that the capture does not decide; of other formats it is said what unpacks them.

use crate::writer::Packing;
use flate2::read::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufReader, Cursor, ErrorKind, Read, Result};
use std::os::fd::OwnedFd;

/// First bytes of a file in a format that is not unpacked, its name, and the program that unpacks
/// it to standard output.
const FOREIGN: [(&[u8], &str, &str); 4] = [
    (&[0xfd, b'7', b'z', b'X'], "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4cat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// Memory that a frame of Zstandard may ask for, as a power of two: 128 MiB, the limit of the
/// format's own tools without an option for more.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How a file that begins with `first`, of at least 4 bytes, is packed, if it can be unpacked here.
pub(super) fn packing(first: &[u8]) -> Option<Packing> {
    match *first.first_chunk()? {
        [0x1f, 0x8b, _, _] => Some(Packing::Gzip),
        // Behind it the second is what parallel compressors begin with: a frame to be skipped.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Packing::Zstd),
        _ => None,
    }
}

/// As [`packing`] for what is not unpacked here: its format, and the program that unpacks it.
pub(super) fn foreign(first: &[u8]) -> Option<(&'static str, &'static str)> {
    let (_, format, program) = FOREIGN.iter().find(|(magic, ..)| first.starts_with(magic))?;
    Some((format, program))
}

/// What a decoder reads: the first bytes, by which the packing was known, and the rest.
type Packed = std::io::Chain<Cursor<Vec<u8>>, Gate>;

/// A compressed input, unpacked.
pub(super) struct Unpacker {
    packing: Packing,
    decoder: Decoder,
    is_cut: bool,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Packed>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Packed>>>),
}

impl Unpacker {
    /// Unpacks what `first` begins and `rest` goes on with. If `polled` is given, `rest` is read
    /// only when there is something to read there; else the error is `WouldBlock`, and it may be
    /// tried again.
    pub(super) fn new(
        packing: Packing,
        first: Vec<u8>,
        rest: Box<dyn Read + Send>,
        polled: Option<OwnedFd>,
    ) -> Result<Unpacker> {
        let packed = Cursor::new(first).chain(Gate { reader: rest, polled });
        let decoder = match packing {
            Packing::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(packed))),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(packed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Decoder::Zstd(Box::new(decoder))
            }
        };
        Ok(Unpacker { packing, decoder, is_cut: false })
    }

    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    /// True if the packed input ended where it may not. What had come before was given.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Read for Unpacker {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        /// Bytes that are unpacked at once: what comes before an error in the same step is lost.
        const STEP_BYTES: usize = 32 << 10;
        let count = buffer.len().min(STEP_BYTES);
        let read = match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.read(&mut buffer[..count]),
            Decoder::Zstd(decoder) => decoder.read(&mut buffer[..count]),
        };
        match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(0)
            }
            read => read,
        }
    }
}

/// A reader that does not wait for its bytes, if it can be asked for that.
struct Gate {
    reader: Box<dyn Read + Send>,
    polled: Option<OwnedFd>,
}

impl Read for Gate {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if let Some(polled) = &self.polled {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut [PollFd::new(polled, PollFlags::IN)], Some(&at_once))? == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.reader.read(buffer)
    }
}
