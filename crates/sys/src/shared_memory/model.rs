//! The state of a block under loom: threads that take and borrow without any other protocol, no
//! byte is written while somebody has it, nor read before it was written.

use super::blocks::State;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;

/// A block of two bytes, whose uses loom wants ordered.
#[derive(Default)]
struct Block {
    state: State,
    bytes: [UnsafeCell<u8>; 2],
}

impl Block {
    /// Reads as far as it may; returns how far.
    fn read(&self) -> usize {
        let visible = (1..=2).rev().find(|to| self.state.lend(*to)).unwrap_or(0);
        self.bytes[..visible].iter().for_each(|byte| {
            byte.with(|_| ());
        });
        if visible > 0 {
            self.state.give_back();
        }
        visible
    }
}

fn write(byte: &UnsafeCell<u8>) {
    byte.with_mut(|_| ());
}

/// Two rooms, filled by two threads and shown by this one; false if the block is not free.
fn write_block(block: &Arc<Block>) -> bool {
    if !block.state.take() {
        return false;
    }
    let others = block.clone();
    let other = spawn(move || write(&others.bytes[1]));
    write(&block.bytes[0]);
    block.state.show(0, 1);
    other.join().unwrap();
    block.state.show(1, 1);
    block.state.leave(2);
    true
}

#[test]
fn loom_a_block_is_written_while_it_is_lent_to_no_reader() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let block = Arc::new(Block::default());
        assert!(write_block(&block));
        let reader = {
            let block = block.clone();
            spawn(move || block.read())
        };
        let is_free = write_block(&block);
        let seen = reader.join().unwrap();
        assert!(is_free || seen > 0, "only a reader keeps the writer away");
        assert_eq!(block.read(), 2);
    });
}
