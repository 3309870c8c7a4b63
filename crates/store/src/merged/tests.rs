use super::*;
use crate::block::{Statistics, close_block, write_packet_block};
use crate::recording::{FileHeader, SeriesWriter, file_name};
use crate::writer::{FrameWriter, PcapngWriter};
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{Frame, FrameMeta, LaneCounters, LaneId, LinkType, OwnedFrame};

fn interface(name: &str) -> SourceInterface {
    SourceInterface {
        name: name.into(),
        link_type: LinkType::ETHERNET,
        snaplen_bytes: 0,
        description: String::new(),
        filter: String::new(),
    }
}

fn meta(interface: u32, stamp: u64) -> FrameMeta {
    let (timestamp, interface) = (Timestamp(stamp), InterfaceId(interface));
    FrameMeta { timestamp, interface, ..FrameMeta::default() }
}

/// A pcapng file whose frames hold their own stamps.
fn write_file(path: &Path, names: &[&str], frames: &[(u32, u64)]) {
    let interfaces: Vec<_> = names.iter().map(|name| interface(name)).collect();
    let mut writer =
        PcapngWriter::new(crate::writer::create_file(path).unwrap(), &interfaces).unwrap();
    for &(id, stamp) in frames {
        let bytes = &stamp.to_le_bytes();
        writer.write(&Frame { bytes, meta: meta(id, stamp) }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A file of a recording with a frame for each stamp, in ring blocks of two frames.
fn write_series(dir: &Path, run: &str, lane: u16, sequence: u64, stamps: &[u64]) -> PathBuf {
    let name = file_name(Timestamp(0), &format!("{run}{lane}"), LaneId(lane), sequence);
    let path = dir.join(name);
    let header = FileHeader {
        run: run.into(),
        lane: LaneId(lane),
        sequence,
        block_bytes: RING_BLOCK_BYTES_MIN,
        ..FileHeader::default()
    };
    let interfaces = [interface("eth0"), interface(&format!("{run}-eth1"))];
    let mut writer = SeriesWriter::create(&path, &header, &interfaces).unwrap();
    let mut block = vec![0; RING_BLOCK_BYTES_MIN];
    for pair in stamps.chunks(2) {
        let mut at = 0;
        for &stamp in pair {
            let frame = Frame { bytes: &stamp.to_le_bytes(), meta: meta(1, stamp) };
            at += write_packet_block(&mut block[at..], &frame, 0);
        }
        let counters = LaneCounters::default();
        let (interface, first_time, when) = (InterfaceId(1), Timestamp(1), Timestamp(2));
        let statistics = Statistics { interface, first_time, when, counters: &counters };
        close_block(&mut block[at..], &statistics);
        writer.append(&block).unwrap();
        writer.complete_block().unwrap();
    }
    writer.finish().unwrap();
    path
}

fn drain(source: &mut dyn Source) -> (Vec<OwnedFrame>, Option<String>) {
    let (mut frames, mut error) = (Vec::new(), None);
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => frames.extend(batch.iter().map(|frame| frame.to_owned_frame())),
            Ok(None) => {}
            Err(failure) => assert!(error.replace(failure.to_string()).is_none()),
        }
    }
    for frame in &frames {
        assert_eq!(frame.bytes, frame.meta.timestamp.0.to_le_bytes());
    }
    (frames, error)
}

fn stamps(frames: &[OwnedFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.meta.timestamp.0).collect()
}

#[test]
fn several_files_are_merged_and_equal_interfaces_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.pcapng"), dir.path().join("b.pcapng"));
    let many: Vec<(u32, u64)> = (0..2000).map(|n| (n % 2, u64::from(n) * 2 + 10)).collect();
    write_file(&a, &["eth1", "eth1"], &many);
    write_file(&b, &["eth2", "eth1"], &[(0, 11), (1, 13), (1, 12), (0, 9000)]);
    let mut source = open(&[a, b]).unwrap();
    assert_eq!(source.interfaces().len(), 3, "known before the first batch");
    let (frames, error) = drain(&mut *source);
    assert_eq!((error, frames.len()), (None, 2004));
    assert_eq!(stamps(&frames[..6]), [10, 11, 12, 13, 12, 14], "the order of a lane is kept");
    let ids: Vec<u32> = frames[..6].iter().map(|frame| frame.meta.interface.0).collect();
    assert_eq!(ids, [0, 2, 1, 0, 0, 0], "eth1 of b is the first eth1 of a");
    let counters = source.counters();
    assert_eq!((counters.received, counters.inversions), (Some(2004), 1));
    assert!(source.notices().is_empty());
}

#[test]
fn a_directory_is_its_series_in_sequence_and_merged() {
    let dir = tempfile::tempdir().unwrap();
    write_series(dir.path(), "run1", 0, 1, &[50, 60, 70]);
    write_series(dir.path(), "run1", 0, 0, &[10, 20, 30]);
    write_series(dir.path(), "run1", 1, 0, &[15, 25, 55]);
    write_series(dir.path(), "run2", 0, 0, &[100, 110]);
    write_series(dir.path(), "empty", 0, 0, &[]);
    write_file(&dir.path().join("foreign.pcapng"), &["x"], &[(0, 1)]);
    std::fs::write(dir.path().join("rubbish.pcapng"), b"rubbish").unwrap();
    std::fs::write(dir.path().join("notes.txt"), b"notes").unwrap();
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!(error, None);
    assert_eq!(stamps(&frames), [10, 15, 20, 25, 30, 50, 55, 60, 70, 100, 110]);
    let names: Vec<&str> = source.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["eth0", "empty-eth1", "run1-eth1", "run2-eth1"]);
    assert_eq!(frames[0].meta.interface, InterfaceId(2));
    assert_eq!(frames[10].meta.interface, InterfaceId(3));
    let skipped: Vec<String> = source.notices().iter().map(Notice::to_string).collect();
    assert_eq!(skipped.len(), 2);
    assert!(skipped[0].contains("foreign.pcapng: skipped: not a file of a recording"));
    assert!(skipped[1].contains("rubbish.pcapng: skipped"));
}

#[test]
fn many_runs_in_one_directory_need_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for run in 0..300 {
        write_file(&dir.path().join(format!("{run}.pcapng")), &["eth0"], &[(0, run * 10 + 1)]);
        expected.push(run * 10 + 1);
    }
    let paths: Vec<PathBuf> =
        (0..300).map(|run| dir.path().join(format!("{run}.pcapng"))).collect();
    let lanes = paths.into_iter().map(|path| vec![path]).collect();
    let mut source = MergedSource::new(lanes, Vec::new()).unwrap();
    let mut found = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_secs(60)).unwrap() {
            found.extend(batch.iter().map(|frame| frame.meta.timestamp.0));
        }
        assert!(source.files_open <= 2);
    }
    assert_eq!(found, expected);
}

#[test]
fn damage_in_one_file_keeps_nothing_else_back_and_is_told_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = write_series(dir.path(), "run", 0, 0, &[10, 20, 30, 40]);
    write_series(dir.path(), "run", 0, 1, &[50]);
    let torn = write_series(dir.path(), "run", 1, 0, &[15, 45]);
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[4096 + RING_BLOCK_BYTES_MIN + 4] ^= 1; // length of the third frame's block
    std::fs::write(&damaged, &bytes).unwrap();
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &bytes[..4096 + 40 + 20]).unwrap(); // within the second frame
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!(stamps(&frames), [10, 15, 20, 50]);
    assert!(error.unwrap().contains("damaged at byte"));
    let notices = source.notices();
    assert!(matches!(notices[0].condition, Condition::CutShort { offset: 4136, left_bytes: 20 }));
    assert!(matches!(notices[1].condition, Condition::Damaged { .. }));
    let counters = source.counters();
    assert_eq!((counters.received, counters.dropped[&Cause::Damaged]), (Some(6), 2));
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(&[dir.path().to_owned()]).err().unwrap().to_string();
    assert!(error.contains("holds no file of a recording"), "{error}");
    let missing = [dir.path().join("a"), dir.path().join("b")];
    assert!(open(&missing).err().unwrap().to_string().contains("cannot open"));
    assert!(open(&[]).err().unwrap().to_string().contains("no input was named"));
}
