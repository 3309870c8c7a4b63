//! A reader of NetFlow v5, v9 and IPFIX, written from the RFCs and not from the encoders.

use std::collections::{BTreeMap, HashMap};

/// One data record: values by number of the element and whether it is of the other direction.
pub type Fields = BTreeMap<(u16, bool), Vec<u8>>;

/// One message.
#[derive(Debug, Default)]
pub struct Message {
    pub version: u16,
    pub sequence: u32,
    pub domain: u32,
    pub unix_seconds: u32,
    pub uptime_ms: Option<u32>,
    pub flows: Vec<Fields>,
    pub options: Vec<Fields>,
    pub templates: usize,
}

/// A field of a template, and its length.
type Field = ((u16, bool), usize);

/// What a collector remembers.
#[derive(Default)]
pub struct Decoder {
    /// By number: fields, and whether it is one of options.
    templates: HashMap<u16, (Vec<Field>, bool)>,
}

struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn take(&mut self, bytes: usize) -> &'b [u8] {
        assert!(bytes <= self.0.len(), "{bytes} of {}", self.0.len());
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }
}

impl Decoder {
    /// Reads one message.
    pub fn read(&mut self, bytes: &[u8]) -> Message {
        let mut at = Cursor(bytes);
        match at.u16() {
            5 => v5(bytes),
            9 => self.v9(bytes),
            10 => self.ipfix(bytes),
            other => panic!("version {other}"),
        }
    }

    fn v9(&mut self, bytes: &[u8]) -> Message {
        let mut at = Cursor(bytes);
        let mut message = Message { version: at.u16(), ..Message::default() };
        let count = at.u16();
        message.uptime_ms = Some(at.u32());
        message.unix_seconds = at.u32();
        message.sequence = at.u32();
        message.domain = at.u32();
        while !at.0.is_empty() {
            let (id, length) = (at.u16(), usize::from(at.u16()));
            assert_eq!(length % 4, 0, "padding");
            let mut set = Cursor(at.take(length - 4));
            match id {
                0 => self.templates(&mut set, false, &mut message),
                1 => {
                    let id = set.u16();
                    let lengths = usize::from(set.u16()) + usize::from(set.u16());
                    // The scope's types have a number space of their own: 1 is the system.
                    let fields = (0..lengths / 4).map(|n| {
                        ((set.u16() + if n == 0 { 10_000 } else { 0 }, false), set.u16().into())
                    });
                    self.templates.insert(id, (fields.collect(), true));
                    message.templates += 1;
                }
                _ => self.data(id, &mut set, &mut message),
            }
        }
        let records = message.templates + message.flows.len() + message.options.len();
        assert_eq!(usize::from(count), records);
        message
    }

    fn ipfix(&mut self, bytes: &[u8]) -> Message {
        let mut at = Cursor(bytes);
        let mut message = Message { version: at.u16(), ..Message::default() };
        assert_eq!(usize::from(at.u16()), bytes.len());
        message.unix_seconds = at.u32();
        message.sequence = at.u32();
        message.domain = at.u32();
        while !at.0.is_empty() {
            let (id, length) = (at.u16(), usize::from(at.u16()));
            let mut set = Cursor(at.take(length - 4));
            match id {
                2 => self.templates(&mut set, true, &mut message),
                3 => {
                    let (id, fields, scopes) = (set.u16(), set.u16(), set.u16());
                    assert_eq!(scopes, 1);
                    let fields = (0..fields).map(|_| field(&mut set, true)).collect();
                    self.templates.insert(id, (fields, true));
                    message.templates += 1;
                }
                _ => self.data(id, &mut set, &mut message),
            }
        }
        message
    }

    fn templates(&mut self, set: &mut Cursor<'_>, has_pens: bool, message: &mut Message) {
        while set.0.len() >= 4 {
            let (id, count) = (set.u16(), set.u16());
            assert!(id >= 256);
            let fields = (0..count).map(|_| field(set, has_pens)).collect();
            self.templates.insert(id, (fields, false));
            message.templates += 1;
        }
    }

    fn data(&mut self, id: u16, set: &mut Cursor<'_>, message: &mut Message) {
        let (fields, is_options) = &self.templates[&id];
        let bytes: usize = fields.iter().map(|field| field.1).sum();
        while set.0.len() >= bytes {
            let read = fields.iter().map(|&(field, bytes)| (field, set.take(bytes).to_vec()));
            let record: Fields = read.collect();
            assert_eq!(record.len(), fields.len(), "no field twice");
            if *is_options { &mut message.options } else { &mut message.flows }.push(record);
        }
        assert!(set.0.len() < 4 && set.0.iter().all(|&byte| byte == 0), "only padding is left");
    }
}

fn field(at: &mut Cursor<'_>, has_pens: bool) -> Field {
    let (id, bytes) = (at.u16(), usize::from(at.u16()));
    let is_reverse = has_pens && id & 0x8000 != 0;
    if is_reverse {
        assert_eq!(at.u32(), 29_305);
        return ((id & 0x7fff, true), bytes);
    }
    ((id, false), bytes)
}

/// The fixed fields of version 5, by the numbers that version 9 gave them.
fn v5(bytes: &[u8]) -> Message {
    let mut at = Cursor(bytes);
    let mut message = Message { version: at.u16(), ..Message::default() };
    let count = at.u16();
    assert!((1..=30).contains(&count));
    message.uptime_ms = Some(at.u32());
    message.unix_seconds = at.u32();
    at.take(4);
    message.sequence = at.u32();
    message.domain = at.u16().into();
    assert_eq!(at.u16(), 0, "no sampling");
    const FIELDS: [(u16, usize); 18] = [
        (8, 4),
        (12, 4),
        (15, 4),
        (10, 2),
        (14, 2),
        (2, 4),
        (1, 4),
        (22, 4),
        (21, 4),
        (7, 2),
        (11, 2),
        (10_001, 1),
        (6, 1),
        (4, 1),
        (5, 1),
        (16, 2),
        (17, 2),
        (10_002, 4),
    ];
    for _ in 0..count {
        let fields = FIELDS.iter().map(|&(id, n)| ((id, false), at.take(n).to_vec()));
        message.flows.push(fields.collect());
    }
    assert!(at.0.is_empty());
    message
}
