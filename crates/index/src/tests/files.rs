//! Files: an index is built next to its capture, asked, and refused if it is not what was written.

use crate::{Index, Plan, State, Unusable, build, path_of};
use ringside_core::{
    Frame, FrameMeta, LinkType, OwnedFrame, Source, SourceInterface, TimeRange, Timestamp,
};
use ringside_filter::{Compiler, Prepared, compile};
use ringside_store::{Format, Part, Pruner, Query};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const FRAMES: u32 = 5000;

/// Five MiB of UDP, each frame of another source, port and time.
fn write_capture(path: &Path) {
    let interfaces = [SourceInterface::ethernet("eth1")];
    let mut writer = Format::Pcapng.writer(File::create(path).unwrap(), &interfaces).unwrap();
    for number in 0..FRAMES {
        let [_, _, high, low] = number.to_be_bytes();
        let mut bytes = vec![2; 12];
        bytes.extend([
            8, 0, 0x45, 0, 3, 0xda, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, high, low, 10, 9, 9, 9,
        ]);
        bytes.extend((10_000 + number as u16).to_be_bytes());
        bytes.extend([0, 53]);
        bytes.resize(1000, low);
        let timestamp = Timestamp(u64::from(number) * 1000 + 1);
        let meta = FrameMeta { timestamp, wire_bytes: 1000, ..FrameMeta::default() };
        writer.write(&Frame { bytes: &bytes, meta }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A capture with its index.
fn indexed() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    write_capture(&path);
    let built = build(&path, &mut |_| true).unwrap();
    assert_eq!((built.frames, built.anything, built.notices), (u64::from(FRAMES), 0, vec![]));
    assert_eq!(built.index_bytes, path_of(&path).metadata().unwrap().len());
    assert!(built.parts >= 4, "{} parts", built.parts);
    (dir, path)
}

fn open(path: &Path) -> Result<Index, Unusable> {
    Index::open(path, &File::open(path).unwrap())
}

/// Passes by what the index says.
#[derive(Debug)]
struct ByIndex(Plan);

impl Pruner for ByIndex {
    fn passed(&self, path: &Path, file: &File, range: TimeRange) -> Vec<Part> {
        Index::open(path, file).unwrap().prune(Some(&[&self.0]), range).unwrap().passed
    }
}

/// The frames of a source that a filter accepts.
fn accepted(source: &mut dyn Source, filter: &Prepared) -> Vec<OwnedFrame> {
    let mut frames = Vec::new();
    while !source.is_finished() {
        let Some(batch) = source.next_batch(Duration::MAX).unwrap() else { continue };
        let frame = |frame: Frame<'_>| OwnedFrame { bytes: frame.bytes.to_vec(), meta: frame.meta };
        let is_accepted = |f: &Frame<'_>| filter.accepts(f.bytes, f.meta.wire_bytes);
        frames.extend(batch.iter().filter(is_accepted).map(frame));
    }
    frames
}

#[test]
fn what_an_index_leaves_holds_all_that_is_asked_for_and_little_else() {
    let (_dir, path) = indexed();
    let inputs = vec![path.clone()];
    let all = TimeRange::default();
    let late = TimeRange { from: Some(Timestamp(4_500_000)), to: None };
    for (text, range, count, left_max) in [
        ("host 10.0.5.7", all, 1, 1),
        ("udp src port 12345", all, 1, 1),
        ("src net 10.0.4.0/24", all, 256, 2),
        ("portrange 11000-11100 and not host 10.0.4.0", all, 100, 2),
        ("host 203.0.113.7 or tcp", all, 0, 0),
        ("udp", late, 500, 2),
        ("host 10.0.5.7", late, 0, 0),
    ] {
        let compiler = Compiler::InProcess { optimise: true };
        let program = compile(text, LinkType::ETHERNET, 0, &compiler).unwrap().program;
        let plan = Plan::new(&program, LinkType::ETHERNET).unwrap();
        let filter = Prepared::new(&program).unwrap();
        let index = open(&path).unwrap();
        assert_eq!((index.state(), index.links()), (State::Whole, Some(&[LinkType::ETHERNET][..])));
        let pruned = index.prune(Some(&[&plan]), range).unwrap();
        let left = index.parts() - pruned.passed.len() as u64;
        assert!(left <= left_max, "{text}: {left} of {} parts are left", index.parts());
        assert_eq!(pruned.bytes_left == 0, left == 0);
        let query = Query { inputs: inputs.clone(), range };
        let expected = accepted(&mut *query.open().unwrap(), &filter);
        let mut source = query.open_pruned(Arc::new(ByIndex(plan))).unwrap();
        let found = accepted(&mut source, &filter);
        assert_eq!(expected.len(), count, "{text}");
        assert!(found == expected, "{text}: {} frames", found.len());
    }
}

#[test]
fn an_index_that_is_missing_damaged_or_older_than_its_file_is_refused() {
    let (_dir, path) = indexed();
    let index_path = path_of(&path);
    let good = std::fs::read(&index_path).unwrap();
    let check = || open(&path).and_then(|index| index.check());
    assert!(check().is_ok());
    for at in (0..good.len()).step_by(29) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&index_path, &bytes).unwrap();
        assert!(matches!(check(), Err(Unusable::Damaged)), "byte {at} of {}", good.len());
    }
    for length in [0, 31, 32, good.len() / 2, good.len() - 1] {
        std::fs::write(&index_path, &good[..length]).unwrap();
        assert!(matches!(check(), Err(Unusable::Damaged)), "{length} bytes");
    }
    std::fs::remove_file(&index_path).unwrap();
    assert!(matches!(check(), Err(Unusable::Missing)));
    std::fs::write(&index_path, &good).unwrap();
    assert!(check().is_ok());
    File::options().append(true).open(&path).unwrap().write_all(&[0; 4]).unwrap();
    assert!(matches!(check(), Err(Unusable::Stale)));
}

#[test]
fn who_ends_a_build_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    write_capture(&path);
    let built = build(&path, &mut |bytes| bytes < 2 << 20).unwrap();
    assert!(built.is_stopped && built.frames < u64::from(FRAMES), "{built:?}");
    std::fs::write(dir.path().join("notes.pcap"), "no capture").unwrap();
    assert!(build(&dir.path().join("notes.pcap"), &mut |_| true).is_err());
    assert_eq!(dir.path().read_dir().unwrap().count(), 2, "the two captures alone");
}
