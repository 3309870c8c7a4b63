//! Compressed captures: whole, cut anywhere, damaged, large, and from a pipe.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::os::fd::AsRawFd;

fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Zstd => zstd::encode_all(bytes, 3).unwrap(),
    }
}

/// A capture whose frames differ, and where each record of it ends.
fn capture() -> (Vec<u8>, Vec<usize>) {
    let mut file = Builder::new(false);
    file.interface(1, 0, &[]);
    let mut ends = vec![file.bytes.len()];
    for number in 1..=40u64 {
        let data: Vec<u8> = (0..number * 7).map(|at| (at * number * 31 % 251) as u8).collect();
        file.packet(0, number, &data, &[]);
        ends.push(file.bytes.len());
    }
    (file.bytes, ends)
}

fn try_read(bytes: &[u8]) -> Result<(Vec<OwnedFrame>, Condition), String> {
    let reader = Box::new(Cursor::new(bytes.to_vec()));
    FileSource::from_reader(Path::new("x"), reader).map_err(|error| error.to_string())?;
    let (frames, error, source) = read(bytes, 1 << 20);
    let is_damaged = matches!(source.condition(), Condition::Damaged { .. });
    assert_eq!(error.is_some(), is_damaged, "{error:?}");
    Ok((frames, source.condition().clone()))
}

#[test]
fn several_members_and_frames_are_one_capture() {
    let (plain, ends) = capture();
    let (expected, ..) = read(&plain, 1 << 20);
    for packing in [Packing::Gzip, Packing::Zstd] {
        // Parts that end anywhere, also within records, and an empty one.
        let parts = [&plain[..ends[3]], &[], &plain[ends[3]..ends[9] + 5], &plain[ends[9] + 5..]];
        let packed: Vec<u8> = parts.iter().flat_map(|part| pack(packing, part)).collect();
        for piece in [1, 99, 1 << 20] {
            let (frames, error, source) = read(&packed, piece);
            assert_eq!((error, source.condition()), (None, &Condition::Complete));
            assert_eq!(frames, expected);
            assert_eq!(source.packing(), Some(packing));
        }
    }
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9][..]].concat();
    let packed = [skippable, pack(Packing::Zstd, &plain)].concat();
    assert_eq!(read(&packed, 1).0, expected);
}

#[test]
fn a_packed_capture_that_is_cut_anywhere_gives_what_was_whole_and_says_so() {
    let (plain, ends) = capture();
    let (expected, ..) = read(&plain, 1 << 20);
    for packing in [Packing::Gzip, Packing::Zstd] {
        let first = pack(packing, &plain[..ends[20]]);
        let packed = [&first[..], &pack(packing, &plain[ends[20]..])].concat();
        let mut most = 0;
        for end in 4..packed.len() {
            match try_read(&packed[..end]) {
                Err(error) => {
                    assert!(error.contains("ends early"), "{end}: {error}");
                    assert_eq!(most, 0, "what was read with less is read with more");
                }
                Ok((frames, condition)) => {
                    assert_eq!(frames, expected[..frames.len()]);
                    assert!(frames.len() >= most);
                    most = frames.len();
                    let is_cut = matches!(condition, Condition::PackedCutShort { .. });
                    assert_eq!(is_cut, end != first.len(), "{end}: {condition:?}");
                    assert_eq!(condition.is_loss(), is_cut);
                }
            }
        }
        // gzip gives what came of a part, zstd whole blocks.
        assert!(most > 20 || packing == Packing::Zstd && most == 20, "{most}");
    }
}

#[test]
fn damage_in_what_was_packed_is_found() {
    let (plain, _) = capture();
    let (expected, ..) = read(&plain, 1 << 20);
    let (packed, mut losses) = (pack(Packing::Gzip, &plain), 0);
    // Not in the member's header, whose time and system mean nothing.
    for at in 10..packed.len() {
        let mut wrong = packed.clone();
        wrong[at] ^= 0x40;
        if let Ok((frames, condition)) = try_read(&wrong) {
            // Much repeats itself: the same may come from another place.
            assert!(condition.is_loss() || frames == expected, "byte {at}: {condition:?}");
            losses += u32::from(condition.is_loss());
        }
    }
    assert!(losses > 100, "{losses}");
    // As long as the header of a member, or more.
    let (_, error, source) = read(&[&packed[..], b"rubbish behind it"].concat(), 1 << 20);
    assert!(error.unwrap().contains("what gzip packed cannot be read"));
    assert!(matches!(source.condition(), Condition::Damaged { .. }));
}

#[test]
fn what_is_enormous_unpacked_takes_no_more_memory() {
    let mut file = Builder::new(false);
    file.interface(1, 0, &[]);
    let header = pack(Packing::Gzip, &file.bytes);
    let start = file.bytes.len();
    file.block(0x8000_0001, &vec![0; 15 << 20]);
    let one = pack(Packing::Gzip, &file.bytes[start..]);
    assert!(one.len() < 20_000);
    let bomb: Vec<u8> = std::iter::once(&header).chain([&one; 20]).flatten().copied().collect();
    let (frames, error, source) = read(&bomb, 1 << 20);
    assert_eq!((frames.len(), error, source.condition()), (0, None, &Condition::Complete));
    assert!(source.input.memory().len() < 1 << 20);
}

#[test]
fn a_packed_pipe_gives_what_has_come_and_waits_for_no_more() {
    let (plain, ends) = capture();
    let (expected, ..) = read(&plain, 1 << 20);
    for packing in [Packing::Gzip, Packing::Zstd] {
        let (output, input) = rustix::pipe::pipe().unwrap();
        let mut input = File::from(input);
        let path = format!("/proc/self/fd/{}", output.as_raw_fd());
        input.write_all(&pack(packing, &plain[..ends[20]])).unwrap();
        let mut source = FileSource::open(Path::new(&path)).unwrap();
        let mut frames = Vec::new();
        let mut take = |source: &mut FileSource, timeout| {
            let batch = source.next_batch(timeout).unwrap()?;
            frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
            Some(frames.clone())
        };
        while take(&mut source, Duration::ZERO).is_none_or(|frames| frames.len() < 20) {}
        assert!(take(&mut source, Duration::ZERO).is_none() && !source.is_finished());
        // The beginning of a part, with which nothing can be done.
        let rest = pack(packing, &plain[ends[20]..]);
        input.write_all(&rest[..2]).unwrap();
        assert!(take(&mut source, Duration::ZERO).is_none() && !source.is_finished());
        input.write_all(&rest[2..]).unwrap();
        drop(input);
        while !source.is_finished() {
            take(&mut source, Duration::from_secs(60));
        }
        assert_eq!((frames, source.condition()), (expected.clone(), &Condition::Complete));
    }
}

#[test]
fn what_is_packed_twice_is_refused() {
    let (plain, _) = capture();
    let twice = pack(Packing::Zstd, &pack(Packing::Gzip, &plain));
    assert!(try_read(&twice).unwrap_err().contains("compressed twice"));
    let in_xz = pack(Packing::Gzip, b"\xfd7zXZ\0 and so on");
    assert!(try_read(&in_xz).unwrap_err().contains("xzcat"));
}
