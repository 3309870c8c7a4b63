//! `flows --export`: other programs' collectors have every record, and one that is away gets them
//! when it is back.

use crate::common::chaos::kill;
use crate::common::*;
use ringside_testkit::{by_run, capture_files, need_root, need_tool, wait_until};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Captures with records enough, and none of what a format cannot say.
fn captures_max() -> usize {
    by_run(4, 12)
}

/// The account at the end of an output with `--json`.
fn account(outcome: &Outcome) -> Value {
    let account = outcome.json_lines().pop().expect("an account")["account"].take();
    assert_eq!(account["balances"], true, "{account}");
    account
}

/// Records, packets and IP octets of all records in an output with `--json`.
fn sums(outcome: &Outcome) -> [u64; 3] {
    let mut sums = [0; 3];
    for record in outcome.json_lines().iter().filter(|line| line.get("flow_id").is_some()) {
        let number = |name: &str| record[name].as_u64().unwrap();
        sums[0] += 1;
        sums[1] += number("packets") + number("reverse_packets");
        sums[2] += number("ip_bytes") + number("reverse_ip_bytes");
    }
    sums
}

/// nfcapd on a port of this machine; what it took is in a folder.
struct Nfcapd {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Nfcapd {
    /// Starts it on a port that is free.
    fn start() -> Nfcapd {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Nfcapd::start_on(port)
    }

    fn start_on(port: u16) -> Nfcapd {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("nfcapd");
        command.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600", "-B", "8000000"]);
        command.args(["-w", arg(folder.path())]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        // It writes its own number when it has the port.
        let local = format!("0100007F:{port:04X} ");
        wait_until("nfcapd", || std::fs::read_to_string("/proc/net/udp").unwrap().contains(&local));
        Nfcapd { child, folder, port }
    }

    fn address(&self) -> String {
        format!("udp:127.0.0.1:{}", self.port)
    }

    /// True if it has taken everything out of its socket (/proc/net/udp, rx_queue).
    fn has_taken_all(&self) -> bool {
        let local = format!("0100007F:{:04X}", self.port);
        let table = std::fs::read_to_string("/proc/net/udp").unwrap();
        let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&local));
        let queues = line.and_then(|line| line.split_whitespace().nth(4)).expect("its socket");
        queues.ends_with(":00000000")
    }

    /// Ends it: flows, packets and octets that it stored.
    fn stop(mut self) -> [u64; 3] {
        // When it gets the signal it leaves what is still there.
        wait_until("nfcapd to read", || self.has_taken_all());
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap();
        let text = run_clean("nfdump", &["-R", arg(self.folder.path()), "-o", "null", "-N"]);
        let line = text.lines().find(|line| line.starts_with("Summary:")).expect("a summary");
        ["total flows: ", "total packets: ", "total bytes: "].map(|name| {
            let rest = line.split(name).nth(1).expect("a number");
            rest.split(',').next().unwrap().parse().unwrap()
        })
    }
}

impl Drop for Nfcapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Real captures whose flows all formats can say, the largest first.
fn captures(test: &str) -> Vec<PathBuf> {
    let mut files = capture_files(test);
    files.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    files.truncate(60);
    files
}

#[test]
fn nfcapd_takes_every_record_of_each_format() {
    let test = "nfcapd_takes_every_record_of_each_format";
    if !need_tool(test, "nfcapd") || !need_tool(test, "nfdump") {
        return;
    }
    let mut judged = 0;
    for path in captures(test) {
        let plain = run_ringside(&["flows", "-r", arg(&path), "--json"]);
        let [records, packets, octets] = sums(&plain);
        if records < 20 || judged == captures_max() {
            continue;
        }
        judged += 1;
        for format in ["netflow5", "netflow9", "ipfix", "ipfix-ns", "ipfix-uniflow"] {
            let nfcapd = Nfcapd::start();
            let (to, file) = (nfcapd.address(), arg(&path));
            let args = ["flows", "-r", file, "--json", "--export", &to, "--export-format", format];
            let outcome = run_ringside(&args);
            assert_eq!(outcome.code(), plain.code(), "{format}: {}", outcome.stderr);
            let account = account(&outcome);
            let sink = &account["sinks"][&to];
            let unsaid = &sink["inexpressible"];
            let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
            assert_eq!(number(&sink["delivered"], "records") + number(unsaid, "records"), records);
            let [_, taken, taken_octets] = nfcapd.stop();
            assert_eq!(taken, packets - number(unsaid, "packets"), "{format}: {}", path.display());
            if number(unsaid, "records") == 0 {
                assert_eq!(taken_octets, octets, "{format}: {}", path.display());
            }
        }
    }
    assert!(judged > 0 || captures(test).is_empty());
}

#[test]
fn a_collector_that_starts_late_has_all_that_comes_after_the_next_templates() {
    let test = "a_collector_that_starts_late";
    if !need_root(test) || !need_tool(test, "nfcapd") {
        return;
    }
    let network = Network::up();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let to = format!("udp:127.0.0.1:{port}");
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside()).args(["flows", "--json", "--active"]);
    command.args(["100ms", "--no-control", "--netns", network.receiver(), "-Q", "in"]);
    command.args(["-i", "rx0", "--export", &to]);
    let live = Running::start(command);
    live.wait_for_stderr("listening on");
    let shape = Shape::new(Sizes::fixed(200).unwrap(), 30).unwrap();
    let send = |count| network.send(SenderKind::Packet, &shape, count, Some(50_000));
    // What comes to this socket is not read; then there is none.
    send(300);
    drop(free);
    send(300);
    let nfcapd = Nfcapd::start_on(port);
    // 20 messages later at most come templates: what is sent from then on is understood.
    send(3_000);
    let sent = network.received();
    let outcome = live.stop();
    let account = account(&outcome);
    assert_eq!(account["received"]["packets"], sent);
    let [_, packets, _] = nfcapd.stop();
    assert!(packets > 0, "{account}");
    let sink = &account["sinks"][&to];
    let delivered = sink["delivered"]["packets"].as_u64().unwrap();
    assert!(packets <= delivered, "{packets} of {delivered}");
}

/// The messages of connections, until `done` says so of all the bytes.
fn read_all(listener: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Data records of flows in a stream of messages, by tshark.
fn flows_in(folder: &Path, bytes: &[u8]) -> u64 {
    let path = folder.join("stream.ipfix");
    std::fs::write(&path, bytes).unwrap();
    let text = run_clean(
        "tshark",
        &["-r", arg(&path), "-T", "fields", "-e", "cflow.flow_id", "-E", "occurrence=a"],
    );
    text.lines().flat_map(|line| line.split(',')).filter(|id| !id.is_empty()).count() as u64
}

#[test]
fn what_a_killed_run_left_in_the_spool_is_delivered_by_the_next() {
    let test = "what_a_killed_run_left_in_the_spool";
    if !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let spool = folder.path().join("spool");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = format!("tcp:127.0.0.1:{port}");
    // No process listens there meanwhile.
    drop(listener);
    let start = || {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside()).args(["flows", "--json"]);
        command.args(["--active", "100ms", "--no-control", "--netns", network.receiver()]);
        command.args(["-Q", "in", "-i", "rx0", "--export", &to, "--spool", arg(&spool)]);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        running
    };
    let shape = Shape::new(Sizes::fixed(200).unwrap(), 100).unwrap();
    let send = |count| network.send(SenderKind::Packet, &shape, count, Some(50_000));
    let spooled = || {
        let entries = std::fs::read_dir(spool.join(&to["tcp:".len()..])).into_iter().flatten();
        entries.flatten().map(|entry| entry.metadata().map_or(0, |found| found.len())).sum::<u64>()
    };
    let killed = start();
    wait_until("a spool", || {
        send(200);
        spooled() > 5_000
    });
    kill(killed.worker_pid());
    let _ = killed.finish();
    let left = spooled();
    assert!(left > 5_000, "{left}");

    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let next = start();
    send(500);
    let reader = std::thread::spawn(move || read_all(&listener));
    let outcome = next.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let bytes = reader.join().unwrap();
    let account = account(&outcome);
    let delivered = account["sinks"][&to]["delivered"]["records"].as_u64().unwrap();
    assert_eq!(flows_in(folder.path(), &bytes), delivered);
    let own = sums(&outcome)[0];
    assert!(delivered > own, "{delivered}, {own} of this run");
    assert_eq!(spooled(), 0);
}

#[test]
fn a_file_of_messages_is_read_by_tshark_without_a_question() {
    let test = "a_file_of_messages_is_read_by_tshark";
    if !need_tool(test, "tshark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for path in captures(test).into_iter().take(captures_max()) {
        let file = folder.path().join("flows.ipfix");
        let to = format!("file:{}", arg(&file));
        let outcome = run_ringside(&["flows", "-r", arg(&path), "--json", "--export", &to]);
        let delivered = &account(&outcome)["sinks"][&to]["delivered"]["records"];
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(flows_in(folder.path(), &bytes), delivered.as_u64().unwrap());
        let question = "_ws.expert.severity >= \"Warning\" || cflow.unknown_field_type";
        let found = run_clean("tshark", &["-r", arg(&file), "-Y", question]);
        assert_eq!(found, "", "{}", path.display());
    }
}

#[test]
fn a_collector_that_is_away_is_named_and_costs_status_2() {
    let Some(path) = captures("a_collector_that_is_away_is_named").into_iter().next() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp:{}", listener.local_addr().unwrap());
    drop(listener);
    let outcome = run_ringside(&["flows", "-r", arg(&path), "--json", "--export", &to]);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&format!("{to} is away: ")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("did not get there"), "{}", outcome.stderr);
    let sink = &account(&outcome)["sinks"][&to];
    assert_eq!(sink["delivered"]["records"], 0);
    assert_eq!(sink["undelivered"]["records"], sums(&outcome)[0]);
}
