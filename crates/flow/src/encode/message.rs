//! Messages with templates: NetFlow v9 and IPFIX, which differ in header, numbers and padding.

use super::element::Context;
use super::template::{OPTIONS_ID, Template, all};
use super::uptime_ms;
use super::{BEFORE_NS, Format, MESSAGE_BYTES_MAX, TEMPLATES_MESSAGES, TEMPLATES_NS, Templates};
use ringside_core::Timestamp;

/// Private enterprise number of elements of the other direction (RFC 5103).
const REVERSE_PEN: u32 = 29_305;
/// Of the option record: numbers, octets and values of its fields. An interval of one packet, by
/// the elements of before RFC 5477 and, of IPFIX, those of after.
const SAMPLING: &[(u16, u16, u32)] =
    &[(34, 4, 1), (35, 1, 1), (304, 2, 1), (305, 4, 1), (306, 4, 0)];
/// See [`SAMPLING`].
const SAMPLING_V9: &[(u16, u16, u32)] = &[(34, 4, 1), (35, 1, 1)];

/// In the number of an element: an enterprise number follows.
const HAS_PEN: u16 = 0x8000;

/// One message after the other, of records in sets by template.
pub(super) struct Writer {
    format: Format,
    when: Templates,
    domain: u32,
    begun_ns: u64,
    templates: Vec<Template>,
    message: Vec<u8>,
    /// Where the set that is open begins, and by which template.
    set: Option<(usize, usize)>,
    /// Of this message: data records, and records of any kind.
    data_records: u32,
    records: u16,
    /// What the format counts: messages of v9, data records of IPFIX, before this one.
    sequence: u32,
    /// Since templates were sent: when that was, and messages. None before the first.
    templates_sent: Option<(u64, u32)>,
}

impl Writer {
    pub fn new(format: Format, when: Templates, domain: u32, begun: Timestamp) -> Writer {
        Writer {
            format,
            when,
            domain,
            begun_ns: begun.0.saturating_sub(BEFORE_NS),
            templates: all(format),
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            set: None,
            data_records: 0,
            records: 0,
            sequence: 0,
            templates_sent: None,
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    pub fn templates_now(&mut self) {
        self.templates_sent = None;
    }

    /// Adds a record by the template at this place of the list.
    pub fn put(
        &mut self,
        template: usize,
        context: &Context<'_>,
        now: Timestamp,
        out: &mut dyn FnMut(&[u8]),
    ) {
        self.make_room(template, 1, now, out);
        self.open(template);
        let Template { fields, .. } = &self.templates[template];
        for field in fields {
            field.write(context, &mut self.message);
        }
        self.data_records += 1;
        self.records += 1;
    }

    /// Begins a message, another one if `records` by this template do not fit any more.
    pub fn make_room(
        &mut self,
        template: usize,
        records: usize,
        now: Timestamp,
        out: &mut dyn FnMut(&[u8]),
    ) {
        self.begin(now, out);
        // Padding of up to three octets is yet to come.
        let needed = records * self.templates[template].bytes + 3;
        let needed = needed + self.set_header_bytes(template);
        if self.message.len() + needed > MESSAGE_BYTES_MAX {
            self.flush(now, out);
            self.begin(now, out);
        }
    }

    /// Gives out the message, if there is something in it.
    pub fn flush(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        if self.records == 0 {
            return;
        }
        self.close();
        let (length, records) = (self.message.len() as u16, self.records);
        let header = &mut self.message;
        match self.format {
            Format::Netflow9 => {
                header[2..4].copy_from_slice(&records.to_be_bytes());
                header[4..8].copy_from_slice(&uptime_ms(self.begun_ns, now.0).to_be_bytes());
                header[8..12].copy_from_slice(&(now.seconds() as u32).to_be_bytes());
                header[12..16].copy_from_slice(&self.sequence.to_be_bytes());
                self.sequence = self.sequence.wrapping_add(1);
            }
            _ => {
                header[2..4].copy_from_slice(&length.to_be_bytes());
                header[4..8].copy_from_slice(&(now.seconds() as u32).to_be_bytes());
                header[8..12].copy_from_slice(&self.sequence.to_be_bytes());
                self.sequence = self.sequence.wrapping_add(self.data_records);
            }
        }
        out(&self.message);
        self.message.clear();
        (self.data_records, self.records) = (0, 0);
        if let Some((_, messages)) = &mut self.templates_sent {
            *messages += 1;
        }
    }

    /// Templates alone, if it is time for them.
    pub fn tick(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        if self.are_templates_due(now) {
            self.flush(now, out);
            self.begin(now, out);
            self.flush(now, out);
        }
    }

    fn are_templates_due(&self, now: Timestamp) -> bool {
        let is_due = self.templates_sent.is_none_or(|(at_ns, messages)| {
            // A clock that went back counts too.
            messages >= TEMPLATES_MESSAGES || now.0.abs_diff(at_ns) >= TEMPLATES_NS
        });
        is_due && self.when == Templates::Repeated
    }

    /// Begins a message, with the templates if they are due.
    fn begin(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        if self.are_templates_due(now) {
            self.flush(now, out);
        }
        if !self.message.is_empty() {
            return;
        }
        let (version, bytes) = match self.format {
            Format::Netflow9 => (9_u16, 20),
            _ => (10, 16),
        };
        self.message.extend(version.to_be_bytes());
        self.message.resize(bytes - 4, 0);
        self.message.extend(self.domain.to_be_bytes());
        if self.are_templates_due(now) {
            self.templates_sent = Some((now.0, 0));
            self.write_templates();
            self.write_options();
        }
    }

    fn write_templates(&mut self) {
        let id = if self.format == Format::Netflow9 { 0_u16 } else { 2 };
        let begin = self.begin_set(id);
        for template in &self.templates {
            let message = &mut self.message;
            message.extend(template.id.to_be_bytes());
            message.extend((template.fields.len() as u16).to_be_bytes());
            for field in &template.fields {
                let has_pen = if field.is_reverse { HAS_PEN } else { 0 };
                message.extend((field.id | has_pen).to_be_bytes());
                message.extend(field.bytes.to_be_bytes());
                if field.is_reverse {
                    message.extend(REVERSE_PEN.to_be_bytes());
                }
            }
            self.records += 1;
        }
        self.end_set(begin);
    }

    /// That every packet is looked at: some collectors drop all flows until they get that.
    fn write_options(&mut self) {
        let is_v9 = self.format == Format::Netflow9;
        // Scope 1 is the system, 149 the observation domain.
        let (scope, fields) = if is_v9 { ((1, 4), SAMPLING_V9) } else { ((149, 4), SAMPLING) };
        let begin = self.begin_set(if is_v9 { 1 } else { 3 });
        self.message.extend(OPTIONS_ID.to_be_bytes());
        let count = fields.len() as u16;
        // Of v9 lengths in octets, of IPFIX counts of fields, all and those of the scope.
        let (first, second) = if is_v9 { (4, 4 * count) } else { (1 + count, 1) };
        self.message.extend(first.to_be_bytes());
        self.message.extend(second.to_be_bytes());
        let sizes = fields.iter().map(|&(id, bytes, _)| (id, bytes));
        for (id, bytes) in std::iter::once(scope).chain(sizes) {
            self.message.extend(id.to_be_bytes());
            self.message.extend(bytes.to_be_bytes());
        }
        self.end_set(begin);
        let begin = self.begin_set(OPTIONS_ID);
        self.message.extend(self.domain.to_be_bytes());
        for &(_, bytes, value) in fields {
            let value = value.to_be_bytes();
            self.message.extend(value.get(4 - usize::from(bytes)..).unwrap_or_default());
        }
        self.end_set(begin);
        self.data_records += 1;
        self.records += 2;
    }

    fn set_header_bytes(&self, template: usize) -> usize {
        if self.set.is_some_and(|(_, open)| open == template) { 0 } else { 4 + 3 }
    }

    /// A set of records by this template, the one that is open if it is of that.
    fn open(&mut self, template: usize) {
        if self.set.is_some_and(|(_, open)| open == template) {
            return;
        }
        self.close();
        let begin = self.begin_set(self.templates[template].id);
        self.set = Some((begin, template));
    }

    fn close(&mut self) {
        if let Some((begin, _)) = self.set.take() {
            self.end_set(begin);
        }
    }

    fn begin_set(&mut self, id: u16) -> usize {
        let begin = self.message.len();
        self.message.extend(id.to_be_bytes());
        self.message.extend([0; 2]);
        begin
    }

    /// Writes the set's length; v9 wants the next at a multiple of four.
    fn end_set(&mut self, begin: usize) {
        if self.format == Format::Netflow9 {
            let end = begin + (self.message.len() - begin).next_multiple_of(4);
            self.message.resize(end, 0);
        }
        let length = (self.message.len() - begin) as u16;
        self.message[begin + 2..begin + 4].copy_from_slice(&length.to_be_bytes());
    }
}
