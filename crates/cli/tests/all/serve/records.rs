//! What recorded packets meant, asked over HTTP, is what the commands print of the same packets.

use super::{Served, escaped};
use crate::common::folder::{Folder, number};
use crate::common::*;
use ringside_testkit::{by_run, capture_sample, need_tool};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// A kind of record, the folder of captures that have many of them, and a filter that matches some
/// of their packets.
const KINDS: [(&str, &str, &str); 5] = [
    ("flows", "ip", "tcp or udp"),
    ("http", "http", "tcp port 80 or tcp port 8080"),
    ("dns", "dns", "ip and port 53"),
    ("tls", "tls", "tcp"),
    ("calls", "voip", "udp"),
];

/// What a command prints of a capture, without its account; none if it cannot read it.
fn printed(kind: &str, capture: &Path, filter: &str) -> Option<Vec<String>> {
    let outcome = run_ringside(&[kind, "-r", arg(capture), "--json", filter]);
    let is_record = |line: &Value| line.get("account").is_none();
    let lines = outcome.json_lines().into_iter().filter(is_record);
    let lines = lines.map(|line| line.to_string()).collect();
    (outcome.code() != Some(2)).then_some(lines)
}

fn sorted(mut records: Vec<String>) -> Vec<String> {
    records.sort();
    records
}

/// Both ends of flows with what they sent and received, as `ADDRESS BYTES SENT`.
fn ends(flows: &[String]) -> Vec<String> {
    let mut sums = std::collections::BTreeMap::<String, (u64, u64)>::new();
    for flow in flows {
        let flow: Value = serde_json::from_str(flow).unwrap();
        let (sent, answered) = (number(&flow, "bytes"), number(&flow, "reverse_bytes"));
        let mut add = |name: &str, sent: u64| {
            let known = sums.entry(flow[name].as_str().unwrap().to_owned()).or_default();
            *known = (known.0 + number(&flow, "bytes") + answered, known.1 + sent);
        };
        add("src", sent);
        if flow["src"] != flow["dst"] {
            add("dst", answered);
        }
    }
    sums.into_iter().map(|(address, (all, sent))| format!("{address} {all} {sent}")).collect()
}

/// A service of captures, each known by the name of its file.
fn served(folder: &Folder, captures: &[PathBuf]) -> Served {
    let control = folder.path("none.sock");
    let mut args = vec!["--control", arg(&control)];
    args.extend(captures.iter().flat_map(|capture| ["--recordings", arg(capture)]));
    Served::start(folder, &args)
}

impl Served {
    /// The answer about one capture; none if that cannot be read.
    fn records(&self, path: &str, capture: &Path, filter: &str) -> Option<Value> {
        let name = capture.file_name().unwrap().to_str().unwrap();
        let path = format!("/api/v1/{path}?limit=10000&recording={name}");
        let filter = format!("filter={filter}");
        let outcome = self.curl(&["--get", "--data-urlencode", &filter], &path);
        let answer: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        answer["error"].is_null().then_some(answer)
    }
}

fn texts(answer: &Value) -> Vec<String> {
    answer["records"].as_array().unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn records_are_those_that_the_commands_print() {
    let test = "serve::records::records_are_those";
    let captures = capture_sample(test, 8);
    if captures.is_empty() || !need_tool(test, "curl") {
        return;
    }
    let folder = Folder::new();
    let served = served(&folder, &captures);
    for (kind, place, filter) in KINDS {
        let is_there = |path: &&PathBuf| arg(path).contains(&format!("/{place}/"));
        let mut found = 0;
        for capture in captures.iter().filter(is_there) {
            for filter in ["", filter] {
                let expected = printed(kind, capture, filter);
                let answer = served.records(&format!("records/{kind}"), capture, filter);
                let given = answer.as_ref().map(texts);
                let (expected, given) = (expected.map(sorted), given.map(sorted));
                assert_eq!(given, expected, "{kind} of {} by '{filter}'", capture.display());
                found += given.map_or(0, |given| given.len());
            }
        }
        assert!(found > 0, "no {kind} in the captures, so nothing was compared");
    }
}

#[test]
fn the_largest_come_first_and_talkers_are_the_ends_of_flows() {
    let test = "serve::records::the_largest_come_first";
    let captures = capture_sample(test, 20);
    if captures.is_empty() || !need_tool(test, "curl") {
        return;
    }
    let folder = Folder::new();
    let served = served(&folder, &captures);
    let mut compared = 0;
    for capture in &captures {
        let Some(expected) = printed("flows", capture, "") else { continue };
        let flows = served.records("records/flows", capture, "").unwrap();
        let flows = flows["records"].as_array().unwrap();
        let bytes = |flow: &Value| number(flow, "bytes") + number(flow, "reverse_bytes");
        assert!(flows.is_sorted_by(|one, other| bytes(one) >= bytes(other)), "{capture:?}");
        let talkers = served.records("talkers", capture, "").unwrap();
        let talkers = talkers["records"].as_array().unwrap();
        assert!(
            talkers.is_sorted_by(|one, other| one["bytes"].as_u64() >= other["bytes"].as_u64())
        );
        let shown = |talker: &Value| {
            let address = talker["address"].as_str().unwrap();
            format!("{address} {} {}", talker["bytes"], talker["sent_bytes"])
        };
        let given: Vec<String> = talkers.iter().map(shown).collect();
        assert_eq!(sorted(given), sorted(ends(&expected)), "{capture:?}");
        compared += talkers.len();
    }
    assert!(compared > 0);
}

/// Times and what was said of the lines that `--ladder` prints, and the hosts above them.
fn printed_ladder(
    capture: &Path,
    call_id: &str,
    filter: &str,
) -> (Vec<String>, Vec<(String, String)>) {
    let outcome = run_ringside(&["calls", "-r", arg(capture), "--ladder", call_id, filter]);
    let text = outcome.text();
    let mut lines = text.lines();
    let hosts = lines.next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let message = |line: &str| {
        let is_of_arrow = |c: char| "|<>- ".contains(c);
        let (time, rung) = line.trim().split_once(' ').unwrap();
        let said = rung.trim_matches(is_of_arrow).trim_end_matches(" to itself");
        (time.to_owned(), said.to_owned())
    };
    (hosts, lines.map(message).collect())
}

/// The same of an answer.
fn given_ladder(ladder: &Value) -> (Vec<String>, Vec<(String, String)>) {
    let host = |host: &Value| {
        let address: IpAddr = host["address"].as_str().unwrap().parse().unwrap();
        SocketAddr::new(address, number(host, "port") as u16).to_string()
    };
    let message = |message: &Value| {
        let seconds = message["since_ns"].as_i64().unwrap() as f64 / 1e9;
        let status = || message["status"].to_string();
        let said = message["method"].as_str().map_or_else(status, str::to_owned);
        let sdp = if message["sdp"] == true { " (SDP)" } else { "" };
        (format!("{seconds:.6}"), said + sdp)
    };
    let all = |name: &str| ladder[name].as_array().unwrap().iter();
    (all("hosts").map(host).collect(), all("messages").map(message).collect())
}

#[test]
fn ladders_are_those_that_the_command_prints() {
    let test = "serve::records::ladders_are_those";
    let captures = capture_sample(test, 2);
    if captures.is_empty() || !need_tool(test, "curl") {
        return;
    }
    let is_there = |path: &PathBuf| arg(path).contains("/voip/");
    let captures: Vec<_> = captures.into_iter().filter(is_there).collect();
    let folder = Folder::new();
    let served = served(&folder, &captures);
    let mut compared = 0;
    for capture in &captures {
        let Some(calls) = served.records("records/calls", capture, "") else { continue };
        let calls = calls["records"].as_array().unwrap().iter();
        for call in calls.take(by_run(5, 1_000)) {
            let call_id = call["call_id"].as_str().unwrap();
            for filter in ["", "src port 5060"] {
                let path = format!("calls/{}/ladder", escaped(call_id));
                let ladder = served.records(&path, capture, filter).unwrap();
                let printed = printed_ladder(capture, call_id, filter);
                assert_eq!(given_ladder(&ladder), printed, "{capture:?} {call_id} '{filter}'");
                let is_whole = filter.is_empty();
                let has_call = ladder["calls"].as_array().unwrap().contains(call);
                assert!(has_call || !is_whole, "{capture:?} {call_id}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "no call in the captures, so nothing was compared");
}
