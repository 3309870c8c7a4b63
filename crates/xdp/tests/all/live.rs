//! Rules on an interface: every frame is in one counter, also while rules change, and who sends too
//! much is stopped.

use crate::pair::{Pair, ifindex, inside, send};
use ringside_core::LinkType;
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_ebpf::{Verdict, abi};
use ringside_rules::language::{self, RuleId, RuleSet, Sets};
use ringside_sys::bpf::test_run_xdp;
use ringside_testkit::need_root;
use ringside_xdp::{DriverRules, Mode, Options, SourceLimit, Target};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap()
}

/// UDP from 10.0.0.`source`.
fn frame(source: u8, port: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 9, 9, 9]);
    frame.extend([0, 1, 0, port, 0, 8, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// The pair, a sender, and what counts the frames that come through to the host.
fn open(pair: &Pair, text: &str, options: &Options) -> DriverRules {
    let target = Target { interface: "end", ifindex: ifindex(&pair.receiver) };
    inside(&pair.receiver, || DriverRules::open(&target, set(text), options).unwrap())
}

fn wait(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "frames did not come");
        std::thread::yield_now();
    }
}

/// Sends frames a few at a time, so that no queue on the way overflows.
fn send_all(pair: &Pair, rules: &DriverRules, frames: &[&[u8]]) {
    let transmitter = pair.transmitter();
    for batch in frames.chunks(64) {
        let seen = rules.totals().seen();
        let mut rest = batch;
        while !rest.is_empty() {
            rest = &rest[transmitter.send_batch(rest).unwrap()..];
        }
        wait(|| rules.totals().seen() == seen + batch.len() as u64);
    }
}

#[test]
fn every_frame_is_in_one_counter() {
    if !need_root("rules on an interface") {
        return;
    }
    let pair = Pair::new("xdprules");
    let text = "1: src ip 10.0.0.1 => drop\n2: dst port 7 => count\n3: src ip 10.0.0.2 => take";
    let mut rules = open(&pair, text, &Options::default());
    let witness = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
    let socket = pair.sockets(1).remove(0);
    witness.attach(&socket).unwrap();
    let frames: Vec<Vec<u8>> =
        (0..300u32).map(|n| frame(1 + (n % 3) as u8, (n / 3 % 10) as u8)).collect();
    let list: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    // Not started: all pass, uncounted.
    send(&pair.transmitter(), &list[..10], &witness);
    assert_eq!(rules.totals().seen(), 0);
    inside(&pair.receiver, || rules.start().unwrap());
    send_all(&pair, &rules, &list);
    let totals = rules.totals();
    assert_eq!((totals.dropped, totals.taken, totals.passed), (100, 100, 100));
    assert_eq!((totals.seen(), totals.undecided, totals.walked), (300, 100, 0));
    wait(|| witness.counters().unwrap().seen == 10 + 200);
    let frames: Vec<u64> = rules.rules().map(|(_, counts, _)| counts.frames).collect();
    assert_eq!(frames, [100, 20, 100]);
    // A change is seen by the next frame.
    assert!(rules.remove(RuleId(1)).unwrap());
    rules.add(set("4: src ip 10.0.0.3 => drop").rules.remove(0)).unwrap();
    send_all(&pair, &rules, &list);
    assert_eq!(rules.totals().dropped, 200);
    // All at once: what stays keeps its counts.
    let all = set("2: dst port 7 => count\n9: any => drop");
    inside(&pair.receiver, || rules.load(all).unwrap());
    send_all(&pair, &rules, &list);
    let frames: Vec<u64> = rules.rules().map(|(_, counts, _)| counts.frames).collect();
    assert_eq!(frames, [20 + 30 + 30, 300]);
    assert_eq!((rules.totals().seen(), rules.totals().dropped), (900, 500));
    assert_eq!(rules.offenders(10).len(), 3);
    inside(&pair.receiver, || rules.stop().unwrap());
    let before = witness.counters().unwrap().seen;
    send(&pair.transmitter(), &list[..10], &witness);
    assert_eq!(witness.counters().unwrap().seen, before + 10);
    assert_eq!(rules.totals().seen(), 900);
    inside(&pair.receiver, || drop(rules));
}

#[test]
fn no_frame_meets_neither_rule() {
    exchange("xdpswap", "");
}

#[test]
fn no_frame_meets_neither_rule_behind_an_exact_one() {
    exchange("xdpexact", "9: udp src ip 10.0.0.1 dst ip 10.9.9.9 src port 1 dst port 5 => count");
}

#[test]
fn no_frame_meets_neither_rule_behind_many_that_ask() {
    let rules: Vec<String> =
        (100..140).map(|id| format!("{id}: udp length -{id} => count")).collect();
    exchange("xdpmany", &rules.join("\n"));
}

/// While rules are exchanged a thousand times, every frame meets the old rule or the new one,
/// next to `others` that stay.
fn exchange(name: &str, others: &str) {
    if !need_root("changes of rules on an interface") {
        return;
    }
    let pair = Pair::new(name);
    let text = |rule: &str| format!("{others}\n{rule}\ndefault take");
    let mut rules = open(&pair, &text("501: src ip 10.0.0.1 => drop"), &Options::default());
    inside(&pair.receiver, || rules.start().unwrap());
    let frames = [frame(1, 5)];
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (transmitter, list) = (pair.transmitter(), [&frames[0][..]; 32]);
            let mut sent = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                sent += transmitter.send_batch(&list).unwrap() as u64;
            }
            sent
        });
        let mut settled = 0;
        for round in 0..3000u32 {
            // The new one stands before the old one, or behind it.
            let (old, new) = if round % 2 == 0 { (501, 502) } else { (502, 501) };
            let line = format!("{new}: src ip 10.0.0.0/{} => drop", 24 + round % 6);
            rules.add(set(&line).rules.remove(0)).unwrap();
            assert!(rules.remove(RuleId(old)).unwrap());
            // The fast path comes twice in a hundred, and goes with the next change.
            if round % 50 == 49 {
                rules.settle().unwrap();
                rules.settle().unwrap();
                settled += u32::from(rules.fast_rules() > 0);
            }
            if round % 500 == 499 {
                let all = set(&text(&format!("{new}: ip 10.0.0.1 => drop")));
                inside(&pair.receiver, || rules.load(all).unwrap());
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(settled, if others.is_empty() { 60 } else { 0 });
        sender.join().unwrap()
    });
    inside(&pair.receiver, || rules.stop().unwrap());
    let totals = rules.totals();
    assert!(sent > 1000 && totals.seen() > 0);
    assert_eq!((totals.dropped, totals.taken), (totals.seen(), 0));
    inside(&pair.receiver, || drop(rules));
}

#[test]
fn a_dry_run_drops_nothing() {
    if !need_root("a dry run of rules in XDP") {
        return;
    }
    let options = Options { is_dry: true, ..Options::default() };
    let rules = DriverRules::unattached(set("1: src ip 10.0.0.1 => drop"), &options).unwrap();
    for _ in 0..5 {
        assert_eq!(rules.test_run(&frame(1, 1)).unwrap().verdict, Verdict::Pass);
    }
    assert_eq!((rules.totals().dropped, rules.totals().passed), (5, 0));
    assert_eq!(rules.rules().next().unwrap().1.frames, 5);
}

#[test]
fn a_source_may_send_so_much() {
    if !need_root("limits of sources in XDP") {
        return;
    }
    let limit = SourceLimit { frames_per_second: 1, burst_frames: 20, sources: 1024 };
    let options = Options { source_limit: Some(limit), ..Options::default() };
    let rules = DriverRules::unattached(set("1: dst port 9 => drop"), &options).unwrap();
    let passed = |source: u8, port: u8| {
        let run = || rules.test_run(&frame(source, port)).unwrap().verdict == Verdict::Pass;
        (0..100).filter(|_| run()).count()
    };
    // What a rule drops takes no token.
    assert_eq!(passed(1, 9), 0);
    let seconds = Instant::now();
    let counts = [passed(1, 1), passed(2, 1), passed(1, 1)];
    let more = seconds.elapsed().as_secs() as usize + 1;
    assert!((20..=20 + more).contains(&counts[0]), "{counts:?}");
    assert!((20..=20 + more).contains(&counts[1]) && counts[2] <= more, "{counts:?}");
    let totals = rules.totals();
    let through = counts.iter().sum::<usize>() as u64;
    assert_eq!((totals.dropped, totals.passed, totals.limited), (100, through, 300 - through));
    let top = rules.offenders(1);
    assert_eq!(top[0].address.to_string(), "10.0.0.1");
    assert_eq!(top[0].frames, 100 + 200 - (counts[0] + counts[2]) as u64);
}

/// A tag that the driver took out counts as if it were in the frame.
#[test]
fn a_tag_in_the_metadata() {
    if !need_root("tags in metadata, rules in XDP") {
        return;
    }
    let text = "1: vlan 5 bytes frame+12 = 81000005 => drop
        2: length 64 => drop
        3: bytes frame+18 = 45 => drop";
    let options = Options { mode: Mode::Protect, ..Options::default() };
    let rules = DriverRules::unattached(set(text), &options).unwrap();
    let metadata = |flags: u32, tci: u16| abi::XdpMetadata {
        flags,
        vlan_tpid: 0x8100,
        vlan_tci: tci,
        ..abi::XdpMetadata::default()
    };
    let bytes = frame(1, 1);
    for (tag, rule) in [
        (metadata(abi::METADATA_VLAN, 5), Some(0)),
        (metadata(abi::METADATA_VLAN, 6), Some(1)),
        (metadata(0, 5), None),
    ] {
        let before: Vec<u64> = rules.rules().map(|(_, counts, _)| counts.frames).collect();
        let mut output = vec![0; 256];
        let program = rules.program().as_fd();
        let (run, length) = test_run_xdp(program, &tag.to_bytes(), &bytes, 1, &mut output).unwrap();
        let met = rules.rules().zip(before).position(|((_, counts, _), b)| counts.frames > b);
        assert_eq!(met, rule);
        let verdict = if rule.is_some() { 1 } else { 2 };
        assert_eq!(run.return_value, verdict);
        if rule.is_none() {
            assert_eq!(&output[..length], &bytes[..], "it goes on without metadata");
        }
    }
}
