//! What a stream carries: a file, standard input, or a number of bytes of a pattern.

use anyhow::{Context, ensure};
use ringside_terminal::units;
use ringside_transmit::{BUFFER_BYTES, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The pattern counts up to this and begins anew: a prime, so that it lies differently in
/// neighbouring segments.
const PATTERN_PERIOD: usize = 251;

/// How long one wait for input lasts, after which a signal and the clock are looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Where the next bytes come from.
pub enum Payload {
    /// Read straight into the buffers of the stream.
    Read { input: Input, name: String },
    /// Buffers that were filled once are sent again and again.
    Pattern { left: u64, filled: usize },
}

/// A file, a pipe or a terminal.
pub struct Input {
    file: File,
    /// It may give nothing for long: a pipe, a terminal.
    may_be_silent: bool,
}

impl Input {
    fn new(file: File) -> std::io::Result<Input> {
        let may_be_silent = !file.metadata()?.is_file();
        Ok(Input { file, may_be_silent })
    }

    /// Waits until there is something to read, or the end of it. False if it `is_over` before.
    fn wait(&self, is_over: &dyn Fn() -> bool) -> std::io::Result<bool> {
        if !self.may_be_silent {
            return Ok(true);
        }
        loop {
            if is_over() {
                return Ok(false);
            }
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Payload {
    /// What `text` names: `-`, a file that exists, or else a size.
    pub fn open(text: &str) -> anyhow::Result<Payload> {
        let path = Path::new(text);
        let read = |file: std::io::Result<File>, name: &str| {
            let input = file.and_then(Input::new);
            let input = input.with_context(|| format!("cannot read {name}"))?;
            Ok(Payload::Read { input, name: name.into() })
        };
        if text == "-" {
            // Past the buffer of std, of which a poll knows nothing.
            let file = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
            return read(file, "standard input");
        }
        if path.exists() {
            ensure!(!path.is_dir(), "{text} is a directory; a stream carries one file, or a size");
            // Else a FIFO without a writer would block here already.
            let flags = OFlags::NONBLOCK.bits() as i32;
            return read(File::options().read(true).custom_flags(flags).open(path), text);
        }
        let left = units::bytes(text).ok().filter(|&bytes| bytes > 0).with_context(|| {
            format!("there is no file {text}, and it is no size, as 10GB or 64MiB, from 1 byte on")
        })?;
        Ok(Payload::Pattern { left, filled: 0 })
    }

    /// Makes buffer `buffer` carry the next bytes, `bytes_max` at most, and says how many; fewer
    /// only at the end. `None` if it `is_over` before they are there.
    pub fn fill(
        &mut self,
        stream: &mut Stream,
        buffer: usize,
        bytes_max: usize,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<usize>> {
        match self {
            Payload::Read { input, name } => {
                let (mut got, mut result) = (0, Ok(Rest::More));
                let is_filled = stream.fill(buffer, bytes_max, |part| {
                    if matches!(result, Ok(Rest::More)) {
                        let (bytes, rest) = read_whole(input, part, is_over);
                        got += bytes;
                        result = rest;
                    }
                })?;
                let rest = result.with_context(|| format!("cannot read {name}"))?;
                Ok((is_filled && rest != Rest::Over).then_some(got))
            }
            Payload::Pattern { left, filled } => {
                if buffer >= *filled {
                    let mut at = 0;
                    let is_filled = stream.fill(buffer, BUFFER_BYTES, |part| {
                        for byte in part {
                            *byte = (at % PATTERN_PERIOD) as u8;
                            at += 1;
                        }
                    })?;
                    if !is_filled {
                        return Ok(None);
                    }
                    *filled = buffer + 1;
                }
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes_max);
                *left -= bytes as u64;
                Ok(Some(bytes))
            }
        }
    }
}

/// Whether there may be more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    More,
    End,
    /// It was not waited for.
    Over,
}

/// Reads until `part` is full; says how many bytes came.
fn read_whole(
    input: &mut Input,
    part: &mut [u8],
    is_over: &dyn Fn() -> bool,
) -> (usize, std::io::Result<Rest>) {
    let mut got = 0;
    while got < part.len() {
        match input.wait(is_over) {
            Ok(true) => {}
            Ok(false) => return (got, Ok(Rest::Over)),
            Err(error) => return (got, Err(error)),
        }
        match input.file.read(&mut part[got..]) {
            Ok(0) => return (got, Ok(Rest::End)),
            Ok(bytes) => got += bytes,
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return (got, Err(error)),
        }
    }
    (got, Ok(Rest::More))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::Write;
    use std::os::fd::OwnedFd;

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
    fn short_reads_are_put_together_and_silence_is_left() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut input = Input::new(OwnedFd::from(reader).into()).unwrap();
        let mut part = [0; 5];
        for piece in ["abc", "defg"] {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        assert!(matches!(read_whole(&mut input, &mut part, &|| false), (5, Ok(Rest::More))));
        assert_eq!(part, *b"abcde");
        // The first looks find nothing, then it is over: what came until then is counted.
        let looks = Cell::new(0);
        let is_over = || looks.replace(looks.get() + 1) == 3;
        assert!(matches!(read_whole(&mut input, &mut part, &is_over), (2, Ok(Rest::Over))));
        assert_eq!(looks.get(), 4);
        drop(writer);
        assert!(matches!(read_whole(&mut input, &mut part, &|| false), (0, Ok(Rest::End))));
    }
}
