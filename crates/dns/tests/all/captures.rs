//! Messages of real captures: the same as tshark finds, with the same times between them.

use crate::support::Kept;
use ringside_core::{LaneId, Source};
use ringside_dns::{DnsObserver, Limits, Transaction};
use ringside_inspect::{Observer, Pump};
use ringside_testkit::{Agreement, Difference, Messages, by_run, capture_sample, judge, need_tool};
use std::path::{Path, PathBuf};

/// Files in which we say something else than tshark, with the number of messages that only one of
/// us has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("arkime-dnssec_synthetic.pcap", 2, 2, "tshark gives no time of two answers"),
    ("ndpi-dns_fragmented.pcap", 1, 1, AGAIN),
    ("ndpi-fuzz-2006-06-26-2594.pcap", 89, 30, "damaged by random bytes"),
    ("ndpi-merged-16.pcap", 1, 1, AGAIN),
    ("pcpp-NullLoopback.pcap", 1, 0, MID),
    ("pcpp-dns_stack_overflow.pcap", 1, 0, "malformed, with questions that point at themselves"),
    ("pcpp-null_loopback.pcap", 1, 0, MID),
];

const AGAIN: &str = "tshark counts from a query that was sent again after 5 s, we from the first";
const MID: &str = "a stream whose beginning was not seen, in the middle of a message";

/// The captures of DNS; in the long run all.
fn captures(test: &str) -> Vec<PathBuf> {
    let is_dns = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("dns"));
    let is_taken = |path: &PathBuf| by_run(is_dns(path), true);
    capture_sample(test, 2).into_iter().filter(is_taken).collect()
}

/// All transactions of a file.
fn transactions(path: &Path) -> Vec<Transaction> {
    let kept = Kept::default();
    let mut observer = DnsObserver::new(Limits::default(), kept.sinks());
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return Vec::new() };
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    let source: &mut dyn Source = &mut *source;
    pump.run(source, LaneId(0), &|| false);
    assert!(observer.balances(), "{}", path.display());
    assert_eq!(observer.open(), 0);

    kept.0.lock().unwrap().clone()
}

fn ours(path: &Path) -> Messages {
    let mut messages = Messages::new();
    for found in transactions(path) {
        let asked = found.question.as_ref();
        let name = asked.map_or(String::new(), |question| question.name.to_string());
        let qtype = asked.map_or(String::new(), |question| question.qtype.to_string());
        let id = found.id;
        if let Some(query) = found.query {
            *messages.entry(format!("? {id} {qtype} {name}")).or_default() +=
                1 + query.retransmissions as usize;
        }
        if let Some(response) = &found.response {
            let latency = found.latency_ns().filter(|_| id != 0).map_or(String::new(), |ns| {
                format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
            });
            let rcode = response.flags & 0xf;
            let text = format!("! {id} {qtype} {name} {rcode} {latency}");
            *messages.entry(text).or_default() += 1;
        }
    }
    messages
}

fn theirs(path: &Path) -> Messages {
    const FIELDS: [&str; 6] = [
        "dns.id",
        "dns.flags.response",
        "dns.qry.type",
        "dns.qry.name",
        "dns.flags.rcode",
        "dns.time",
    ];
    let mut args = vec!["-n", "-Y", "(dns || mdns || llmnr) && !icmp && !icmpv6", "-T", "fields"];
    args.extend(["-E", "aggregator=\u{1}"]);
    FIELDS.iter().for_each(|field| args.extend(["-e", field]));
    args.push("-r");
    let answer = judge::ask("tshark", &args, path);
    let mut messages = Messages::new();
    for line in answer.text().lines() {
        let fields: Vec<Vec<&str>> =
            line.split('\t').map(|field| field.split('\u{1}').collect()).collect();
        let [ids, responses, qtypes, names, rcodes, times] = fields.as_slice() else { continue };
        let mut answers = 0;
        for (at, id) in ids.iter().enumerate().filter(|(_, id)| !id.is_empty()) {
            let of =
                |values: &[&str], at: usize| values.get(at).copied().unwrap_or_default().to_owned();
            let id = u16::from_str_radix(id.trim_start_matches("0x"), 16).unwrap();
            let (qtype, name) = (of(qtypes, at), of(names, at).replace("<Root>", "."));
            let text = match of(responses, at).as_str() {
                "1" | "True" => {
                    // tshark pairs what multicast DNS says, whose ids are 0.
                    let time = if id == 0 { String::new() } else { of(times, answers) };
                    let rcode = of(rcodes, answers);
                    answers += 1;
                    format!("! {id} {qtype} {name} {rcode} {time}")
                }
                _ => format!("? {id} {qtype} {name}"),
            };
            *messages.entry(text).or_default() += 1;
        }
    }
    messages
}

#[test]
fn tshark_finds_the_same_messages() {
    let test = "tshark_finds_the_same_messages";
    if !need_tool(test, "tshark") {
        return;
    }
    let mut agreement = Agreement::default();
    for path in captures(test) {
        agreement.compare(&path, [&ours(&path), &theirs(&path)], DIFFERENCES, (0, 0));
    }
    agreement.check(test);
}
