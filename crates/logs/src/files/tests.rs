use super::*;

const SECOND: u64 = 1_000_000_000;

fn write(file: &mut LogFile, text: &str, second: u64) -> bool {
    let is_first = file.ready(Timestamp(second * SECOND)).unwrap();
    file.write(text.as_bytes()).unwrap();
    is_first
}

#[test]
fn a_file_is_put_aside_by_size_and_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let rotation = Rotation { bytes: Some(10), time_ns: Some(60 * SECOND), kept: 2 };
    let mut file = LogFile::open(&path, rotation).unwrap();
    let firsts = [
        write(&mut file, "one 67\n", 1),
        write(&mut file, "two 67\n", 2),
        // Full.
        write(&mut file, "three\n", 3),
        // Another minute.
        write(&mut file, "four\n", 61),
        write(&mut file, "five\n", 62),
        write(&mut file, "six\n", 200),
    ];
    file.flush().unwrap();
    assert_eq!(firsts, [true, false, true, true, false, true]);
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let texts = ["log", "log.1", "log.2", "log.3"].map(text);
    assert_eq!(texts, ["six\n", "four\nfive\n", "three\n", ""]);
    // What is there is not overwritten.
    drop(file);
    let mut file =
        LogFile::open(&path, Rotation { bytes: None, time_ns: None, ..rotation }).unwrap();
    assert!(!write(&mut file, "seven\n", 300));
    file.flush().unwrap();
    assert_eq!(text("log"), "six\nseven\n");
}
