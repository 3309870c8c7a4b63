//! What is kept of a message.

use crate::data;
use crate::domain_name::DomainName;
use crate::limits::ANSWERS_MAX;
use crate::transaction::{Answer, Question};
use ringside_proto::Stop;
use ringside_proto::dns::{Entries, Message};

/// Type of the pseudo record that holds options.
const OPT: u16 = 41;

/// A message, as far as it is kept.
#[derive(Debug)]
pub(crate) struct Read {
    pub id: u16,
    pub flags: u16,
    pub is_response: bool,
    /// The result, with the part that OPT has.
    pub rcode: u16,
    pub counts: [u16; 4],
    pub question: Option<Question>,
    /// Of an answer.
    pub answers: Vec<Answer>,
    /// False if records are missing or malformed.
    pub is_whole: bool,
}

impl Read {
    /// Reads a message; records only of an answer.
    ///
    /// # Errors
    /// Header or questions are cut, or malformed.
    pub fn message(bytes: &[u8]) -> Result<Read, Stop> {
        let message = Message::new(bytes).ok_or(Stop::Cut)?;
        let mut entries = message.entries();
        let counts = message.counts();
        let mut read = Read {
            id: message.id(),
            flags: message.flags(),
            is_response: message.is_response(),
            rcode: u16::from(message.rcode()),
            counts,
            question: None,
            answers: Vec::new(),
            is_whole: true,
        };
        for _ in 0..counts[0] {
            let asked = entries.question()?;
            if read.question.is_none() {
                let (qtype, class) = (asked.qtype, asked.class);
                read.question =
                    Some(Question { name: DomainName::read(asked.name)?, qtype, class });
            }
        }
        if read.is_response {
            read.is_whole = read.records(&mut entries).is_ok();
        }
        Ok(read)
    }

    fn records(&mut self, entries: &mut Entries<'_>) -> Result<(), Stop> {
        let [_, answers, authority, additional] = self.counts;
        for _ in 0..answers.min(ANSWERS_MAX) {
            let record = entries.record()?;
            self.answers.push(Answer {
                name: DomainName::read(record.name)?,
                rtype: record.rtype,
                class: record.class,
                ttl: record.ttl,
                data: data::text(&record),
            });
            if record.data.len() < usize::from(record.data_bytes) {
                return Err(Stop::Cut);
            }
        }
        let rest = u32::from(answers.saturating_sub(ANSWERS_MAX)) + u32::from(authority);
        for _ in 0..rest {
            entries.record()?;
        }
        for _ in 0..additional {
            let record = entries.record()?;
            if record.rtype == OPT {
                self.rcode |= (record.ttl >> 24 << 4) as u16;
            }
        }
        Ok(())
    }
}
