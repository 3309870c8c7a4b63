//! One handshake message, read across the records that it lies in (RFC 8446 section 5.1).

use crate::outcome::Stop;
use core::ops::RangeInclusive;

/// Bytes of a record that is not encrypted.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 14;
/// Records that one message may lie in: a hello of 2 KiB, as browsers send it, in single bytes.
/// More are no hello.
const RECORDS_MAX: usize = 2048;
/// A record that says nothing in TLS 1.3. Clients put it before their second hello, because boxes
/// on the way know it from older versions (RFC 8446 appendix D.4).
pub(super) const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];
/// Content type of handshake messages.
const HANDSHAKE: u8 = 22;
/// Message type of the ClientHello.
const CLIENT_HELLO: usize = 1;
/// Bytes of a hello: its vectors at their longest are a little more than two of 2^16.
const HELLO_BYTES_MAX: usize = 1 << 18;

/// A place in a handshake message.
pub(super) struct Handshake<'a> {
    /// What is left of the record, as far as it is there.
    here: &'a [u8],
    /// What is behind the record.
    rest: &'a [u8],
    records_left: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl<'a> Handshake<'a> {
    /// Starts at the body of the ClientHello that `payload` begins with.
    pub(super) fn client_hello(payload: &'a [u8]) -> Result<Handshake<'a>, Stop> {
        if CHANGE_CIPHER_SPEC.starts_with(payload) {
            return Err(Stop::Cut);
        }
        let payload = payload.strip_prefix(CHANGE_CIPHER_SPEC).unwrap_or(payload);
        // The header's own four bytes are counted as part of the message until its length is known.
        let mut hello = Handshake { here: &[], rest: payload, records_left: RECORDS_MAX, left: 4 };
        if hello.number(1)? != CLIENT_HELLO {
            return Err(Stop::Malformed);
        }
        let length = hello.number(3)?;
        if length > HELLO_BYTES_MAX {
            return Err(Stop::Malformed);
        }
        hello.left = length;
        Ok(hello)
    }

    /// Bytes of the message that are still to come.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Passes over the version, whose first byte is 3 in all of them, and 32 random bytes.
    pub(super) fn skip_version_and_random(&mut self) -> Result<(), Stop> {
        if self.byte()? != 3 {
            return Err(Stop::Malformed);
        }
        self.skip(33)
    }

    /// Passes over a vector whose length is a number of `width` bytes and within `bounds`.
    pub(super) fn skip_vector(
        &mut self,
        width: usize,
        bounds: RangeInclusive<usize>,
    ) -> Result<(), Stop> {
        let bytes = self.number(width)?;
        if !bounds.contains(&bytes) {
            return Err(Stop::Malformed);
        }
        self.skip(bytes)
    }

    /// Takes a number of `width` bytes.
    pub(super) fn number(&mut self, width: usize) -> Result<usize, Stop> {
        let mut number = 0;
        for _ in 0..width {
            number = number << 8 | usize::from(self.byte()?);
        }
        Ok(number)
    }

    /// Takes one byte.
    pub(super) fn byte(&mut self) -> Result<u8, Stop> {
        self.left = self.left.checked_sub(1).ok_or(Stop::Malformed)?;
        if self.here.is_empty() {
            self.next_record()?;
        }
        let (&byte, here) = self.here.split_first().ok_or(Stop::Cut)?;
        self.here = here;
        Ok(byte)
    }

    /// Passes over `bytes` bytes.
    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes).ok_or(Stop::Malformed)?;
        let mut to_skip = bytes;
        while to_skip > 0 {
            if self.here.is_empty() {
                self.next_record()?;
            }
            let step = to_skip.min(self.here.len());
            self.here = self.here.get(step..).unwrap_or_default();
            to_skip -= step;
        }
        Ok(())
    }

    /// Goes to the next record. One that is cut gives what is there of it; nothing is behind it, so
    /// that the message ends as cut.
    fn next_record(&mut self) -> Result<(), Stop> {
        let header = match self.rest {
            [] => return Err(Stop::Cut),
            [kind, ..] if *kind != HANDSHAKE => return Err(Stop::Malformed),
            rest => rest,
        };
        let &[_, major, minor, high, low, ref fragment @ ..] = header else {
            return Err(Stop::Cut);
        };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if major != 3 || minor > 4 || !(1..=RECORD_BYTES_MAX).contains(&bytes) {
            return Err(Stop::Malformed);
        }
        self.records_left = self.records_left.checked_sub(1).ok_or(Stop::Malformed)?;
        let there = bytes.min(fragment.len());
        (self.here, self.rest) = fragment.split_at_checked(there).ok_or(Stop::Cut)?;
        if self.here.is_empty() { Err(Stop::Cut) } else { Ok(()) }
    }
}
