//! One lane as the writers of all directories share it: who takes which blocks, and its account.
//!
//! Blocks are taken in order. A block that a writer began before it was closed is continued by
//! that writer, because the beginning lies in its file.

use crate::control::ConsumerCounts;
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, Consumer, LaneId};
use ringside_ring::{BlockReader, BoardWriter, Claim, OpenBlock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A lane that is recorded.
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) interface: String,
    files: AtomicU64,
    state: Mutex<State>,
}

struct State {
    reader: BlockReader,
    /// The block that was begun before it was closed.
    begun: Option<Begun>,
    /// Everything was taken, and nothing comes.
    ended: bool,
    account: Account,
}

impl State {
    /// Gives up the rest of the block that a writer began which died; `None` while it is open.
    fn lose_begun(&mut self) -> Option<()> {
        let claim = self.reader.claim(1)?;
        let before = self.begun.take().unwrap_or_default();
        self.account.miss(Cause::WriteFailed, claim.frames() - before.frames);
        self.reader.release(claim);
        Some(())
    }
}

/// What was taken of a block before it was closed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    /// The directory whose writer took it.
    pub(super) directory: usize,
    /// Bytes from the block's start.
    pub(super) bytes: usize,
    /// Frames in them; they are in the account.
    pub(super) frames: u64,
}

/// Frames of an open block that was taken as far as it is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFrames {
    /// Taken before; they are in the account.
    pub(super) before: u64,
    /// Taken now.
    pub(super) new: u64,
}

/// Closed blocks on their way to a file.
pub(super) struct Taken {
    pub(super) claim: Claim,
    /// What was taken of the first of them before.
    pub(super) begun: Begun,
}

/// What there is beyond closed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing for this writer now.
    Nothing,
    /// Published bytes of an open block.
    Open,
    /// As `Open`, and they are the last of the lane.
    Final,
    /// Nothing, and nothing comes.
    Ended,
}

/// Which writer asks.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) directory: usize,
    /// By directory: true for a writer that will not come back for what it began.
    pub(super) gone: &'a [AtomicBool],
}

/// Whose the next block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// No writer began it, or the asker did.
    Free,
    /// Another writer continues it.
    Other,
    /// A writer that died began it; the rest of it belongs behind what is in that one's file.
    Gone,
}

impl Asker<'_> {
    fn owner(&self, begun: Option<Begun>) -> Owner {
        match begun {
            Some(begun) if begun.directory == self.directory => Owner::Free,
            Some(begun) if self.gone[begun.directory].load(Ordering::Acquire) => Owner::Gone,
            Some(_) => Owner::Other,
            None => Owner::Free,
        }
    }
}

impl Lane {
    pub(super) fn new(
        id: LaneId,
        interface: String,
        reader: BlockReader,
        board: BoardWriter,
        total: Arc<ConsumerCounts>,
    ) -> Lane {
        let account = Account { total, delivered: 0, missed: ByCause::new(), board };
        let state = State { reader, begun: None, ended: false, account };
        Lane { id, interface, files: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// The number of the lane's next file, in whichever directory.
    pub(super) fn next_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Numbers the files from 0 again: none of them is there.
    pub(super) fn restart_files(&self) {
        self.files.store(0, Ordering::Relaxed);
    }

    /// Takes up to `blocks_max` closed blocks.
    pub(super) fn take(&self, asker: Asker<'_>, blocks_max: usize) -> Option<Taken> {
        let mut state = self.lock();
        match asker.owner(state.begun) {
            Owner::Other => return None,
            Owner::Gone => state.lose_begun()?,
            Owner::Free => {}
        }
        let claim = state.reader.claim(blocks_max)?;
        Some(Taken { claim, begun: state.begun.take().unwrap_or_default() })
    }

    /// True if there are closed blocks that `take` would give.
    pub(super) fn is_waiting(&self, asker: Asker<'_>) -> bool {
        let state = self.lock();
        asker.owner(state.begun) != Owner::Other && state.reader.waiting_blocks() > 0
    }

    /// What there is beyond closed blocks. Ends the lane if that is nothing for ever.
    pub(super) fn rest(&self, asker: Asker<'_>) -> Rest {
        let mut state = self.lock();
        let state = &mut *state;
        if state.ended {
            return Rest::Ended;
        }
        let owner = asker.owner(state.begun);
        if owner == Owner::Other {
            return Rest::Nothing;
        }
        // Before the look at the block: what it then shows is final.
        let finished = state.reader.is_finished();
        let begun = state.begun.unwrap_or_default();
        let open = state.reader.open_block();
        let frames = open.as_ref().map_or(0, |open| u64::from(open.frames));
        let bytes = open.map_or(0, |open| open.bytes.len());
        match (finished, owner) {
            (true, Owner::Free) if bytes > begun.bytes => Rest::Final,
            (true, _) => {
                state.account.miss(Cause::WriteFailed, frames.saturating_sub(begun.frames));
                state.ended = true;
                Rest::Ended
            }
            (false, Owner::Free) if frames > begun.frames => Rest::Open,
            (false, _) => Rest::Nothing,
        }
    }

    /// Takes what is published of the open block: `copy` gets it. `is_final` ends the lane. Returns
    /// its frames.
    pub(super) fn take_open(
        &self,
        asker: Asker<'_>,
        is_final: bool,
        copy: impl FnOnce(&OpenBlock<'_>),
    ) -> Option<OpenFrames> {
        let mut state = self.lock();
        let state = &mut *state;
        if asker.owner(state.begun) != Owner::Free {
            return None;
        }
        let open = state.reader.open_block()?;
        copy(&open);
        let (directory, frames) = (asker.directory, u64::from(open.frames));
        let begun = Begun { directory, bytes: open.bytes.len(), frames };
        let before = state.begun.replace(begun).unwrap_or_default().frames;
        state.ended |= is_final;
        Some(OpenFrames { before, new: frames - before })
    }

    /// Gives up what this writer began, or, with `all`, everything that is there: it is missed for
    /// `cause`. True if that was anything.
    pub(super) fn discard(&self, asker: Asker<'_>, all: bool, cause: Cause) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let finished = state.reader.is_finished();
        let is_ours = |begun: Option<Begun>| match asker.owner(begun) {
            Owner::Free => all || begun.is_some(),
            Owner::Other => false,
            Owner::Gone => all,
        };
        let mut progress = false;
        while is_ours(state.begun)
            && let Some(claim) = state.reader.claim(1)
        {
            let before = state.begun.take().unwrap_or_default();
            state.account.miss(cause, claim.frames() - before.frames);
            state.reader.release(claim);
            progress = true;
        }
        if finished && !state.ended && is_ours(state.begun) {
            let frames = state.reader.open_block().map_or(0, |open| u64::from(open.frames));
            let before = state.begun.take().unwrap_or_default();
            state.account.miss(cause, frames - before.frames);
            state.ended = true;
            progress = true;
        }
        progress
    }

    /// Accounts for frames, then gives their blocks back to the lane's worker.
    pub(super) fn settle(&self, claim: Option<Claim>, delivered: u64, missed: (Cause, u64)) {
        let mut state = self.lock();
        state.account.deliver(delivered);
        state.account.miss(missed.0, missed.1);
        if let Some(claim) = claim {
            state.reader.release(claim);
        }
    }

    /// True if everything was taken.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What became of the lane's frames: in the run's counts, and on the lane's board for the process
/// that closes the ledger if this process dies.
struct Account {
    total: Arc<ConsumerCounts>,
    delivered: u64,
    missed: ByCause,
    board: BoardWriter,
}

impl Account {
    fn deliver(&mut self, frames: u64) {
        if frames > 0 {
            self.total.deliver(frames);
            self.delivered += frames;
            self.publish();
        }
    }

    fn miss(&mut self, cause: Cause, frames: u64) {
        if frames > 0 {
            self.total.miss(cause, frames);
            *self.missed.entry(cause).or_default() += frames;
            self.publish();
        }
    }

    fn publish(&mut self) {
        let (delivered, missed) = (self.delivered, self.missed.clone());
        let consumer = Consumer { delivered, missed, ..Consumer::default() };
        self.board.publish(&consumer.to_words());
    }
}
