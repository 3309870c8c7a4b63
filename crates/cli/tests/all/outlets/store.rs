//! `--store`: the files hold each record once, as `--json` has it, for every reader of Parquet.

use super::*;
use crate::common::chaos::kill;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt16Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Map;
use std::fs::{self, File};

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

/// The value of a cell, as `--json` has it.
fn value(cells: &ArrayRef, row: usize) -> Value {
    if cells.is_null(row) {
        return Value::Null;
    }
    match cells.data_type() {
        DataType::Utf8 => cells.as_string::<i32>().value(row).into(),
        DataType::Boolean => cells.as_boolean().value(row).into(),
        DataType::UInt64 => cells.as_primitive::<UInt64Type>().value(row).into(),
        DataType::UInt16 => cells.as_primitive::<UInt16Type>().value(row).into(),
        DataType::Timestamp(..) => {
            cells.as_primitive::<TimestampNanosecondType>().value(row).into()
        }
        DataType::List(_) => {
            let items = cells.as_list::<i32>().value(row);
            items.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
        }
        other => panic!("{other}"),
    }
}

/// The records of a store, each without its `time`, which is that of its first packet.
pub fn stored(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    // A process that was killed leaves a part of one by another name.
    let is_whole = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    for path in files(folder).into_iter().filter(is_whole) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        for rows in reader.build().unwrap() {
            let rows = rows.unwrap();
            let schema = rows.schema();
            for row in 0..rows.num_rows() {
                let cells = schema.fields().iter().zip(rows.columns());
                let cells = cells.map(|(field, cells)| (field.name().clone(), value(cells, row)));
                let mut record: Map<String, Value> =
                    cells.filter(|(_, value)| !value.is_null()).collect();
                assert_eq!(record.remove("time"), record.get("first_ns").cloned(), "{path:?}");
                found.push(record.into());
            }
        }
    }
    found
}

/// In one order, with objects in lists as their JSON.
pub fn in_order(mut records: Vec<Value>) -> Vec<String> {
    for list in records.iter_mut().flat_map(|record| record.as_object_mut().unwrap().values_mut()) {
        for item in list.as_array_mut().into_iter().flatten() {
            if !item.is_string() {
                *item = item.to_string().into();
            }
        }
    }
    let mut texts: Vec<_> = records.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

#[test]
fn a_store_has_each_record_once_as_it_is_printed() {
    let test = "a_store_has_each_record_once_as_it_is_printed";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for analyzer in ANALYZERS {
        let records = store(analyzer, &captures, folder.path());
        let stored = stored(&folder.path().join(analyzer));
        assert_eq!(in_order(stored), in_order(records), "{analyzer}");
    }
}

/// Sums over all fields that are numbers.
pub fn sums(records: &[Value]) -> BTreeMap<&str, u128> {
    let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
    for (name, number) in records.iter().flat_map(|record| record.as_object().unwrap()) {
        *sums.entry(name).or_default() += u128::from(number.as_u64().unwrap_or(0));
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

/// Has an analyzer keep the records of captures in a store; they, as it prints them.
pub fn store(analyzer: &str, captures: &[String], folder: &Path) -> Vec<Value> {
    let mut args = vec![analyzer, "--json", "--store", arg(folder)];
    args.extend(captures.iter().map(String::as_str));
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
    let records = records(&outcome);
    let name = format!("store:{}", arg(&folder.join(analyzer)));
    let written = account(analyzer, &outcome, &name);
    assert_eq!(written, counts([("delivered", records.len())]), "{analyzer}");
    records
}

#[test]
fn duckdb_reads_a_store() {
    let test = "duckdb_reads_a_store";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let probe =
        Command::new("python3").args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip(test, "python3 has no duckdb (docs/howto/store.md)");
    }
    let folder = tempfile::tempdir().unwrap();
    for analyzer in ANALYZERS {
        let records = store(analyzer, &captures, folder.path());
        if records.is_empty() {
            continue;
        }
        // Sums over all columns that are numbers, and the days and hours of the folders.
        let sums = sums(&records);
        let sum = |name: &&str| format!("sum({name}::HUGEINT)::VARCHAR");
        let columns: Vec<_> = sums.keys().map(sum).collect();
        let script = format!(
            "import duckdb; print(*duckdb.sql(\"\"\"SELECT {}, count(*), sum(CASE WHEN \
             strftime(time::TIMESTAMP, '%Y-%m-%d/%H') = strftime(date, '%Y-%m-%d') || '/' || \
             lpad(hour::VARCHAR, 2, '0') THEN 0 ELSE 1 END) \
             FROM read_parquet('{}/{analyzer}/**/*.parquet', hive_partitioning=true)\"\"\"\
             ).fetchall()[0])",
            columns.join(", "),
            arg(folder.path())
        );
        let found = run_clean("python3", &["-c", &script]);
        let sums: Vec<_> = sums.values().map(u128::to_string).collect();
        assert_eq!(found.trim(), format!("{} {} 0", sums.join(" "), records.len()), "{analyzer}");
    }
}

/// Sends datagrams of flows of their own, and waits until they were received.
fn send_flows(network: &Network, from: u16, flows: u16) {
    let before = network.received();
    inside(network.sender(), || {
        for port in from..from + flows {
            let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
            socket.send_to(b"hello", (RECEIVER_ADDRESS, 5_300)).unwrap();
        }
    });
    wait_until("the packets", || network.received() >= before + u64::from(flows));
}

#[test]
fn live_records_are_stored_by_a_thread_without_rights_and_a_kill_leaves_whole_files() {
    let test = "live_records_are_stored_by_a_thread_without_rights";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let start = || {
        let mut command = Command::new(ringside());
        command.args(["flows", "--json", "--no-control", "--netns", network.receiver()]);
        command.args(["-i", "rx0", "--idle", "100ms", "--store", arg(folder.path())]);
        command.args(["--store-every", "100ms"]);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        running
    };
    let running = start();
    let mut senders = threads(running.worker_pid());
    senders.retain(|[name, ..]| name == "outlet");
    let none = ["outlet", "0", "0000000000000000", "1", "2"].map(str::to_owned);
    assert_eq!(senders, [none], "name, user, capabilities, no new ones, seccomp");
    send_flows(&network, 20_000, 20);
    let directory = folder.path().join("flows");
    wait_until("a file", || {
        // Time comes from packets: those that were over are given out by later ones.
        send_flows(&network, 21_000, 1);
        !stored(&directory).is_empty()
    });
    kill(running.worker_pid());
    assert_ne!(running.finish().code(), Some(0));
    let before = stored(&directory).len();
    assert!(before > 0);

    let running = start();
    send_flows(&network, 22_000, 20);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let mut records = records(&outcome);
    // The ledger of the run.
    records.retain(|record| record.get("flow_id").is_some());
    assert_eq!(stored(&directory).len(), before + records.len());
}

#[test]
fn a_live_run_of_roots_is_refused_a_store_of_another_user() {
    let test = "a_live_run_of_roots_is_refused_a_store_of_another_user";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let directory = folder.path().join("flows");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
    let args = ["flows", "--netns", network.receiver(), "-i", "rx0", "--store", arg(folder.path())];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("belongs to user 65534"), "{}", outcome.stderr);
}

#[test]
fn what_is_wrong_with_a_store_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let empty = folder.path().join("empty.pcap");
    fs::write(&file, "").unwrap();
    write_pcap(&empty, std::iter::empty());
    let cases: [(&[&str], &str); 3] = [
        (&["--store", arg(&file)], "not a directory"),
        (&["--store-limit", "1GB"], "--store <DIR>"),
        (&["--store", "d", "--store-for", "soon"], "--store-for"),
    ];
    for (args, words) in cases {
        let outcome = run_ringside(&[&["dns", "-r", arg(&empty)], args].concat());
        assert_ne!(outcome.code(), Some(0));
        assert!(outcome.stderr.contains(words), "{args:?}: {}", outcome.stderr);
    }
}
