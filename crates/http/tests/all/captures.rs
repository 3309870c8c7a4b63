//! Transactions of real captures: the same requests and responses as tshark finds.

use crate::support::Kept;
use ringside_core::{LaneId, Source};
use ringside_http::{HttpObserver, Options, Transaction};
use ringside_inspect::{Observer, Pump};
use ringside_testkit::{Agreement, Difference, Messages, capture_sample, judge, need_tool};
use std::path::{Path, PathBuf};

/// Files in which we say something else than tshark, with the number of messages that only one of
/// us has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("arkime-http-tcp-seq-issue.pcap", 0, 2, OUT_OF_ORDER),
    ("arkime-no-syn-ack.pcap", 0, 1, BODY),
    ("arkime-wireshark-retrans.pcap", 2, 0, "tshark counts responses that are sent again"),
    ("csanders-http_espn.pcapng", 0, 1, BODY),
    ("ndpi-WebattackRCE.pcap", 2, 1, "a target with spaces, and one without a slash (GET .)"),
    ("pcpp-650HttpResponses.pcap", 0, 311, BODY),
    ("pcpp-TwoHttpResponses.pcap", 0, 2, BODY),
    ("suricata-http-range-file.pcap", 0, 1, BODY),
    ("zeek-content-range-gap-skip.pcap", 0, 1, BODY),
    ("zeek-putty-upload.pcap", 0, 1, BODY),
    ("zeek-tcp-http-with-padding.pcap", 0, 1, "a head in single bytes on an unusual port"),
];

const BODY: &str = "tshark gives a message once all of its body came, which it never does";
const OUT_OF_ORDER: &str = "tshark does not put segments in order unless it is asked to";

/// The HTTP captures.
fn http_captures(test: &str) -> Vec<PathBuf> {
    let is_http = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("http"));
    capture_sample(test, 4).into_iter().filter(is_http).collect()
}

/// All transactions of a file.
fn transactions(path: &Path) -> Vec<Transaction> {
    let kept = Kept::default();
    let options = Options { shows_credentials: true, ..Options::default() };
    let mut observer = HttpObserver::new(options, kept.sinks());
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return Vec::new() };
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    let source: &mut dyn Source = &mut *source;
    pump.run(source, LaneId(0), &|| false);
    assert!(observer.balances(), "{}", path.display());
    assert_eq!(observer.open(), 0);

    kept.0.lock().unwrap().clone()
}

fn ours(path: &Path) -> Messages {
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut messages = Messages::new();
    for found in transactions(path) {
        let request = found
            .request
            .map(|request| format!("{} {}", plain(&request.method), plain(&request.target)));
        let response = found
            .response
            .map(|response| format!("{} {}", response.status, plain(&response.reason)));
        for message in [request, response].into_iter().flatten() {
            *messages.entry(message).or_default() += 1;
        }
    }
    messages
}

fn theirs(path: &Path) -> Messages {
    const ARGS: [&str; 16] = [
        "-n",
        "-Y",
        "http",
        "-T",
        "fields",
        "-E",
        "aggregator=\u{1}",
        "-e",
        "http.request.method",
        "-e",
        "http.request.uri",
        "-e",
        "http.response.code",
        "-e",
        "http.response.phrase",
        "-r",
    ];
    let answer = judge::ask("tshark", &ARGS, path);
    let mut messages = Messages::new();
    for line in answer.text().lines() {
        let fields: Vec<Vec<&str>> =
            line.split('\t').map(|field| field.split('\u{1}').collect()).collect();
        let [methods, targets, codes, phrases] = fields.as_slice() else { continue };
        let pairs = |ones: &[&str], others: &[&str]| -> Vec<String> {
            let other = |at: usize| others.get(at).copied().unwrap_or_default();
            let pairs = ones.iter().enumerate().filter(|(_, one)| !one.is_empty());
            pairs.map(|(at, one)| format!("{one} {}", other(at))).collect()
        };
        let interim = |message: &String| message.starts_with('1') && !message.starts_with("101");
        let responses = pairs(codes, phrases).into_iter().filter(|message| !interim(message));
        for message in pairs(methods, targets).into_iter().chain(responses) {
            *messages.entry(message).or_default() += 1;
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
    for path in http_captures(test) {
        agreement.compare(&path, [&ours(&path), &theirs(&path)], DIFFERENCES, (0, 0));
    }
    agreement.check(test);
}
