use super::queue::{DigestCounts, DigestReader};
use super::*;
use crate::control::Control;
use proptest::prelude::*;
use ringside_core::{FrameSlot, LinkType, SourceInterface, Timestamp};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

const SECOND: u64 = 1_000_000_000;

/// TCP with these flags from 10.0.0.1, port `port`, to port 80.
fn frame(port: u16, flags: u8, bytes: usize) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((bytes as u16 - 14).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend(port.to_be_bytes());
    out.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    out.resize(bytes, 0);
    out
}

/// A table and where its records come out.
struct Fixture {
    digester: Option<Digester>,
    receiver: Receiver<Record>,
    reader: DigestReader,
}

impl Fixture {
    fn new() -> Fixture {
        let reader = DigestReader::default();
        let (queue, receiver) = reader.queue();
        Fixture { digester: Some(Digester::new(queue)), receiver, reader }
    }

    /// One frame, a batch of its own.
    fn add(&mut self, rule: u32, now: u64, frame: &[u8]) {
        let meta = FrameMeta { timestamp: Timestamp(now), ..FrameMeta::default() };
        let slots = [FrameSlot::new(0, frame.len() as u32, meta)];
        let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
        let digester = self.digester.as_mut().unwrap();
        digester.add(RuleId(rule), &dissected, slots[0].meta());
        digester.end_batch(&Batch::new(frame, &slots));
    }

    fn records(&self) -> Vec<Record> {
        self.receiver.try_iter().collect()
    }

    /// Ends the run.
    fn end(&mut self) -> Vec<Record> {
        self.digester = None;
        self.records()
    }
}

#[test]
fn a_record_is_written_after_silence_after_long_and_at_the_end() {
    let mut fixture = Fixture::new();
    for second in 0..130 {
        fixture.add(7, (100 + second) * SECOND, &frame(5, 0x10, 60));
        if second == 0 {
            fixture.add(7, 100 * SECOND + 1, &frame(6, 0x02, 100));
            fixture.add(8, 100 * SECOND + 2, &frame(6, 0x10, 100));
            fixture.add(7, 100 * SECOND + 3, &frame(6, 0x11, 200));
        }
    }
    let records = fixture.records();
    let told: Vec<_> = records
        .iter()
        .map(|Record { key, sum, end }| {
            (key.rule.0, key.tuple.unwrap().ports.unwrap().0.0, sum.frames, sum.bytes, *end)
        })
        .collect();
    let (silent, long): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.4 == End::Idle);
    assert_eq!(silent.len(), 2);
    assert!(
        silent.contains(&(7, 6, 2, 300, End::Idle)) && silent.contains(&(8, 6, 1, 100, End::Idle))
    );
    assert_eq!(long, [(7, 5, 60, 3600, End::Active); 2]);
    let first = records.iter().find(|record| record.sum.bytes == 300).unwrap();
    assert_eq!((first.sum.first_ns, first.sum.last_ns), (100 * SECOND + 1, 100 * SECOND + 3));
    assert_eq!(first.sum.tcp_flags, 0x13);
    let last = fixture.end();
    assert_eq!((last.len(), last[0].sum.frames, last[0].end), (1, 10, End::Over));
    let counts = fixture.reader.counts();
    assert_eq!((counts.digested.frames, counts.missed.len()), (133, 0));
}

#[test]
fn what_has_no_room_on_the_way_is_counted_with_its_frames() {
    let mut fixture = Fixture::new();
    // All are found silent at once.
    let directions = 20_000;
    (0..directions).for_each(|port| fixture.add(1, SECOND, &frame(port, 0, 60)));
    fixture.add(1, 20 * SECOND, &frame(directions, 0, 60));
    let counts = fixture.reader.counts();
    let [(DigestMiss::WriterBehind, missed)] = counts.missed[..] else { panic!("{counts:?}") };
    let taken = fixture.records().len() as u64;
    assert!(taken > 1_000 && missed.records == missed.frames);
    let silent = u64::from(directions);
    assert_eq!((missed.bytes, missed.records + taken), (60 * missed.records, silent));
    assert_eq!(fixture.end().len(), 1, "there is room again");
}

/// Frames and bytes of all records, written or missed.
fn sum_of(counts: &DigestCounts) -> (u64, u64) {
    let all = counts.missed.iter().map(|(_, missed)| missed).chain([&counts.written]);
    all.fold((0, 0), |sum, more| (sum.0 + more.frames, sum.1 + more.bytes))
}

/// From one frame to the next, or any time.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..3 * SECOND, 2 => 0u64..80 * SECOND, 1 => any::<u64>()]
}

proptest! {
    // Each frame may have all of the table looked through.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    /// Whatever the stamps: every frame is in one record of its own kind.
    #[test]
    fn every_frame_is_in_one_record(
        frames in prop::collection::vec((0u32..3, 0u16..5, step(), any::<u8>()), 1..300),
        goes_back: bool,
    ) {
        let mut fixture = Fixture::new();
        let mut expected: BTreeMap<(u32, u16), (u64, u16)> = BTreeMap::new();
        let mut now = SECOND;
        for (rule, port, step, flags) in frames {
            now = if goes_back { step } else { now.saturating_add(step) };
            fixture.add(rule, now, &frame(port, flags, 60));
            let sum = expected.entry((rule, port)).or_default();
            *sum = (sum.0 + 1, sum.1 | u16::from(flags));
        }
        let mut records = fixture.records();
        records.extend(fixture.end());
        let mut found: BTreeMap<(u32, u16), (u64, u16)> = BTreeMap::new();
        for Record { key, sum, .. } in &records {
            let port = key.tuple.unwrap().ports.unwrap().0.0;
            let entry = found.entry((key.rule.0, port)).or_default();
            *entry = (entry.0 + sum.frames, entry.1 | sum.tcp_flags);
            prop_assert!(sum.first_ns <= sum.last_ns && sum.bytes == 60 * sum.frames);
            prop_assert!(goes_back || sum.last_ns - sum.first_ns < ACTIVE_NS + IDLE_NS);
        }
        prop_assert_eq!(found, expected);
    }
}

fn interface() -> SourceInterface {
    SourceInterface::ethernet("eth1")
}

/// Writes records of `directions` directions, one frame each.
fn write(output: DigestOutput, directions: u16) -> (DigestCounts, Vec<String>) {
    let (reader, control) = (DigestReader::default(), Arc::new(Control::new(None)));
    let opened = DigestWriter::open(output, &[interface()], &reader, control.clone()).unwrap();
    let (writer, queue) = opened;
    let mut fixture = Fixture { digester: Some(Digester::new(queue)), ..Fixture::new() };
    for port in 0..directions {
        fixture.add(3, SECOND, &frame(port, 0x18, 60));
    }
    let thread = std::thread::spawn(move || writer.run());
    fixture.end();
    thread.join().unwrap();
    let counts = reader.counts();
    assert_eq!(sum_of(&counts), (counts.digested.frames, counts.digested.bytes));
    assert_eq!(counts.digested.frames, u64::from(directions));
    (counts, control.errors())
}

#[test]
fn lines_are_whole_and_say_what_the_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("digests");
    let (counts, errors) = write(DigestOutput::File(path.clone()), 3_000);
    assert_eq!((counts.written.records, errors.len()), (3_000, 0));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3_000);
    let line = text.lines().find(|line| line.contains("\"src_port\":77,")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let expected = serde_json::json!({
        "rule": 3, "interface": "eth1", "vlan": null, "src": "10.0.0.1", "dst": "10.0.0.2",
        "protocol": 6, "src_port": 77, "dst_port": 80, "frames": 1, "bytes": 60,
        "first_ns": SECOND, "last_ns": SECOND, "tcp_flags": 0x18, "end": "over",
    });
    assert_eq!(line, expected);
}

#[test]
fn what_cannot_be_written_is_counted_and_told() {
    let (counts, errors) = write(DigestOutput::File("/dev/full".into()), 3_000);
    assert_eq!((counts.written.records, counts.missed[0].0), (0, DigestMiss::DiskFull));
    assert!(errors[0].contains("writing digests to /dev/full"), "{errors:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (counts, errors) = write(DigestOutput::Stream(writer.into()), 3_000);
    assert_eq!((counts.written.records, counts.missed[0].0), (0, DigestMiss::PipeClosed));
    assert_eq!(errors.len(), 1, "told once");
}

/// A reader that goes away in the middle has the lines that were counted, and at most a part of one
/// more.
#[test]
fn who_goes_away_has_what_was_counted() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let thread = std::thread::spawn(move || {
        let mut bytes = vec![0; 100_000];
        reader.read_exact(&mut bytes).unwrap();
    });
    let (counts, _) = write(DigestOutput::Stream(writer.into()), 20_000);
    thread.join().unwrap();
    // A pipe holds 64 KiB that are not read any more.
    let written = counts.written.records;
    assert!(written > 100_000 / 300 && written < 20_000, "{written}");
    assert_eq!(counts.missed[0].0, DigestMiss::PipeClosed);
}
