//! The example that counts SYNs, next to tshark on real captures.

use crate::support::{Kept, guest};
use ringside_core::LaneId;
use ringside_extension::{ExtensionObserver, read_module};
use ringside_inspect::{Observer, Pump};
use ringside_testkit::{Agreement, Difference, Messages, capture_sample, judge, need_tool};
use std::path::Path;

/// Files in which it counts something else than tshark, with the number of SYNs that only one of
/// them has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("arkime-80211http.pcap", 1, 0, LINK),
    ("arkime-gre-erspan-vxlan.pcap", 1, 0, "VXLAN to another port than its own"),
    ("arkime-nflog.pcap", 1, 0, LINK),
    ("zeek-tcp-truncated-header.pcap", 1, 0, "the TCP header is cut behind its flags"),
];

const LINK: &str = "a link layer that is not read";

fn ours(path: &Path) -> Messages {
    let kept = Kept::default();
    let module = read_module(&guest("syns.wat")).unwrap();
    let mut observer = ExtensionObserver::new("syns", &module, kept.sinks()).unwrap();
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
    let all = messages.values().sum::<usize>() as u64;
    assert_eq!(observer.counters().get("syns").copied().unwrap_or(0), all);
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

#[test]
fn tshark_counts_the_same_syns() {
    let test = "tshark_counts_the_same_syns";
    if !need_tool(test, "tshark") {
        return;
    }
    let mut agreement = Agreement::default();
    for path in capture_sample(test, 24) {
        agreement.compare(&path, [&ours(&path), &theirs(&path)], DIFFERENCES, (0, 0));
    }
    agreement.check(test);
}
