use super::{Store, StoreOptions};
use crate::batch::Batch;
use crate::engine::{Engine, Outcome};
use crate::probe::Probe;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ringside_flow::RecordSums;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HOUR_NS: u64 = 3_600_000_000_000;
/// 2023-11-14, 22:00.
const TEN: u64 = 472_222 * HOUR_NS;

fn options(directory: &Path) -> StoreOptions {
    StoreOptions { directory: directory.to_owned(), bytes_max: None, age_max: None }
}

fn batch(sequence: u64, lines: &[String]) -> Batch {
    let body = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
    Batch { run: 0xabc, sequence, held: RecordSums::default(), body }
}

fn seen(stamp_ns: u64) -> String {
    format!("{{\"seen\":{stamp_ns}}}")
}

fn deliver(store: &mut Store, sequence: u64, lines: &[String]) -> Outcome {
    store.deliver(&batch(sequence, lines), Duration::ZERO)
}

/// Files below a folder by their paths from there, in order.
fn files(folder: &Path) -> Vec<String> {
    fn visit(from: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            match path.is_dir() {
                true => visit(from, &path, found),
                false => found.push(path.strip_prefix(from).unwrap().display().to_string()),
            }
        }
    }
    let mut found = Vec::new();
    visit(folder, folder, &mut found);
    found.sort();
    found
}

/// All rows of a file.
fn read(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let mut rows = reader.with_batch_size(100_000).build().unwrap();
    let first = rows.next().unwrap().unwrap();
    assert!(rows.next().is_none());
    first
}

fn stamps(path: &Path) -> Vec<u64> {
    read(path).column_by_name("seen").unwrap().as_primitive::<UInt64Type>().values().to_vec()
}

#[test]
fn each_field_has_its_type_and_what_is_unknown_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
    let full = format!(
        "{{\"at\":\"2001:db8::1\",\"bytes\":{},\"count\":7,\"ended\":{},\"is_on\":true,\
         \"name\":\"n\\u001b\u{e9}\",\"port\":53,\"seen\":{},\"tags\":[\"x\",{{\"y\":1}}],\
         \"took\":5}}",
        u64::MAX,
        u64::MAX,
        TEN + 9
    );
    let bare = seen(TEN);
    assert_eq!(deliver(&mut store, 4, &[full, bare]), Outcome::acknowledged());
    let expected = "date=2023-11-14/hour=22/00000000000000000000000000000abc-4.parquet";
    let directory = folder.path().join("probes");
    assert_eq!(files(&directory), [expected]);
    let rows = read(&directory.join(expected));
    let names: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    let fields = ["name", "seen", "ended", "took", "is_on", "count", "bytes", "port", "at", "tags"];
    assert_eq!(names, [&["time"][..], &fields].concat());
    // In the order of time, which is not that of the batch.
    let number = |name: &str| {
        let cells = rows.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
        cells.iter().collect::<Vec<_>>()
    };
    assert_eq!(number("seen"), [Some(TEN), Some(TEN + 9)]);
    assert_eq!(number("bytes"), [None, Some(u64::MAX)]);
    assert_eq!(number("ended"), [None, Some(u64::MAX)]);
    let time = rows.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
    assert_eq!(time.values().to_vec(), [TEN as i64, TEN as i64 + 9]);
    assert_eq!(rows.schema().field(0).data_type().to_string(), "Timestamp(ns, \"UTC\")");
    let text = |name: &str, row| {
        let cells = rows.column_by_name(name).unwrap().as_string::<i32>();
        cells.is_valid(row).then(|| cells.value(row).to_owned())
    };
    assert_eq!((text("name", 0), text("name", 1)), (None, Some("n\u{1b}\u{e9}".to_owned())));
    assert_eq!(text("at", 1).as_deref(), Some("2001:db8::1"));
    let port = rows.column_by_name("port").unwrap().as_primitive::<UInt16Type>();
    assert_eq!(port.iter().collect::<Vec<_>>(), [None, Some(53)]);
    assert!(rows.column_by_name("is_on").unwrap().as_boolean().value(1));
    let tags = rows.column_by_name("tags").unwrap().as_list::<i32>();
    assert!(tags.is_null(0));
    let items = tags.value(1);
    let items: Vec<_> = items.as_string::<i32>().iter().flatten().map(str::to_owned).collect();
    assert_eq!(items, ["x", "{\"y\":1}"]);
}

#[test]
fn a_value_of_another_type_has_its_batch_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
    for (line, words) in [
        ("{\"seen\":1,\"port\":70000}", "port is of another type"),
        ("{\"seen\":1,\"name\":3}", "name is of another type"),
        ("[]", "no record"),
        ("{", "no record"),
    ] {
        match deliver(&mut store, 1, &[line.to_owned()]) {
            Outcome::Refused(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_batch_that_is_delivered_again_takes_the_place_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
    let lines = [seen(TEN), seen(TEN + HOUR_NS), seen(TEN + 1)];
    for _ in 0..3 {
        assert_eq!(deliver(&mut store, 1, &lines), Outcome::acknowledged());
    }
    let directory = folder.path().join("probes");
    let found = files(&directory);
    assert_eq!(found.len(), 2);
    assert_eq!(stamps(&directory.join(&found[0])), [TEN, TEN + 1]);
    assert_eq!(stamps(&directory.join(&found[1])), [TEN + HOUR_NS]);
}

#[test]
fn what_the_disk_does_not_take_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
    let day = folder.path().join("probes/date=2023-11-14");
    fs::write(&day, "in the way").unwrap();
    match deliver(&mut store, 1, &[seen(TEN)]) {
        Outcome::Failed(why) => assert!(why.contains("probes: "), "{why}"),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&day).unwrap();
    assert_eq!(deliver(&mut store, 1, &[seen(TEN)]), Outcome::acknowledged());
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn what_was_written_first_goes_by_size_and_by_age_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
    let directory = folder.path().join("probes");
    let now = std::time::SystemTime::now();
    let written = |hour: u64, days: u64| {
        let (day, name) = (TEN + hour * HOUR_NS, format!("{:032x}-{hour}.parquet", 0xabc));
        let hour = crate::columnar::Hour::of(Some(day)).to_string();
        let file = File::options().write(true).open(directory.join(hour).join(name)).unwrap();
        file.set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
        file.metadata().unwrap().len()
    };
    // The times of records say nothing: one of 2554 came first.
    let hours = [u64::MAX / HOUR_NS - TEN / HOUR_NS, 0, 5, 1, 4];
    let mut length = 0;
    for (at, hour) in hours.into_iter().enumerate() {
        deliver(&mut store, hour, &[seen(TEN + hour * HOUR_NS)]);
        length = written(hour, 90 - 10 * at as u64);
    }
    let foreign = ["date=2023-11-14/hour=22/mine.parquet", "date=2023-11-14/notes", "notes"];
    for name in foreign {
        fs::write(directory.join(name), "").unwrap();
    }
    let left = |bytes_max, days: Option<u64>| {
        let age_max = days.map(|days| Duration::from_secs(days * 86_400));
        let limits = StoreOptions { bytes_max, age_max, ..options(folder.path()) };
        let mut store = Store::open::<Probe>(&limits, "probes").unwrap();
        assert_eq!(deliver(&mut store, 9, &[seen(TEN)]), Outcome::acknowledged());
        let mut found = files(&directory);
        found.retain(|name| !foreign.contains(&name.as_str()));
        let number = |name: &String| name.rsplit_once('-').unwrap().1.replace(".parquet", "");
        let mut numbers: Vec<u64> =
            found.iter().map(|name| number(name).parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(left(Some(100 * length), Some(100)), [0, 1, 4, 5, 9, hours[0]]);
    assert_eq!(left(None, Some(85)), [0, 1, 4, 5, 9]);
    // A twentieth less than the limit has room for four of five.
    assert_eq!(left(Some(5 * length - 1), None), [1, 4, 5, 9]);
    assert_eq!(left(None, Some(65)), [1, 4, 9]);
    assert_eq!(left(Some(1), None), [9], "what was written just now stays");
    let found = files(&directory);
    assert!(foreign.iter().all(|name| found.contains(&(*name).to_owned())), "{found:?}");
    assert!(!directory.join("date=2554-07-21").exists());
}

#[test]
fn no_link_leads_out_of_a_store() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let limits = StoreOptions { bytes_max: Some(1), ..options(folder.path()) };
    let mut store = Store::open::<Probe>(&limits, "probes").unwrap();
    let kept = other.path().join("hour=22");
    fs::create_dir(&kept).unwrap();
    let kept = kept.join(format!("{:032x}-3.parquet", 0xabc));
    fs::write(&kept, "kept").unwrap();
    let day = folder.path().join("probes/date=2023-11-14");
    std::os::unix::fs::symlink(other.path(), &day).unwrap();
    assert!(matches!(deliver(&mut store, 1, &[seen(TEN)]), Outcome::Failed(_)));
    let elsewhere = [seen(TEN + 24 * HOUR_NS)];
    assert_eq!(deliver(&mut store, 2, &elsewhere), Outcome::acknowledged());
    assert!(kept.exists() && files(other.path()).len() == 1);
    std::os::unix::fs::symlink(other.path(), folder.path().join("others")).unwrap();
    assert!(Store::open::<Probe>(&limits, "others").is_err());
}

#[test]
fn what_cannot_be_deleted_is_named_and_costs_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let limits = StoreOptions { bytes_max: Some(1), ..options(folder.path()) };
    let mut store = Store::open::<Probe>(&limits, "probes").unwrap();
    let blocked = folder.path().join("probes/date=2023-11-14/hour=22");
    assert_eq!(deliver(&mut store, 1, &[seen(TEN)]), Outcome::acknowledged());
    let file = File::open(blocked.join(format!("{:032x}-1.parquet", 0xabc))).unwrap();
    if !immutable(&file, true) {
        return ringside_testkit::skip("what_cannot_be_deleted", "this file system has no flags");
    }
    let outcome = deliver(&mut store, 2, &[seen(TEN + HOUR_NS)]);
    // Another file does not go in its place.
    let least = StoreOptions { bytes_max: Some(file.metadata().unwrap().len()), ..limits };
    let mut again = Store::open::<Probe>(&least, "probes").unwrap();
    let later = deliver(&mut again, 3, &[seen(TEN + 2 * HOUR_NS)]);
    immutable(&file, false);
    assert!(matches!(later, Outcome::Acknowledged { refused: 0, .. }), "{later:?}");
    match outcome {
        Outcome::Acknowledged { refused: 0, reason: Some(why) } => {
            assert!(why.contains("-1.parquet cannot be deleted"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(files(folder.path()).len() >= 2);
}

/// Sets a file's flag by which nothing changes or deletes it; false where that cannot be.
fn immutable(file: &File, is_so: bool) -> bool {
    let Ok(flags) = rustix::fs::ioctl_getflags(file) else { return false };
    let mut flags = flags;
    flags.set(rustix::fs::IFlags::IMMUTABLE, is_so);
    rustix::fs::ioctl_setflags(file, flags).is_ok()
}

#[test]
fn what_a_killed_process_was_writing_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let hour = folder.path().join("probes/date=2023-11-14/hour=22");
    fs::create_dir_all(&hour).unwrap();
    let token = "00000000000000000000000000000abc-4";
    let names = [format!(".{token}.part"), ".other.part".into(), format!("{token}.parquet")];
    let now = std::time::SystemTime::now();
    for (age, left) in [(10, 3), (7_200, 2)] {
        for name in &names {
            let file = File::create(hour.join(name)).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        Store::open::<Probe>(&options(folder.path()), "probes").unwrap();
        assert_eq!(files(folder.path()).len(), left, "{age}");
    }
}
