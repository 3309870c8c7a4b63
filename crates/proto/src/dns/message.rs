//! A whole DNS message (RFC 1035 section 4): header, questions and records, in order.

use super::{HEADER_BYTES, LABEL_BYTES_MAX};
use crate::name::WIRE_BYTES_MAX;
use crate::outcome::Stop;

/// A message whose header is there.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_BYTES],
}

impl<'a> Message<'a> {
    /// `None` if the header is cut.
    pub fn new(bytes: &'a [u8]) -> Option<Message<'a>> {
        bytes.first_chunk().map(|header| Message { bytes, header })
    }

    /// What joins an answer to its query.
    pub fn id(&self) -> u16 {
        self.word(0)
    }

    /// Response, opcode, flags and result.
    pub fn flags(&self) -> u16 {
        self.word(1)
    }

    /// True for an answer.
    pub fn is_response(&self) -> bool {
        self.flags() & 0x8000 != 0
    }

    /// Kind of query: 0 is an ordinary one.
    pub fn opcode(&self) -> u8 {
        (self.flags() >> 11 & 0xf) as u8
    }

    /// Result of an answer.
    pub fn rcode(&self) -> u8 {
        (self.flags() & 0xf) as u8
    }

    /// How many questions, answers, authority records and additional records it says it has.
    pub fn counts(&self) -> [u16; 4] {
        [self.word(2), self.word(3), self.word(4), self.word(5)]
    }

    /// Starts at the first question.
    pub fn entries(&self) -> Entries<'a> {
        Entries { message: self.bytes, at: HEADER_BYTES }
    }

    fn word(&self, index: usize) -> u16 {
        let [high, low] = [2 * index, 2 * index + 1].map(|at| self.header.get(at).copied());
        u16::from_be_bytes([high.unwrap_or(0), low.unwrap_or(0)])
    }
}

/// Goes through a message. The caller says by the counts which entries are questions; each step
/// moves on, so that no count makes it look at more than the bytes hold.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    message: &'a [u8],
    at: usize,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name.
    pub name: Labels<'a>,
    /// Type of record: 1 is an IPv4 address.
    pub qtype: u16,
    /// Class: 1 is the Internet; the highest bit asks for an answer by unicast (RFC 6762).
    pub class: u16,
}

/// A resource record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Whose it is.
    pub name: Labels<'a>,
    /// Type.
    pub rtype: u16,
    /// Class; of an OPT record (RFC 6891), the sender's largest datagram.
    pub class: u16,
    /// Seconds for which it may be kept.
    pub ttl: u32,
    /// Length of the data as the record says.
    pub data_bytes: u16,
    /// The data, as far as it is there.
    pub data: &'a [u8],
    message: &'a [u8],
    data_at: usize,
}

impl<'a> Record<'a> {
    /// The name that stands `skip` bytes behind the start of the data.
    pub fn name_in_data(&self, skip: usize) -> Labels<'a> {
        Labels::new(self.message, self.data_at.saturating_add(skip))
    }

    /// What is behind a name in the data, at `skip`.
    ///
    /// # Errors
    /// The name is cut or malformed.
    pub fn behind_name(&self, skip: usize) -> Result<&'a [u8], Stop> {
        let end = self.name_in_data(skip).end()?;
        let end_of_data = self.data_at + self.data.len();
        Ok(self.message.get(end..end_of_data).unwrap_or_default())
    }
}

impl<'a> Entries<'a> {
    /// What was not looked at yet.
    pub fn rest(&self) -> &'a [u8] {
        self.message.get(self.at..).unwrap_or_default()
    }

    /// The next entry as a question.
    ///
    /// # Errors
    /// It is cut or malformed; the place stays.
    pub fn question(&mut self) -> Result<Question<'a>, Stop> {
        let name = Labels::new(self.message, self.at);
        let end = name.end()?;
        let &[t, y, c, l] = self.fixed(end)?;
        self.at = end + 4;
        let [qtype, class] = [[t, y], [c, l]].map(u16::from_be_bytes);
        Ok(Question { name, qtype, class })
    }

    /// The next entry as a record. One whose data is cut gives what is there of it.
    ///
    /// # Errors
    /// It is cut before its data or malformed; the place stays.
    pub fn record(&mut self) -> Result<Record<'a>, Stop> {
        let name = Labels::new(self.message, self.at);
        let end = name.end()?;
        let &[t, y, c, l, a, b, d, e, h, i] = self.fixed(end)?;
        let [rtype, class, data_bytes] = [[t, y], [c, l], [h, i]].map(u16::from_be_bytes);
        let data_at = end + 10;
        let data_end = data_at + usize::from(data_bytes);
        let there = data_end.min(self.message.len());
        let data = self.message.get(data_at..there).unwrap_or_default();
        self.at = there;
        let ttl = u32::from_be_bytes([a, b, d, e]);
        let message = self.message;
        Ok(Record { name, rtype, class, ttl, data_bytes, data, message, data_at })
    }

    fn fixed<const N: usize>(&self, at: usize) -> Result<&'a [u8; N], Stop> {
        self.message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Cut)
    }
}

/// Pointers of one name: it has at most 127 labels, and a pointer that leads to another one without
/// a label in between is of no use.
const JUMPS_MAX: u8 = 127;

/// The labels of a name, in order; ends behind the last, or after an error. A pointer must lead to
/// earlier bytes than all before it, so that every name ends.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    message: &'a [u8],
    at: usize,
    /// Where the run of labels begins that is looked at: pointers lead before it.
    run: usize,
    wire_bytes: usize,
    jumps: u8,
    is_done: bool,
}

impl<'a> Labels<'a> {
    fn new(message: &'a [u8], at: usize) -> Labels<'a> {
        Labels { message, at, run: at, wire_bytes: 0, jumps: 0, is_done: false }
    }

    /// Where the name ends in place: behind its first pointer, or the empty label.
    fn end(mut self) -> Result<usize, Stop> {
        loop {
            match self.byte(self.at)? {
                0 => return Ok(self.at + 1),
                0xc0.. => return self.byte(self.at + 1).map(|_| self.at + 2),
                bytes @ 1..=LABEL_BYTES_MAX => self.at += 1 + usize::from(bytes),
                _ => return Err(Stop::Malformed),
            }
        }
    }

    fn byte(&self, at: usize) -> Result<u8, Stop> {
        self.message.get(at).copied().ok_or(Stop::Cut)
    }

    fn step(&mut self) -> Result<Option<&'a [u8]>, Stop> {
        loop {
            let bytes = self.byte(self.at)?;
            match bytes {
                0 => return Ok(None),
                0xc0.. => {
                    let low = self.byte(self.at + 1)?;
                    let target = usize::from(u16::from_be_bytes([bytes & 0x3f, low]));
                    self.jumps += 1;
                    if target >= self.run || self.jumps > JUMPS_MAX {
                        return Err(Stop::Malformed);
                    }
                    (self.at, self.run) = (target, target);
                }
                1..=LABEL_BYTES_MAX => {
                    let from = self.at + 1;
                    self.at = from + usize::from(bytes);
                    self.wire_bytes += 1 + usize::from(bytes);
                    if self.wire_bytes >= WIRE_BYTES_MAX {
                        return Err(Stop::Malformed);
                    }
                    return self.message.get(from..self.at).ok_or(Stop::Cut).map(Some);
                }
                _ => return Err(Stop::Malformed),
            }
        }
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = Result<&'a [u8], Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let label = self.step();
        self.is_done = !matches!(label, Ok(Some(_)));
        label.transpose()
    }
}
