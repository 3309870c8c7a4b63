use super::*;
use crate::block::{frame_count, whole_bytes};
use ringside_core::{FrameMeta, LaneCounters, LinkType, Timestamp};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Accepts `room` bytes, in pieces of at most `piece`, and then says that the disk is full.
#[derive(Clone)]
struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
    piece: usize,
}

impl SmallDisk {
    fn new(room: usize, piece: usize) -> SmallDisk {
        SmallDisk { bytes: Arc::default(), room, piece }
    }
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stored = self.bytes.lock().unwrap();
        let count = bytes.len().min(self.piece).min(self.room - stored.len());
        stored.extend_from_slice(&bytes[..count]);
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn interface(name: &str, link_type: LinkType) -> SourceInterface {
    SourceInterface {
        name: name.into(),
        link_type,
        snaplen_bytes: 0,
        description: String::new(),
        filter: String::new(),
    }
}

fn frame(bytes: &[u8], interface: u32, seconds: u64) -> Frame<'_> {
    let meta = FrameMeta {
        timestamp: Timestamp::from_parts(seconds, 123_456_789),
        wire_bytes: bytes.len() as u32,
        interface: InterfaceId(interface),
        ..FrameMeta::default()
    };
    Frame { bytes, meta }
}

#[test]
fn a_full_disk_leaves_an_exact_count_of_whole_frames() {
    let data = [7; 100];
    for format in [Format::Pcapng, Format::Pcap] {
        for room in (0..3000).step_by(37) {
            let disk = SmallDisk::new(room, 501);
            let interfaces = [interface("eth1", LinkType::ETHERNET)];
            let mut writer = format.writer(disk.clone(), &interfaces).unwrap();
            for second in 0..50 {
                writer.write(&frame(&data, 0, second)).unwrap();
            }
            let error = writer.flush().unwrap_err();
            assert!(error.is_disk_full() && !error.is_pipe_closed(), "{error}");
            let valid = &disk.bytes.lock().unwrap()[..writer.bytes_written() as usize];
            let whole = match format {
                Format::Pcapng => {
                    assert_eq!(whole_bytes(valid), valid.len());
                    frame_count(valid)
                }
                Format::Pcap => {
                    assert!(valid.is_empty() || valid.len() % 116 == 24);
                    (valid.len().saturating_sub(24) / 116) as u64
                }
            };
            assert_eq!(writer.frames_written(), whole, "room {room}");
            assert!(room - valid.len() < 132, "no whole record is given up");
            assert!(matches!(writer.write(&frame(&data, 0, 1)), Err(StoreError::FailedBefore)));
            assert!(matches!(writer.finish(&[]), Err(StoreError::FailedBefore)));
        }
    }
}

#[test]
fn every_write_ends_at_the_end_of_a_record() {
    struct Checked(Arc<Mutex<Vec<usize>>>);
    impl Write for Checked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(crate::block::whole_bytes(bytes), bytes.len());
            self.0.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writes = Arc::default();
    let interfaces = [interface("eth1", LinkType::ETHERNET)];
    let mut writer = PcapngWriter::new(Checked(Arc::clone(&writes)), &interfaces).unwrap();
    for number in 0..2000u64 {
        writer.write(&frame(&vec![1; number as usize % 1500], 0, number)).unwrap();
    }
    let counters = LaneCounters::default();
    let (first_time, when) = (Timestamp(1), Timestamp(2));
    let statistics =
        Statistics { interface: InterfaceId(0), first_time, when, counters: &counters };
    writer.finish(&[statistics]).unwrap();
    assert_eq!(writer.frames_written(), 2000);
    let writes = writes.lock().unwrap();
    assert!(writes.len() > 5, "it is not one write");
    assert_eq!(writes.iter().sum::<usize>() as u64, writer.bytes_written());
}

#[test]
fn pcap_refuses_a_second_link_type_and_times_beyond_2106_and_goes_on() {
    let interfaces = [interface("", LinkType::RAW), interface("", LinkType::ETHERNET)];
    let disk = SmallDisk::new(1000, 1000);
    let mut writer = PcapWriter::new(disk.clone(), &interfaces, Precision::Microseconds).unwrap();
    writer.write(&frame(&[1, 2], 1, u64::from(u32::MAX))).unwrap();
    let error = writer.write(&frame(&[1, 2], 0, 1)).unwrap_err().to_string();
    assert!(error.contains("link type 101") && error.contains("pcapng"), "{error}");
    let error = writer.write(&frame(&[1, 2], 1, 1 << 32)).unwrap_err().to_string();
    assert!(error.contains("4294967296") && error.contains("pcapng"), "{error}");
    let error = writer.write(&frame(&[1, 2], 2, 1)).unwrap_err();
    assert!(matches!(error, StoreError::UnknownInterface { interface: 2, known: 2 }));
    writer.write(&frame(&[3], 1, 5)).unwrap();
    writer.finish(&[]).unwrap();
    assert_eq!(writer.frames_written(), 2);
    let bytes = disk.bytes.lock().unwrap();
    let words: Vec<u32> =
        bytes[..40].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1, u32::MAX, 123_456, 2, 2];
    assert_eq!(words, head);
    assert_eq!(bytes.len(), 24 + 18 + 17);
}

#[test]
fn the_format_follows_the_file_name() {
    for (name, format) in [
        ("a.pcap", Some(Format::Pcap)),
        ("a.PCAP", Some(Format::Pcap)),
        ("dir.pcapng/a.Cap", Some(Format::Pcap)),
        ("a.pcapng", Some(Format::Pcapng)),
        ("a.pcap.PcapNG", Some(Format::Pcapng)),
        ("a.ntar", Some(Format::Pcapng)),
        ("a.txt", None),
        ("pcap", None),
        (".pcap", None),
        ("-", None),
    ] {
        assert_eq!(Format::of_path(Path::new(name)), format, "{name}");
    }
}

#[test]
fn sizes_are_known_before_anything_is_handed_over() {
    for format in [Format::Pcapng, Format::Pcap] {
        let disk = SmallDisk::new(1 << 20, 1 << 20);
        let interfaces = [interface("eth1", LinkType::ETHERNET)];
        let mut writer = format.writer(disk.clone(), &interfaces).unwrap();
        let mut expected = writer.bytes_added();
        for (captured, direction) in [
            (0, Direction::Unknown),
            (1, Direction::Inbound),
            (60, Direction::Outbound),
            (61, Direction::Outbound),
            (1514, Direction::Inbound),
        ] {
            let data = vec![1; captured];
            let mut frame = frame(&data, 0, 1);
            frame.meta.direction = direction;
            writer.write(&frame).unwrap();
            expected += format.record_bytes(captured, direction);
            assert_eq!(writer.bytes_added(), expected, "{format:?}, {captured} bytes");
        }
        assert_eq!(writer.bytes_written(), 0);
        writer.finish(&[]).unwrap();
        let stored = disk.bytes.lock().unwrap().len() as u64;
        assert_eq!(
            (writer.bytes_added(), writer.bytes_written(), stored),
            (expected, stored, expected)
        );
    }
}

#[test]
fn a_comment_takes_the_stated_room_and_changes_no_frame() {
    let interfaces = [interface("eth1", LinkType::ETHERNET)];
    for format in [Format::Pcapng, Format::Pcap] {
        for comment in ["", "x", "ringside: late by 17 ns", &"ä".repeat(40_000)] {
            let disk = SmallDisk::new(1 << 20, 1 << 20);
            let mut writer = format.writer(disk.clone(), &interfaces).unwrap();
            let mut expected = writer.bytes_added();
            let directions = [Direction::Unknown, Direction::Outbound];
            for (captured, direction) in [0, 1, 60, 61].into_iter().zip(directions.repeat(2)) {
                let data = vec![captured as u8; captured];
                let mut frame = frame(&data, 0, 1);
                frame.meta.direction = direction;
                writer.write_commented(&frame, comment).unwrap();
                expected += format.record_bytes(captured, direction);
                expected += format.comment_bytes(comment, direction);
                assert_eq!(writer.bytes_added(), expected, "{format:?}, {captured} bytes");
            }
            writer.finish(&[]).unwrap();
            let bytes = disk.bytes.lock().unwrap();
            assert_eq!((writer.frames_written(), bytes.len() as u64), (4, expected));
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let mut source = crate::open(&[file.path().to_owned()]).unwrap();
            let batch = source.next_batch(Duration::ZERO).unwrap().unwrap();
            let lengths: Vec<usize> = batch.iter().map(|frame| frame.bytes.len()).collect();
            assert_eq!(lengths, [0, 1, 60, 61]);
            let outbound = batch.iter().filter(|f| f.meta.direction == Direction::Outbound);
            assert_eq!(outbound.count(), if format == Format::Pcapng { 2 } else { 0 });
        }
    }
}

#[test]
fn pcap_states_a_snapshot_length_that_no_frame_exceeds() {
    let limited =
        |snaplen_bytes| SourceInterface { snaplen_bytes, ..interface("eth1", LinkType::ETHERNET) };
    let stated = |begun_with: &[u32], added: &[u32], frame_bytes: usize| {
        let disk = SmallDisk::new(1 << 20, 1 << 20);
        let interfaces: Vec<_> = begun_with.iter().copied().map(limited).collect();
        let mut writer =
            PcapWriter::new(disk.clone(), &interfaces, Precision::Nanoseconds).unwrap();
        for &snaplen in added {
            writer.add_interface(&limited(snaplen)).unwrap();
        }
        if frame_bytes > 0 {
            writer.write(&frame(&vec![1; frame_bytes], 0, 1)).unwrap();
        }
        writer.finish(&[]).unwrap();
        let bytes = disk.bytes.lock().unwrap();
        u32::from_le_bytes(bytes[16..20].try_into().unwrap())
    };
    assert_eq!(stated(&[96], &[], 96), 96);
    assert_eq!(stated(&[96], &[], 0), 96);
    assert_eq!(stated(&[96, 128], &[], 20), 128);
    assert_eq!(stated(&[96, 0], &[], 20), 262_144);
    assert_eq!(stated(&[u32::MAX], &[], 20), 262_144);
    assert_eq!(stated(&[], &[], 0), 262_144);
    assert_eq!(stated(&[96], &[], 97), 262_144);
    // Of a file, whose later frames may be longer than it says.
    assert_eq!(stated(&[], &[96], 20), 262_144);
    assert_eq!(stated(&[96], &[128], 20), 262_144);
}

#[test]
fn a_new_file_is_not_for_others_and_an_old_one_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for create in [create_file, |path: &Path| create_copy(path, &[])] {
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        create(&new).unwrap();
        assert_eq!(mode(&new) & 0o137, 0, "{:o}", mode(&new));
        std::fs::write(&old, "content").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o604)).unwrap();
        create(&old).unwrap();
        assert_eq!((mode(&old), std::fs::read(&old).unwrap().len()), (0o604, 0));
        std::fs::remove_file(&new).unwrap();
    }
    create_copy(Path::new("/dev/null"), &[]).unwrap();
}

#[test]
fn a_copy_is_never_made_over_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("series")).unwrap();
    std::fs::write(path("series/a.pcapng"), "content").unwrap();
    std::fs::write(path("foreign"), "content").unwrap();
    std::fs::hard_link(path("series/a.pcapng"), path("hard")).unwrap();
    std::os::unix::fs::symlink("series/a.pcapng", path("soft")).unwrap();
    std::os::unix::fs::symlink("../foreign", path("series/linked.pcapng")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("series/dangling.pcapng")).unwrap();
    for input in ["series", "series/../series", "series/a.pcapng", "soft", "hard"] {
        let inputs = [path("foreign2"), path(input)];
        std::fs::write(&inputs[0], "content").unwrap();
        for target in ["series/a.pcapng", "soft", "hard", "foreign2"] {
            let error = create_copy(&path(target), &inputs).unwrap_err().to_string();
            assert!(error.contains("read and written at once"), "{input} {target}: {error}");
            assert_eq!(std::fs::read(path(target)).unwrap(), b"content");
        }
    }
    let series = [path("series")];
    assert!(create_copy(&path("foreign"), &series).is_err(), "a link in the directory leads there");
    create_copy(&path("foreign2"), &series).unwrap();
    create_copy(&path("series/new.pcapng"), &series).unwrap();
    assert!(create_copy(dir.path(), &series).is_err());
}

#[test]
fn text_counts_a_frame_when_all_of_its_lines_are_taken() {
    // Three lines of four bytes each for a frame.
    let describe = |out: &mut Vec<u8>, _: &Frame<'_>, interface: &SourceInterface| {
        for _ in 0..3 {
            out.extend_from_slice(format!("{}\n", &interface.name[..3]).as_bytes());
        }
    };
    for room in 0..60 {
        let disk = SmallDisk::new(room, 5);
        let interfaces = [interface("eth1", LinkType::ETHERNET)];
        let mut writer = TextWriter::new(disk.clone(), &interfaces, Box::new(describe));
        for second in 0..5 {
            writer.write(&frame(&[7; 100], 0, second)).unwrap();
        }
        let unknown = writer.write(&frame(&[7; 100], 1, 0));
        assert!(matches!(unknown, Err(StoreError::UnknownInterface { interface: 1, known: 1 })));
        assert!(writer.flush().unwrap_err().is_disk_full());
        assert_eq!(writer.frames_written(), room as u64 / 12, "room {room}");
        assert_eq!(writer.bytes_written(), room as u64 / 12 * 12);
        assert!(disk.bytes.lock().unwrap().chunks_exact(4).all(|line| line == b"eth\n"));
    }
}
