//! DNS (RFC 1035): the first question, and whole messages ([`Message`]). Over UDP and TCP; mDNS,
//! LLMNR and the name service of NetBIOS are written alike.

use crate::name::{Name, WIRE_BYTES_MAX};
use crate::outcome::{Outcome, Stop};

mod message;
mod types;

pub use message::{Entries, Labels, Message, Question, Record};
pub use types::type_name;

/// Bytes of the header.
const HEADER_BYTES: usize = 12;
/// Bytes of a label. Larger values are compression pointers, or kinds of labels that were given up.
const LABEL_BYTES_MAX: u8 = 63;

/// Questions that one query of mDNS asks at once, for a guess; a dozen are seen.
const QUESTIONS_MAX: u16 = 64;

/// What the start of a DNS message says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dns<'n> {
    /// True for an answer, false for a query.
    pub is_response: Option<bool>,
    /// Name of the first question, in lower case and without the last dot, as [`Name`] writes it;
    /// a dot within a label is `\.`, and the root is `.`. Answers may have no question.
    pub qname: Option<&'n [u8]>,
    /// What is asked for: 1 is an IPv4 address, 28 an IPv6 address.
    pub qtype: Option<u16>,
}

/// Reads the message in a UDP datagram; `name` holds the name that is found.
///
/// It is believed to be DNS as soon as it has a header: every header could be one.
#[inline]
pub fn parse<'n>(message: &[u8], name: &'n mut Name) -> Outcome<Dns<'n>> {
    let mut found = Dns::default();
    let mut has_name = false;
    let end = read(message, name, &mut has_name, &mut found);
    found.qname = has_name.then_some(name.as_bytes());
    Outcome::of(end, found)
}

/// Reads the message that begins in a TCP segment, behind its length.
#[inline]
pub fn parse_tcp<'n>(payload: &[u8], name: &'n mut Name) -> Outcome<Dns<'n>> {
    let Some((length, rest)) = payload.split_first_chunk() else {
        return Outcome::Incomplete(Dns::default());
    };
    let length = usize::from(u16::from_be_bytes(*length));
    if length < HEADER_BYTES {
        return Outcome::NotThis;
    }
    match rest.get(..length) {
        None => parse(rest, name),
        Some(message) => match parse(message, name) {
            // All of it is there, so the question runs over its end.
            Outcome::Incomplete(_) => Outcome::NotThis,
            outcome => outcome,
        },
    }
}

/// True if a UDP payload begins as a message with a question, or as an answer of mDNS without: a
/// header of known values, and a first label of text.
#[inline]
pub fn looks_like(message: &[u8]) -> bool {
    is_plausible(message, true)
}

/// True if a TCP payload begins with a length and such a message, of DNS alone.
#[inline]
pub fn looks_like_tcp(payload: &[u8]) -> bool {
    let Some((length, rest)) = payload.split_first_chunk() else { return false };
    usize::from(u16::from_be_bytes(*length)) > HEADER_BYTES && is_plausible(rest, false)
}

fn is_plausible(message: &[u8], may_be_multicast: bool) -> bool {
    let Some((header, question)) = message.split_first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    let &[id, more_id, flags, more_flags, q, questions, a, answers, n, authority, _, _] = header;
    let [questions, answers, authority] =
        [[q, questions], [a, answers], [n, authority]].map(u16::from_be_bytes);
    let is_response = flags & 0x80 != 0;
    let opcode = flags >> 3 & 0xf;
    // Query, notify, and update (of NetBIOS, registration); a reserved bit that is 0.
    let is_known = matches!(opcode, 0 | 4 | 5) && more_flags & 0x40 == 0;
    // RFC 6762 section 18.1.
    let is_multicast = may_be_multicast && id == 0 && more_id == 0;
    let has_question = match questions {
        0 => is_response && answers > 0,
        1 => true,
        2..=QUESTIONS_MAX => is_multicast,
        _ => false,
    };
    // A query has no result, and records of a zone only to change or to claim it.
    let is_query = more_flags & 0xf == 0 && (authority == 0 || opcode == 5 || is_multicast);
    let is_text = match question {
        [0, ..] => questions == 1,
        [bytes @ 1..=LABEL_BYTES_MAX, rest @ ..] => {
            let label = rest.get(..usize::from(*bytes)).unwrap_or(rest);
            label.iter().all(|&byte| byte >= b' ' && byte != 0x7f)
        }
        _ => false,
    };
    is_known && has_question && (is_response || is_query) && is_text
}

fn read(
    message: &[u8],
    name: &mut Name,
    has_name: &mut bool,
    found: &mut Dns<'_>,
) -> Result<(), Stop> {
    found.is_response = message.get(2).map(|flags| flags & 0x80 != 0);
    let (header, question) = message.split_first_chunk::<HEADER_BYTES>().ok_or(Stop::Cut)?;
    if let [_, _, _, _, 0, 0, ..] = header {
        return Ok(());
    }
    let rest = read_name(question, name)?;
    *has_name = true;
    let qtype = rest.first_chunk().ok_or(Stop::Cut)?;
    found.qtype = Some(u16::from_be_bytes(*qtype));
    Ok(())
}

/// Writes the name at the start of `bytes` to `name`, and gives what follows. A pointer is
/// malformed here: it may only name an earlier name, and before the first there is none.
fn read_name<'a>(bytes: &'a [u8], name: &mut Name) -> Result<&'a [u8], Stop> {
    name.clear();
    let mut rest = bytes;
    loop {
        let (&label_bytes, after) = rest.split_first().ok_or(Stop::Cut)?;
        let wire_bytes = bytes.len() - after.len() + usize::from(label_bytes);
        if label_bytes > LABEL_BYTES_MAX || wire_bytes > WIRE_BYTES_MAX {
            return Err(Stop::Malformed);
        }
        let is_first = rest.len() == bytes.len();
        if label_bytes == 0 {
            if is_first {
                name.push(b'.');
            }
            return Ok(after);
        }
        let (label, after) = after.split_at_checked(usize::from(label_bytes)).ok_or(Stop::Cut)?;
        if !is_first {
            name.push(b'.');
        }
        label.iter().for_each(|&byte| name.push_in_label(byte));
        rest = after;
    }
}
