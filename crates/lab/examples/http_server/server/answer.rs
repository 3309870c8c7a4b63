//! What is answered: a header, and bytes of a file or of a pattern.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Longest generated answer: a tebibyte takes half an hour at 5 Gb/s.
const GENERATED_BYTES_MAX: u64 = 1 << 40;

/// Byte `n` of a generated answer is `n` modulo this prime, so that a piece in a wrong place shows.
pub const PATTERN_BYTES: usize = 251;

/// The pattern often enough to copy 64 KiB from any place of it.
const TABLE_BYTES: usize = PATTERN_BYTES + (64 << 10);

/// An answer, as far as it is not written yet.
pub struct Answer {
    head: Vec<u8>,
    head_written: usize,
    body: Body,
    body_left: u64,
}

enum Body {
    Text(&'static str),
    Generated { table: Vec<u8>, at: u64 },
    File(File),
}

impl Answer {
    /// The answer to a request for `path`.
    pub fn to(method: &str, path: &str, directory: Option<&Path>) -> Answer {
        if method != "GET" {
            return Answer::error(405, "Method Not Allowed");
        }
        if let Some(bytes) = path.strip_prefix("/bytes/") {
            return match bytes.parse() {
                Ok(bytes) if bytes <= GENERATED_BYTES_MAX => {
                    let table = (0..TABLE_BYTES).map(|at| (at % PATTERN_BYTES) as u8).collect();
                    Answer::new(200, "OK", Body::Generated { table, at: 0 }, bytes)
                }
                _ => Answer::error(400, "Bad Request"),
            };
        }
        match directory.and_then(|directory| open(directory, path)) {
            Some((file, bytes)) => Answer::new(200, "OK", Body::File(file), bytes),
            None => Answer::error(404, "Not Found"),
        }
    }

    /// An answer that is its status.
    pub fn error(status: u16, reason: &'static str) -> Answer {
        Answer::new(status, reason, Body::Text(reason), reason.len() as u64)
    }

    fn new(status: u16, reason: &str, body: Body, bytes: u64) -> Answer {
        let kind = match body {
            Body::Text(_) => "text/plain",
            Body::Generated { .. } | Body::File(_) => "application/octet-stream",
        };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Length: {bytes}\r\nContent-Type: {kind}\r\n\
             Connection: close\r\n\r\n"
        );
        Answer { head: head.into_bytes(), head_written: 0, body, body_left: bytes }
    }

    pub fn is_finished(&self) -> bool {
        self.head_written == self.head.len() && self.body_left == 0
    }

    /// Writes the next bytes to the start of `room`, which is not empty; how many, 0 if there are
    /// none where there should be.
    pub fn fill(&mut self, room: &mut [u8]) -> usize {
        let head = &self.head[self.head_written..];
        if !head.is_empty() {
            let bytes = head.len().min(room.len());
            room[..bytes].copy_from_slice(&head[..bytes]);
            self.head_written += bytes;
            return bytes;
        }
        let bytes = usize::try_from(self.body_left).unwrap_or(usize::MAX).min(room.len());
        let room = &mut room[..bytes];
        let bytes = match &mut self.body {
            Body::Text(text) => {
                let from = text.len() - self.body_left as usize;
                room.copy_from_slice(&text.as_bytes()[from..from + bytes]);
                bytes
            }
            Body::Generated { table, at } => {
                for part in room.chunks_mut(TABLE_BYTES - PATTERN_BYTES) {
                    let from = (*at % PATTERN_BYTES as u64) as usize;
                    part.copy_from_slice(&table[from..from + part.len()]);
                    *at += part.len() as u64;
                }
                bytes
            }
            Body::File(file) => file.read(room).unwrap_or(0),
        };
        self.body_left -= bytes as u64;
        bytes
    }
}

/// A file below `directory`, which is a real path, and its bytes.
fn open(directory: &Path, path: &str) -> Option<(File, u64)> {
    let relative = PathBuf::from(path.strip_prefix('/')?);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !relative.components().all(is_plain) {
        return None;
    }
    // A link may lead out.
    let real = directory.join(relative).canonicalize().ok()?;
    if !real.starts_with(directory) {
        return None;
    }
    // To open a pipe could wait for ever.
    let metadata = real.metadata().ok().filter(Metadata::is_file)?;
    Some((File::open(real).ok()?, metadata.len()))
}
