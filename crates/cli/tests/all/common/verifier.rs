//! Frames against what the generator makes of their number.

use super::for_each_frame;
use ringside_core::Frame;
use ringside_store::recording::{StoredFile, series_of};
use ringside_transmit::{SequenceCheck, SequenceReport, Shape, Sizes, Stamp};
use std::path::Path;

/// Mixed sizes, the shortest with a number and the longest of the MTU among them.
pub const SIZES: [u16; 10] = [60, 61, 62, 63, 64, 65, 128, 256, 590, 1514];

/// Frames are compared with what the generator makes of their number.
pub struct Verifier<'s> {
    shape: &'s Shape,
    expected: Vec<u8>,
    check: SequenceCheck,
    /// Frames seen.
    pub frames: u64,
    /// Order-independent: a wrapping sum over the frames of a hash of number and time.
    pub digest: u64,
    newest_time: u64,
    /// Frames stamped before one in front of them.
    pub late: u64,
}

impl Verifier<'_> {
    /// For frames of `shape`, at most `frames_max` of a stream.
    pub fn new(shape: &Shape, frames_max: u64) -> Verifier<'_> {
        let (expected, check) = (shape.buffer(), SequenceCheck::new(frames_max));
        Verifier { shape, expected, check, frames: 0, digest: 0, newest_time: 0, late: 0 }
    }

    /// Compares the next frame of a lane.
    pub fn note(&mut self, lane: u16, frame: &Frame<'_>) {
        let stamp = Stamp::read(frame.bytes).expect("a frame without a number");
        let length = self.shape.write(stamp.stream, stamp.sequence, &mut self.expected);
        assert!(frame.bytes == &self.expected[..length], "{stamp:?} differs: {frame:?}");
        assert_eq!(frame.meta.wire_bytes as usize, length, "{stamp:?}");
        self.check.note(lane, frame.bytes);
        let time = frame.meta.timestamp.0;
        let mixed = (time ^ stamp.sequence.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = self.digest.wrapping_add(mixed ^ (mixed >> 29));
        self.late += u64::from(time < self.newest_time);
        self.newest_time = self.newest_time.max(time);
        self.frames += 1;
    }

    /// Reads the lanes of a recording, each file in order. Gives the number of lanes.
    pub fn note_directory(&mut self, directory: &Path) -> usize {
        let (series, notices) = series_of(&[directory.to_owned()]).unwrap();
        assert!(notices.is_empty(), "{notices:?}");
        for (lane, series) in (0u16..).zip(&series) {
            assert_eq!(series.lane.0, lane);
            for StoredFile { path, .. } in &series.files {
                let notices = for_each_frame(std::slice::from_ref(path), |frame, _| {
                    self.note(lane, frame);
                });
                assert!(notices.is_empty(), "{notices:?}");
            }
        }
        series.len()
    }

    /// Reads one file of merged lanes.
    pub fn note_file(&mut self, path: &Path) {
        let notices = for_each_frame(&[path.to_owned()], |frame, _| self.note(0, frame));
        assert!(notices.is_empty(), "{notices:?}");
    }

    /// What was seen of streams of these lengths.
    pub fn report(&self, sent: &[u64]) -> SequenceReport {
        self.check.report(sent)
    }
}

/// Frames of these sizes in turn, of `flows` flows.
pub fn shape(sizes: &[u16], flows: u32) -> Shape {
    Shape::new(Sizes::list(sizes).unwrap(), flows).unwrap()
}
