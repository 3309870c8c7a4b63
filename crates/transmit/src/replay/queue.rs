//! Frames on their way from the reader to the sender, in memory of a bounded size.

use crate::Error;
use crate::replay::report::ReadCounts;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Frames that are read ahead, in bytes with what is noted of each: a disk may pause for 25 ms at
/// 10 Gb/s. One chunk, which is a batch of the reader, may go beyond.
pub(crate) const AHEAD_BYTES_MAX: usize = 32 << 20;

/// Chunks that were sent and are kept to be filled again.
const SPENT_CHUNKS_MAX: usize = 16;

/// A frame of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// When it is due, from the start of the replay.
    pub due_ns: u64,
    offset: u32,
    bytes: u32,
}

/// Frames that were read together, and what was counted meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub memory: Vec<u8>,
    pub slots: Vec<Slot>,
    pub counts: ReadCounts,
}

impl Chunk {
    /// What was appended to the memory from `offset` on becomes a frame.
    pub fn add(&mut self, offset: usize, due_ns: u64) {
        // A chunk is a batch of a few hundred frames that an interface can send.
        let bytes = (self.memory.len() - offset) as u32;
        self.slots.push(Slot { due_ns, offset: offset as u32, bytes });
    }

    pub fn frame(&self, slot: &Slot) -> &[u8] {
        &self.memory[slot.offset as usize..][..slot.bytes as usize]
    }

    pub fn clear(&mut self) {
        self.memory.clear();
        self.slots.clear();
        self.counts = ReadCounts::default();
    }

    fn held_bytes(&self) -> usize {
        self.memory.len() + self.slots.len() * size_of::<Slot>()
    }
}

/// How the reading ended.
#[derive(Debug, Default)]
pub(crate) struct ReadEnd {
    pub failure: Option<Error>,
    /// What is to be said of the inputs.
    pub notices: Vec<String>,
}

/// What the sender finds.
pub(crate) enum Popped {
    Chunk(Chunk),
    /// Nothing yet.
    Empty,
    End(ReadEnd),
}

/// Between one reader and one sender.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    held_bytes: usize,
    spent: Vec<Chunk>,
    end: Option<ReadEnd>,
    closed: bool,
}

impl Queue {
    /// Hands a chunk to the sender, once there is room; gives an empty one, or `None` if the
    /// sender wants no more.
    pub fn push(&self, chunk: Chunk) -> Option<Chunk> {
        let mut state = self.lock();
        while state.held_bytes >= AHEAD_BYTES_MAX && !state.closed {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        state.held_bytes += chunk.held_bytes();
        state.chunks.push_back(chunk);
        self.filled.notify_one();
        Some(state.spent.pop().unwrap_or_default())
    }

    /// Nothing comes any more.
    pub fn finish(&self, end: ReadEnd) {
        self.lock().end = Some(end);
        self.filled.notify_one();
    }

    /// Takes the next chunk, for which it waits up to `wait`; `spent` is one that was sent.
    pub fn pop(&self, spent: &mut Option<Chunk>, wait: Duration) -> Popped {
        let mut state = self.lock();
        if let Some(mut chunk) = spent.take()
            && state.spent.len() < SPENT_CHUNKS_MAX
        {
            chunk.clear();
            state.spent.push(chunk);
        }
        if state.chunks.is_empty() && state.end.is_none() && !wait.is_zero() {
            let waited = self.filled.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let Some(chunk) = state.chunks.pop_front() else {
            return state.end.take().map_or(Popped::Empty, Popped::End);
        };
        state.held_bytes -= chunk.held_bytes();
        self.emptied.notify_one();
        Popped::Chunk(chunk)
    }

    /// The sender wants no more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.emptied.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What it guards is whole after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(bytes: usize) -> Chunk {
        let mut chunk = Chunk { memory: vec![0; bytes], ..Chunk::default() };
        chunk.add(0, 0);
        chunk
    }

    #[test]
    fn a_full_queue_holds_the_reader_until_the_sender_takes_or_goes() {
        let queue = Queue::default();
        assert!(queue.push(chunk(AHEAD_BYTES_MAX)).is_some());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| queue.push(chunk(1)).is_some());
            assert!(matches!(queue.pop(&mut None, Duration::ZERO), Popped::Chunk(_)));
            assert!(reader.join().unwrap());
        });
        assert!(queue.push(chunk(AHEAD_BYTES_MAX)).is_some());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| queue.push(chunk(1)).is_none());
            queue.close();
            assert!(reader.join().unwrap());
        });
    }

    #[test]
    fn the_end_comes_after_the_last_chunk() {
        let queue = Queue::default();
        assert!(matches!(queue.pop(&mut None, Duration::ZERO), Popped::Empty));
        queue.push(chunk(1));
        queue.finish(ReadEnd::default());
        let Popped::Chunk(sent) = queue.pop(&mut None, Duration::ZERO) else { panic!("no chunk") };
        let mut spent = Some(sent);
        assert!(matches!(queue.pop(&mut spent, Duration::ZERO), Popped::End(_)));
        assert!(queue.push(chunk(2)).is_some_and(|chunk| chunk.slots.is_empty()));
    }
}
