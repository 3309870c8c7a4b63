//! Lines over a Unix stream socket, with file descriptors attached (SCM_RIGHTS, unix(7)).

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Descriptors attached to one line, and the most that are kept of one. The kernel takes 253 with
/// one message (SCM_MAX_FD of linux/scm.h); no message here needs as many.
pub const FDS_MAX: usize = 64;

/// Bytes fetched at a time.
const CHUNK_BYTES: usize = 4096;

/// Sends `line` and a line feed, with `fds` attached to the first byte. Waits until all is sent.
///
/// # Errors
/// The other end is gone, more than [`FDS_MAX`] descriptors, or the line has a line feed in it.
pub fn send_line(mut stream: &UnixStream, line: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    if fds.len() > FDS_MAX || line.contains(&b'\n') {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut text = line.to_vec();
    text.push(b'\n');
    let sent = send_with(stream, &text, fds)?;
    stream.write_all(&text[sent..])
}

/// Sends bytes once, as many as the socket takes, with at most [`FDS_MAX`] descriptors.
pub(crate) fn send_with(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(bytes)];
    Ok(retry_on_intr(|| sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL))?)
}

/// Receives once into `bytes`; descriptors that come along, close-on-exec, are added to `fds`.
pub(crate) fn receive_with(
    socket: impl AsFd,
    bytes: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<(usize, ReturnFlags)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((received.bytes, received.flags))
}

/// Receives lines.
#[derive(Debug)]
pub struct LineReceiver {
    bytes_max: usize,
    buffer: Vec<u8>,
    /// Bytes of it that hold no line feed: each is looked at once, however slowly more come.
    searched: usize,
    fds: Vec<OwnedFd>,
}

/// A line, without its line feed, and what came with it.
#[derive(Debug)]
pub struct Line {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
}

impl LineReceiver {
    /// Takes lines of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> LineReceiver {
        LineReceiver { bytes_max, buffer: Vec::new(), searched: 0, fds: Vec::new() }
    }

    /// The next line; `None` when the other end has closed, whatever it left unfinished. Waits
    /// until `deadline`, however often something comes.
    ///
    /// # Errors
    /// The socket's, also `WouldBlock` and `TimedOut` (what came is kept); a line or descriptors
    /// beyond the limits.
    pub fn receive(&mut self, stream: &UnixStream, deadline: Instant) -> Result<Option<Line>> {
        loop {
            let line = self.take_line();
            let (bytes, fds) =
                line.as_ref().map_or((&self.buffer, &self.fds), |line| (&line.bytes, &line.fds));
            if bytes.len() > self.bytes_max || fds.len() > FDS_MAX {
                let bytes_max = self.bytes_max;
                let text =
                    format!("a line of more than {bytes_max} bytes or {FDS_MAX} descriptors");
                return Err(Error::new(ErrorKind::InvalidData, text));
            }
            if line.is_some() {
                return Ok(line);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(ErrorKind::TimedOut, "no whole line came in time"));
            }
            stream.set_read_timeout(Some(left))?;
            if self.fetch(stream)? == 0 {
                return Ok(None);
            }
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        let found = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        let rest = self.buffer.split_off(end + 1);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.pop();
        Some(Line { bytes, fds: std::mem::take(&mut self.fds) })
    }

    fn fetch(&mut self, stream: &UnixStream) -> Result<usize> {
        let mut chunk = [0; CHUNK_BYTES];
        let (bytes, _) = receive_with(stream, &mut chunk, &mut self.fds)?;
        self.buffer.extend_from_slice(&chunk[..bytes]);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    #[test]
    fn lines_arrive_whole_with_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut pipe_end, pipe_start) = std::io::pipe().unwrap();
        send_line(&ours, b"first", &[pipe_start.as_fd()]).unwrap();
        send_line(&ours, b"second", &[]).unwrap();
        drop((ours, pipe_start));
        let mut receiver = LineReceiver::new(100);
        let first = receiver.receive(&theirs, soon()).unwrap().unwrap();
        assert_eq!((&first.bytes[..], first.fds.len()), (&b"first"[..], 1));
        let second = receiver.receive(&theirs, soon()).unwrap().unwrap();
        assert_eq!((&second.bytes[..], second.fds.len()), (&b"second"[..], 0));
        assert!(receiver.receive(&theirs, soon()).unwrap().is_none());
        let fd = first.fds.into_iter().next().unwrap();
        std::fs::File::from(fd).write_all(b"through").unwrap();
        let mut text = String::new();
        pipe_end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    /// What a receiver makes of `bytes` that come in pieces, with a descriptor attached to the
    /// first.
    fn received(bytes: &[u8], pieces: &[usize]) -> (Vec<Line>, Result<Option<Line>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let extra = std::fs::File::open("/dev/null").unwrap();
        let mut rest = bytes;
        for (number, &length) in pieces.iter().cycle().enumerate() {
            let (piece, more) = rest.split_at(length.min(rest.len()));
            match number {
                0..=2 if !piece.is_empty() => {
                    assert_eq!(send_with(&ours, piece, &[extra.as_fd()]).unwrap(), piece.len());
                }
                _ => (&ours).write_all(piece).unwrap(),
            }
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        drop(ours);
        let mut receiver = LineReceiver::new(LINE_BYTES_MAX);
        let mut lines = Vec::new();
        loop {
            match receiver.receive(&theirs, soon()) {
                Ok(Some(line)) => lines.push(line),
                end => {
                    let _ = theirs.read(&mut [0; 1]);
                    return (lines, end);
                }
            }
        }
    }

    const LINE_BYTES_MAX: usize = 100;

    #[test]
    fn lines_are_what_was_sent_however_it_comes_and_longer_ones_are_refused() {
        let long = [vec![b'x'; LINE_BYTES_MAX + 1], b"\nnext\n".to_vec()].concat();
        let just = [vec![b'x'; LINE_BYTES_MAX], b"\nnext\n".to_vec()].concat();
        let seeds = [long, just, b"one\ntwo\n\nthree".to_vec(), vec![b'y'; 300]];
        ringside_testkit::fuzz("lines", 20_000, &seeds, |input| {
            let bytes = &input[..input.len().min(4096)];
            let pieces = [1 + bytes.len() % 7, 1 + bytes.len() % 97, 1 + bytes.len() % 131];
            let (lines, end) = received(bytes, &pieces);
            let mut expected: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
            let too_long = expected.iter().position(|line| line.len() > LINE_BYTES_MAX);
            // Behind the last line feed is no line.
            expected.truncate(too_long.unwrap_or(expected.len() - 1));
            assert!(lines.iter().map(|line| &line.bytes[..]).eq(expected), "{:?}", lines.len());
            assert_eq!(end.is_err(), too_long.is_some());
            assert!(lines.iter().map(|line| line.fds.len()).sum::<usize>() <= 3);
        });
    }

    /// Longer than any of these tests takes.
    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(100)
    }

    #[test]
    fn who_sends_a_byte_now_and_then_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            // It ends when the receiver has closed its end.
            scope.spawn(move || {
                while (&ours).write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let deadline = Instant::now() + Duration::from_millis(100);
            let error = LineReceiver::new(1 << 20).receive(&theirs, deadline).unwrap_err();
            let is_late = [ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&error.kind());
            assert!(is_late, "{error}");
            drop(theirs);
        });
    }

    #[test]
    fn a_line_beyond_the_limit_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_line(&ours, &[b'x'; 9000], &[]).unwrap();
        let error = LineReceiver::new(8000).receive(&theirs, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(send_line(&ours, b"two\nlines", &[]).is_err());
    }
}
