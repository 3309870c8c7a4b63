//! All lanes of an attached ring as one stream, in the order of time.

use crate::attachment::Attachment;
use crate::source::{ReadOptions, RingSource};
use ringside_core::ledger::sum;
use ringside_core::limits::MERGE_HOLD_NS;
use ringside_core::share::Hello;
use ringside_core::{Frame, Source, Timestamp};
use ringside_store::merge::Merger;
use ringside_sys::clock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often lanes without new frames are looked at.
const POLL: Duration = Duration::from_millis(2);

/// Reads the frames of all lanes, merged by time.
pub struct Reader {
    hello: Hello,
    sources: Vec<RingSource>,
    /// Frames of each lane's last fetch that are still in the merge.
    waiting: Vec<usize>,
    merger: Merger<usize>,
    delivered: u64,
}

impl Reader {
    /// Begins to read where `options` says.
    pub fn new(attachment: &Attachment, options: &ReadOptions) -> Reader {
        let hello = attachment.hello().clone();
        let sources = attachment.sources(options);
        let hold_ns = MERGE_HOLD_NS.saturating_add(hello.block_timeout_ns);
        Reader {
            waiting: vec![0; sources.len()],
            merger: Merger::new(sources.len(), Some(hold_ns)),
            sources,
            hello,
            delivered: 0,
        }
    }

    /// What the owner said: interfaces and lanes.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The next frame; waits up to `timeout` for it. `None` if none came, or at the end
    /// ([`is_finished`](Self::is_finished)).
    pub fn next_frame(&mut self, timeout: Duration) -> Option<Frame<'_>> {
        let until = Instant::now() + timeout;
        let (lane, index) = loop {
            let progress = self.refill();
            if let Some(popped) = self.merger.pop(clock::monotonic_ns()) {
                break (popped.lane, popped.item);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_finished() {
                return None;
            }
            if !progress {
                sleep(left.min(POLL));
            }
        };
        self.waiting[lane] -= 1;
        self.delivered += 1;
        self.sources[lane].fetched(index)
    }

    /// True when the owner has ended and every frame was given out.
    pub fn is_finished(&self) -> bool {
        self.merger.is_empty() && self.sources.iter().all(RingSource::is_at_end)
    }

    /// True if the ring's memory contradicted itself: reading ended there.
    pub fn is_damaged(&self) -> bool {
        self.sources.iter().any(RingSource::is_damaged)
    }

    /// No later frame is older than this; zero while that is not known, as frames wait for others.
    pub fn low_water(&self) -> Timestamp {
        let floors = self.sources.iter().map(RingSource::floor).min();
        floors.filter(|_| self.merger.is_empty()).unwrap_or_default()
    }

    /// Frames given out.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Frames that this reader was too slow for. Exact.
    pub fn missed(&self) -> u64 {
        sum(self.sources.iter().map(RingSource::missed))
    }

    /// Frames that the owner lost before they came to the ring, since its start.
    pub fn dropped_before(&self) -> u64 {
        sum(self.sources.iter().map(RingSource::dropped_before))
    }

    /// Frames that the filter turned away.
    pub fn filtered(&mut self) -> u64 {
        sum(self.sources.iter_mut().filter_map(|source| source.counters().filtered))
    }

    /// Frames given out after a later one.
    pub fn late(&self) -> u64 {
        self.merger.late()
    }

    /// Fetches for every lane that has none left; false if nothing came.
    fn refill(&mut self) -> bool {
        let mut progress = false;
        let now_ns = clock::monotonic_ns();
        for (lane, source) in self.sources.iter_mut().enumerate() {
            if self.waiting[lane] > 0 {
                continue;
            }
            let (slots, some) = source.refill();
            progress |= some;
            for (index, slot) in slots.iter().enumerate() {
                self.merger.push(lane, slot.timestamp().0, now_ns, index);
                self.waiting[lane] += 1;
            }
            self.merger.advance(lane, source.floor().0);
        }
        progress
    }
}
