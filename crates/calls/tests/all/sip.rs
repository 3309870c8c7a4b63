//! Messages of real captures: by Call-ID the same methods and statuses as tshark finds.

use crate::support::observe;
use ringside_calls::Options;
use ringside_testkit::{Agreement, Difference, Messages, by_run, capture_files, judge, need_tool};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files in which we say something else than tshark, with the number of messages that only one of
/// us has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("ndpi-fuzz-2006-06-26-2594.pcap", 46, 0, "damaged by random bytes"),
    ("pcpp-sip_reqs.pcap", 2, 0, "their heads have no end"),
];

/// What tshark finds: Call-ID, and method or status.
fn theirs(path: &Path) -> Vec<(String, String)> {
    const FIELDS: [&str; 3] = ["sip.Call-ID", "sip.Method", "sip.Status-Code"];
    let mut args = vec!["-n", "-Y", "sip && !icmp && !icmpv6", "-T", "fields"];
    args.extend(["-E", "aggregator=\u{1}"]);
    FIELDS.iter().for_each(|field| args.extend(["-e", field]));
    args.push("-r");
    let answer = judge::ask("tshark", &args, path);
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut found = Vec::new();
    for line in text.lines() {
        let fields: Vec<Vec<&str>> =
            line.split('\t').map(|field| field.split('\u{1}').collect()).collect();
        let [call_ids, methods, statuses] = fields.as_slice() else { continue };
        // A frame of a stream may hold several messages, requests or responses alike.
        let said = methods.iter().chain(statuses).filter(|said| !said.is_empty());
        for (call_id, said) in call_ids.iter().zip(said) {
            found.push(((*call_id).to_owned(), (*said).to_owned()));
        }
    }
    found
}

/// What we find of the call with this Call-ID.
fn ours(path: &Path, call_id: &str, messages: &mut Messages) {
    let options = Options { ladder: Some(call_id.to_owned()), ..Options::default() };
    observe(path, options, |observer| {
        for said in observer.ladder().into_iter().flat_map(|ladder| ladder.said()) {
            *messages.entry(format!("{call_id} {said}")).or_default() += 1;
        }
    });
}

/// The captures of telephones; in the long run all.
fn captures(test: &str) -> Vec<PathBuf> {
    let is_voip = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("voip"));
    let is_taken = |path: &PathBuf| by_run(is_voip(path), true);
    capture_files(test).into_iter().filter(is_taken).collect()
}

#[test]
fn tshark_finds_the_same_messages_of_each_call() {
    let test = "tshark_finds_the_same_messages_of_each_call";
    if !need_tool(test, "tshark") {
        return;
    }
    let mut agreement = Agreement::default();
    for path in captures(test) {
        let found = theirs(&path);
        let call_ids: BTreeSet<&str> = found.iter().map(|(call_id, _)| call_id.as_str()).collect();
        let mut messages = [Messages::new(), Messages::new()];
        call_ids.iter().for_each(|call_id| ours(&path, call_id, &mut messages[0]));
        for (call_id, said) in &found {
            *messages[1].entry(format!("{call_id} {said}")).or_default() += 1;
        }
        agreement.compare(&path, [&messages[0], &messages[1]], DIFFERENCES, (0, 0));
    }
    agreement.check(test);
}
