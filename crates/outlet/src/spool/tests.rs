use super::*;
use proptest::prelude::*;
use ringside_flow::Sums;
use ringside_testkit::{by_run, fuzz};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Room for some batches.
const ROOM: u64 = 8 * BLOCK_BYTES;

/// A disk that stops at some step, and then takes nothing any more.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    files: BTreeMap<String, Vec<u8>>,
    /// Those whose names outlive a power cut.
    synced: BTreeMap<String, Vec<u8>>,
    steps_left: Option<u32>,
    is_stopped: bool,
}

impl Disk {
    /// Does a step, unless it stops here: then `partly` is what is left of it.
    fn step(
        &self,
        whole: impl FnOnce(&mut Content),
        partly: impl FnOnce(&mut Content),
    ) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let stopped = || Err(io::Error::other("the disk stopped"));
        if content.is_stopped {
            return stopped();
        }
        match &mut content.steps_left {
            Some(0) => {
                content.is_stopped = true;
                partly(&mut content);
                return stopped();
            }
            Some(left) => *left -= 1,
            None => {}
        }
        whole(&mut content);
        Ok(())
    }

    /// After a kill everything is as it was; after a power cut names that were not synced are not.
    fn restart(&self, is_power_cut: bool) {
        let mut content = self.0.lock().unwrap();
        if is_power_cut {
            content.files = content.synced.clone();
        }
        content.synced = content.files.clone();
        content.steps_left = None;
        content.is_stopped = false;
    }

    /// Numbers of the batches that are there, in order.
    fn batches(&self) -> Vec<u64> {
        let content = self.0.lock().unwrap();
        let named = content.files.iter().filter(|(name, _)| number(name).is_some());
        named.map(|(_, file)| Batch::from_file(file).unwrap().sequence).collect()
    }
}

impl Files for Disk {
    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let content = self.0.lock().unwrap();
        Ok(content.files.iter().map(|(name, file)| (name.clone(), file.len() as u64)).collect())
    }

    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let content = self.0.lock().unwrap();
        let file = content.files.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(file[..file.len().min(bytes_max as usize)].to_vec())
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let put = |content: &mut Content, bytes: &[u8]| {
            content.files.insert(name.to_owned(), bytes.to_vec());
        };
        self.step(|c| put(c, bytes), |c| put(c, &bytes[..bytes.len() / 2]))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let rename = |content: &mut Content| {
            let file = content.files.remove(from).unwrap();
            content.files.insert(to.to_owned(), file);
        };
        self.step(rename, |_| {})
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step(|content| content.synced = content.files.clone(), |_| {})
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step(|content| drop(content.files.remove(name)), |_| {})
    }
}

fn batch(sequence: u64, bytes: usize) -> Batch {
    let held = RecordSums { records: 1 + sequence % 5, held: Sums::default() };
    Batch { run: 7, sequence, held, body: vec![sequence as u8; bytes.max(8)] }
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    /// One try to deliver the oldest, which reaches the server; whether it is settled then.
    Deliver(bool),
    /// The server will not have the oldest.
    Refuse,
    /// The disk stops after this number of steps, and comes back as after a kill or a power cut.
    Stop(u32, bool),
    /// The process ends in order, and another begins.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..9_000).prop_map(Step::Push),
        3 => any::<bool>().prop_map(Step::Deliver),
        1 => Just(Step::Refuse),
        2 => (0u32..6, any::<bool>()).prop_map(|(after, is_power)| Step::Stop(after, is_power)),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A spool with what it should hold, and what the server has.
struct Model {
    disk: Disk,
    spool: Spool,
    is_power_cut: bool,
    /// Numbers of batches that should be there.
    queue: Vec<u64>,
    /// What the server has taken, each token once.
    server: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    next: u64,
}

impl Model {
    fn new() -> Model {
        let disk = Disk::default();
        let spool = Spool::open(Box::new(disk.clone()), ROOM).unwrap();
        Model {
            disk,
            spool,
            is_power_cut: false,
            queue: Vec::new(),
            server: BTreeSet::new(),
            refused: BTreeSet::new(),
            next: 1,
        }
    }

    fn is_stopped(&self) -> bool {
        self.disk.0.lock().unwrap().is_stopped
    }

    fn push(&mut self, bytes: usize) {
        let pushed = batch(self.next, bytes);
        self.next += 1;
        let before = self.queue.clone();
        let is_out = self.spool.is_out;
        let appended = self.spool.append(&pushed);
        let there = self.disk.batches();
        if self.is_stopped() {
            // Whether it is there is open. What went for it is the oldest behind the one out.
            let gone: Vec<_> = before.iter().filter(|number| !there.contains(number)).collect();
            let begin = usize::from(is_out);
            let oldest = before.iter().skip(begin).take(gone.len());
            assert!(gone.into_iter().eq(oldest));
            self.queue = before;
            self.queue.push(pushed.sequence);
            return;
        }
        let mut dropped = RecordSums::default();
        while dropped != appended.dropped {
            let gone = self.queue.remove(usize::from(is_out));
            dropped += batch(gone, 0).held;
        }
        if appended.is_kept.unwrap() {
            self.queue.push(pushed.sequence);
        }
        assert_eq!(there, self.queue);
    }

    /// The oldest, as it was pushed.
    fn first(&mut self) -> Option<Batch> {
        let first = self.spool.first().unwrap();
        assert_eq!(first.as_ref().map(|batch| batch.sequence), self.queue.first().copied());
        let first = first?;
        assert_eq!(first, batch(first.sequence, first.body.len()));
        Some(first)
    }

    fn settle(&mut self) {
        let (held, removed) = self.spool.settled();
        let settled = self.queue.remove(0);
        assert_eq!(held, batch(settled, 0).held);
        if removed.is_err() {
            assert!(self.is_stopped());
            // It is there again after the start, under the same token.
            self.queue.insert(0, settled);
        }
    }

    /// Another process begins; what it finds is all that the disk has.
    fn restart(&mut self) {
        let was_stopped = self.is_stopped();
        self.disk.restart(std::mem::take(&mut self.is_power_cut) && was_stopped);
        let there = self.disk.batches();
        let known = |number: &u64| {
            self.queue.contains(number)
                || self.server.contains(number)
                || self.refused.contains(number)
        };
        // After a power cut what was settled may be there again.
        assert!(there.iter().all(known) || was_stopped);
        if !was_stopped {
            assert_eq!(there, self.queue);
        }
        self.spool = Spool::open(Box::new(self.disk.clone()), ROOM).unwrap();
        let mut held = RecordSums::default();
        there.iter().for_each(|number| held += batch(*number, 0).held);
        let found = self.spool.found();
        assert_eq!((found.held, found.damaged), (held, 0));
        assert!(found.half_written <= 1);
        self.queue = there;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(by_run(200, 5_000)))]

    #[test]
    fn a_spool_is_a_queue_over_crashes_and_power_cuts(steps in steps()) {
        let mut model = Model::new();
        let mut order = Vec::new();
        for step in steps {
            match step {
                Step::Push(bytes) => model.push(bytes),
                Step::Deliver(is_settled) => {
                    if let Some(batch) = model.first() {
                        // The server knows a token again. One that was refused before a power
                        // cut is offered once more.
                        let is_new = !model.refused.contains(&batch.sequence);
                        if model.server.insert(batch.sequence) && is_new {
                            order.push(batch.sequence);
                        }
                        if is_settled {
                            model.settle();
                        }
                    }
                }
                Step::Refuse => {
                    if let Some(batch) = model.first() {
                        model.refused.insert(batch.sequence);
                        model.settle();
                    }
                }
                Step::Stop(after, is_power_cut) => {
                    let steps_left = &mut model.disk.0.lock().unwrap().steps_left;
                    steps_left.get_or_insert(after);
                    model.is_power_cut = is_power_cut;
                }
                Step::Restart => model.restart(),
            }
            if model.is_stopped() {
                model.restart();
            }
            let files = model.disk.0.lock().unwrap().files.clone();
            let bytes: u64 = files.values().map(|file| cost(file.len() as u64)).sum();
            prop_assert_eq!(model.spool.bytes(), bytes);
            prop_assert!(bytes <= ROOM);
        }
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}

/// What a spool makes of one file of these bytes.
fn read(bytes: &[u8]) -> Vec<Batch> {
    let disk = Disk::default();
    disk.0.lock().unwrap().files.insert(name(7), bytes.to_vec());
    let mut spool = Spool::open(Box::new(disk.clone()), ROOM).unwrap();
    let mut found = Vec::new();
    match spool.first() {
        Ok(batch) => found.extend(batch),
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidData),
    }
    spool.settled().1.unwrap();
    // It goes on behind it.
    assert!(spool.append(&batch(99, 20)).is_kept.unwrap());
    assert_eq!(spool.first().unwrap(), Some(batch(99, 20)));
    spool.settled().1.unwrap();
    assert_eq!((spool.bytes(), disk.batches()), (0, Vec::new()));
    found
}

#[test]
fn no_file_of_a_spool_gives_a_batch_that_was_never_there() {
    let whole = batch(3, 200);
    let file = whole.to_file();
    assert_eq!(read(&file), std::slice::from_ref(&whole));
    for length in 0..file.len() {
        assert_eq!(read(&file[..length]), [], "{length}");
    }
    fuzz("outlet-spool", 20_000, &[file], |input| {
        for batch in read(input) {
            assert_eq!(batch, whole);
        }
    });
}

#[test]
fn files_of_other_names_and_hostile_numbers_stay_away() {
    let disk = Disk::default();
    let file = batch(3, 20).to_file();
    let names = [
        "lock",
        "+0000000000000000001.batch",
        "18446744073709551615.batch",
        "7.batch",
        "00000000000000000001.batch.x",
        "note.txt",
    ];
    for name in names {
        disk.0.lock().unwrap().files.insert(name.into(), file.clone());
    }
    let mut spool = Spool::open(Box::new(disk.clone()), ROOM).unwrap();
    assert_eq!(spool.found(), Found::default());
    assert!(spool.append(&batch(4, 20)).is_kept.unwrap());
    assert_eq!(spool.first().unwrap(), Some(batch(4, 20)));
    assert_eq!(disk.0.lock().unwrap().files.len(), names.len() + 1);
}

#[test]
fn the_oldest_go_but_not_the_one_that_is_out() {
    let disk = Disk::default();
    let mut spool = Spool::open(Box::new(disk.clone()), ROOM).unwrap();
    for sequence in 1..=8 {
        assert!(spool.append(&batch(sequence, 100)).is_kept.unwrap());
    }
    assert_eq!(spool.first().unwrap(), Some(batch(1, 100)));
    let appended = spool.append(&batch(9, 100));
    assert!(appended.is_kept.unwrap());
    assert_eq!(appended.dropped, batch(2, 0).held);
    assert_eq!(disk.batches(), [1, 3, 4, 5, 6, 7, 8, 9]);
    // One that has no room next to the one that is out is lost alone.
    let appended = spool.append(&batch(10, ROOM as usize - 4_000));
    assert!(!appended.is_kept.unwrap());
    assert_eq!(disk.batches(), [1, 3, 4, 5, 6, 7, 8, 9]);
}
