//! What a stream carries: a file, standard input, or a number of bytes of a pattern; and the way of
//! all of it through a stream.

use super::{BUFFER_BYTES, Stream};
use crate::Error;
use crate::wait::Until;
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

/// How often a paced stream is cut into pieces, so that it is seen how far it is.
const PIECES_PER_SEC: u64 = 20;

/// What a stream is to carry.
pub struct Payload(Origin);

/// Where the next bytes come from.
enum Origin {
    /// Read straight into the buffers of the stream.
    Read { input: Input, name: String },
    /// Buffers that were filled once are sent again and again.
    Pattern { left: u64, filled: usize },
}

/// Why a stream went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// All of the payload was sent.
    All,
    /// The number of frames was sent.
    Count,
    /// The [end](Stream::end_when) came.
    Over,
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

    /// Waits until there is something to read, or the end of it. False if `until` comes before.
    fn wait(&self, until: &Until) -> std::io::Result<bool> {
        if !self.may_be_silent {
            return Ok(true);
        }
        loop {
            if until.has_come() {
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
    /// What `text` names: `-` for standard input, a file that exists, or else `bytes` of a pattern.
    ///
    /// # Errors
    /// It cannot be opened, or is none of these.
    pub fn open(text: &str, bytes: Option<u64>) -> Result<Payload, Error> {
        let path = Path::new(text);
        let read = |file: std::io::Result<File>, name: &str| {
            let input = file.and_then(Input::new).map_err(|error| cannot_read(name, error))?;
            Ok(Payload(Origin::Read { input, name: name.into() }))
        };
        if text == "-" {
            // Past the buffer of std, of which a poll knows nothing.
            let file = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
            return read(file, "standard input");
        }
        if path.exists() {
            if path.is_dir() {
                return Err(Error::PayloadDirectory { path: text.to_owned() });
            }
            // Else a FIFO without a writer would block here already.
            let flags = OFlags::NONBLOCK.bits() as i32;
            return read(File::options().read(true).custom_flags(flags).open(path), text);
        }
        match bytes {
            Some(left @ 1..) => Ok(Payload(Origin::Pattern { left, filled: 0 })),
            _ => Err(Error::NoPayload { text: text.to_owned() }),
        }
    }

    /// Makes buffer `buffer` carry the next bytes, `bytes_max` at most, and says how many; fewer
    /// only at the end. `None` if the end of the stream comes before they are there.
    fn fill(
        &mut self,
        stream: &mut Stream,
        buffer: usize,
        bytes_max: usize,
    ) -> Result<Option<usize>, Error> {
        match &mut self.0 {
            Origin::Read { input, name } => {
                let until = stream.until.clone();
                let (mut got, mut result) = (0, Ok(Rest::More));
                let is_filled = stream.fill(buffer, bytes_max, |part| {
                    if matches!(result, Ok(Rest::More)) {
                        let (bytes, rest) = read_whole(input, part, &until);
                        got += bytes;
                        result = rest;
                    }
                })?;
                let rest = result.map_err(|error| cannot_read(name, error))?;
                Ok((is_filled && rest != Rest::Over).then_some(got))
            }
            Origin::Pattern { left, filled } => {
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

fn cannot_read(name: &str, source: std::io::Error) -> Error {
    Error::Read { path: name.to_owned(), source }
}

impl Stream {
    /// Sends `payload`, of at most `frames_max` frames, from the first buffer on. After each piece
    /// `tell` gets the payload bytes so far.
    ///
    /// # Errors
    /// The interface failed, or the payload cannot be read.
    pub fn carry(
        &mut self,
        payload: &mut Payload,
        frames_max: Option<u64>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Carried, Error> {
        let (mss, piece_bytes) = (self.mss_bytes(), self.piece_bytes());
        let (mut left_frames, mut sent) = (frames_max, 0);
        for buffer in (0..self.buffers()).cycle() {
            if self.until.has_come() {
                return Ok(Carried::Over);
            }
            let frames_max =
                left_frames.map_or(usize::MAX, |left| left.try_into().unwrap_or(usize::MAX));
            let bytes_max = piece_bytes.min(frames_max.saturating_mul(mss));
            if bytes_max == 0 {
                return Ok(Carried::Count);
            }
            let Some(bytes) = payload.fill(self, buffer, bytes_max)? else {
                return Ok(Carried::Over);
            };
            if !self.send(buffer, bytes)? {
                return Ok(Carried::Over);
            }
            sent += bytes as u64;
            left_frames = left_frames.map(|left| left - bytes.div_ceil(mss) as u64);
            if bytes < bytes_max {
                break;
            }
            tell(sent);
        }
        Ok(Carried::All)
    }

    /// Bytes that are sent at once: whole segments, so that none but the last is short.
    fn piece_bytes(&self) -> usize {
        let mss = self.mss_bytes();
        let most = BUFFER_BYTES / mss;
        let paced =
            self.bytes_per_sec.map_or(most as u64, |rate| rate / PIECES_PER_SEC / mss as u64);
        usize::try_from(paced).unwrap_or(most).clamp(1, most) * mss
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
fn read_whole(input: &mut Input, part: &mut [u8], until: &Until) -> (usize, std::io::Result<Rest>) {
    let mut got = 0;
    while got < part.len() {
        match input.wait(until) {
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
    use std::rc::Rc;

    #[test]
    fn a_file_wins_over_a_size_and_what_is_neither_is_named() {
        assert!(matches!(Payload::open("-", None).unwrap().0, Origin::Read { .. }));
        let pattern = Payload::open("64KiB", Some(65_536)).unwrap().0;
        assert!(matches!(pattern, Origin::Pattern { left: 65_536, .. }));
        for (text, bytes) in [("/nowhere/10GB", None), ("0", Some(0)), ("ten", None)] {
            let refused = Payload::open(text, bytes).err().unwrap().to_string();
            assert!(refused.contains("no file") && refused.contains("10GB"), "{refused}");
        }
        assert!(Payload::open("/tmp", None).err().unwrap().to_string().contains("directory"));
    }

    #[test]
    fn short_reads_are_put_together_and_silence_is_left() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut input = Input::new(OwnedFd::from(reader).into()).unwrap();
        let mut part = [0; 5];
        for piece in ["abc", "defg"] {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        let endless = Until::default();
        assert!(matches!(read_whole(&mut input, &mut part, &endless), (5, Ok(Rest::More))));
        assert_eq!(part, *b"abcde");
        // The first looks find nothing, then it is over: what came until then is counted.
        let looks = Rc::new(Cell::new(0));
        let looked = Rc::clone(&looks);
        let until = Until::when(move || looked.replace(looked.get() + 1) == 3);
        assert!(matches!(read_whole(&mut input, &mut part, &until), (2, Ok(Rest::Over))));
        assert_eq!(looks.get(), 4);
        drop(writer);
        assert!(matches!(read_whole(&mut input, &mut part, &endless), (0, Ok(Rest::End))));
    }
}
