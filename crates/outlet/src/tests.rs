//! The whole way of records, with engines that fail as they are asked to.

mod kills;

use crate::batch::Batch;
use crate::desk::Desk;
use crate::engine::{Engine, Outcome};
use crate::files::Folder;
use crate::options::Options;
use crate::outlet::start;
use crate::spool::Spool;
use crate::status::{State, Status};
use ringside_flow::{RecordSums, SinkCounts, Sums};
use ringside_testkit::{Random, by_run, wait_until};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What a server has, by token, and how it behaves.
#[derive(Clone, Default)]
struct Server(Arc<(Mutex<Content>, Condvar)>);

#[derive(Default)]
struct Content {
    taken: BTreeMap<String, Vec<u8>>,
    /// Tokens in the order in which they came first.
    order: Vec<String>,
    repeated: u64,
    tries: u64,
    mood: Mood,
}

#[derive(Default)]
enum Mood {
    #[default]
    Well,
    Away,
    /// It takes a batch, but its answer is lost; or not even that; or it refuses.
    Random(Random),
    /// A try does not come back.
    Hangs,
}

impl Server {
    fn be(&self, mood: Mood) {
        self.0.0.lock().unwrap().mood = mood;
        self.0.1.notify_all();
    }

    fn records(&self) -> Vec<u64> {
        let content = self.0.0.lock().unwrap();
        let bodies = content.order.iter().map(|token| &content.taken[token]);
        bodies.flat_map(|body| numbers(body)).collect()
    }
}

fn numbers(body: &[u8]) -> Vec<u64> {
    let (numbers, rest) = body.as_chunks();
    assert!(rest.is_empty());
    numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

impl Content {
    fn take(&mut self, batch: &Batch) {
        if self.taken.insert(batch.token(), batch.body.clone()).is_some() {
            self.repeated += 1;
        } else {
            self.order.push(batch.token());
        }
    }
}

impl Engine for Server {
    fn deliver(&mut self, batch: &Batch, _time: Duration) -> Outcome {
        let (content, changed) = &*self.0;
        let mut content = content.lock().unwrap();
        content.tries += 1;
        while matches!(content.mood, Mood::Hangs) {
            content = changed.wait(content).unwrap();
        }
        let chance = match &mut content.mood {
            Mood::Well | Mood::Hangs => 0,
            Mood::Away => return Outcome::Failed("away".into()),
            Mood::Random(random) => random.below(10),
        };
        match chance {
            0..5 => {
                content.take(batch);
                Outcome::acknowledged()
            }
            5..7 => {
                content.take(batch);
                Outcome::Failed("the answer got lost".into())
            }
            7..9 => Outcome::Failed("busy".into()),
            // Not one that it may have taken: a server that refuses says so at once.
            _ if content.taken.contains_key(&batch.token()) => Outcome::Failed("busy".into()),
            _ => Outcome::Refused("no".into()),
        }
    }
}

fn options() -> Options {
    Options {
        batch_records: 10,
        batch_age: Duration::from_secs(600),
        pause: Duration::from_millis(1),
        pause_max: Duration::from_millis(4),
        finish: Duration::from_secs(20),
        ..Options::default()
    }
}

/// A spool in a folder, with room for this many batches of up to 4 KiB.
fn spool(folder: &Path, batches: u64) -> Spool {
    Spool::open(Box::new(Folder::open(folder).unwrap()), batches * 4096).unwrap()
}

fn open(server: &Server, options: &Options, spool: Option<Spool>) -> Arc<Desk> {
    start("test://".into(), options, spool, Box::new(server.clone())).unwrap()
}

const HELD: RecordSums = RecordSums { records: 1, held: Sums { packets: 2, octets: 90 } };

fn put(desk: &Desk, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| desk.put(&number.to_le_bytes(), HELD));
}

fn close(desk: &Desk, time: Duration) -> Status {
    desk.close(time);
    let status = desk.status();
    assert_eq!(status.counts.waiting, RecordSums::default());
    status
}

/// Nothing is missing, in records and in what they hold.
fn balances(counts: &SinkCounts, given: u64) {
    assert_eq!(counts.given().records, given, "{counts:?}");
    let held = counts.total();
    assert_eq!(held.held.packets, 2 * held.records);
    assert_eq!(held.held.octets, 90 * held.records);
}

#[test]
fn each_record_is_there_once_and_in_order_or_is_counted() {
    for seed in 0..by_run(4, 60) {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::default();
        server.be(Mood::Random(Random::new(seed)));
        let (mut next, mut lost, mut given) = (0, 0, 0);
        for run in 0..4 {
            let desk = open(&server, &options(), Some(spool(folder.path(), 10_000)));
            put(&desk, next..next + 230);
            (next, given) = (next + 230, given + 230);
            // Some runs end before all is delivered.
            let time = if run == 3 { Duration::from_secs(20) } else { Duration::from_millis(3) };
            let status = close(&desk, time);
            balances(&status.counts, 230);
            lost += status.counts.lost().records;
            // Its threads hold the folder until they are over.
            drop(desk);
            wait_until("the folder to be free", || Folder::open(folder.path()).is_ok());
        }
        // What is left of the last run goes with one more.
        server.be(Mood::Well);
        let desk = open(&server, &options(), Some(spool(folder.path(), 10_000)));
        let status = close(&desk, Duration::from_secs(20));
        assert_eq!(status.counts.spooled, RecordSums::default(), "seed {seed}");
        let records = server.records();
        assert!(records.is_sorted_by(|a, b| a < b), "seed {seed}: once, and in order");
        assert_eq!(records.len() as u64 + lost, given, "seed {seed}");
    }
}

#[test]
fn a_full_spool_loses_the_oldest_that_were_not_tried() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::default());
    server.be(Mood::Away);
    let desk = open(&server, &options(), Some(spool(folder.path(), 8)));
    put(&desk, 0..10);
    wait_until("a first try", || desk.status().state == State::Away);
    put(&desk, 10..1_000);
    let status = close(&desk, Duration::from_secs(20));
    balances(&status.counts, 1_000);
    assert_eq!(status.counts.spooled.records, 80);
    assert_eq!(status.counts.spool_full.records, 920);
    assert_eq!(status.error.as_deref(), Some("away"));
    drop(desk);
    wait_until("the folder to be free", || Folder::open(folder.path()).is_ok());
    server.be(Mood::Well);
    let desk = open(&server, &options(), Some(spool(folder.path(), 8)));
    let status = close(&desk, Duration::from_secs(20));
    assert_eq!((status.counts.inherited.records, status.counts.delivered.records), (80, 80));
    balances(&status.counts, 0);
    let kept: Vec<u64> = (0..10).chain(930..1_000).collect();
    assert_eq!(server.records(), kept);
}

#[test]
fn without_a_spool_a_server_that_is_away_costs_the_newest() {
    let server = Server::default();
    server.be(Mood::Away);
    let options = Options { queue_bytes: 800, waits_for_room: true, ..options() };
    let desk = open(&server, &options, None);
    put(&desk, 0..10);
    wait_until("a first try", || desk.status().state == State::Away);
    put(&desk, 10..1_000);
    assert_eq!(desk.status().counts.queue_full.records, 900);
    server.be(Mood::Well);
    wait_until("the queue to be empty", || desk.status().counts.delivered.records == 100);
    put(&desk, 1_000..1_050);
    let status = close(&desk, Duration::from_secs(20));
    balances(&status.counts, 1_050);
    assert_eq!(status.counts.delivered.records, 150);
    let kept: Vec<u64> = (0..100).chain(1_000..1_050).collect();
    assert_eq!(server.records(), kept);
}

#[test]
fn who_reads_files_waits_for_room_and_loses_none() {
    let server = Server::default();
    let options = Options { queue_bytes: 160, waits_for_room: true, ..options() };
    let desk = open(&server, &options, None);
    put(&desk, 0..5_000);
    let status = close(&desk, Duration::from_secs(20));
    assert_eq!(status.counts.delivered.records, 5_000);
    assert_eq!(server.records(), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn a_server_that_does_not_answer_holds_up_neither_records_nor_the_end() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::default());
    server.be(Mood::Hangs);
    let desk = open(&server, &options(), Some(spool(folder.path(), 1_000)));
    put(&desk, 0..500);
    wait_until("the spool", || desk.status().counts.spooled.records == 500);
    let status = close(&desk, Duration::from_millis(50));
    balances(&status.counts, 500);
    assert_eq!(status.counts.spooled.records, 500);
    assert_eq!(status.counts.delivered.records, 0);
    // Its answer comes too late to count: the next start delivers the batch, as the same.
    server.be(Mood::Well);
    drop(desk);
    wait_until("the folder to be free", || Folder::open(folder.path()).is_ok());
    let desk = open(&server, &options(), Some(spool(folder.path(), 1_000)));
    let status = close(&desk, Duration::from_secs(20));
    assert_eq!(status.counts.delivered.records, 500);
    assert_eq!(server.records(), (0..500).collect::<Vec<_>>());
    assert_eq!(server.0.0.lock().unwrap().repeated, 1);
}

#[test]
fn a_batch_that_is_damaged_on_the_disk_is_counted() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::default());
    server.be(Mood::Away);
    let desk = open(&server, &options(), Some(spool(folder.path(), 100)));
    put(&desk, 0..30);
    let status = close(&desk, Duration::from_secs(20));
    assert_eq!(status.counts.spooled.records, 30);
    drop(desk);
    wait_until("the folder to be free", || Folder::open(folder.path()).is_ok());
    let file = folder.path().join(format!("{:020}.batch", 2));
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(folder.path().join(format!(".{:020}.batch", 9)), b"RING").unwrap();
    std::fs::write(folder.path().join(format!("{:020}.batch", 8)), b"RINGOUT1").unwrap();
    server.be(Mood::Well);
    let desk = open(&server, &options(), Some(spool(folder.path(), 100)));
    let status = close(&desk, Duration::from_secs(20));
    balances(&status.counts, 0);
    assert_eq!(status.counts.delivered.records, 20);
    assert_eq!(status.counts.write_failed.records, 10);
    assert_eq!((status.half_written, status.damaged), (1, 1));
    assert!(status.spool_error.unwrap().ends_with("2.batch is damaged"));
    assert_eq!(server.records(), (0..10).chain(20..30).collect::<Vec<_>>());
}

#[test]
fn a_batch_that_is_not_full_goes_when_it_is_old() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::default());
    let options = Options { batch_age: Duration::from_millis(5), ..options() };
    for spool in [None, Some(spool(folder.path(), 100))] {
        let desk = open(&server, &options, spool);
        put(&desk, 0..3);
        wait_until("three records", || desk.status().counts.delivered.records == 3);
        close(&desk, Duration::from_secs(20));
    }
}

#[test]
fn an_engine_that_panics_ends_the_outlet_and_not_the_run() {
    struct Broken;
    impl Engine for Broken {
        fn deliver(&mut self, _batch: &Batch, _time: Duration) -> Outcome {
            panic!("as it was asked to");
        }
    }
    let options = Options { queue_bytes: 160, waits_for_room: true, ..options() };
    let desk = start("test://".into(), &options, None, Box::new(Broken)).unwrap();
    put(&desk, 0..1_000);
    let status = close(&desk, Duration::from_secs(20));
    balances(&status.counts, 1_000);
    assert_eq!(status.counts.undelivered.records, 1_000);
}
