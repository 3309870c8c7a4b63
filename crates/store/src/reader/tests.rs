use super::*;
use crate::pcapng as format;
use ringside_core::{Direction, InterfaceId, OwnedFrame};
use std::io::Cursor;

mod packed;

/// Builds pcapng in either byte order, right or wrong.
struct Builder {
    bytes: Vec<u8>,
    big: bool,
}

impl Builder {
    fn new(big: bool) -> Builder {
        let mut builder = Builder { bytes: Vec::new(), big };
        builder.section(big);
        builder
    }

    fn word(&self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn block(&mut self, block_type: u32, body: &[u8]) -> &mut Builder {
        let length = self.word(body.len() as u32 + 12);
        let block_type = self.word(block_type);
        for piece in [&block_type[..], &length, body, &length] {
            self.bytes.extend_from_slice(piece);
        }
        self
    }

    fn section(&mut self, big: bool) -> &mut Builder {
        self.big = big;
        let halves = [self.half(1), self.half(0)].concat();
        let body = [&self.word(format::BYTE_ORDER_MAGIC)[..], &halves, &[0xff; 8]].concat();
        self.block(format::SECTION_HEADER, &body)
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.half(code), self.half(value.len() as u16)].concat();
        option.extend_from_slice(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn interface(&mut self, link_type: u16, snaplen: u32, options: &[u8]) -> &mut Builder {
        let head = [self.half(link_type), [0; 2]].concat();
        let body = [&head[..], &self.word(snaplen), options].concat();
        self.block(format::INTERFACE_DESCRIPTION, &body)
    }

    fn packet(&mut self, interface: u32, ticks: u64, data: &[u8], options: &[u8]) -> &mut Builder {
        let length = data.len() as u32;
        let words = [interface, (ticks >> 32) as u32, ticks as u32, length, length + 1];
        let mut body: Vec<u8> = words.iter().flat_map(|&value| self.word(value)).collect();
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend_from_slice(options);
        self.block(format::ENHANCED_PACKET, &body)
    }
}

/// Gives bytes in small pieces, as a pipe may.
struct Trickle(Cursor<Vec<u8>>, usize);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

fn read(bytes: &[u8], piece: usize) -> (Vec<OwnedFrame>, Option<String>, FileSource) {
    let reader = Box::new(Trickle(Cursor::new(bytes.to_vec()), piece));
    let mut source = FileSource::from_reader(Path::new("x"), reader).unwrap();
    let (mut frames, mut error) = (Vec::new(), None);
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => frames.extend(batch.iter().map(|frame| frame.to_owned_frame())),
            Ok(None) => {}
            Err(failure) => error = Some(failure.to_string()),
        }
    }
    (frames, error, source)
}

fn stamps(frames: &[OwnedFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.meta.timestamp.0).collect()
}

#[test]
fn sections_of_both_orders_go_on_counting_interfaces() {
    let mut file = Builder::new(true);
    file.interface(1, 0, &[]).interface(101, 64, &[]).packet(1, 1_000_000, b"abc", &[]);
    file.section(false).interface(113, 0, &[]).packet(0, 2_000_000, b"defgh", &[]);
    for piece in [1, 7, 1 << 20] {
        let (frames, error, source) = read(&file.bytes, piece);
        assert_eq!((error, source.condition()), (None, &Condition::Complete));
        assert_eq!(stamps(&frames), [1_000_000_000, 2_000_000_000]);
        let ids: Vec<u32> = frames.iter().map(|frame| frame.meta.interface.0).collect();
        assert_eq!(ids, [1, 2]);
        assert_eq!((&frames[0].bytes[..], frames[0].meta.wire_bytes), (&b"abc"[..], 4));
        let link_types: Vec<u16> = source.interfaces().iter().map(|one| one.link_type.0).collect();
        assert_eq!(link_types, [1, 101, 113]);
    }
    file.packet(1, 0, b"", &[]);
    let (_, error, _) = read(&file.bytes, 99);
    assert!(error.unwrap().contains("a frame of interface 1; the section has 1"));
}

#[test]
fn stamps_follow_the_resolution_and_offset_of_their_interface() {
    let cases: [(u8, i64, u64, Result<u64, &str>); 10] = [
        (6, 0, 1_500_000, Ok(1_500_000_000)),
        (9, 0, u64::MAX, Ok(u64::MAX)),
        (0, 0, 5, Ok(5_000_000_000)),
        (12, 0, 1_999, Ok(1)),
        (0x80 | 1, 0, 3, Ok(1_500_000_000)),
        (0x80 | 63, 0, 1 << 62, Ok(500_000_000)),
        (9, -1, 1_000_000_001, Ok(1)),
        (9, -1, 1, Err("before 1970")),
        (6, 0, u64::MAX, Err("after 2554")),
        (9, i64::MAX, 1, Err("after 2554")),
    ];
    for big in [false, true] {
        for (resolution, offset, ticks, expected) in cases {
            let mut file = Builder::new(big);
            let offset = if big { offset.to_be_bytes() } else { offset.to_le_bytes() };
            let options = [file.option(9, &[resolution]), file.option(14, &offset)].concat();
            file.interface(1, 0, &options).packet(0, ticks, b"x", &[]);
            let (frames, error, source) = read(&file.bytes, 1000);
            assert_eq!((error, source.condition()), (None, &Condition::Complete));
            let notices = source.notices();
            match expected {
                Ok(stamp) => {
                    assert_eq!(stamps(&frames), [stamp], "{resolution:#x}");
                    assert_eq!(notices, []);
                }
                Err(part) => {
                    assert_eq!(stamps(&frames), [0], "a damaged time is none");
                    assert!(notices[0].to_string().contains(part), "{notices:?}");
                }
            }
        }
    }
    let mut file = Builder::new(false);
    let options = file.option(9, &[20]);
    file.interface(1, 0, &options);
    assert!(read(&file.bytes, 1000).1.unwrap().contains("too fine"));
}

#[test]
fn a_damaged_time_costs_that_frame_its_time_and_nothing_else() {
    let mut file = Builder::new(false);
    file.interface(1, 0, &[]);
    let mut offset = 0;
    for number in 1..=159u64 {
        if number == 60 {
            offset = file.bytes.len() as u64;
        }
        // The 60th says 18446744073204 s in microseconds, as one that was seen.
        let is_damaged = matches!(number, 60 | 100);
        let ticks = if is_damaged { 18_446_744_073_204_000_000 } else { number };
        file.packet(0, ticks, &number.to_le_bytes(), &[]);
    }
    let (frames, error, mut source) = read(&file.bytes, 1000);
    assert_eq!((error, source.condition()), (None, &Condition::Complete));
    let expected = (1..=159).map(|number| match number {
        60 | 100 => 0,
        number => number * 1000,
    });
    assert_eq!(stamps(&frames), expected.collect::<Vec<_>>());
    assert_eq!(frames[59].bytes, 60u64.to_le_bytes());
    let [Notice { condition, .. }] = &source.notices()[..] else { panic!("one notice") };
    let first = "18446744073204 s, after 2554".to_owned();
    assert_eq!(condition, &Condition::TimesLost { frames: 2, offset, first });
    assert!(condition.is_loss());
    let counters = source.counters();
    assert_eq!((counters.received, counters.inversions), (Some(159), 0));
}

#[test]
fn simple_and_obsolete_packets_and_directions_are_read() {
    let mut file = Builder::new(false);
    file.interface(1, 4, &[]);
    file.block(format::SIMPLE_PACKET, &[&6u32.to_le_bytes()[..], b"wxyz"].concat());
    let mut old: Vec<u8> = vec![0, 0, 9, 0]; // interface 0, 9 drops
    old.extend([0u32, 7, 2, 60].iter().flat_map(|word| word.to_le_bytes()));
    old.extend_from_slice(b"op\0\0");
    file.block(format::PACKET, &old);
    let sent = file.option(2, &2u32.to_le_bytes());
    let comment = [file.option(1, b"hi"), file.option(2, &1u32.to_le_bytes())].concat();
    file.packet(0, 8, b"", &sent).packet(0, 9, b"a", &comment);
    let (frames, error, source) = read(&file.bytes, 5);
    assert_eq!((error, frames.len()), (None, 4));
    assert_eq!((&frames[0].bytes[..], frames[0].meta.wire_bytes), (&b"wxyz"[..], 6));
    assert_eq!(stamps(&frames), [0, 7000, 8000, 9000]);
    assert_eq!((&frames[1].bytes[..], frames[1].meta.wire_bytes), (&b"op"[..], 60));
    assert_eq!(frames[2].meta.direction, Direction::Outbound);
    assert_eq!(frames[3].meta.direction, Direction::Inbound);
    assert_eq!(source.inversions, 0, "a frame without a time is no inversion");
}

#[test]
fn interface_texts_are_read_and_unknown_blocks_of_any_size_are_passed() {
    let mut file = Builder::new(false);
    let texts =
        [file.option(2, b"eth1\0"), file.option(3, b"up"), file.option(11, b"\0tcp")].concat();
    file.interface(1, 0, &texts);
    file.block(0x8000_0001, &vec![7; 3 << 20]).block(format::INTERFACE_STATISTICS, &[0; 12]);
    file.packet(0, 1, b"x", &[]).block(0x0bad, &[]);
    let (frames, error, source) = read(&file.bytes, 70_000);
    assert_eq!((error, frames.len(), source.statistics_blocks()), (None, 1, 1));
    let interface = &source.interfaces()[0];
    let texts = [&interface.name, &interface.description, &interface.filter];
    assert_eq!(texts, ["eth1", "up", "tcp"]);
    assert_eq!(source.condition(), &Condition::Complete);
    assert!(source.input.memory().len() < 1 << 20, "what is passed is not held");
}

#[test]
fn what_comes_before_a_damaged_block_is_delivered_and_the_reason_reported() {
    let good = |file: &mut Builder| {
        file.interface(1, 0, &[]).packet(0, 1, b"first", &[]);
        file.bytes.len() as u64
    };
    let mut unequal = Builder::new(false);
    let offset = good(&mut unequal);
    unequal.packet(0, 2, b"x", &[]);
    let end = unequal.bytes.len();
    unequal.bytes[end - 4] = 1;
    let mut overlong = Builder::new(false);
    good(&mut overlong);
    let body: Vec<u8> =
        [0u32, 0, 0, 262_145, 262_145].iter().flat_map(|w| w.to_le_bytes()).collect();
    overlong.block(format::ENHANCED_PACKET, &body);
    let mut beyond = Builder::new(false);
    good(&mut beyond);
    let body: Vec<u8> = [0u32, 0, 0, 5, 5, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    beyond.block(format::ENHANCED_PACKET, &body);
    let mut short = Builder::new(false);
    good(&mut short);
    short.block(format::ENHANCED_PACKET, &[0; 4]);
    let mut huge = Builder::new(false);
    good(&mut huge);
    huge.bytes.extend([6u32, (16 << 20) + 4, 0].iter().flat_map(|w| w.to_le_bytes()));
    let mut odd = Builder::new(false);
    good(&mut odd);
    odd.bytes.extend([0x0badu32, 13, 0, 0].iter().flat_map(|w| w.to_le_bytes()));
    let cases = [
        (unequal, "ends with the length"),
        (overlong, "262145 bytes were captured"),
        (beyond, "5 captured bytes in a block of 36 bytes"),
        (short, "too short"),
        (huge, "a block of 16777220 bytes"),
        (odd, "not a multiple of 4"),
    ];
    for (file, reason) in cases {
        let (frames, error, mut source) = read(&file.bytes, 1 << 20);
        let error = error.expect(reason);
        assert!(error.contains(reason) && error.contains("the 1 frames before it"), "{error}");
        assert_eq!(frames[0].bytes, b"first");
        let Condition::Damaged { offset: at, .. } = *source.condition() else { panic!("{error}") };
        assert_eq!(at, offset);
        assert_eq!(source.counters().dropped[&Cause::Damaged], 1);
        assert_eq!(source.notices().len(), 1);
    }
}

#[test]
fn a_torn_end_is_reported_with_its_place_and_counts_only_frames() {
    let mut file = Builder::new(false);
    file.interface(1, 0, &[]).packet(0, 1, b"first", &[]);
    let second = file.bytes.len();
    file.packet(0, 2, b"second", &[]);
    let padding = file.bytes.len();
    file.block(format::RINGSIDE_PADDING, &[0; 100]);
    for end in second..file.bytes.len() {
        let (frames, error, mut source) = read(&file.bytes[..end], 1 << 20);
        assert_eq!(error, None);
        assert_eq!(frames.len(), if end < padding { 1 } else { 2 });
        let offset = if end < padding { second } else { padding } as u64;
        let left_bytes = end as u64 - offset;
        let expected = match left_bytes {
            0 => Condition::Complete,
            _ => Condition::CutShort { offset, left_bytes },
        };
        assert_eq!(source.condition(), &expected);
        // Three bytes of padding are too few to say that they are no frame.
        let may_be_frame = left_bytes > 0 && (end < padding || left_bytes < 4);
        assert_eq!(source.counters().dropped[&Cause::Damaged], u64::from(may_be_frame));
    }
}

fn pcap(version: (u16, u16), magic: u32, big: bool, records: &[u8]) -> Vec<u8> {
    let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
    let half = |h: u16| if big { h.to_be_bytes() } else { h.to_le_bytes() };
    let head = [&word(magic)[..], &half(version.0), &half(version.1), &[0; 8], &word(65535)];
    [&head.concat()[..], &word(0x3000_0001), records].concat()
}

#[test]
fn pcap_of_every_magic_order_and_old_version_is_read() {
    for big in [false, true] {
        let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
        let record =
            |words: [u32; 4], extra: &[u8]| [&words.map(word).concat()[..], extra, b"abc"].concat();
        let cases = [
            ((2, 4), 0xa1b2_c3d4, record([u32::MAX, 5, 3, 9], b""), u64::from(u32::MAX), 5000),
            ((2, 4), 0xa1b2_3c4d, record([7, 5, 3, 9], b""), 7, 5),
            ((2, 4), 0xa1b2_cd34, record([7, 5, 3, 9], &[1; 8]), 7, 5000),
            ((2, 2), 0xa1b2_c3d4, record([7, 5, 9, 3], b""), 7, 5000),
            ((2, 3), 0xa1b2_c3d4, record([7, 5, 9, 3], b""), 7, 5000),
            ((543, 0), 0xa1b2_c3d4, record([7, 5, 9, 3], b""), 7, 5000),
            ((2, 4), 0xa1b2_c3d4, record([7, 1_000_001, 3, 9], b""), 8, 1000),
        ];
        for (version, magic, record, seconds, nanos) in cases {
            let (frames, error, source) = read(&pcap(version, magic, big, &record), 3);
            assert_eq!((error, source.condition()), (None, &Condition::Complete));
            assert_eq!(stamps(&frames), [seconds * 1_000_000_000 + nanos]);
            assert_eq!((&frames[0].bytes[..], frames[0].meta.wire_bytes), (&b"abc"[..], 9));
            assert_eq!(source.interfaces()[0].link_type.0, 1);
            assert_eq!(frames[0].meta.interface, InterfaceId(0));
        }
    }
}

#[test]
fn what_is_no_capture_is_refused_with_the_reason() {
    let open = |bytes: &[u8]| {
        let reader = Box::new(Cursor::new(bytes.to_vec()));
        FileSource::from_reader(Path::new("x"), reader).unwrap_err().to_string()
    };
    let new = pcap((2, 5), 0xa1b2_c3d4, false, &[]);
    let section = Builder::new(false).bytes;
    let mut version = section.clone();
    version[12] = 9;
    let cases: [(&[u8], &str); 8] = [
        (b"", "is empty"),
        (b"\xd4\xc3\xb2", "ends after 3 bytes"),
        (b"\xd4\xc3\xb2\xa1\x02", "ends after 5 bytes"),
        (b"hello, world", "neither pcap nor pcapng"),
        (b"\xfd7zXZ\0", "xzcat"),
        (&new, "pcap version 2.5"),
        (&section[..20], "ends after 20 bytes"),
        (&version, "pcapng version 9.0"),
    ];
    for (bytes, reason) in cases {
        assert!(open(bytes).contains(reason), "{}", open(bytes));
    }
    assert!(FileSource::open(Path::new("/")).unwrap_err().to_string().contains("is a directory"));
    let missing = FileSource::open(Path::new("/no/such/file")).unwrap_err();
    assert!(missing.to_string().contains("cannot open /no/such/file"));
}

#[test]
fn batches_are_bounded_and_low_water_follows_the_stamps() {
    let mut file = Builder::new(false);
    file.interface(1, 0, &[]);
    for number in 0..1000u64 {
        file.packet(0, if number == 500 { 1 } else { number + 1 }, &[0; 60], &[]);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcapng");
    std::fs::write(&path, &file.bytes).unwrap();
    let mut source = FileSource::open(&path).unwrap();
    assert_eq!(source.interfaces().len(), 1, "known before the first batch");
    assert_eq!(source.low_water(), Timestamp(0), "frames that were read ahead are to come");
    let mut sizes = Vec::new();
    loop {
        let Some(batch) = source.next_batch(Duration::from_secs(60)).unwrap() else { break };
        sizes.push(batch.frame_count());
        let last = batch.get(batch.frame_count() - 1).unwrap().meta.timestamp;
        drop(batch);
        assert_eq!(source.low_water(), last);
    }
    assert_eq!(sizes, [256, 256, 256, 232]);
    assert!(source.is_finished());
    assert_eq!((source.low_water(), source.counters().inversions), (Timestamp::MAX, 1));
}
