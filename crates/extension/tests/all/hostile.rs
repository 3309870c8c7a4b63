//! Hostile extensions: each is stopped, counted, and the stream goes on.

use crate::support::{module, open, see, udp};
use ringside_extension::limits::{
    COUNTERS_MAX, EDGE_RECORDS_MAX, FAULTS_MAX, MEMORY_BYTES_MAX, PACKET_BYTES_MAX, PACKET_FUEL,
    PACKET_RECORDS_MAX,
};
use ringside_extension::{ExtensionObserver, Fault, Refusal};
use ringside_inspect::Observer;
use ringside_logs::Watched;

/// Shows packets, with the account right after each.
fn show(observer: &mut ExtensionObserver, packets: u64) {
    for stamp in 0..packets {
        see(observer, &udp(69, b"payload"), 1_000_000_000 + stamp);
        assert!(observer.balances(), "{:?}", observer.ledger());
    }
}

/// A module that faults with each packet loses 100, is stopped, and is not asked at the end.
fn is_stopped_by(fault: Fault, more: &str, packet: &str) {
    let end = r#"(func (export "ringside_end") (unreachable))"#;
    let (mut observer, _) = open(&module(&format!("{more}{end}"), packet));
    show(&mut observer, FAULTS_MAX + 50);
    let ledger = observer.ledger();
    assert_eq!((ledger.packets, ledger.analyzed, ledger.after_stop), (FAULTS_MAX + 50, 0, 50));
    assert_eq!(ledger.faults[fault.index()], FAULTS_MAX, "{:?}", observer.first_fault());
    observer.finish();
    let status = observer.status(true);
    assert!(status.is_stopped && status.balances && status.end_fault.is_none());
    let problem = status.problem().unwrap();
    assert!(problem.contains("stopped") && problem.contains(fault.name()), "{problem}");
}

#[test]
fn what_does_not_end_is_stopped() {
    is_stopped_by(Fault::OutOfFuel, "", "(loop $on (br $on))");
}

#[test]
fn the_work_of_the_host_costs_fuel() {
    for work in [
        "(drop (call $header (i32.const 6)))",
        "(drop (call $count (i32.const 0) (i32.const 1) (i64.const 1)))",
        "(drop (call $emit (i32.const 0) (i32.const 8192)))",
        "(memory.fill (i32.const 0) (i32.const 7) (i32.const 65536))",
    ] {
        let (mut observer, _) = open(&module("", &format!("(loop $on {work} (br $on))")));
        show(&mut observer, 2);
        assert_eq!(observer.ledger().faults[Fault::OutOfFuel.index()], 2, "{work}");
    }
}

#[test]
fn what_recurses_traps_or_reads_outside_is_stopped() {
    let deep = "(func $deep (param i64) (call $deep (i64.add (local.get 0) (i64.const 1))))";
    is_stopped_by(Fault::StackExhausted, deep, "(call $deep (i64.const 0))");
    is_stopped_by(Fault::Trapped, "", "(unreachable)");
    is_stopped_by(Fault::Trapped, "", "(drop (i32.div_u (i32.const 1) (i32.const 0)))");
    is_stopped_by(Fault::OutOfBounds, "", "(drop (i32.load (i32.const 0x7fffffff)))");
    is_stopped_by(Fault::OutOfBounds, "", "(i32.store (i32.const -1) (i32.const 1))");
}

#[test]
fn a_fault_costs_one_packet_and_memory_stays() {
    let globals = "(global $seen (mut i32) (i32.const 0))";
    let packet = r#"
        (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
        (if (i32.eqz (i32.rem_u (global.get $seen) (i32.const 10))) (then (unreachable)))"#;
    let (mut observer, _) = open(&module(globals, packet));
    show(&mut observer, 95);
    observer.finish();
    let ledger = observer.ledger();
    assert_eq!((ledger.analyzed, ledger.faults(), ledger.after_stop), (86, 9, 0));
    assert!(observer.status(true).problem().is_none());
}

#[test]
fn memory_does_not_grow_beyond_its_limit() {
    let (mut observer, _) = open(&module("", "(drop (memory.grow (i32.const 16)))"));
    show(&mut observer, 200);
    assert!(observer.memory_bytes() <= MEMORY_BYTES_MAX);
    assert!(observer.memory_bytes() > MEMORY_BYTES_MAX - (17 << 16));
    assert_eq!(observer.ledger().analyzed, 200);
    // One that asks for 4 GiB at once gets nothing, which costs fuel at most.
    let (mut observer, _) = open(&module("", "(drop (memory.grow (i32.const 65535)))"));
    show(&mut observer, 200);
    assert_eq!(observer.memory_bytes(), 2 << 16);
}

/// How many records of a packet were taken, and refused by what.
fn refused(packet: &str) -> (u64, [u64; Refusal::ALL.len()]) {
    let texts = r#"
        (data (i32.const 0) "{\"a\":1}{\"b\":[1]}{\"c\":1,\"c\":2}7 {\"a\":\"\ff\"}")"#;
    let (mut observer, kept) = open(&module(texts, packet));
    show(&mut observer, 1);
    let ledger = observer.ledger();
    assert_eq!(ledger.taken, kept.0.lock().unwrap().len() as u64);
    (ledger.taken, ledger.refused)
}

fn emit(address: i64, bytes: i64) -> String {
    format!("(drop (call $emit (i32.const {address}) (i32.const {bytes})))")
}

#[test]
fn what_is_no_record_is_refused() {
    assert_eq!(refused(&emit(0, 7)), (1, [0; 4]));
    let outside = emit(0x20000 - 6, 7) + &emit(-1, 1) + &emit(0x7fff_ffff, 8192);
    assert_eq!(refused(&outside), (0, [3, 0, 0, 0]));
    let too_long = emit(0, 8193) + &emit(0, 1 << 30) + &emit(-1, -1);
    assert_eq!(refused(&too_long), (0, [0, 3, 0, 0]));
    // Nothing, half an object, an array in one, a field twice, a number, bytes that are no text.
    let none = [(0, 0), (0, 6), (7, 9), (16, 13), (29, 1), (31, 9), (0, 8)];
    let none: String = none.iter().map(|&(address, bytes)| emit(address, bytes)).collect();
    assert_eq!(refused(&none), (0, [0, 0, 7, 0]));
}

#[test]
fn a_million_records_of_a_packet_are_few() {
    let packet = r#"(local $left i32) (local.set $left (i32.const 1000000))
        (loop $on (drop (call $emit (i32.const 0) (i32.const 7)))
          (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))"#;
    let (taken, refused) = refused(packet);
    assert_eq!(taken, u64::from(PACKET_RECORDS_MAX));
    assert!(refused[Refusal::TooMany.index()] < PACKET_FUEL / 100, "{refused:?}");
    // At the end there are more of them, and an end.
    let end = r#"(data (i32.const 0) "{\"a\":1}") (func (export "ringside_end")
        (loop $on (drop (call $emit (i32.const 0) (i32.const 7))) (br $on)))"#;
    let (mut observer, kept) = open(&module(end, ""));
    show(&mut observer, 1);
    observer.finish();
    assert_eq!(kept.0.lock().unwrap().len(), EDGE_RECORDS_MAX as usize);
    assert!(observer.balances());
    let status = observer.status(true);
    assert_eq!(status.end_fault, Some(Fault::OutOfFuel));
    assert!(status.problem().unwrap().contains("behind all packets"));
}

#[test]
fn counters_are_few_and_have_plain_names() {
    let text = r#"(data (i32.const 0) "abc\1b[0m") (global $n (mut i32) (i32.const 0))"#;
    let count = |address, bytes: &str| {
        format!("(drop (call $count (i32.const {address}) (i32.const {bytes}) (i64.const 5)))")
    };
    let packet = ["0", "4", "33", "-1"].map(|bytes| count(0, bytes)).concat()
        + &count(0, "3")
        + "(i32.store16 (i32.const 100) (i32.add (i32.const 0x3030)
             (i32.or (i32.and (global.get $n) (i32.const 7))
               (i32.shl (i32.shr_u (global.get $n) (i32.const 3)) (i32.const 8)))))
           (global.set $n (i32.and (i32.add (global.get $n) (i32.const 1)) (i32.const 0x4f)))"
        + &count(100, "2");
    let (mut observer, _) = open(&module(text, &packet));
    show(&mut observer, 3);
    assert_eq!(observer.counters().get("abc"), Some(&15));
    assert_eq!(observer.counters().len(), 4, "{:?}", observer.counters());
    assert_eq!(observer.ledger().counts_refused, 3 * 4);
    show(&mut observer, 500);
    assert!(observer.counters().len() <= COUNTERS_MAX);
}

#[test]
fn long_packets_come_without_their_end() {
    let packet = r#"
        (if (i32.ne (local.get $bytes) (i32.const 65536)) (then (unreachable)))
        (if (i32.ne (local.get $wire_bytes) (i32.const 100000)) (then (unreachable)))
        (if (i32.ne (i32.load8_u (i32.const 0x1ffff)) (i32.const 7)) (then (unreachable)))"#;
    let (mut observer, _) = open(&module("", packet));
    see(&mut observer, &[7; 100_000], 1);
    assert_eq!((observer.ledger().analyzed, observer.ledger().cut), (1, 1));
    assert!(observer.ledger().fuel < PACKET_BYTES_MAX as u64);
}
