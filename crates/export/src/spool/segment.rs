//! One file of a spool.

use crate::message::Message;
use ringside_flow::{RecordSums, Sums};
use ringside_wire::crc32c::Crc32c;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"RINGSPL1";
/// Before the templates: magic, how far it was delivered, their length and checksum.
const HEADER_BYTES: usize = 24;
/// Where it says how far it was delivered.
const DELIVERED_AT: u64 = 8;
/// Before each message: its length, a checksum of all that follows, records, packets, octets.
const ENTRY_BYTES: usize = 32;
/// What the checksum does not cover: length and itself.
const NOT_CHECKED: usize = 8;
/// Longest message, by its own field of length.
const MESSAGE_BYTES_MAX: usize = 65_535;

pub(super) struct Segment {
    path: PathBuf,
    file: File,
    templates: Arc<[u8]>,
    /// Bytes of whole entries, with the header.
    end: u64,
    /// Where the next message to be sent begins.
    read: u64,
    /// Everything before was delivered.
    delivered: u64,
    /// What is to be delivered, and what of it is on its way.
    held: RecordSums,
    on_its_way: RecordSums,
}

/// Bytes of a message in a segment.
pub(super) fn entry_bytes(message: &Message) -> u64 {
    (ENTRY_BYTES + message.bytes.len()) as u64
}

/// Bytes before the first message.
pub(super) fn header_bytes(templates: &[u8]) -> u64 {
    (HEADER_BYTES + templates.len()) as u64
}

impl Segment {
    /// A new one; it gets its name when its header is whole.
    pub fn create(path: PathBuf, templates: Arc<[u8]>) -> io::Result<Segment> {
        let begin = header_bytes(&templates);
        let mut header = Vec::from(MAGIC);
        header.extend(begin.to_le_bytes());
        header.extend((templates.len() as u32).to_le_bytes());
        header.extend(Crc32c::new().bytes(&templates).finish().to_le_bytes());
        header.extend_from_slice(&templates);
        let part = path.with_extension("part");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&part)?;
        file.write_all_at(&header, 0)?;
        fs::rename(&part, &path)?;
        let (held, on_its_way) = (RecordSums::default(), RecordSums::default());
        let (end, read, delivered) = (begin, begin, begin);
        Ok(Segment { path, file, templates, end, read, delivered, held, on_its_way })
    }

    /// One that an earlier run left, and how many bytes at its end are no whole message; these
    /// are cut. Of a file that is none, the inner error says how long it is.
    pub fn open(path: PathBuf) -> io::Result<Result<(Segment, u64), u64>> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let length = file.metadata()?.len();
        let Some((noted, templates)) = header(&file)? else { return Ok(Err(length)) };
        let begin = header_bytes(&templates);
        let mut segment = Segment {
            path,
            file,
            templates: templates.into(),
            end: length,
            read: begin,
            delivered: begin,
            held: RecordSums::default(),
            on_its_way: RecordSums::default(),
        };
        segment.measure(noted)?;
        let damaged_bytes = length - segment.end;
        if damaged_bytes > 0 {
            segment.file.set_len(segment.end)?;
        }
        Ok(Ok((segment, damaged_bytes)))
    }

    /// Reads all messages: how many are whole, and what those behind `noted` hold.
    fn measure(&mut self, noted: u64) -> io::Result<()> {
        let begin = self.read;
        let (mut is_noted, mut all) = (noted == begin, RecordSums::default());
        while self.read < self.end {
            match self.next() {
                Ok(message) => all += message.held,
                Err(error) if error.kind() == ErrorKind::InvalidData => break,
                Err(error) => return Err(error),
            }
            if self.read == noted {
                (is_noted, all) = (true, RecordSums::default());
            }
        }
        self.end = self.read;
        // A note that points nowhere says nothing: all of it is sent again.
        self.delivered = begin;
        if is_noted {
            self.delivered = noted;
        }
        self.rewind();
        self.held = all;
        Ok(())
    }

    pub fn templates(&self) -> &Arc<[u8]> {
        &self.templates
    }

    pub fn held(&self) -> RecordSums {
        self.held
    }

    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// True if there is a message that is not on its way.
    pub fn has_more(&self) -> bool {
        self.read < self.end
    }

    /// True if some of it is sent and not yet delivered.
    pub fn is_on_its_way(&self) -> bool {
        self.read > self.delivered
    }

    pub fn append(&mut self, message: &Message) -> io::Result<()> {
        let Sums { packets, octets } = message.held.held;
        let mut entry = Vec::with_capacity(ENTRY_BYTES + message.bytes.len());
        entry.extend((message.bytes.len() as u32).to_le_bytes());
        entry.extend([0; 4]);
        for number in [message.held.records, packets, octets] {
            entry.extend(number.to_le_bytes());
        }
        entry.extend_from_slice(&message.bytes);
        let checksum = Crc32c::new().bytes(&entry[NOT_CHECKED..]).finish();
        entry[4..NOT_CHECKED].copy_from_slice(&checksum.to_le_bytes());
        // Where an earlier write stopped half way, this one begins.
        self.file.write_all_at(&entry, self.end)?;
        self.end += entry.len() as u64;
        self.held += message.held;
        Ok(())
    }

    /// The next message, which is on its way from then on. `InvalidData`: it is not whole.
    pub fn next(&mut self) -> io::Result<Message> {
        let torn = || io::Error::new(ErrorKind::InvalidData, "a message of the spool is damaged");
        let left = usize::try_from(self.end - self.read).unwrap_or(usize::MAX);
        let mut head = [0; ENTRY_BYTES];
        if left < ENTRY_BYTES {
            return Err(torn());
        }
        self.file.read_exact_at(&mut head, self.read)?;
        let length = u32_at(&head, 0) as usize;
        if length > MESSAGE_BYTES_MAX || length > left - ENTRY_BYTES {
            return Err(torn());
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.read + ENTRY_BYTES as u64)?;
        let checksum = Crc32c::new().bytes(&head[NOT_CHECKED..]).bytes(&bytes).finish();
        if checksum != u32_at(&head, 4) {
            return Err(torn());
        }
        let held = Sums { packets: u64_at(&head, 16), octets: u64_at(&head, 24) };
        let held = RecordSums { records: u64_at(&head, 8), held };
        let message = Message { bytes, held };
        self.read += entry_bytes(&message);
        self.on_its_way += held;
        Ok(message)
    }

    pub fn all_on_their_way(&mut self) {
        (self.read, self.on_its_way) = (self.end, self.held);
    }

    pub fn rewind(&mut self) {
        (self.read, self.on_its_way) = (self.delivered, RecordSums::default());
    }

    /// The oldest message was delivered.
    pub fn delivered(&mut self, message: &Message) {
        self.delivered += entry_bytes(message);
        self.held -= message.held;
        self.on_its_way -= message.held;
    }

    /// Cuts off what is not on its way: what it held.
    pub fn give_up_unread(&mut self) -> RecordSums {
        let mut lost = std::mem::replace(&mut self.held, self.on_its_way);
        lost -= self.on_its_way;
        self.end = self.read;
        lost
    }

    /// Notes in the file how far it was delivered.
    pub fn note(&self) -> io::Result<()> {
        self.file.write_all_at(&self.delivered.to_le_bytes(), DELIVERED_AT)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// How far a segment was delivered, and its templates; none if this is no segment.
fn header(file: &File) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut header = [0; HEADER_BYTES];
    if !read_whole(file, &mut header, 0)? || !header.starts_with(MAGIC) {
        return Ok(None);
    }
    let length = u32_at(&header, 16) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Ok(None);
    }
    let mut templates = vec![0; length];
    if !read_whole(file, &mut templates, HEADER_BYTES as u64)? {
        return Ok(None);
    }
    let checksum = Crc32c::new().bytes(&templates).finish();
    Ok((checksum == u32_at(&header, 20)).then(|| (u64_at(&header, 8), templates)))
}

/// Fills `bytes`; false if the file ends before.
fn read_whole(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
