//! A body in chunks (RFC 9112 section 7.1), however it is cut.

/// Bytes of a line of sizes and extensions, and of all trailers: more is made to cost time.
const LINE_BYTES_MAX: u32 = 16 << 10;

/// Follows a body in chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    state: State,
    /// Bytes of the line, or of the trailers.
    line_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the size: what it says so far, and whether a digit was there.
    Size {
        size: u64,
        has_digit: bool,
    },
    /// Behind the size, in extensions.
    Extension {
        size: u64,
    },
    /// In the data of a chunk.
    Data {
        left: u64,
    },
    /// Behind it.
    DataEnd,
    /// In the lines behind the last chunk; whether the line has anything in it.
    Trailer {
        is_empty: bool,
    },
    Done,
    Broken,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { state: State::Size { size: 0, has_digit: false }, line_bytes: 0 }
    }
}

impl Chunks {
    /// Takes the next bytes: how many of them belong to the body as it stands here, and how many of
    /// those to its contents.
    pub fn take_in(&mut self, bytes: &[u8]) -> (usize, u64) {
        let (mut at, mut contents) = (0, 0);
        while let (Some(&byte), false) = (bytes.get(at), self.is_over()) {
            if let State::Data { left } = self.state {
                let here = left.min((bytes.len() - at) as u64);
                contents += here;
                at += here as usize;
                self.go_on(left - here);
                continue;
            }
            at += 1;
            self.step(byte);
        }
        (at, contents)
    }

    /// Passes over bytes that are missing. False if it is not known any more what follows them.
    pub fn skip(&mut self, bytes: u64) -> bool {
        match self.state {
            State::Data { left } if bytes <= left => {
                self.go_on(left - bytes);
                true
            }
            _ => {
                self.state = State::Broken;
                false
            }
        }
    }

    /// True behind the last byte.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True if these are no chunks.
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    fn is_over(&self) -> bool {
        self.is_done() || self.is_broken()
    }

    fn go_on(&mut self, left: u64) {
        self.state = if left == 0 { State::DataEnd } else { State::Data { left } };
    }

    fn step(&mut self, byte: u8) {
        self.line_bytes += 1;
        if self.line_bytes > LINE_BYTES_MAX {
            self.state = State::Broken;
            return;
        }
        self.state = match (self.state, byte) {
            (State::Size { size, has_digit }, _) => match (byte as char).to_digit(16) {
                Some(digit) => match size.checked_mul(16) {
                    Some(size) => State::Size { size: size + u64::from(digit), has_digit: true },
                    None => State::Broken,
                },
                None if !has_digit => State::Broken,
                None if byte == b'\n' => self.chunk(size),
                None if matches!(byte, b'\r' | b';' | b' ' | b'\t') => State::Extension { size },
                None => State::Broken,
            },
            (State::Extension { size }, b'\n') => self.chunk(size),
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => {
                self.line_bytes = 0;
                Chunks::default().state
            }
            (State::DataEnd, _) => State::Broken,
            (State::Trailer { is_empty: true }, b'\n') => State::Done,
            (State::Trailer { .. }, b'\n') => State::Trailer { is_empty: true },
            (State::Trailer { is_empty }, b'\r') => State::Trailer { is_empty },
            (State::Trailer { .. }, _) => State::Trailer { is_empty: false },
            (other, _) => other,
        };
    }

    /// The line of a chunk's size has ended.
    fn chunk(&mut self, size: u64) -> State {
        self.line_bytes = 0;
        if size == 0 { State::Trailer { is_empty: true } } else { State::Data { left: size } }
    }
}
