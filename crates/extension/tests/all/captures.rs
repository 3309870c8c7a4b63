//! The examples that count SYNs, a module and an object, next to tshark on real captures.

use crate::objects;
use crate::support::{Kept, guest};
use ringside_core::LaneId;
use ringside_extension::{ExtensionObserver, read_extension};
use ringside_inspect::{Observer, Pump};
use ringside_testkit::{Agreement, Difference, Messages, capture_sample, judge, need_tool};
use std::path::Path;

/// Files in which it counts something else than tshark, with the number of SYNs that only one of
/// them has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("arkime-gre-erspan-vxlan.pcap", 1, 0, "VXLAN to another port than its own"),
    ("zeek-tcp-truncated-header.pcap", 1, 0, "the TCP header is cut behind its flags"),
];

fn ours(path: &Path, extension: &[u8]) -> Messages {
    let kept = Kept::default();
    let mut observer = ExtensionObserver::new("syns", extension, kept.sinks()).unwrap();
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return Messages::new() };
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    let report = pump.run(&mut *source, LaneId(0), &|| false);
    let ledger = observer.ledger();
    assert!(observer.balances(), "{}: {ledger:?}", path.display());
    assert_eq!((ledger.packets, ledger.analyzed), (report.seen.frames, report.seen.frames));
    let found = kept.0.lock().unwrap();
    let of = |name: &str, at: usize| found[at].fields.0[name].as_u64().unwrap() as usize;
    let messages: Messages =
        (0..found.len()).map(|at| (of("port", at).to_string(), of("syns", at))).collect();
    if let Some(&counted) = observer.counters().get("syns") {
        assert_eq!(counted, messages.values().sum::<usize>() as u64);
    }
    messages
}

fn theirs(path: &Path) -> Messages {
    let syn = "tcp.flags.syn==1 && tcp.flags.ack==0 && !icmp && !icmpv6";
    let args = ["-n", "-Y", syn, "-T", "fields", "-E", "occurrence=l", "-e", "tcp.dstport", "-r"];
    let answer = judge::ask("tshark", &args, path);
    let mut messages = Messages::new();
    for port in answer.text().lines() {
        *messages.entry(port.to_owned()).or_default() += 1;
    }
    messages
}

fn compare(test: &str, extension: &[u8]) {
    let mut agreement = Agreement::default();
    for path in capture_sample(test, 24) {
        agreement.compare(&path, [&ours(&path, extension), &theirs(&path)], DIFFERENCES, (0, 0));
    }
    agreement.check(test);
}

#[test]
fn tshark_counts_the_same_syns_as_the_module() {
    let test = "tshark_counts_the_same_syns_as_the_module";
    if need_tool(test, "tshark") {
        compare(test, &read_extension(&guest("syns.wat")).unwrap());
    }
}

#[test]
fn tshark_counts_the_same_syns_as_the_object() {
    let test = "tshark_counts_the_same_syns_as_the_object";
    if need_tool(test, "tshark") && objects::can_run(test) {
        compare(test, &objects::compiled(&guest("syns.bpf.c")));
    }
}
