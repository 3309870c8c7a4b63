//! Short records in place of frames (`digest`): what the frames of a rule and of one direction of a
//! conversation add up to.
//!
//! The thread that judges adds up in a table of its own, by the stamps of frames alone, so that a
//! capture that is read again gives the same records. A record goes to the [`writer`] when its
//! direction was silent, has lasted, or had to make room, and at the end. The way there is a queue
//! that no thread waits for: what has no room is counted, with its frames, so that all frames are
//! in records that were written or that were missed.

mod queue;
mod writer;

pub use queue::{DigestCounts, DigestMiss, DigestSums};
pub(crate) use queue::{DigestQueue, DigestReader, Patience};
pub(crate) use writer::DigestWriter;

use ringside_core::{Batch, FrameMeta, InterfaceId, RecentTable};
use ringside_inspect::DissectedFrame;
use ringside_rules::language::RuleId;
use ringside_wire::{FiveTuple, FlowKey, LayerKind, Level, Tcp};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Directions that are added up in each thread, some 14 MB: several times what a busy link has at
/// once. One more has one written that was silent for long.
const DIGESTS_MAX: usize = 65_536;
/// A direction that was silent for so long is over (IPFIX exporters have 15 s too).
const IDLE_NS: u64 = 15_000_000_000;
/// One that lasts gets a record for each such time, so that none is heard of too late.
const ACTIVE_NS: u64 = 60_000_000_000;
/// Within this time, by the stamps of frames, all of the table is looked through for silent ones.
const ROUND_NS: u64 = 1_000_000_000;

/// Where records are written, one JSON object a line.
pub enum DigestOutput {
    /// A file, made anew.
    File(PathBuf),
    /// Standard output.
    Stream(OwnedFd),
}

/// What frames have in common that are one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    rule: RuleId,
    interface: InterfaceId,
    /// Of the outer IP header, as seen; none for other frames.
    tuple: Option<FiveTuple>,
    vlan: Option<u16>,
}

/// What they add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    frames: u64,
    /// On the wire.
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
    /// All flags that some segment had.
    tcp_flags: u16,
}

/// Why a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its direction was silent.
    Idle,
    /// It has lasted.
    Active,
    /// Another one needed its place.
    Full,
    /// The run is over.
    Over,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    key: Key,
    sum: Sum,
    end: End,
}

/// Adds up the frames of one thread.
pub(super) struct Digester {
    table: RecentTable<Key, Sum>,
    queue: DigestQueue,
    /// The time that the table was last looked through at, and the latest of a frame.
    swept_ns: Option<u64>,
    latest_ns: u64,
    /// Frames of the batch.
    batch: DigestSums,
}

impl Digester {
    pub(super) fn new(queue: DigestQueue) -> Digester {
        let (table, batch) = (RecentTable::new(DIGESTS_MAX), DigestSums::default());
        Digester { table, queue, swept_ns: None, latest_ns: 0, batch }
    }

    /// Adds a frame that a rule digests.
    pub(super) fn add(&mut self, rule: RuleId, frame: &DissectedFrame<'_>, meta: &FrameMeta) {
        let Digester { table, queue, latest_ns, batch, .. } = self;
        let (key, one) = (Key::of(rule, frame, meta), Sum::of(frame, meta));
        let now = one.first_ns;
        *latest_ns = now.max(*latest_ns);
        batch.frames += 1;
        batch.bytes += one.bytes;
        let entered = table.enter(key, now, |gone| {
            if let Some(gone) = gone {
                let end = if is_idle(gone.seen, now) { End::Idle } else { End::Full };
                queue.put(Record { key: gone.key, sum: gone.value, end });
            }
            one
        });
        let Some(seen) = entered.seen_before else { return };
        let sum = entered.value;
        let end = match now.saturating_sub(sum.first_ns) >= ACTIVE_NS {
            _ if is_idle(seen, now) => End::Idle,
            true => End::Active,
            false => return sum.add(&one),
        };
        queue.put(Record { key, sum: *sum, end });
        *sum = one;
    }

    /// After the frames of a batch: counts them, and writes what was silent.
    pub(super) fn end_batch(&mut self, batch: &Batch<'_>) {
        self.queue.count(&std::mem::take(&mut self.batch));
        let Some(now) = batch.slots().last().map(|slot| slot.timestamp().0) else { return };
        self.latest_ns = now.max(self.latest_ns);
        let swept_ns = *self.swept_ns.get_or_insert(now);
        // Time may go back: then it counts from there.
        let part = now.abs_diff(swept_ns).min(ROUND_NS) as f64 / ROUND_NS as f64;
        let places = (part * self.table.values_max() as f64) as usize;
        if places == 0 {
            return;
        }
        self.swept_ns = Some(now);
        let queue = &self.queue;
        self.table.sweep(places, |key, seen, sum| {
            let is_over = is_idle(seen, now);
            if is_over {
                queue.put(Record { key: *key, sum: *sum, end: End::Idle });
            }
            !is_over
        });
    }
}

/// The end of the run: nothing is to be lost that has a chance.
impl Drop for Digester {
    fn drop(&mut self) {
        self.queue.count(&std::mem::take(&mut self.batch));
        let (queue, latest) = (&mut self.queue, self.latest_ns);
        queue.be_patient();
        self.table.sweep(usize::MAX, |key, seen, sum| {
            let end = if is_idle(seen, latest) { End::Idle } else { End::Over };
            queue.put(Record { key: *key, sum: *sum, end });
            false
        });
    }
}

fn is_idle(seen_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(seen_ns) > IDLE_NS
}

impl Key {
    fn of(rule: RuleId, frame: &DissectedFrame<'_>, meta: &FrameMeta) -> Key {
        let (bytes, layers) = (frame.bytes(), frame.layers());
        let tuple = FiveTuple::of(bytes, layers, Level::Outer);
        let vlan = FlowKey::vlan_of(bytes, layers, Level::Outer);
        Key { rule, interface: meta.interface, tuple, vlan }
    }
}

impl Sum {
    fn of(frame: &DissectedFrame<'_>, meta: &FrameMeta) -> Sum {
        let transport = frame.layers().transport(Level::Outer);
        let tcp = transport
            .filter(|layer| layer.kind == LayerKind::Tcp)
            .and_then(|layer| Tcp::new(frame.bytes().get(layer.start()..)?).ok());
        let now = meta.timestamp.0;
        Sum {
            frames: 1,
            bytes: u64::from(frame.wire_bytes()),
            first_ns: now,
            last_ns: now,
            tcp_flags: tcp.map_or(0, |tcp| tcp.flags()),
        }
    }

    fn add(&mut self, other: &Sum) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.tcp_flags |= other.tcp_flags;
    }
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Idle => "idle",
            End::Active => "active",
            End::Full => "full",
            End::Over => "over",
        }
    }
}

#[cfg(test)]
mod tests;
