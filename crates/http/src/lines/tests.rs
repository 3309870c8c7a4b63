use super::*;
use crate::names::tests::transaction;
use ringside_logs::{Log, LogFile, RecordSink, Rotation};
use std::fs;

#[test]
fn names_stand_once_in_a_file_that_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: None, time_ns: None, kept: 1 };
    for (format, above) in [(LogFormat::Csv, 1), (LogFormat::Zeek, 7), (LogFormat::W3c, 4)] {
        let path = folder.path().join(format.name());
        for run in 1..=2 {
            let file = Box::new(LogFile::open(&path, rotation).unwrap());
            let lines = HttpLines::new(format, Names::Ringside);
            let mut log = Log::new(file, Box::new(lines));
            log.put(&transaction(), "eth1");
            log.tick();
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!(lines, above + run, "{format:?}");
        }
    }
}
