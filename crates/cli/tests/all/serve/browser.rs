//! The page in a browser: no view breaks a rule of accessibility or has an error, and its numbers
//! are those of the ledger and of the API.
//!
//! The browser is a Chromium in `PATH`, driven by packages of npm in the folder that
//! `RINGSIDE_BROWSER_MODULES` names (CONTRIBUTING.md).

use super::{Served, escaped};
use crate::common::folder::{Folder, number};
use crate::common::*;
use ringside_testkit::stacks::{Header, Stack};
use ringside_testkit::{need_root, need_tool, program_file, project_root, skip};
use ringside_transmit::{SenderKind, Shape, Sizes};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Frames of the load, from 16 hosts.
const LOAD: u64 = 2_000;
/// A Call-ID and a name that would be more than text in a page that takes them for it.
const CALL_ID: &str = "1<img/src=x/onerror=console.error(1)>%@a";
const NAME: &str = "sip:&lt;svg/onload=console.error(2)&gt;@a";
const PACKAGES: [&str; 2] = ["puppeteer-core", "axe-core"];
const CHROMIUMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What was seen of a view.
#[derive(Debug, Deserialize)]
struct Seen {
    name: String,
    errors: Vec<String>,
    violations: Vec<String>,
    wide: Vec<String>,
    /// Texts by selector.
    texts: BTreeMap<String, Vec<String>>,
    /// Whether the keyboard led on.
    by_keys: Option<bool>,
    paint_ms: i64,
    shown_ms: i64,
}

/// A datagram between hosts of the lab's network that are not there.
fn datagram(from: u8, to: u8, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let addresses = [10, 99, 0, from, 10, 99, 0, to];
    let ip = Header::Ipv4 { id: 1, dont_fragment: true, addresses, options: Vec::new() };
    Stack(vec![Header::Ethernet, ip, Header::Udp { ports, has_checksum: true }]).uncut(payload)
}

fn sip(start: &str, cseq: &str, to_tag: &str, media: Option<(u8, u16)>) -> Vec<u8> {
    let body = media.map_or(String::new(), |(host, port)| {
        format!("v=0\r\nc=IN IP4 10.99.0.{host}\r\nm=audio {port} RTP/AVP 0\r\n")
    });
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let text = format!(
        "{start}\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: \"a\" <{NAME}>;tag=a\r\n\
         To: <sip:bob@b>{to_tag}\r\nCall-ID: {CALL_ID}\r\nCSeq: {cseq}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    text.into_bytes()
}

/// A call by a proxy, with media and a loss in it, and a question for a name.
fn frames() -> Vec<Vec<u8>> {
    let say = |from: u8, to: u8, text: Vec<u8>| datagram(from, to, [5060; 2], &text);
    let invite = || sip("INVITE sip:bob@b SIP/2.0", "1 INVITE", "", Some((11, 4000)));
    let answer = || sip("SIP/2.0 200 OK", "1 INVITE", ";tag=b", Some((13, 6000)));
    let mut frames = vec![
        say(11, 12, invite()),
        say(12, 11, sip("SIP/2.0 100 Trying", "1 INVITE", "", None)),
        say(12, 13, invite()),
        say(13, 12, sip("SIP/2.0 180 Ringing", "1 INVITE", ";tag=b", None)),
        say(12, 11, sip("SIP/2.0 180 Ringing", "1 INVITE", ";tag=b", None)),
        say(13, 12, answer()),
        say(12, 11, answer()),
        say(11, 12, sip("ACK sip:bob@b SIP/2.0", "1 ACK", ";tag=b", None)),
    ];
    for number in (0..200u16).filter(|number| *number != 100) {
        let mut rtp = vec![0x80, 0];
        rtp.extend(number.to_be_bytes());
        rtp.extend((u32::from(number) * 160).to_be_bytes());
        rtp.extend([0, 0, 0, 7]);
        rtp.extend([0xff; 160]);
        frames.push(datagram(11, 13, [4000, 6000], &rtp));
    }
    frames.push(say(11, 12, sip("BYE sip:bob@b SIP/2.0", "2 BYE", ";tag=b", None)));
    frames.push(say(12, 11, sip("SIP/2.0 200 OK", "2 BYE", ";tag=b", None)));
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 6];
    query.extend(b"<b>x<b\x00\x00\x01\x00\x01");
    frames.push(datagram(11, 12, [3000, 53], &query));
    frames
}

fn is_package(modules: &Path, name: &str) -> bool {
    modules.join("node_modules").join(name).join("package.json").is_file()
}

/// Where the packages and the browser are; else the test is skipped.
fn browser(test: &str) -> Option<[PathBuf; 2]> {
    if !need_root(test) || !need_tool(test, "node") || !need_tool(test, "curl") {
        return None;
    }
    let Some(modules) = std::env::var_os("RINGSIDE_BROWSER_MODULES").map(PathBuf::from) else {
        skip(test, "RINGSIDE_BROWSER_MODULES names no folder of packages (CONTRIBUTING.md)");
        return None;
    };
    if let Some(missing) = PACKAGES.into_iter().find(|name| !is_package(&modules, name)) {
        skip(test, &format!("RINGSIDE_BROWSER_MODULES has no {missing} (CONTRIBUTING.md)"));
        return None;
    }
    let Some(chromium) = CHROMIUMS.into_iter().find_map(program_file) else {
        skip(test, "no Chromium is installed (CONTRIBUTING.md)");
        return None;
    };
    Some([modules, chromium])
}

/// What the browser sees of these views.
fn look(
    [modules, chromium]: &[PathBuf; 2],
    url: &str,
    folder: &Folder,
    views: &Value,
) -> Vec<Seen> {
    let views = std::fs::File::open(folder.add("views.json", views.to_string())).unwrap();
    let mut command = Command::new("node");
    command.arg(project_root().join("crates/cli/tests/all/serve/browser.mjs"));
    command.arg(modules).arg(chromium).arg(url);
    command.stdin(views).stdout(Stdio::piped());
    // It ends by its own limits, which are longer than those of a wait here.
    let outcome = command.output().unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    serde_json::from_slice(&outcome.stdout).unwrap()
}

/// A number as the page groups it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

impl Seen {
    fn of<'s>(all: &'s [Seen], name: &str) -> &'s Seen {
        all.iter().find(|one| one.name == name).unwrap()
    }

    /// The texts of a selector.
    fn texts(&self, selector: &str) -> &[String] {
        &self.texts[selector]
    }

    fn has(&self, selector: &str, text: &str) {
        let texts = self.texts(selector);
        assert!(texts.iter().any(|one| one.contains(text)), "{}: {text}: {texts:?}", self.name);
    }
}

/// The views, each with what is read there. What was recorded is asked for from 1970 on, since
/// nothing is asked where nothing was chosen.
fn views(call_id: &str) -> Value {
    let table = "table.records tbody tr";
    let records = |name: &str| {
        json!({"name": name, "hash": format!("{name}?from=1"), "wait": table,
            "read": [".result", table]})
    };
    json!([
        {"name": "ring", "hash": "ring", "wait": ".tiles", "read": [".tile", ".verdict"]},
        {"name": "health", "hash": "health", "wait": ".stage", "read": [".stage td"]},
        {"name": "rules", "hash": "rules", "wait": "tr.total", "read": ["table tbody tr"]},
        {"name": "packets", "hash": "packets?filter=udp&from=1", "wait": ".result",
            "read": [".result"]},
        records("flows"),
        {"name": "talkers", "hash": "flows?by=talkers&from=1", "wait": table, "read": [".result"]},
        {"name": "sankey", "hash": "flows?view=sankey&from=1", "wait": ".sankey",
            "read": [".total-bytes"], "keys": ".sankey a"},
        {"name": "http", "hash": "http?from=1", "wait": ".result", "read": [".result"]},
        records("names"),
        {"name": "tls", "hash": "tls?from=1", "wait": ".result", "read": [".result"]},
        records("calls"),
        {"name": "ladder", "hash": format!("calls?from=1&call={call_id}"), "wait": ".message",
            "read": [".message span", ".ladder th", ".call h2", ".lines div"],
            "keys": "table.records a"},
        {"name": "sql", "hash": "sql", "wait": ".notice"},
    ])
}

#[test]
fn every_view_is_accessible_and_its_numbers_are_those_of_the_ledger() {
    let test = "serve::browser::every_view";
    let Some(programs) = browser(test) else { return };
    let (network, folder) = (Network::up(), Folder::new());
    let [control, recording] = ["control.sock", "recording"].map(|name| folder.path(name));
    let rules = folder.add("rules", "udp => take\n");
    let run = network.capture(&[
        "-i",
        "rx0",
        "--control",
        arg(&control),
        "-w",
        arg(&recording),
        "--rules",
        arg(&rules),
    ]);
    let options = ["--control", arg(&control), "--recordings", arg(&recording)];
    let served = Served::start(&folder, &options);
    let mut command = Command::new(ringside());
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
    let by_tcp = Running::start(command);
    by_tcp.wait_for_stderr("listening on http://");
    let said = by_tcp.stderr_so_far();
    let url = said.split_whitespace().find(|word| word.starts_with("http://")).unwrap();

    let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
    network.send(SenderKind::Live, &shape, LOAD, Some(20_000));
    network.replay(&frames());
    let all = LOAD + frames().len() as u64;
    wait_until("frames in the files", || {
        let captures = served.json("/api/v1/captures");
        captures["captures"][0]["status"]["ledger"]["consumers"][0]["delivered"] == all
    });
    let call_id = escaped(CALL_ID);
    let seen = look(&programs, url.trim_end_matches('/'), &folder, &views(&call_id));
    for view in &seen {
        println!(
            "{}: painted after {} ms, shown after {} ms",
            view.name, view.paint_ms, view.shown_ms
        );
    }
    for Seen { name, errors, violations, wide, by_keys, .. } in &seen {
        assert!(violations.is_empty(), "{name}: {violations:#?}");
        assert!(wide.is_empty(), "{name}: {wide:?}");
        assert_ne!(*by_keys, Some(false), "{name}: the keyboard does not lead on");
        // There is no store, which its screen says, and the browser notes that it got no answer.
        let is_refusal = |error: &&String| name == "sql" && error.contains("404");
        let errors: Vec<_> = errors.iter().filter(|error| !is_refusal(error)).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    check_captures(&served, &seen, all);
    check_rules(&served, &seen);
    check_records(&served, &seen, &call_id);
    assert_eq!(by_tcp.stop().code(), Some(0));
    run.stop().checked_ledger(all);
}

/// Ring and Health say what the ledger says.
fn check_captures(served: &Served, seen: &[Seen], all: u64) {
    let ring = Seen::of(seen, "ring");
    ring.has(".tile", &format!("{} frames", grouped(all)));
    ring.has(".verdict", "Nothing is lost");
    let health = served.json("/api/v1/health");
    let stages = health["captures"][0]["stages"].as_array().unwrap();
    for stage in stages {
        Seen::of(seen, "health").has(".stage td", &grouped(number(stage, "output")));
    }
}

/// Rules have counted what the API says.
fn check_rules(served: &Served, seen: &[Seen]) {
    let id = &served.json("/api/v1/captures")["captures"][0]["id"];
    let answer = served.json(&format!("/api/v1/captures/{id}/rules"));
    let [rule] = &answer["rules"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert!(number(rule, "frames") > 0, "{answer}");
    Seen::of(seen, "rules").has("table tbody tr", &grouped(number(rule, "frames")));
}

/// The screens of records say what the API says.
fn check_records(served: &Served, seen: &[Seen], call_id: &str) {
    let of = |path: &str| served.json(&format!("/api/v1/{path}"));
    let udp = number(&of("find?filter=udp"), "packets");
    Seen::of(seen, "packets").has(".result", &grouped(udp));
    for (name, path) in [
        ("flows", "records/flows?active=2h"),
        ("talkers", "talkers"),
        ("http", "records/http"),
        ("names", "records/dns"),
        ("tls", "records/tls"),
        ("calls", "records/calls"),
    ] {
        let answer = of(path);
        let records = answer["records"].as_array().unwrap().len() as u64;
        let packets = number(&answer["search"], "packets");
        Seen::of(seen, name).has(".result", &format!("{} ", grouped(records)));
        Seen::of(seen, name).has(".result", &format!("of {} packets", grouped(packets)));
    }
    let flows = of("records/flows?active=2h&limit=10000");
    let bytes = |flow: &Value| number(flow, "bytes") + number(flow, "reverse_bytes");
    let sum: u64 = flows["records"].as_array().unwrap().iter().map(bytes).sum();
    assert_eq!(Seen::of(seen, "sankey").texts(".total-bytes"), [grouped(sum)]);

    let ladder = of(&format!("calls/{call_id}/ladder"));
    let view = Seen::of(seen, "ladder");
    let messages = ladder["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 10, "{ladder}");
    let shown = view.texts(".message span");
    assert_eq!(shown.len(), messages.len(), "{shown:?}");
    for (message, shown) in messages.iter().zip(shown) {
        let status = || message["status"].to_string();
        let said = message["method"].as_str().map_or_else(status, str::to_owned);
        assert!(shown.starts_with(&said), "{message}: {shown}");
        assert_eq!(shown.ends_with("+ SDP"), message["sdp"] == true, "{message}: {shown}");
    }
    for host in ladder["hosts"].as_array().unwrap() {
        let (address, port) = (host["address"].as_str().unwrap(), &host["port"]);
        view.has(".ladder th", &format!("{address}:{port}"));
    }
    // What is in a message is text here, and nothing else.
    view.has(".call h2", CALL_ID);
    let quality = &ladder["calls"][0]["streams"][0]["quality"];
    for (name, of) in
        [("MOS, listening", "mos_lq"), ("Bpl, codec", "bpl"), ("BurstR", "burst_ratio")]
    {
        let value = quality[of].as_f64().unwrap();
        view.has(".lines div", &format!("{name}{value}"));
    }
}
