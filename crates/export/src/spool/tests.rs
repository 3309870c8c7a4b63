use super::*;
use ringside_flow::Sums;
use ringside_testkit::{Random, fuzz};
use std::collections::VecDeque;
use std::fs;
use tempfile::TempDir;

const SMALL: u64 = BYTES_MIN;

/// A message of records that `number` tells apart.
fn message(number: u64, bytes: usize) -> Message {
    let mut content = number.to_be_bytes().to_vec();
    content.resize(bytes, number as u8);
    let held = Sums { packets: number, octets: 100 * number };
    Message { bytes: content, held: RecordSums { records: 1 + number % 9, held } }
}

fn open(folder: &TempDir, bytes_max: u64) -> Spool {
    let options = SpoolOptions { folder: folder.path().to_owned(), bytes_max };
    Spool::open(&options, Arc::from(b"templates".as_slice())).unwrap()
}

fn on_disk(folder: &TempDir) -> u64 {
    let files = fs::read_dir(folder.path()).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// A spool as it should be: messages that are to be delivered, oldest first, and how many of them
/// are on their way.
#[derive(Default)]
struct Model {
    messages: VecDeque<Message>,
    on_their_way: usize,
}

impl Model {
    fn held(&self) -> RecordSums {
        let mut held = RecordSums::default();
        self.messages.iter().for_each(|message| held += message.held);
        held
    }

    /// What was dropped: neighbours, behind those of a segment that is on its way.
    fn drop_sums(&mut self, dropped: RecordSums) {
        if dropped == RecordSums::default() {
            return;
        }
        for first in self.on_their_way..self.messages.len() {
            let mut sums = RecordSums::default();
            for last in first..self.messages.len() {
                sums += self.messages[last].held;
                if sums == dropped {
                    self.messages.drain(first..=last);
                    return;
                }
            }
        }
        panic!("{dropped:?} is in no row of messages");
    }
}

#[test]
fn a_spool_is_a_queue_over_restarts() {
    for seed in 0..ringside_testkit::by_run(20, 400) {
        let (mut random, folder) = (Random::new(seed), tempfile::tempdir().unwrap());
        let (mut spool, mut model) = (open(&folder, SMALL), Model::default());
        let mut number = 0;
        for _ in 0..1_500 {
            match random.below(16) {
                // More come than go: in the end it is full.
                0..8 => {
                    number += 1;
                    let message = message(number, 8 + random.below(1_400));
                    let appended = spool.append(&message).unwrap();
                    model.drop_sums(appended.dropped);
                    assert!(appended.is_kept || model.on_their_way > 0, "seed {seed}");
                    if appended.is_kept {
                        model.messages.push_back(message);
                    }
                }
                8..11 => {
                    let next = spool.next().unwrap().map(|spooled| spooled.message);
                    assert_eq!(next.as_ref(), model.messages.get(model.on_their_way));
                    model.on_their_way += usize::from(next.is_some());
                }
                11..14 if model.on_their_way > 0 => {
                    let message = model.messages.pop_front().unwrap();
                    model.on_their_way -= 1;
                    spool.delivered(&message);
                }
                14 if random.below(8) == 0 => {
                    spool.rewind();
                    model.on_their_way = 0;
                }
                15 if random.below(16) == 0 => {
                    spool.note();
                    drop(spool);
                    spool = open(&folder, SMALL);
                    model.on_their_way = 0;
                    assert_eq!(spool.damaged_bytes(), 0);
                }
                _ => {}
            }
            assert_eq!(spool.held(), model.held(), "seed {seed}");
            assert_eq!(spool.is_empty(), model.messages.is_empty());
            assert_eq!(spool.bytes(), on_disk(&folder), "seed {seed}");
            assert!(spool.bytes() <= SMALL);
        }
    }
}

#[test]
fn what_is_on_its_way_is_not_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, SMALL);
    for number in 0..100 {
        spool.append(&message(number, 1_400)).unwrap();
    }
    spool.all_on_their_way();
    let before = spool.held();
    let mut refused = 0;
    let mut dropped = RecordSums::default();
    for number in 100..1_000 {
        let appended = spool.append(&message(number, 1_400)).unwrap();
        refused += usize::from(!appended.is_kept);
        dropped += appended.dropped;
    }
    assert!(dropped.records > 0, "of those that are not");
    spool.rewind();
    for number in 0..100 {
        assert_eq!(spool.next().unwrap().unwrap().message, message(number, 1_400));
    }
    assert!(spool.held().records > before.records);
    assert_eq!(refused, 0);
}

#[test]
fn counts_of_a_crafted_file_are_too_large_and_end_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let held = Sums { packets: u64::MAX, octets: u64::MAX };
    let crafted = Message { bytes: vec![7; 100], held: RecordSums { records: u64::MAX, held } };
    let mut spool = open(&folder, SMALL);
    for _ in 0..3 {
        spool.append(&crafted).unwrap();
    }
    spool.note();
    drop(spool);
    let mut spool = open(&folder, SMALL);
    assert_eq!(spool.held(), crafted.held);
    while let Some(next) = spool.next().unwrap() {
        assert_eq!(next.message, crafted);
        spool.delivered(&next.message);
    }
    assert!(spool.is_empty());
}

/// A segment of some messages, as bytes.
fn segment() -> (Vec<Message>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, SMALL);
    let messages: Vec<_> = (1..=6).map(|number| message(number, 20 + number as usize)).collect();
    for message in &messages {
        spool.append(message).unwrap();
    }
    (messages, fs::read(folder.path().join(format!("{:020}.{ENDING}", 1))).unwrap())
}

/// What a spool makes of a file of these bytes.
fn read(bytes: &[u8]) -> Vec<Message> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(format!("{:020}.{ENDING}", 7)), bytes).unwrap();
    let mut spool = open(&folder, SMALL);
    let mut messages = Vec::new();
    while let Some(spooled) = spool.next().unwrap() {
        messages.push(spooled.message);
    }
    // It goes on behind what was whole.
    spool.append(&message(99, 30)).unwrap();
    assert_eq!(spool.next().unwrap().unwrap().message, message(99, 30));
    for message in &messages {
        spool.delivered(message);
    }
    spool.delivered(&message(99, 30));
    assert!(spool.is_empty());
    assert_eq!(spool.bytes(), 0);
    messages
}

#[test]
fn a_file_that_ends_early_gives_what_is_whole() {
    let (messages, bytes) = segment();
    assert_eq!(read(&bytes), messages);
    for length in 0..bytes.len() {
        let found = read(&bytes[..length]);
        assert!(found.len() < messages.len());
        assert_eq!(found, messages[..found.len()], "{length}");
    }
}

#[test]
fn no_damaged_file_gives_a_message_that_was_never_there() {
    let (messages, bytes) = segment();
    fuzz("spool", 2_000, std::slice::from_ref(&bytes), |input| {
        for message in read(input) {
            assert!(messages.contains(&message), "{message:?}");
        }
    });
}
