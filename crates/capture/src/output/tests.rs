//! The files of a run: which of them another run may not write.

use super::*;
use ringside_core::FrameMeta;

const HOUR: u64 = 3_600;

fn sink(path: PathBuf, interval: Option<Duration>) -> Sink {
    let rotation = Rotation { interval, ..Rotation::default() };
    let interfaces = vec![SourceInterface::ethernet("eth1")];
    Sink::file(path, FileFormat::Pcapng, rotation, interfaces).unwrap()
}

fn put(sink: &mut Sink) {
    let meta = FrameMeta { wire_bytes: 60, ..FrameMeta::default() };
    sink.write(&Frame { bytes: &[7; 60], meta }, None, sink.files.as_ref().unwrap().period)
        .unwrap();
}

#[test]
fn a_name_that_comes_round_again_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = sink(folder.path().join("cap-%M.pcapng"), Some(Duration::from_secs(HOUR)));
    let start = clock::realtime_now().seconds();
    // The name of another minute, then the first again. No frame comes until that comes round once
    // more: what is in the present file stays.
    for (period, now) in [(1, start + 60), (2, start + 4 * HOUR), (3, start + 8 * HOUR)] {
        put(&mut sink);
        sink.next_file(period, now).unwrap_or_else(|error| panic!("{period}: {error}"));
    }
    put(&mut sink);
    sink.finish(&[]).unwrap();
    assert_eq!((sink.take_accepted().frames, sink.take_lost()), (4, None));
    let [first, second, third, fourth]: [PathBuf; 4] = sink.into_files().paths.try_into().unwrap();
    assert!(second != first && third == first, "{third:?}");
    assert_eq!(fourth, PathBuf::from(first.to_str().unwrap().replace(".pcapng", "-000003.pcapng")));
}

#[test]
fn the_first_file_stays_locked_although_an_order_has_begun_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let mut sink = sink(path.clone(), None);
    put(&mut sink);
    sink.next_file(1, 0).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    for path in [path.clone(), folder.path().join("a-000001.pcapng")] {
        let refused = create_file(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("is being written by"), "{refused}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    drop(sink);
    create_file(&path).unwrap();
}

#[test]
fn a_disk_that_refuses_the_end_of_a_file_does_not_get_a_second_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng.zst");
    let mut sink = sink(path.clone(), None);
    put(&mut sink);
    sink.finish(&[]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // As when fsync(2) fails, which comes behind the end.
    let source = std::io::ErrorKind::StorageFull.into();
    sink.fail(StoreError::Io { context: "cannot sync".into(), source });
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}
