//! What a stream carries: a file, standard input, or so many bytes of a pattern.

use crate::units;
use anyhow::{Context, ensure};
use ringside_transmit::Stream;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The pattern counts up to this and begins anew: a prime, so that it lies differently in
/// neighbouring segments.
const PATTERN_PERIOD: usize = 251;

/// Where the next bytes come from.
pub enum Payload {
    /// Read straight into the buffers of the stream.
    Read { reader: Box<dyn Read>, name: String },
    /// Buffers that were filled once are sent again and again.
    Pattern { left: u64, filled: usize },
}

impl Payload {
    /// What `text` names: `-`, a file that exists, or else a size.
    pub fn open(text: &str) -> anyhow::Result<Payload> {
        let path = Path::new(text);
        if text == "-" {
            let name = "standard input".into();
            return Ok(Payload::Read { reader: Box::new(std::io::stdin()), name });
        }
        if path.exists() {
            ensure!(!path.is_dir(), "{text} is a directory; a stream carries one file, or a size");
            let reader = File::open(path).with_context(|| format!("cannot read {text}"))?;
            return Ok(Payload::Read { reader: Box::new(reader), name: text.into() });
        }
        let left = units::bytes(text).ok().filter(|&bytes| bytes > 0).with_context(|| {
            format!("there is no file {text}, and it is no size, as 10GB or 64MiB, from 1 byte on")
        })?;
        Ok(Payload::Pattern { left, filled: 0 })
    }

    /// Makes buffer `buffer` carry the next bytes, `bytes_max` at most, and says how many; fewer
    /// only at the end.
    pub fn fill(
        &mut self,
        stream: &mut Stream,
        buffer: usize,
        bytes_max: usize,
    ) -> anyhow::Result<usize> {
        match self {
            Payload::Read { reader, name } => {
                let (mut got, mut result) = (0, Ok(true));
                stream.fill(buffer, bytes_max, |part| {
                    if matches!(result, Ok(true)) {
                        let (bytes, more) = read_whole(reader, part);
                        got += bytes;
                        result = more;
                    }
                })?;
                result.with_context(|| format!("cannot read {name}"))?;
                Ok(got)
            }
            Payload::Pattern { left, filled } => {
                if buffer >= *filled {
                    let mut at = 0;
                    stream.fill(buffer, ringside_transmit::BUFFER_BYTES, |part| {
                        for byte in part {
                            *byte = (at % PATTERN_PERIOD) as u8;
                            at += 1;
                        }
                    })?;
                    *filled = buffer + 1;
                }
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes_max);
                *left -= bytes as u64;
                Ok(bytes)
            }
        }
    }
}

/// Reads until `part` is full; says how many bytes came, and whether there may be more.
fn read_whole(reader: &mut impl Read, part: &mut [u8]) -> (usize, std::io::Result<bool>) {
    let mut got = 0;
    while got < part.len() {
        match reader.read(&mut part[got..]) {
            Ok(0) => return (got, Ok(false)),
            Ok(bytes) => got += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (got, Err(error)),
        }
    }
    (got, Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_wins_over_a_size_and_what_is_neither_is_named() {
        assert!(matches!(Payload::open("-").unwrap(), Payload::Read { .. }));
        assert!(matches!(Payload::open("64KiB").unwrap(), Payload::Pattern { left: 65_536, .. }));
        for text in ["/nowhere/10GB", "0", "ten"] {
            let refused = Payload::open(text).err().unwrap().to_string();
            assert!(refused.contains("no file") && refused.contains("10GB"), "{refused}");
        }
        assert!(Payload::open("/tmp").err().unwrap().to_string().contains("directory"));
    }

    #[test]
    fn short_reads_are_put_together() {
        let mut reader = (&b"abc"[..]).chain(&b"defg"[..]);
        let mut part = [0; 5];
        assert!(matches!(read_whole(&mut reader, &mut part), (5, Ok(true))));
        assert_eq!(part, *b"abcde");
        assert!(matches!(read_whole(&mut reader, &mut part), (2, Ok(false))));
    }
}
