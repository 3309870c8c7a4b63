//! Modules of any bytes, and modules that are valid and do anything: nothing panics, hangs or
//! grows, and the account holds.

use crate::support::{Kept, guest, module, see, udp};
use ringside_extension::limits::{MEMORY_BYTES_MAX, PACKET_FUEL};
use ringside_extension::{ExtensionObserver, text};
use ringside_inspect::Observer;
use ringside_testkit::{Random, by_run};
use std::fmt::Write;

/// Shows a few packets to whatever it is.
fn try_out(module: &[u8]) -> bool {
    let kept = Kept::default();
    let Ok(mut observer) = ExtensionObserver::new("any", module, kept.sinks()) else {
        return false;
    };
    for stamp in 0..3 {
        see(&mut observer, &udp(69, b"\0\x01a file\0octet\0"), stamp);
        assert!(observer.balances(), "{:?}", observer.ledger());
    }
    observer.finish();
    assert!(observer.balances() && observer.memory_bytes() <= MEMORY_BYTES_MAX);
    assert!(observer.ledger().fuel <= 3 * PACKET_FUEL);
    for found in kept.0.lock().unwrap().iter().take(10) {
        assert!(!text(found).contains(char::is_control));
    }
    true
}

#[test]
fn modules_of_any_bytes_hold() {
    let texts = [
        std::fs::read_to_string(guest("syns.wat")).unwrap(),
        module("", "(drop (call $emit (i32.const 0x1002a) (i32.const 8)))"),
        module("(func $f (param i32) (call $f (local.get 0)))", "(call $f (i32.const 7))"),
    ];
    let seeds: Vec<Vec<u8>> = texts.iter().map(|text| wat::parse_str(text).unwrap()).collect();
    seeds.iter().for_each(|seed| assert!(try_out(seed)));
    ringside_testkit::fuzz("extension", 2_000, &seeds, |input| {
        try_out(input);
    });
}

#[test]
fn texts_of_any_bytes_hold() {
    let seeds = [std::fs::read(guest("syns.wat")).unwrap(), module("", "(nop)").into_bytes()];
    ringside_testkit::fuzz("extension-text", 300, &seeds, |input| {
        try_out(input);
    });
}

/// An expression of an i32 out of random instructions.
fn expression(random: &mut Random, depth: u32, out: &mut String) {
    const BINARY: [&str; 10] =
        ["add", "sub", "mul", "div_u", "rem_s", "and", "shl", "rotr", "lt_s", "xor"];
    let edges = [0, 1, 7, -1, 0xffff, 0x1_0000, 0x1_ffff, i32::MAX, i32::MIN];
    let choice = if depth == 0 { random.below(3) } else { random.below(12) };
    let deeper = depth.saturating_sub(1);
    let (head, operands) = match choice {
        0 => (format!("i32.const {}", edges[random.below(edges.len())]), 0),
        1 => (format!("local.get {}", ["$bytes", "$wire_bytes", "$x"][random.below(3)]), 0),
        2 => ("call $payload_offset".into(), 0),
        3 | 4 => (format!("i32.{}", BINARY[random.below(BINARY.len())]), 2),
        5 => ("i32.load8_u".into(), 1),
        6 => ("local.tee $x".into(), 1),
        7 => ("memory.grow".into(), 1),
        8 => ("call $emit".into(), 2),
        9 => ("call $header".into(), 1),
        10 => ("call $again".into(), 1),
        _ => ("i32.load".into(), 1),
    };
    let _ = write!(out, "({head} ");
    (0..operands).for_each(|_| expression(random, deeper, out));
    out.push(')');
}

#[test]
fn valid_modules_that_do_anything_hold() {
    let mut random = Random::new(26);
    let modules = by_run(150, 10_000);
    for _ in 0..modules {
        let mut body = String::from("(local $x i32)");
        for _ in 0..=random.below(6) {
            let mut value = String::new();
            expression(&mut random, 4, &mut value);
            let mut other = String::new();
            expression(&mut random, 2, &mut other);
            let _ = match random.below(5) {
                0 => write!(body, "(loop $l (br_if $l {value}))"),
                1 => write!(body, "(i32.store {other} {value})"),
                2 => write!(body, "(memory.copy {other} {value} {other})"),
                3 => write!(body, "(drop (call $count {other} {value} (i64.const 1)))"),
                _ => write!(body, "(drop {value})"),
            };
        }
        let again = "(func $again (param $n i32) (result i32)
            (if (result i32) (local.get $n)
              (then (call $again (i32.sub (local.get $n) (i32.const 1))))
              (else (call $payload_bytes))))";
        let text = module(again, &body);
        assert!(try_out(text.as_bytes()), "no module:\n{text}");
    }
}
