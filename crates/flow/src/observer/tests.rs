use super::*;
use crate::{Limits, NoFlow, SinkCounts, Sums};
use ringside_core::LaneId;
use ringside_inspect::Pump;
use ringside_testkit::capture_files;
use std::path::Path;

/// Keeps all records.
#[derive(Default)]
struct Keep(Vec<Record>);

impl RecordSink for &mut Keep {
    fn put(&mut self, record: &Record, _interface: &str, _now: Timestamp) {
        self.0.push(record.clone());
    }

    fn finish(&mut self, _now: Timestamp) {}

    fn counts(&self) -> SinkCounts {
        SinkCounts::default()
    }
}

/// Counts what is in a file.
#[derive(Default)]
struct Count {
    frames: Sums,
}

impl Observer for Count {
    fn see(&mut self, frame: &DissectedFrame<'_>, _received: &Received<'_>) {
        self.frames += Sums::one(frame.wire_bytes());
    }
}

/// Records of a file, what was counted in it, and the observer's account.
fn flows_of(path: &Path) -> Option<(Vec<Record>, Count, crate::FlowLedger)> {
    let (mut keep, mut count) = (Keep::default(), Count::default());
    let limits = Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() };
    let mut flows = FlowObserver::new(FlowTable::new(limits).unwrap(), vec![Box::new(&mut keep)]);
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let observers: Vec<Box<dyn Observer>> = vec![Box::new(&mut flows), Box::new(&mut count)];
    Pump::new(observers).run(&mut *source, LaneId(0), &|| false);
    let ledger = flows.table().ledger().clone();
    assert!(ledger.balances(flows.table().held()), "{}", path.display());
    drop(flows);
    Some((keep.0, count, ledger))
}

#[test]
fn every_frame_of_every_capture_is_accounted_for() {
    let mut total = Sums::default();
    for path in capture_files("every_frame_of_every_capture_is_accounted_for") {
        let Some((records, count, ledger)) = flows_of(&path) else { continue };
        assert_eq!(ledger.received, count.frames, "{}", path.display());
        let mut sums = Sums::default();
        for record in &records {
            sums += Sums { packets: record.packets(), octets: record.octets() };
        }
        for cause in NoFlow::ALL {
            sums += ledger.no_flow[cause as usize];
        }
        assert_eq!(sums, count.frames, "{}", path.display());
        total += sums;
    }
    eprintln!("{total:?}");
}
