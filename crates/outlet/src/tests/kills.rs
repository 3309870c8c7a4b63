//! ClickHouse itself, killed again and again.

use crate::address::Address;
use crate::options::{Options, SpoolOptions};
use crate::outlet::Outlet;
use crate::probe::Probe;
use ringside_core::Timestamp;
use ringside_flow::{RecordSink, RecordSums, SinkCounts};
use ringside_record::Row;
use ringside_testkit::server::ClickHouse;
use ringside_testkit::{Random, by_run, wait_until};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Processes that bring the records, one after the other.
const RUNS: u64 = 4;

fn open(address: &Address, folder: &Path, finish: Duration) -> Outlet {
    let spool = SpoolOptions { folder: folder.to_owned(), bytes_max: 1 << 30 };
    let options = Options {
        spool: Some(spool),
        waits_for_room: true,
        creates_table: true,
        pause_max: Duration::from_millis(500),
        finish,
        ..Options::default()
    };
    let mut opened = Outlet::open::<Probe>(address, "probes", &options);
    // The threads of the one before hold the folder until a try ends.
    wait_until("the folder to be free", || {
        if opened.is_err() {
            opened = Outlet::open::<Probe>(address, "probes", &options);
        }
        opened.is_ok()
    });
    opened.unwrap()
}

fn close(mut outlet: Outlet) -> SinkCounts {
    outlet.finish(Timestamp::default());
    outlet.counts()
}

#[test]
fn clickhouse_has_each_record_once_however_often_it_is_killed() {
    let test = "clickhouse_has_each_record_once_however_often_it_is_killed";
    let records: u64 = by_run(40_000, 1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = ClickHouse::start(test, &folder.path().join("data")) else { return };
    server.ask("CREATE DATABASE net");
    let address = format!("clickhouse://127.0.0.1:{}/net", server.port()).parse().unwrap();
    let is_over = AtomicBool::new(false);
    let kills = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let (mut random, mut kills) = (Random::new(1), 0);
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(random.below(2_000) as u64));
                server.kill(Duration::from_millis(random.below(500) as u64));
                kills += 1;
            }
            kills
        });
        for run in 0..RUNS {
            let mut outlet = open(&address, folder.path(), Duration::from_millis(200));
            let held = RecordSums { records: 1, ..RecordSums::default() };
            for number in 0..records / RUNS {
                let record = Probe(Some(run * (records / RUNS) + number));
                outlet.take(&Row { record: &record, interface: "" }, held);
            }
            let counts = close(outlet);
            let there = counts.delivered.records + counts.spooled.records;
            assert_eq!(there - counts.inherited.records, records / RUNS, "{counts:?}");
        }
        // Runs that bring nothing deliver what is left.
        while close(open(&address, folder.path(), Duration::from_secs(2))).spooled.records > 0 {}
        is_over.store(true, Ordering::SeqCst);
        killer.join().unwrap()
    });
    let found =
        server.ask("SELECT count(), uniqExact(count), min(count), max(count) FROM net.probes");
    eprintln!("{kills} kills, {records} records: {found}");
    assert_eq!(found, format!("{records},{records},0,{}", records - 1));
}
