use super::*;
use ringside_testkit::{Random, by_run, need_tool};
use std::io::Write;
use std::process::Command;

fn packed(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = SeekableWriter::new(Vec::new()).unwrap();
    frames.iter().for_each(|frame| writer.frame(frame).unwrap());
    writer.finish().unwrap()
}

fn stored(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn frames(random: &mut Random) -> Vec<Vec<u8>> {
    let frame = |random: &mut Random| {
        let length = random.below(20_000);
        // Half of it repeats, so that there is something to pack.
        let part = random.bytes(length / 2);
        [&part[..], &part[..]].concat()
    };
    (0..1 + random.below(8)).map(|_| frame(random)).collect()
}

#[test]
fn every_place_is_that_of_what_was_packed() {
    let mut random = Random::new(5);
    for _ in 0..by_run(20, 500) {
        let frames = frames(&mut random);
        let plain = frames.concat();
        let mut file = SeekableFile::open(&stored(&packed(&frames))).unwrap().unwrap();
        assert_eq!(file.content_bytes(), plain.len() as u64);
        for _ in 0..20 {
            let at = random.below(plain.len() + 1);
            let mut buffer = vec![0; random.below(plain.len() - at + 1)];
            file.read_exact_at(&mut buffer, at as u64).unwrap();
            assert_eq!(buffer, plain[at..at + buffer.len()]);
        }
        assert_eq!(file.read_at(&mut [0; 9], plain.len() as u64).unwrap(), 0, "the end");
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert!(all == plain);
    }
}

#[test]
fn zstd_gives_the_same_bytes_back() {
    if !need_tool("seekable::zstd_gives_the_same_bytes_back", "zstd") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed.zst");
    let frames = frames(&mut Random::new(9));
    std::fs::write(&path, packed(&frames)).unwrap();
    let outcome = Command::new("zstd").args(["-q", "-d", "-c"]).arg(&path).output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout == frames.concat());
}

#[test]
fn what_is_no_table_is_none() {
    let frames = frames(&mut Random::new(3));
    let good = packed(&frames);
    assert!(SeekableFile::open(&stored(&good)).unwrap().is_some());
    let plain = zstd::bulk::compress(&frames.concat(), 1).unwrap();
    let torn = &good[..good.len() - 1];
    let longer = [&[0], &good[..]].concat();
    for bytes in [&b""[..], &good[..8], torn, &longer, &plain] {
        assert!(SeekableFile::open(&stored(bytes)).unwrap().is_none());
    }
}

#[test]
fn hostile_bytes_are_errors_and_take_no_memory() {
    let seeds = [packed(&frames(&mut Random::new(1))), packed(&[vec![7; 5000], Vec::new()])];
    ringside_testkit::fuzz("seekable-zstd", 20_000, &seeds, |bytes| {
        let Ok(Some(mut file)) = SeekableFile::open(&stored(bytes)) else { return };
        let bytes = file.content_bytes();
        for at in [0, bytes / 2, bytes.saturating_sub(1), u64::MAX] {
            if let Ok(count) = file.read_at(&mut [0; 100], at) {
                assert!(count as u64 <= bytes.saturating_sub(at));
            }
        }
        assert!(file.plain.capacity() <= FRAME_BYTES_MAX as usize);
    });
}
