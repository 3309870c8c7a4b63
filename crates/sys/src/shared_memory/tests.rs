//! Loans of blocks, whatever a caller tries; seals.

use super::*;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const BLOCK: usize = 8192;
const SHAPE: Shape =
    Shape { words_bytes: 4096, blocks: 3, block_bytes: BLOCK, total_bytes: 2 << 20 };

fn memory() -> Arc<SharedMemory> {
    Arc::new(SharedMemory::create(SHAPE, HugePages::No).unwrap())
}

fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Takes a block and makes all of it visible.
fn fill(memory: &Arc<SharedMemory>, block: usize, byte: u8) {
    let mut tail = memory.take(block).unwrap();
    tail.bytes(0).fill(byte);
    tail.show(BLOCK);
}

#[test]
fn a_block_has_one_writer_and_is_lent_as_far_as_it_is_visible() {
    let memory = memory();
    let mut tail = memory.take(1).unwrap();
    assert!(memory.take(1).is_none() && memory.take(0).is_some());
    tail.bytes(0)[..100].fill(7);
    assert!(memory.lend(1, 0, 1).is_none());
    tail.show(100);
    assert_eq!(memory.lend(1, 20, 100).unwrap().bytes(), [7; 80]);
    assert!(memory.lend(1, 20, 101).is_none());
    assert!(panics(|| tail.bytes(99).fill(0)), "visible bytes stay as they are");
    assert!(panics(|| tail.show(99)));
    assert!(panics(|| tail.show(BLOCK + 1)));
    tail.bytes(120)[0] = 9;
    tail.show(BLOCK);
    assert!(tail.bytes(BLOCK).is_empty());
    drop(tail);
    assert_eq!(memory.lend(1, 100, 121).unwrap().bytes()[20], 9);
}

#[test]
fn what_is_lent_is_not_written_over() {
    let memory = memory();
    (0..3).for_each(|block| fill(&memory, block, block as u8));
    let both = memory.lend(1, 0, 2 * BLOCK).unwrap();
    let part = memory.lend(1, 4, BLOCK).unwrap();
    let none = memory.lend(2, BLOCK, BLOCK).unwrap();
    assert!(memory.take(0).is_some());
    assert!(memory.take(1).is_none() && memory.take(2).is_none());
    assert!(both.bytes()[..BLOCK].iter().all(|byte| *byte == 1));
    assert!(both.bytes()[BLOCK..].iter().all(|byte| *byte == 2));
    drop(both);
    assert!(memory.take(1).is_none(), "a part is lent");
    assert!(memory.take(2).is_none(), "an empty part is one too");
    drop((part, none));
    assert!(memory.take(1).is_some() && memory.take(2).is_some());
    assert!(panics(|| drop(memory.lend(1, 0, 2 * BLOCK + 1))), "no such bytes");
    assert!(panics(|| drop(memory.take(3))), "no such block");
}

#[test]
fn a_loan_of_blocks_that_are_not_all_there_is_none() {
    let memory = memory();
    fill(&memory, 0, 1);
    let tail = memory.take(1).unwrap();
    assert!(memory.lend(0, 0, BLOCK + 1).is_none());
    drop(tail);
    assert!(memory.take(0).is_some(), "nothing of the first stayed lent");
}

#[test]
fn rooms_are_shown_in_order_by_whatever_thread() {
    let memory = memory();
    let mut tail = memory.take(2).unwrap();
    let mut rooms = [10, 20, BLOCK - 30].map(|bytes| tail.cut_room(bytes));
    assert!(panics(|| drop(tail.cut_room(1))));
    drop(tail);
    std::thread::scope(|scope| {
        for (byte, room) in (1..).zip(&mut rooms) {
            let memory = &memory;
            scope.spawn(move || memory.room_bytes(room).fill(byte));
        }
    });
    let [first, second, third] = rooms;
    assert!(memory.take(2).is_none(), "rooms are out");
    memory.show(first);
    let lent = memory.lend(2, 0, 10).unwrap();
    assert!(memory.lend(2, 0, 11).is_none());
    memory.show(second);
    memory.show(third);
    let all = memory.lend(2, 0, BLOCK).unwrap();
    let changes = [0, 9, 10, 29, 30, BLOCK - 1].map(|at| all.bytes()[at]);
    assert_eq!((lent.bytes(), changes), (&[1; 10][..], [1, 1, 2, 2, 3, 3]));
    drop((all, lent));
    assert!(memory.take(2).is_some());
}

#[test]
fn a_room_out_of_order_or_of_another_memory_is_refused() {
    let (memory, other) = (memory(), memory());
    let mut tail = memory.take(0).unwrap();
    let (first, second) = (tail.cut_room(8), tail.cut_room(8));
    assert!(panics(|| tail.show(20)), "rooms before it are not shown");
    assert!(panics(|| memory.show(second)));
    let mut first = first;
    assert!(panics(|| other.room_bytes(&mut first).fill(0)));
    assert!(panics(|| other.show(first)));
    drop(tail);
    assert!(memory.take(0).is_none(), "what was not shown may be in somebody's hands");
}

#[test]
fn bytes_are_copied_out_of_own_memory_only_when_they_are_visible() {
    let memory = memory();
    let mut tail = memory.take(0).unwrap();
    tail.bytes(0)[..30].fill(5);
    let mut copy = vec![1];
    memory.copy_out(0, 3, 30, &mut copy);
    assert_eq!(copy, [1]);
    tail.show(30);
    memory.copy_out(0, 3, 30, &mut copy);
    assert_eq!((copy[0], &copy[1..]), (1, &[5; 27][..]));
    tail.show(BLOCK);
    drop(tail);
    assert!(memory.take(0).is_some(), "the copy's loan is over");
}

#[test]
fn words_are_words_and_nothing_else() {
    let memory = memory();
    assert_eq!(memory.words(0, 512).len(), 512);
    memory.words(4088, 1)[0].store(3, Ordering::Relaxed);
    assert_eq!(memory.words(0, 512)[511].load(Ordering::Relaxed), 3);
    for (from, count) in [(0, 513), (4, 1), (4096, 1), (usize::MAX - 7, 1), (8, usize::MAX)] {
        let words = || {
            let _ = memory.words(from, count);
        };
        assert!(panics(words), "{from}, {count}");
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let wrong = [
        Shape { words_bytes: 4095, ..SHAPE },
        Shape { block_bytes: 0, ..SHAPE },
        Shape { block_bytes: BLOCK_BYTES_MAX + 1, blocks: 0, ..SHAPE },
        Shape { blocks: 256, ..SHAPE },
        Shape { blocks: usize::MAX, ..SHAPE },
        Shape { total_bytes: usize::MAX, ..SHAPE },
    ];
    for shape in wrong {
        assert!(SharedMemory::create(shape, HugePages::No).is_err(), "{shape:?}");
    }
}

#[test]
fn memory_that_was_attached_to_shows_what_its_owner_does_and_lends_nothing() {
    let owner = memory();
    fill(&owner, 1, 4);
    owner.words(8, 1)[0].store(6, Ordering::Relaxed);
    let fd = || owner.fd().try_clone_to_owned().unwrap();
    let reader = Arc::new(SharedMemory::attach(fd(), SHAPE).unwrap());
    assert_eq!(reader.words(8, 1)[0].load(Ordering::Relaxed), 6);
    let mut copy = Vec::new();
    reader.copy_out(1, 1, BLOCK, &mut copy);
    assert!(copy.len() == BLOCK - 1 && copy.iter().all(|byte| *byte == 4));
    assert!(panics(|| drop(reader.lend(1, 0, 1))));
    assert!(panics(|| drop(reader.take(1))));
    let larger = Shape { total_bytes: SHAPE.total_bytes + 1, ..SHAPE };
    assert!(SharedMemory::attach(fd(), larger).is_err(), "its end would be a SIGBUS");
}

#[test]
fn sealed_memory_can_be_mapped_to_read_only() {
    let memory = memory();
    let fd = || memory.fd().try_clone_to_owned().unwrap();
    assert!(!is_sealed(&fd()));
    memory.seal().unwrap();
    memory.seal().expect("sealed is sealed");
    assert!(is_sealed(&fd()));
    for prot in [ProtFlags::WRITE, ProtFlags::READ | ProtFlags::WRITE] {
        // SAFETY: a new mapping that no thread uses; it should not come about.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), SHAPE.total_bytes, prot, MapFlags::SHARED, fd(), 0)
        };
        assert!(mapped.is_err(), "{prot:?}");
    }
    fill(&memory, 0, 1);
    assert!(SharedMemory::attach(fd(), SHAPE).is_ok());
}

/// A writer and a reader who know nothing of each other but the state: no byte of a loan changes.
#[test]
fn loans_next_to_a_writer_are_whole() {
    const ROUNDS: usize = 5_000;
    let memory = memory();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..ROUNDS {
                if let Some(mut tail) = memory.take(0) {
                    tail.bytes(0)[..64].fill(round as u8);
                    tail.show(64);
                }
            }
        });
        while !writer.is_finished() {
            let Some(lent) = memory.lend(0, 0, 64) else { continue };
            let first = lent.bytes()[0];
            assert!(lent.bytes().iter().all(|byte| *byte == first), "{:?}", lent.bytes());
        }
    });
    assert!(memory.take(0).is_some(), "all loans are over");
}
