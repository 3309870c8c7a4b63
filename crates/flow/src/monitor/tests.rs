use super::*;
use crate::{Limits, LineFormat, Lines, Names};
use ringside_core::LaneId;
use ringside_inspect::Pump;
use ringside_testkit::capture_files;

#[test]
fn whoever_asks_meanwhile_sees_accounts_that_balance() {
    let mut looks = 0;
    for path in capture_files("whoever_asks_meanwhile_sees_accounts_that_balance") {
        let Ok(mut source) = ringside_store::open(std::slice::from_ref(&path)) else { continue };
        let limits = Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() };
        let lines = Lines::new(std::io::sink(), LineFormat::Json, Names::Ringside);
        let options = TopOptions { fields: Field::conversation(), rank: Rank::Bytes, count: 3 };
        let mut monitor = FlowMonitor::new(
            FlowTable::new(limits).unwrap(),
            vec![("lines".into(), Box::new(lines))],
            Some(options),
        );
        // It may ask at once each time.
        monitor.not_before = None;
        let handle = monitor.handle();
        let mut pump = Pump::new(vec![Box::new(&mut monitor)]);
        source.start().unwrap();
        while !source.is_finished() {
            handle.ask();
            let Ok(batch) = source.next_batch(std::time::Duration::ZERO) else { break };
            let Some(batch) = batch else { continue };
            pump.show_batch(&batch, batch.interfaces(), LaneId(0));
            let status = handle.status();
            assert!(status.balances(), "{}", path.display());
            let top = status.top.unwrap_or_default();
            let in_flows = status.ledger.exported.packets + status.held.packets;
            assert_eq!(top.total.both.packets, in_flows, "{}", path.display());
            looks += u64::from(in_flows > 0);
        }
        let seen = pump.finish();
        let status = handle.status();
        assert!(status.is_finished && status.balances(), "{}", path.display());
        assert_eq!(status.ledger.received.packets, seen.frames);
        let (exported, top) = (status.ledger.exported, status.top.unwrap());
        assert_eq!(top.total.both, exported);
        assert_eq!(status.sinks.len(), 2);
    }
    eprintln!("{looks} looks at tables with flows");
}
