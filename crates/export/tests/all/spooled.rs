//! The spool, from outside: a collector that is away, runs that end meanwhile, files that are torn.

use crate::collector::*;
use ringside_core::Timestamp;
use ringside_export::{Address, ExportError, Host, Options, Outlet, SpoolOptions, State};
use ringside_flow::{Format, RecordSink};
use ringside_testkit::wait_until;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const LARGE: u64 = 64 << 20;
/// The least that is allowed.
const SMALL: u64 = 256 << 10;

fn with_spool(folder: &Path, bytes_max: u64) -> Options {
    let spool = SpoolOptions { folder: folder.join("spool"), bytes_max };
    Options { spool: Some(spool), ..options() }
}

/// The files of a spool, oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("spool")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "spool"));
    files.sort();
    files
}

fn bytes(folder: &Path) -> u64 {
    // One may be removed meanwhile.
    files(folder).iter().map(|path| path.metadata().map_or(0, |found| found.len())).sum()
}

/// Reads connections, one after the other, until these records came in all; their ids, of each
/// connection.
fn read(listener: TcpListener, records: usize) -> Vec<Vec<u64>> {
    let mut sessions: Vec<Vec<u64>> = Vec::new();
    while sessions.iter().flatten().count() < records {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut session, mut bytes) = (Session::counted(), Vec::new());
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(session.read_stream(&bytes), b"");
        sessions.push(session.flow_ids);
    }
    sessions
}

/// Puts records while the collector is away, and ends. How many are in the spool.
fn leave_behind(folder: &Path, bytes_max: u64, records: u64) -> u64 {
    let silent = Silent::new();
    let mut outlet = tcp(silent.port(), &with_spool(folder, bytes_max));
    put(&mut outlet, 1..=records);
    outlet.finish(Timestamp(START));
    let status = outlet.watch().status();
    assert_account(&status, records);
    assert_eq!(status.counts.undelivered.records, 0);
    assert_eq!(status.spool_bytes, bytes(folder));
    status.counts.spooled.records
}

#[test]
fn a_collector_that_is_away_gets_all_in_order_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::new();
    let mut outlet = tcp(silent.port(), &with_spool(folder.path(), LARGE));
    let watch = outlet.watch();
    wait_status(&watch, "a vain try", |status| status.state == State::Away);
    put(&mut outlet, 1..=5_000);
    wait_status(&watch, "a spool", |status| {
        status.counts.spooled.records > 4_900 && status.spool_bytes > 0
    });
    let listener = silent.listen();
    let reader = std::thread::spawn(move || read(listener, 6_000));
    put(&mut outlet, 5_001..=6_000);
    outlet.finish(Timestamp(START));
    let status = watch.status();
    // Looked at first: a reader that gets less waits for ever.
    assert_eq!(status.counts.delivered.records, 6_000, "{status:?}");
    assert_eq!(reader.join().unwrap(), [Vec::from_iter(1..=6_000)]);
    assert_account(&status, 6_000);
    assert_eq!((status.spool_bytes, files(folder.path())), (0, Vec::new()));
}

#[test]
fn a_full_spool_loses_the_oldest_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::new();
    let mut outlet = tcp(silent.port(), &with_spool(folder.path(), SMALL));
    let watch = outlet.watch();
    for part in 0..20 {
        put(&mut outlet, part * 1_000 + 1..=part * 1_000 + 1_000);
        assert!(bytes(folder.path()) <= SMALL);
        assert!(watch.status().spool_bytes <= SMALL);
    }
    wait_status(&watch, "a full spool", |status| status.counts.spool_full.records > 0);
    wait_status(&watch, "an empty queue", |status| status.counts.waiting.records < 100);
    assert!(bytes(folder.path()) > SMALL / 2);
    let listener = silent.listen();
    let reader = std::thread::spawn(move || read_once(&listener));
    outlet.finish(Timestamp(START));
    let status = watch.status();
    assert_account(&status, 20_000);
    // A reader that gets nothing waits for ever.
    assert!(status.counts.delivered.records > 0, "{status:?}");
    let ids = reader.join().unwrap();
    assert_eq!(status.counts.delivered.records, ids.len() as u64);
    assert_eq!(status.counts.delivered.records + status.counts.spool_full.records, 20_000);
    assert_eq!(ids, Vec::from_iter(ids[0]..=20_000), "the latest, without a gap");
}

fn read_once(listener: &TcpListener) -> Vec<u64> {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut session, mut bytes) = (Session::counted(), Vec::new());
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(session.read_stream(&bytes), b"");
    session.flow_ids
}

#[test]
fn a_collector_that_does_not_read_fills_the_spool_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut outlet = tcp(port, &with_spool(folder.path(), LARGE));
    let watch = outlet.watch();
    let (stream, _) = listener.accept().unwrap();
    put(&mut outlet, 1..=100_000);
    wait_status(&watch, "a spool", |status| status.counts.spooled.records > 10_000);
    let reader = std::thread::spawn(move || {
        let (mut stream, mut session, mut bytes) = (stream, Session::counted(), Vec::new());
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(session.read_stream(&bytes), b"");
        session.flow_ids
    });
    outlet.finish(Timestamp(START));
    assert_eq!(reader.join().unwrap(), Vec::from_iter(1..=100_000));
    let status = watch.status();
    assert_eq!((status.counts.delivered.records, status.connections), (100_000, 1));
    assert_account(&status, 100_000);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn the_next_run_delivers_what_the_last_left() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(leave_behind(folder.path(), LARGE, 2_000), 2_000);
    assert_eq!(leave_behind(folder.path(), LARGE, 100), 2_100, "added to what was there");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut outlet = tcp(port, &with_spool(folder.path(), LARGE));
    assert_eq!(outlet.counts().inherited.records, 2_100);
    let reader = std::thread::spawn(move || read(listener, 2_110));
    put(&mut outlet, 1..=10);
    outlet.finish(Timestamp(START));
    let expected: Vec<u64> = (1..=2_000).chain(1..=100).chain(1..=10).collect();
    assert_eq!(reader.join().unwrap(), [expected]);
    assert_account(&outlet.watch().status(), 10);
    assert_eq!(outlet.counts().delivered.records, 2_110);
}

#[test]
fn messages_of_other_templates_get_a_session_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    leave_behind(folder.path(), LARGE, 300);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = "127.0.0.1".to_owned();
    let host = Host { name, port: Some(listener.local_addr().unwrap().port()) };
    let options = with_spool(folder.path(), LARGE);
    let mut outlet = Outlet::open(&Address::Tcp(host), Format::IpfixNanoseconds, &options).unwrap();
    let reader = std::thread::spawn(move || read(listener, 320));
    put(&mut outlet, 301..=320);
    outlet.finish(Timestamp(START));
    let sessions = reader.join().unwrap();
    assert_eq!(sessions, [Vec::from_iter(1..=300), Vec::from_iter(301..=320)]);
    assert_eq!(outlet.counts().delivered.records, 320);
}

#[test]
fn a_torn_spool_gives_what_is_whole_and_says_what_is_not() {
    let folder = tempfile::tempdir().unwrap();
    leave_behind(folder.path(), LARGE, 1_000);
    let last = files(folder.path()).pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&last).unwrap();
    // As a process leaves it that was killed while it wrote a message.
    file.set_len(last.metadata().unwrap().len() - 100).unwrap();
    fs::write(folder.path().join("spool/00000000000000000000.spool"), b"RINGSPL1 and no more")
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut outlet = tcp(port, &with_spool(folder.path(), LARGE));
    let watch = outlet.watch();
    let inherited = watch.status().counts.inherited.records;
    assert!((950..1_000).contains(&inherited), "all but one message: {inherited}");
    assert!(watch.status().spool_damaged_bytes > 1_000, "{:?}", watch.status());
    let reader = std::thread::spawn(move || read(listener, inherited as usize + 5));
    put(&mut outlet, 2_001..=2_005);
    outlet.finish(Timestamp(START));
    let expected: Vec<u64> = (1..=inherited).chain(2_001..=2_005).collect();
    assert_eq!(reader.join().unwrap(), [expected]);
    assert_account(&watch.status(), 5);
}

#[test]
fn a_spool_has_one_owner_and_a_least_size() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::new();
    let address: Address = format!("tcp:127.0.0.1:{}", silent.port()).parse().unwrap();
    let open = |bytes| Outlet::open(&address, Format::Ipfix, &with_spool(folder.path(), bytes));
    let owner = open(LARGE).unwrap();
    assert!(matches!(open(LARGE).err(), Some(ExportError::Busy { .. })));
    assert!(matches!(open(1_000).err(), Some(ExportError::SpoolBytes { .. })));
    drop(owner);
    wait_until("a free spool", || open(LARGE).is_ok());
}

#[test]
fn a_spool_that_cannot_be_written_is_a_loss_with_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::new();
    let mut outlet = tcp(silent.port(), &with_spool(folder.path(), LARGE));
    let watch = outlet.watch();
    wait_status(&watch, "a vain try", |status| status.state == State::Away);
    // No file can be made where the folder was.
    fs::remove_dir_all(folder.path().join("spool")).unwrap();
    put(&mut outlet, 1..=1_000);
    wait_status(&watch, "a loss", |status| status.counts.write_failed.records > 900);
    assert!(watch.status().spool_error.is_some());
    fs::create_dir(folder.path().join("spool")).unwrap();
    put(&mut outlet, 1_001..=2_000);
    outlet.finish(Timestamp(START));
    let counts = outlet.counts();
    assert!(counts.spooled.records >= 1_000, "{counts:?}");
    assert_eq!(counts.total().records, 2_000);
}
