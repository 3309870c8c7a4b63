//! One lane of a ring of another process, as a source.

use crate::owner::Owner;
use ringside_core::ledger::{LaneCounters, Words, sum};
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, Cause, Frame, FrameSlot, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use ringside_filter::Prepared;
use ringside_ring::{Board, CopyReader, ReadOutcome, RingStart, RingView};
use ringside_store::block::{PACKET_DATA_AT, blocks, packet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often an idle reader looks for new frames. The owner does not wake its readers: that would
/// cost it a system call for each.
const POLL: Duration = Duration::from_millis(5);

const DAMAGED: &str = "the capture's shared memory contradicts itself; reading it ends here";

/// Where to begin, and which frames to take.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// Frames stamped at or after this; `None` begins with what is received from now on. The ring
    /// reaches back as far as its memory does.
    pub from: Option<Timestamp>,
    /// Only frames that the filter of their interface accepts, by interface id; the others are
    /// counted as filtered. Empty takes all.
    pub filters: Vec<Prepared>,
}

/// A lane, read without holding it back.
///
/// `received` counts the frames from the start of reading: those before `from` are no part of it.
/// Frames that the reader was too slow for are dropped{overtaken}.
pub struct RingSource {
    reader: CopyReader,
    view: Arc<RingView>,
    lane: usize,
    interfaces: Vec<SourceInterface>,
    owner: Arc<Owner>,
    from: Timestamp,
    filters: Vec<Prepared>,
    /// What was copied from the ring last, and the frames in it that are still to be lent.
    bytes: Vec<u8>,
    slots: Vec<FrameSlot>,
    lent: usize,
    /// Cumulative number, in the owner's count, of the next frame to come from the ring.
    position: u64,
    /// Frames from this number on came after the attachment: `from` does not speak of them.
    attached_at: u64,
    /// Where reading ends: set when detached.
    end: u64,
    counts: Counts,
    low_water: Timestamp,
    last_stamp: Timestamp,
    finished: bool,
    /// The ring's memory contradicts itself; reported once.
    damaged: bool,
}

#[derive(Default)]
struct Counts {
    seen: u64,
    filtered: u64,
    overtaken: u64,
    inversions: u64,
}

impl RingSource {
    pub(crate) fn new(
        view: Arc<RingView>,
        lane: usize,
        interfaces: Vec<SourceInterface>,
        owner: Arc<Owner>,
        options: &ReadOptions,
    ) -> RingSource {
        let attached_at = view.frames(lane);
        let start = options.from.map_or(RingStart::Now, RingStart::Since);
        let reader = view.copy_reader(lane, start);
        let position = reader.first_frame();
        RingSource {
            reader,
            view,
            lane,
            interfaces,
            owner,
            from: options.from.unwrap_or_default(),
            filters: options.filters.clone(),
            bytes: Vec::new(),
            slots: Vec::new(),
            lent: 0,
            position,
            attached_at,
            end: u64::MAX,
            counts: Counts::default(),
            low_water: Timestamp::default(),
            last_stamp: Timestamp::default(),
            finished: false,
            damaged: false,
        }
    }

    /// Cumulative number, in the owner's count of this lane, of the frame that comes next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fetches what was published since; false if that is nothing. There may be none to lend in it.
    fn fetch(&mut self) -> bool {
        // In this order: what the low-water time and the end speak of was published before.
        let low_water = Timestamp(self.view.low_water_ns(self.lane));
        let gone = self.owner.is_gone();
        self.bytes.clear();
        self.slots.clear();
        self.lent = 0;
        match self.reader.read(&mut self.bytes) {
            ReadOutcome::Frames(frames) => {
                self.take(u64::from(frames));
                return true;
            }
            ReadOutcome::Nothing => {
                self.low_water = self.low_water.max(low_water);
                self.finished = gone || self.position >= self.end;
            }
            ReadOutcome::Finished => {
                self.pass_over(0);
                self.finished = true;
            }
            ReadOutcome::Damaged => {
                self.damaged = true;
                self.finished = true;
            }
        }
        if self.finished {
            self.low_water = Timestamp::MAX;
        }
        false
    }

    /// Counts what was overtaken before the `frames` that the reader gave last; returns how many
    /// of these lie before the end of reading.
    fn pass_over(&mut self, frames: u64) -> u64 {
        // Saturating: these numbers come from another process.
        let read = self.reader.delivered().saturating_add(self.reader.missed());
        let after = self.reader.first_frame().saturating_add(read);
        let gap = after.saturating_sub(frames).saturating_sub(self.position);
        let overtaken = gap.min(self.end.saturating_sub(self.position));
        self.counts.overtaken = self.counts.overtaken.saturating_add(overtaken);
        let ours = frames.min(self.end.saturating_sub(after.saturating_sub(frames)));
        self.position = after;
        ours
    }

    fn take(&mut self, frames: u64) {
        let ours = self.pass_over(frames);
        let first = self.position.saturating_sub(frames);
        let mut taken = 0;
        let mut at = 0;
        for (_, block) in blocks(&self.bytes) {
            let start = at;
            at += block.len();
            let Some(frame) = packet(block) else { continue };
            if taken == ours {
                break;
            }
            let number = first.saturating_add(taken);
            taken += 1;
            if number < self.attached_at && frame.meta.timestamp < self.from {
                continue;
            }
            self.counts.seen += 1;
            let filter = self.filters.get(frame.meta.interface.0 as usize);
            if filter.is_some_and(|filter| !filter.accepts(frame.bytes, frame.meta.wire_bytes)) {
                self.counts.filtered += 1;
                continue;
            }
            let offset = start + PACKET_DATA_AT;
            self.slots.push(FrameSlot::new(offset, frame.bytes.len() as u32, frame.meta));
        }
        // An owner that counts more frames than it wrote: they are not there to be lent.
        self.counts.overtaken = self.counts.overtaken.saturating_add(ours - taken);
        if self.position >= self.end && self.slots.is_empty() {
            self.finished = true;
            self.low_water = Timestamp::MAX;
        }
    }
}

/// For a merge, which takes all that was fetched at once.
impl RingSource {
    /// Fetches if the source is not finished; what was fetched before is gone. Also tells whether
    /// there was anything, be it filtered.
    pub(crate) fn refill(&mut self) -> (&[FrameSlot], bool) {
        self.lent = self.slots.len();
        let progress = !self.finished && self.fetch();
        (if progress { &self.slots } else { &[] }, progress)
    }

    /// No frame that is fetched later is stamped before this.
    pub(crate) fn floor(&self) -> Timestamp {
        self.low_water
    }

    /// True if the ring's memory contradicted itself, and no error said so yet.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// True if nothing will be fetched any more.
    pub(crate) fn is_at_end(&self) -> bool {
        self.finished
    }

    /// Frames that were overwritten before they were read.
    pub(crate) fn missed(&self) -> u64 {
        self.counts.overtaken
    }

    /// Frames of the lane that its owner lost before they came to the ring, since its start.
    pub(crate) fn dropped_before(&self) -> u64 {
        let words: Option<Words> = self.view.read_board(self.lane, Board::Worker);
        let counters = words.map(|words| LaneCounters::from_words("", 0, &words));
        let dropped = counters.map(|counters| counters.dropped).unwrap_or_default();
        sum(dropped.iter().filter(|(cause, _)| cause.is_loss()).map(|(_, frames)| *frames))
    }

    /// Frame `index` of what was fetched last.
    pub(crate) fn fetched(&self, index: usize) -> Option<Frame<'_>> {
        self.slots.get(index)?.frame(&self.bytes)
    }
}

impl Source for RingSource {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let until = Instant::now() + timeout;
        while self.lent == self.slots.len() {
            if std::mem::take(&mut self.damaged) {
                return Err(SourceError::Damaged(DAMAGED.into()));
            }
            if self.finished {
                return Ok(None);
            }
            let progress = self.fetch();
            let left = until.saturating_duration_since(Instant::now());
            if self.slots.is_empty() && left.is_zero() {
                return Ok(None);
            }
            if !progress && !self.finished {
                // Only sleeps: the end of the owner is looked at with the next fetch.
                std::thread::sleep(left.min(POLL));
            }
        }
        let end = self.slots.len().min(self.lent + BATCH_FRAMES_MAX);
        let batch = self.lent..end;
        self.lent = end;
        for slot in &self.slots[batch.clone()] {
            let stamp = slot.timestamp();
            self.counts.inversions += u64::from(stamp < self.last_stamp);
            self.last_stamp = stamp;
        }
        self.low_water = self.low_water.max(self.last_stamp);
        Ok(Some(Batch::new(&self.bytes, &self.slots[batch])))
    }

    fn is_finished(&self) -> bool {
        self.finished && self.lent == self.slots.len()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        let Counts { seen, filtered, overtaken, inversions } = self.counts;
        // Once the end is known, what lies before it belongs to the run, read or not.
        let ahead = if self.end == u64::MAX { 0 } else { self.end.saturating_sub(self.position) };
        SourceCounters {
            received: Some(seen.saturating_add(overtaken).saturating_add(ahead)),
            filtered: Some(filtered),
            passed: 0,
            dropped: BTreeMap::from([(Cause::Overtaken, overtaken)]),
            in_flight: Some(ahead.saturating_add((self.slots.len() - self.lent) as u64)),
            inversions,
        }
    }

    fn low_water(&self) -> Timestamp {
        match self.slots.get(self.lent) {
            Some(next) => next.timestamp(),
            None => self.low_water,
        }
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        if self.end == u64::MAX {
            // The highest number stands for an end that is not known.
            self.end = self.view.frames(self.lane).max(self.position).min(u64::MAX - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::Ledger;
    use ringside_core::limits::RING_BLOCK_BYTES_MIN;
    use ringside_core::{Frame, FrameMeta, FrameNumber, LaneCounters};
    use ringside_ring::{CaptureRing, HugePages, RingLayout};
    use ringside_store::block::{BlockHeader, write_block_header, write_packet_block};
    use ringside_testkit::{each_number_at_most, fuzz};
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixStream;

    const LANES: usize = 3;
    /// Words of 8 bytes before the first lane's header: the description, which is checked at once.
    const FIRST_WORD: usize = 512;
    /// The words that follow it in memory: headers, boards and slots.
    const WORDS: usize = 700;

    /// A ring in which each lane has a few frames, as bytes.
    fn memory() -> (std::fs::File, Vec<u8>) {
        let layout = RingLayout {
            lanes: LANES,
            blocks_per_lane: 2,
            block_bytes: RING_BLOCK_BYTES_MIN,
            lossless_readers: 0,
        };
        let ring = CaptureRing::create(layout, HugePages::No).unwrap();
        for lane in 0..LANES {
            let mut writer = ring.writer(lane).unwrap();
            let header =
                BlockHeader { number: 0, first_frame: FrameNumber(0), opened: Timestamp(1) };
            writer.open(0).unwrap();
            let bytes = write_block_header(writer.tail(), &header);
            writer.fill(bytes, 0);
            for number in 0..5 {
                let meta = FrameMeta {
                    timestamp: Timestamp(number),
                    wire_bytes: 60,
                    ..FrameMeta::default()
                };
                let bytes = write_packet_block(writer.tail(), &Frame { bytes: &[7; 60], meta }, 0);
                writer.fill(bytes, 1);
            }
            writer.publish();
        }
        let file = std::fs::File::from(ring.fd().try_clone_to_owned().unwrap());
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let copy = rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let copy = std::fs::File::from(copy);
        copy.write_all_at(&bytes, 0).unwrap();
        (copy, bytes)
    }

    /// Reads all lanes to their end, as `attach` does, and adds up what they say.
    fn read(view: &Arc<RingView>) {
        let (stream, owner) = UnixStream::pair().unwrap();
        drop(owner);
        let owner = Arc::new(Owner::new(stream));
        let options = ReadOptions { from: Some(Timestamp(0)), ..ReadOptions::default() };
        let interfaces = vec![SourceInterface::ethernet("rx0")];
        let mut lanes = Vec::new();
        for lane in 0..LANES {
            let (interfaces, owner) = (interfaces.clone(), owner.clone());
            let mut source = RingSource::new(view.clone(), lane, interfaces, owner, &options);
            let mut lent = 0;
            for round in 0..8 {
                let _ = source.counters();
                if round == 4 {
                    source.detach().unwrap();
                }
                if let Ok(Some(batch)) = source.next_batch(Duration::ZERO) {
                    lent += batch.frame_count() as u64;
                }
            }
            let SourceCounters { received, filtered, dropped, in_flight, .. } = source.counters();
            let taken = lent;
            lanes.push(LaneCounters {
                received,
                taken,
                filtered,
                dropped,
                in_flight,
                ..LaneCounters::default()
            });
        }
        let ledger = Ledger::from_lanes(lanes);
        let _ = (ledger.balance(), ledger.lost());
    }

    #[test]
    fn an_owner_that_lies_about_its_numbers_ends_no_reader() {
        let (file, bytes) = memory();
        let view = RingView::attach(file.try_clone().unwrap().into()).unwrap();
        let range = FIRST_WORD * 8..(FIRST_WORD + WORDS) * 8;
        let seeds = each_number_at_most(&bytes[range.clone()]);
        fuzz("attached-ring", 3_000, &seeds, |input| {
            let input = &input[..input.len().min(range.len())];
            file.write_all_at(&bytes[range.clone()], range.start as u64).unwrap();
            file.write_all_at(input, range.start as u64).unwrap();
            read(&view);
        });
    }
}
