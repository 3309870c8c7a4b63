//! Every real capture through the whole replay, but for the interface.

use super::*;
use crate::interface::SizeLimit;
use ringside_core::{
    Batch, ChecksumRequest, FrameMeta, FrameSlot, SinkCounters, SinkError, SinkFeatures, Source,
    SourceCounters, SourceError, SourceInterface, Timestamp,
};
use ringside_store::StoredSource;
use ringside_store::reader::{Notice, Tally};
use ringside_testkit::capture_files;
use std::path::Path;

const MTU: usize = 1_500;

/// A sink that takes everything, and has no way of its own for frames that lie somewhere.
#[derive(Default)]
struct Memory(Vec<Vec<u8>>);

impl Sink for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(usize::MAX)
    }

    fn put(
        &mut self,
        bytes: usize,
        _checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        let mut frame = vec![0; bytes];
        write(&mut frame);
        self.0.push(frame);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        let offered = self.0.len() as u64;
        SinkCounters { offered, accepted: offered, ..SinkCounters::default() }
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        (self.counters(), None)
    }
}

fn job(input: &Path) -> Replay {
    Replay {
        inputs: vec![input.to_owned()],
        interface: "memory".into(),
        sink: SinkKind::AfPacket,
        tempo: Tempo::Fast,
        loops: 1,
        range: TimeRange::default(),
        count: None,
        duration: None,
        rewrite: Rewrite::default(),
        cut: CutFrames::Refuse,
        skip_unsendable: true,
        scan: false,
        retry: false,
        cpu: None,
    }
}

fn feed_into_memory(job: &Replay) -> Feed {
    let limit = SizeLimit { mtu_bytes: MTU };
    Feed {
        query: Query { inputs: job.inputs.clone(), range: job.range },
        outside_before: 0,
        filter: Box::new(|_, _| Ok(true)),
        preparer: Preparer { rewrite: job.rewrite.clone(), cut: job.cut, limit },
        schedule: Schedule::new(Timing::Fast),
        rounds_left: 1,
        frames_left: u64::MAX,
        skips: true,
        interface: job.interface.clone(),
        source: None,
        notices: Vec::new(),
    }
}

/// What can be sent of a capture, and how many frames it has; `None` if it is none.
fn sendable(path: &Path) -> Option<(Vec<Vec<u8>>, u64)> {
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let (mut frames, mut count) = (Vec::new(), 0);
    while !source.is_finished() {
        let Ok(batch) = source.next_batch(Duration::from_secs(60)) else { break };
        let Some(batch) = batch else { continue };
        for frame in batch.iter() {
            count += 1;
            let link = batch.interfaces()[frame.meta.interface.0 as usize].link_type;
            let tag = if frame.bytes.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
            let fits = (14..=MTU + 14 + tag).contains(&frame.bytes.len());
            let is_whole = frame.bytes.len() >= frame.meta.wire_bytes as usize;
            if link == LinkType::ETHERNET && fits && is_whole {
                frames.push(frame.bytes.to_vec());
            }
        }
    }
    Some((frames, count))
}

#[test]
fn every_capture_leaves_as_it_is_or_is_counted_by_cause() {
    let files = capture_files("every_capture_leaves_as_it_is_or_is_counted_by_cause");
    let (mut sent_frames, mut skipped) = (0, 0);
    for path in &files {
        let Some((expected, count)) = sendable(path) else { continue };
        let (job, mut memory) = (job(path), Memory::default());
        let sent = send(&job, feed_into_memory(&job), &mut memory, &|| false, &mut |_| {}).unwrap();
        let name = path.display();
        assert!(memory.0 == expected, "{name}: {} of {}", memory.0.len(), expected.len());
        assert_eq!((sent.counts.read, sent.not_sent), (count, 0), "{name}");
        assert_eq!(sent.offered + sent.counts.skipped.total(), count, "{name}");
        assert_eq!((sent.accepted, sent.refused.total()), (sent.offered, 0), "{name}");
        sent_frames += sent.accepted;
        skipped += sent.counts.skipped.total();
    }
    eprintln!("{} captures, {sent_frames} frames sent, {skipped} skipped", files.len());
    assert!(files.is_empty() || sent_frames > 10_000 && skipped > 100, "{sent_frames} {skipped}");
}

/// A source whose only frame is of an interface that it does not name.
struct Nameless {
    bytes: Vec<u8>,
    slots: Vec<FrameSlot>,
}

impl Source for Nameless {
    fn next_batch(&mut self, _timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        Ok(Some(Batch::new(&self.bytes, &self.slots)))
    }

    fn is_finished(&self) -> bool {
        false
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &[]
    }

    fn counters(&mut self) -> SourceCounters {
        SourceCounters::default()
    }

    fn low_water(&self) -> Timestamp {
        Timestamp::default()
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

impl StoredSource for Nameless {
    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

#[test]
fn a_frame_of_an_interface_that_nobody_named_is_not_sent_as_ethernet() {
    let slots = vec![FrameSlot::new(0, 60, FrameMeta::default())];
    let source = Box::new(Nameless { bytes: vec![0; 60], slots });
    let mut feed = feed_into_memory(&job(Path::new("nameless")));
    feed.source = Some(source);
    let mut chunk = Chunk::default();
    let error = feed.step(&mut chunk).unwrap_err().to_string();
    assert!(error.contains("interface 0 of 0"), "{error}");
    assert!(chunk.slots.is_empty());
}
