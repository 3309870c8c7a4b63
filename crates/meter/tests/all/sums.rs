//! Sums of an interface, to the packet: at every fill, of several queues, with full rings, and
//! while limits change.

use crate::flows::ByFlow;
use crate::headers::{headers, table};
use crate::pair::{Pair, ifindex, inside, ip};
use ringside_ebpf::replay::{HEADER_BYTES, Replay, Way};
use ringside_flow::{FlowTable, Sums};
use ringside_meter::{Hook, Ledger, Meter, MeterError, Options, Status};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{by_run, need_root};
use std::sync::mpsc::sync_channel;

/// Entries of a CPU in these tests.
const ENTRIES: usize = 4_096;
/// Frames that a sender makes at a time.
const BURST: u32 = 2_000;

fn options() -> Options {
    Options { entries: ENTRIES, ..Options::default() }
}

/// A pair whose ends have some queues.
fn pair_of(name: &str, queues: usize) -> Pair {
    let pair = Pair::new(name);
    let (a, b, count) = (pair.sender.as_str(), pair.receiver.as_str(), queues.to_string());
    let count = ["numtxqueues", &count, "numrxqueues", &count];
    ip(&["-n", a, "link", "del", "end"]);
    let (own, peer) = (["-n", a, "link", "add", "end"], ["type", "veth", "peer", "end"]);
    ip(&[&own[..], &count, &peer, &count, &["netns", b]].concat());
    for namespace in [a, b] {
        ip(&["-n", namespace, "link", "set", "end", "up"]);
    }
    pair
}

/// A meter under test, with its table and what came out of it.
struct Run<'p> {
    pair: &'p Pair,
    meter: Meter,
    table: FlowTable,
    flows: ByFlow,
}

impl Run<'_> {
    fn new<'p>(pair: &'p Pair, options: &Options) -> Run<'p> {
        let meter = inside(&pair.receiver, || Meter::open("end", Hook::Xdp, options).unwrap());
        Run { pair, meter, table: table(), flows: ByFlow::default() }
    }

    fn poll(&mut self) {
        let Run { meter, table, flows, .. } = self;
        meter.poll(table, &mut |record| flows.add(&record)).unwrap();
    }

    /// Sends some frames of these headers, from all CPUs in turn; `each` runs next to every burst
    /// but the first, so that rings hold what two of them hand up, however busy the machine is.
    fn send(&mut self, flows: usize, frames: u32, mut each: impl FnMut(&mut Self)) {
        let cpus = allowed_cpus().unwrap();
        let sender = &self.pair.sender;
        let (is_sent, sent) = sync_channel(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                inside(sender, || {
                    let way = Way::Interface(ifindex(sender));
                    let replay = Replay::load(&headers(flows), way).unwrap();
                    for burst in 0..frames.div_ceil(BURST) {
                        pin_to_cpu(cpus[burst as usize % cpus.len()]).unwrap();
                        replay.run_live(BURST).unwrap();
                        is_sent.send(()).unwrap();
                    }
                });
            });
            while sent.recv().is_ok() {
                each(self);
            }
        });
    }

    /// Ends the meter: every packet that the interface counted is in one record, or lost by name.
    fn finish(mut self) -> (Ledger, Status, ByFlow) {
        let Run { pair, meter, table, flows } = &mut self;
        let out = &mut |record| flows.add(&record);
        let ledger = inside(&pair.receiver, || meter.finish(table, out).unwrap());
        let status = self.meter.status();
        assert!(ledger.balances(), "{ledger:?}");
        let interface = ledger.interface.unwrap();
        assert_eq!(ledger.received, interface.received, "{ledger:?}");
        assert_eq!(ledger.received.octets, ledger.received.packets * HEADER_BYTES as u64);
        assert_eq!(self.flows.sums(), ledger.in_flows);
        assert_eq!(self.table.ledger().exported, ledger.in_flows);
        (ledger, status, self.flows)
    }
}

#[test]
fn records_hold_what_the_interface_counted_at_every_fill() {
    if !need_root("records_hold_what_the_interface_counted_at_every_fill") {
        return;
    }
    for queues in [1, 4] {
        let pair = pair_of("mfill", queues);
        for percent in [1, 50, 100, 200] {
            let mut run = Run::new(&pair, &options());
            let flows = ENTRIES * percent / 100;
            run.send(flows, by_run(120_000, 12_500_000), Run::poll);
            let (ledger, status, found) = run.finish();
            assert_eq!(ledger.no_room, Sums::default(), "{status:?}");
            assert!(ledger.in_flows.packets > 10_000, "{ledger:?}");
            assert_eq!(found.0.len(), flows.min(found.0.len()));
            // A flow's packets are on both CPUs, in an entry of each.
            // In between some sets are full and others are not.
            match percent {
                1 => assert_eq!(status.evicted, 0, "{status:?}"),
                200 => assert!(status.evicted > 0, "{status:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_full_ring_loses_by_name_and_spares_what_is_cached() {
    if !need_root("a_full_ring_loses_by_name_and_spares_what_is_cached") {
        return;
    }
    let pair = pair_of("mfull", 1);
    let options = Options { entries: 64, ring_bytes: 4_096, ..options() };
    let mut run = Run::new(&pair, &options);
    run.send(10_000, 20_000, |_| {});
    let (ledger, status, _) = run.finish();
    assert!(ledger.no_room.packets > 1_000, "{ledger:?}");
    // Each CPU's entries, and as many again as its ring has room for.
    assert!(ledger.in_flows.packets >= 64 + 4_096 / 160, "{ledger:?}");
    assert_eq!(status.no_room, ledger.no_room.packets);
}

#[test]
fn a_flood_of_sources_is_in_records_too() {
    if !need_root("a_flood_of_sources_is_in_records_too") {
        return;
    }
    let pair = pair_of("mflood", 1);
    let options = Options { entries: 1_024, ring_bytes: 64 << 20, ..options() };
    let mut run = Run::new(&pair, &options);
    run.send(by_run(100_000, 800_000), by_run(200_000, 8_000_000), Run::poll);
    let (ledger, status, _) = run.finish();
    assert_eq!(ledger.no_room, Sums::default(), "{status:?}");
    assert!(status.evicted > 1_000, "{status:?}");
}

#[test]
fn limits_change_while_frames_come() {
    if !need_root("limits_change_while_frames_come") {
        return;
    }
    let pair = pair_of("mlimit", 1);
    let mut run = Run::new(&pair, &options());
    let all = run.meter.status().entries_max;
    let mut turn = 0;
    run.send(ENTRIES / 2, 100_000, |run| {
        turn += 1;
        run.meter.set_entries_max(all / 8 * (1 + turn % 8));
        run.poll();
    });
    run.meter.set_entries_max(0);
    assert_eq!(run.meter.status().entries_max, all / 8, "never none");
    let (ledger, ..) = run.finish();
    assert_eq!(ledger.no_room, Sums::default());
}

#[test]
fn what_cannot_be_is_refused() {
    if !need_root("what_cannot_be_is_refused") {
        return;
    }
    let pair = pair_of("mwrong", 1);
    let open = |name: &str, options: Options| {
        inside(&pair.receiver, || Meter::open(name, Hook::Xdp, &options).map(drop)).unwrap_err()
    };
    assert!(matches!(open("none", options()), MeterError::NoInterface(_)));
    for entries in [0, 32, 65, 1 << 23] {
        let error = open("end", Options { entries, ..options() });
        assert!(matches!(error, MeterError::Size { .. }), "{error}");
    }
    let error = open("end", Options { ring_bytes: 1_024, ..options() });
    assert!(error.to_string().contains("ring"), "{error}");
}
