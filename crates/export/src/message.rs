//! A message on its way, and the session that it is sent in.

use ringside_flow::RecordSums;

/// A message, whole, and what its records hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub bytes: Vec<u8>,
    pub held: RecordSums,
}

impl Message {
    /// What it takes of a limit in bytes: its own, and what stands around it in memory.
    pub fn cost(&self) -> usize {
        self.bytes.len() + size_of::<Message>()
    }
}

/// Messages of IPFIX of one connection or file, which count their data records from 0 (RFC 7011,
/// section 3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Session {
    /// Data records so far.
    data_records: u32,
}

/// Where a message of IPFIX has its export time, and its sequence number.
const TIME: std::ops::Range<usize> = 4..8;
const SEQUENCE: std::ops::Range<usize> = 8..12;

impl Session {
    /// Data records of a message of templates: that of the options.
    const OF_TEMPLATES: u32 = 1;

    /// Appends the session's first message: templates, dated like `first`, which follows.
    pub fn begin(templates: &[u8], first: &Message, out: &mut Vec<u8>) -> Session {
        let mut session = Session::default();
        let begin = out.len();
        session.append(templates, Session::OF_TEMPLATES, out);
        if let (Some(to), Some(from)) = (out[begin..].get_mut(TIME), first.bytes.get(TIME)) {
            to.copy_from_slice(from);
        }
        session
    }

    /// Appends a message of records, with the session's number.
    pub fn put(&mut self, message: &Message, out: &mut Vec<u8>) {
        // One data record for each flow record; numbers start anew after 2^32.
        self.append(&message.bytes, message.held.records as u32, out);
    }

    fn append(&mut self, bytes: &[u8], data_records: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(bytes);
        if let Some(sequence) = out[begin..].get_mut(SEQUENCE) {
            sequence.copy_from_slice(&self.data_records.to_be_bytes());
        }
        self.data_records = self.data_records.wrapping_add(data_records);
    }
}
