//! Writes of real blocks into real files; what cannot have io_uring here is skipped visibly.

use super::*;
use crate::disk;
use crate::shared_memory::{HugePages, Shape};
use std::os::unix::fs::FileExt;
use std::time::Instant;

const BLOCK_BYTES: usize = 512 << 10;
const BLOCKS: usize = 4;
const SHAPE: Shape = Shape {
    words_bytes: 4096,
    blocks: BLOCKS,
    block_bytes: BLOCK_BYTES,
    total_bytes: (BLOCKS * BLOCK_BYTES + 4096).next_multiple_of(2 << 20),
};

/// Blocks that no thread writes until this is dropped.
struct Claim(Arc<LentBytes>);

impl Lends for Claim {
    fn lent(&self) -> &Arc<LentBytes> {
        &self.0
    }
}

struct Bench {
    memory: Arc<SharedMemory>,
    next: u64,
    claimed: u64,
}

impl Bench {
    fn new() -> Bench {
        let memory = SharedMemory::create(SHAPE, HugePages::No).unwrap();
        Bench { memory: Arc::new(memory), next: 0, claimed: 0 }
    }

    /// Fills a block with bytes that its number decides.
    fn fill(&mut self) {
        let tail = self.memory.take(self.next as usize % BLOCKS);
        let mut tail = tail.expect("the thread that had the block has given it back");
        for (at, byte) in tail.bytes(0).iter_mut().enumerate() {
            *byte = expected(self.next, at);
        }
        tail.show(BLOCK_BYTES);
        self.next += 1;
    }

    /// The next filled blocks.
    fn claim(&mut self, blocks: usize) -> Claim {
        let first = self.claimed as usize % BLOCKS;
        self.claimed += blocks as u64;
        Claim(Arc::new(self.memory.lend(first, 0, blocks * BLOCK_BYTES).unwrap()))
    }

    /// A queue of this thread; `None` where io_uring is not to be had.
    fn queue(&self, test: &str) -> Option<Uring<Claim>> {
        match UringSetup::new(&self.memory).and_then(UringSetup::enable) {
            Ok(queue) => Some(queue),
            Err(error) => {
                ringside_testkit::skip(test, &error.to_string());
                None
            }
        }
    }
}

fn expected(block: u64, at: usize) -> u8 {
    (block as usize * 31 + at / 7 + at) as u8
}

fn assert_block(bytes: &[u8], block: u64) {
    let wrong = (0..BLOCK_BYTES).find(|&at| bytes[at] != expected(block, at));
    assert_eq!(wrong, None, "first wrong byte of block {block}");
}

/// Waits for one completion.
fn complete(queue: &mut Uring<Claim>, bell: &Bell) -> Completion<Claim> {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit {
        if let Some(completion) = queue.next_completion() {
            return completion;
        }
        queue.wait(bell, Duration::from_secs(1)).unwrap();
    }
    panic!("no completion within a minute");
}

#[test]
fn blocks_are_written_as_they_lie_and_come_back() {
    let mut bench = Bench::new();
    let Some(mut queue) = bench.queue("blocks_are_written_as_they_lie") else { return };
    let bell = Bell::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let plain = File::create(&path).unwrap();
    let direct = disk::open_direct(rustix::fs::CWD, path.as_os_str()).unwrap();
    let file = Arc::new(direct.unwrap_or(plain));
    // Twice around the blocks, so that a block that came back too early would show.
    for round in 0..BLOCKS as u64 {
        bench.fill();
        bench.fill();
        let claim = bench.claim(2);
        queue.submit_write(&file, claim, 0, round * 2 * BLOCK_BYTES as u64, round);
        queue.submit().unwrap();
        let completion = complete(&mut queue, &bell);
        completion.result.unwrap();
        assert_eq!((completion.token, completion.written), (round, 2 * BLOCK_BYTES));
        drop(completion.claim);
    }
    let bytes = std::fs::read(&path).unwrap();
    for (block, bytes) in bytes.chunks(BLOCK_BYTES).enumerate() {
        assert_block(bytes, block as u64);
    }
    assert_eq!(bytes.len(), 2 * BLOCKS * BLOCK_BYTES);
}

#[test]
fn a_write_may_begin_within_the_claim_and_needs_no_registered_memory() {
    let mut bench = Bench::new();
    let Some(mut queue) = bench.queue("a_write_may_begin_within") else { return };
    let bell = Bell::new().unwrap();
    queue.registered = false;
    bench.fill();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = Arc::new(File::create(&path).unwrap());
    let claim = bench.claim(1);
    queue.submit_write(&file, claim, 4096, 4096, 7);
    let completion = complete(&mut queue, &bell);
    completion.result.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), BLOCK_BYTES);
    assert_eq!(bytes[..4096], [0; 4096]);
    assert_eq!(bytes[4096], expected(0, 4096));
}

#[test]
fn a_full_disk_is_reported_with_what_was_written() {
    let mut bench = Bench::new();
    let Some(mut queue) = bench.queue("a_full_disk_is_reported") else { return };
    let bell = Bell::new().unwrap();
    bench.fill();
    bench.fill();
    let full = Arc::new(File::options().write(true).open("/dev/full").unwrap());
    queue.submit_write(&full, bench.claim(1), 0, 0, 0);
    let completion = complete(&mut queue, &bell);
    assert_eq!(completion.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(completion.written, 0);
    drop(completion.claim);
    // A file that may not grow so far takes a part, then refuses: RLIMIT_FSIZE cannot be set for
    // one thread, but a pipe that holds 64 KiB and is then closed does the same.
    let (reader, writer) = io::pipe().unwrap();
    let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(writer)));
    queue.submit_write(&pipe, bench.claim(1), 0, 0, 1);
    queue.submit().unwrap();
    queue.wait(&bell, Duration::from_millis(20)).unwrap();
    drop(reader);
    let completion = complete(&mut queue, &bell);
    assert_eq!(completion.result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(completion.written < BLOCK_BYTES);
}

#[test]
fn a_bell_ends_the_wait_each_time() {
    let bench = Bench::new();
    let Some(mut queue) = bench.queue("a_bell_ends_the_wait") else { return };
    let bell = Bell::new().unwrap();
    let long = Duration::from_secs(60);
    for _ in 0..3 {
        let start = Instant::now();
        bell.listen();
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            queue.wait(&bell, long).unwrap();
        });
        bell.stop_listening();
        assert!(start.elapsed() < long, "the ring was not heard");
    }
    queue.wait(&bell, Duration::from_millis(1)).unwrap();
    assert!(queue.next_completion().is_none());
}

#[test]
fn a_queue_that_goes_waits_for_what_is_in_flight() {
    let mut bench = Bench::new();
    let Some(mut queue) = bench.queue("a_queue_that_goes_waits") else { return };
    bench.fill();
    let file = tempfile::tempfile().unwrap();
    let shared = Arc::new(file.try_clone().unwrap());
    queue.submit_write(&shared, bench.claim(1), 0, 0, 0);
    drop(queue);
    let mut bytes = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_block(&bytes, 0);
}
