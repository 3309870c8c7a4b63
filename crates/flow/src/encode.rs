//! Records as messages of NetFlow v5, NetFlow v9 and IPFIX.
//!
//! An [`Encoder`] is a function from records and times to bytes: it has no socket and no clock,
//! only the numbers that a format counts. A [`Collector`] is a sink that hands its messages to a
//! [`MessageSink`]: a socket, a connection or a file, which is the same messages back to back
//! (RFC 5655).

mod collector;
mod element;
mod message;
mod netflow5;
mod template;

pub use collector::{Collector, MessageSink, Stream};

use crate::{FlowError, Record};
use message::Writer;
use netflow5::Netflow5;
use ringside_core::Timestamp;

/// Longest message, in octets: with headers of IPv6, UDP and a tunnel it fits an Ethernet frame.
pub const MESSAGE_BYTES_MAX: usize = 1_400;

/// Templates are sent again after a time and after a number of messages, whichever is first: a
/// collector that starts late, or lost one, is blind until then.
pub const TEMPLATES_NS: u64 = 60_000_000_000;
/// See [`TEMPLATES_NS`].
pub const TEMPLATES_MESSAGES: u32 = 20;

/// When templates are among the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Templates {
    /// In the first, and again after [`TEMPLATES_NS`] or [`TEMPLATES_MESSAGES`].
    Repeated,
    /// Never: [`templates`] are sent apart, once where a connection or a file begins.
    Apart,
}

/// A format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// NetFlow version 5: IPv4 alone, fixed records of one direction.
    Netflow5,
    /// NetFlow version 9 (RFC 3954): templates, records of one direction.
    Netflow9,
    /// IPFIX (RFC 7011) with records of both directions (RFC 5103), times in milliseconds.
    Ipfix,
    /// The same with times in nanoseconds.
    IpfixNanoseconds,
    /// IPFIX with a record for each direction, times in milliseconds: collectors that do not know
    /// RFC 5103 leave out the elements of the other direction without a word.
    IpfixUniflow,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 5] = [
        Format::Netflow5,
        Format::Netflow9,
        Format::Ipfix,
        Format::IpfixNanoseconds,
        Format::IpfixUniflow,
    ];

    /// The name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Netflow5 => "netflow5",
            Format::Netflow9 => "netflow9",
            Format::Ipfix => "ipfix",
            Format::IpfixNanoseconds => "ipfix-ns",
            Format::IpfixUniflow => "ipfix-uniflow",
        }
    }

    /// True for messages of RFC 7011, which say how long they are.
    pub fn is_ipfix(self) -> bool {
        !matches!(self, Format::Netflow5 | Format::Netflow9)
    }

    /// True for a record for each direction that had packets.
    fn has_uniflows(self) -> bool {
        !matches!(self, Format::Ipfix | Format::IpfixNanoseconds)
    }
}

impl std::str::FromStr for Format {
    type Err = FlowError;

    /// # Errors
    /// [`FlowError::Unknown`].
    fn from_str(name: &str) -> Result<Format, FlowError> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| FlowError::Unknown {
            what: "format of flow records",
            name: name.into(),
            known: Format::ALL.map(Format::name).join(", "),
        })
    }
}

/// Makes messages of records.
pub struct Encoder(Kind);

enum Kind {
    Five(Netflow5),
    Templates(Writer),
}

impl Encoder {
    /// Of this format, for the observation domain (of v9: source id; of v5: engine) `domain`, of an
    /// exporter that began at `begun`.
    pub fn new(format: Format, templates: Templates, domain: u32, begun: Timestamp) -> Encoder {
        Encoder(match format {
            Format::Netflow5 => Kind::Five(Netflow5::new(domain, begun)),
            _ => Kind::Templates(Writer::new(format, templates, domain, begun)),
        })
    }

    /// Adds a record; a message that is full is given out first. False if the format cannot say it.
    pub fn put(&mut self, record: &Record, now: Timestamp, out: &mut dyn FnMut(&[u8])) -> bool {
        match &mut self.0 {
            Kind::Five(encoder) => encoder.put(record, now, out),
            Kind::Templates(writer) => {
                template::put(writer, record, now, out);
                true
            }
        }
    }

    /// Gives out what waits for more records.
    pub fn flush(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        match &mut self.0 {
            Kind::Five(encoder) => encoder.flush(now, out),
            Kind::Templates(writer) => writer.flush(now, out),
        }
    }

    /// The next message begins with the templates.
    pub fn templates_now(&mut self) {
        if let Kind::Templates(writer) = &mut self.0 {
            writer.templates_now();
        }
    }

    /// Gives out a message of templates alone, if they are due and no record came.
    pub fn tick(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        if let Kind::Templates(writer) = &mut self.0 {
            writer.tick(now, out);
        }
    }
}

/// The message of templates and options alone, with the sequence number 0: what a connection or a
/// file begins with. Empty for a format without templates.
pub fn templates(format: Format, domain: u32, now: Timestamp) -> Vec<u8> {
    let mut message = Vec::new();
    let mut encoder = Encoder::new(format, Templates::Repeated, domain, now);
    encoder.tick(now, &mut |bytes| message = bytes.to_vec());
    message
}

/// How long before its first message an exporter says that it began, in nanoseconds: records of
/// NetFlow are dated from there, and what a file's clock steps back is after it.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Milliseconds since an exporter began; they start anew after 49.7 days, as these formats do.
fn uptime_ms(begun_ns: u64, at_ns: u64) -> u32 {
    (at_ns.wrapping_sub(begun_ns) / 1_000_000) as u32
}

#[cfg(test)]
mod tests;
