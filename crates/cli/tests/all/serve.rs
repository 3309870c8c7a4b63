//! `ringside serve` next to a recording capture, asked by curl: what it says is what the capture
//! accounts for, and what it gives is what tcpdump reads.

mod browser;
mod records;
mod tls;

use crate::common::folder::{Folder, number};
use crate::common::*;
use ringside_testkit::{need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Frames of the load, of 64 bytes each with their checksum, which is not captured.
const LOAD: u64 = 5_000;
/// Fewer bytes than the whole load has.
const DOWNLOAD_MAX: &str = "200000";

struct Served {
    running: Running,
    socket: String,
}

impl Served {
    fn start(folder: &Folder, args: &[&str]) -> Served {
        let socket = arg(&folder.path("serve.sock")).to_owned();
        let mut command = Command::new(ringside());
        command.args(["serve", "--listen", &format!("unix:{socket}")]).args(args);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        Served { running, socket }
    }

    fn curl(&self, args: &[&str], path: &str) -> Outcome {
        let url = format!("http://localhost{path}");
        let own = ["--silent", "--show-error", "--unix-socket", &self.socket, "--globoff"];
        run("curl", &[&own[..], args, &[&url]].concat())
    }

    fn json(&self, path: &str) -> Value {
        let outcome = self.curl(&[], path);
        serde_json::from_slice(&outcome.stdout)
            .unwrap_or_else(|e| panic!("{path} {e}: {outcome:?}"))
    }

    /// Downloads to `file`; how curl ended.
    fn download(&self, query: &str, file: &Path) -> Option<i32> {
        let path = format!("/api/v1/packets?{query}");
        self.curl(&["--fail", "--output", arg(file)], &path).code()
    }
}

/// A text as a part of an address, whatever is in it.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// How many packets tcpdump reads.
fn tcpdump(file: &Path, filter: &str) -> u64 {
    let outcome = run("tcpdump", &["--count", "-r", arg(file), filter]);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let said = String::from_utf8(outcome.stdout).unwrap();
    said.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_recording_is_watched_and_its_packets_are_found_and_downloaded() {
    let test = "serve::a_recording_is_watched";
    if !need_root(test) || !need_tool(test, "curl") || !need_tool(test, "tcpdump") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let [control, recording] = ["control.sock", "recording"].map(|name| folder.path(name));
    let run = network.capture(&["-i", "rx0", "--control", arg(&control), "-w", arg(&recording)]);
    let served = Served::start(
        &folder,
        &[
            "--control",
            arg(&control),
            "--recordings",
            arg(&recording),
            "--download-max",
            DOWNLOAD_MAX,
        ],
    );
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.running.pid())).unwrap();
    for set in ["CapPrm", "CapEff"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
    assert_eq!(network.send(SenderKind::Live, &shape, LOAD, Some(50_000)).handed, LOAD);
    wait_until("frames in the files", || {
        let captures = served.json("/api/v1/captures");
        captures["captures"][0]["status"]["ledger"]["consumers"][0]["delivered"] == LOAD
    });
    let health = served.json("/api/v1/health");
    assert_eq!(health["ok"], true, "{health}");
    for stage in health["captures"][0]["stages"].as_array().unwrap() {
        assert_eq!((&stage["input"], &stage["output"]), (&LOAD.into(), &LOAD.into()), "{health}");
    }
    let metrics = String::from_utf8(served.curl(&[], "/metrics").stdout).unwrap();
    let taken = metrics.lines().find(|line| line.starts_with("ringside_taken_frames_total{"));
    assert!(taken.unwrap().ends_with(&format!(" {LOAD}")), "{metrics}");

    let found = served.json("/api/v1/find?filter=udp&last=1h");
    assert_eq!((number(&found, "packets"), &found["end"]), (LOAD, &"complete".into()), "{found}");
    let none = served.json("/api/v1/find?filter=host%20203.0.113.99");
    assert_eq!(number(&none, "packets"), 0);
    let wrong = served.json("/api/v1/find?filter=prot%20udp");
    assert!(wrong["error"].as_str().unwrap().contains("syntax error"), "{wrong}");

    let flows = served.json("/api/v1/records/flows?filter=udp&last=1h");
    let packets = flows["records"].as_array().unwrap().iter();
    let packets: u64 = packets.map(|flow| number(flow, "packets")).sum();
    assert_eq!((packets, number(&flows["search"], "packets")), (LOAD, LOAD), "{flows}");
    assert_eq!(flows["incomplete"], serde_json::json!([]), "{flows}");
    let wrong = served.json("/api/v1/records/flows?filter=prot%20udp");
    assert!(wrong["error"].as_str().unwrap().contains("syntax error"), "{wrong}");

    let file = folder.path("packets.pcapng");
    assert_eq!(served.download("filter=udp&limit=100", &file), Some(0));
    assert_eq!((tcpdump(&file, ""), tcpdump(&file, "udp")), (100, 100));
    assert_eq!(served.download("", &file), Some(18), "curl sees that the transfer broke off");
    assert_eq!(served.download("filter=prot%20udp", &file), Some(22), "400, before any packet");

    let trial = "{\"rules\": [\"udp => drop\", \"tcp => count\"]}";
    let header = "Content-Type: application/json";
    let tried = served.curl(&["--header", header, "--data", trial], "/api/v1/rules/test");
    let tried: Value = serde_json::from_slice(&tried.stdout).unwrap();
    assert_eq!((&tried["rules"][0]["frames"], &tried["undecided"]), (&LOAD.into(), &0.into()));

    served.running.signal(Signal::TERM);
    let outcome = served.running.finish();
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let audit = outcome.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (audit, others): (Vec<Value>, Vec<Value>) =
        audit.partition(|line| line["audit"] == "download");
    let [records] = &others[..] else { panic!("{others:?}") };
    let details = &records["details"];
    assert_eq!((&records["audit"], &details["kind"]), (&"records".into(), &"flows".into()));
    assert_eq!((number(details, "packets"), &details["asked"]["filter"]), (LOAD, &"udp".into()));
    let of =
        |name: &str| audit.iter().map(|line| line["details"][name].clone()).collect::<Vec<_>>();
    assert_eq!(audit.len(), 2, "{outcome:?}");
    assert_eq!((&of("packets")[0], &of("end")[0]), (&100.into(), &"complete".into()));
    assert!(of("end")[1].as_str().unwrap().contains("more than 200000 bytes"), "{audit:?}");
    assert!(audit[0]["who"].as_str().unwrap().contains("of user 0"), "{audit:?}");
    run.stop().checked_ledger(LOAD);
}

#[test]
fn what_cannot_be_served_is_refused_with_its_fix() {
    for (args, words) in [
        (&["--listen", "0.0.0.0:8080"][..], "ssh -L"),
        (&["--listen", "nowhere"], "unix:PATH"),
        (&["--recordings", "/nonexistent/recording"], "no such recording"),
        (&["--user", "no-such-user-here"], "there is no such user"),
        (&["--tokens", "/nonexistent/tokens"], "No such file"),
    ] {
        let outcome = run_ringside(&[&["serve"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    let outcome = run_ringside(&["serve", "--openapi"]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert!(document["paths"]["/api/v1/find"]["get"].is_object());
}
