//! `--outlet`: servers have every record once, whatever happens to them meanwhile.

mod kafka;
mod query;
mod s3;
pub mod store;

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::certificates::Authority;
use ringside_testkit::server::{Answer, ClickHouse, HttpServer, Table, free_port};
use ringside_testkit::{capture_sample, need_root, skip, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const ANALYZERS: [&str; 5] = ["flows", "http", "calls", "dns", "tls"];

/// The capture files of this test, as arguments.
pub fn captures(test: &str) -> Vec<String> {
    let mut files = capture_sample(test, 10);
    // Some of those are no captures at all.
    files.retain(|file| !file.components().any(|part| part.as_os_str() == "malformed"));
    files.iter().flat_map(|file| ["-r".to_owned(), arg(file).to_owned()]).collect()
}

/// Runs an analyzer over captures, into a server.
fn run_into(analyzer: &str, captures: &[String], outlet: &str, more: &[&str]) -> Outcome {
    let mut args = vec![analyzer, "--json", "--outlet", outlet];
    args.extend(captures.iter().map(String::as_str));
    args.extend(more);
    run_ringside(&args)
}

/// The records on standard output.
pub fn records(outcome: &Outcome) -> Vec<Value> {
    let mut lines = outcome.json_lines();
    lines.pop().unwrap_or_else(|| panic!("no account: {}", outcome.stderr));
    lines
}

/// Numbers of records by where they are, of an outlet.
fn account(analyzer: &str, outcome: &Outcome, outlet: &str) -> BTreeMap<String, u64> {
    let account = outcome.json_lines().pop().expect("an account")["account"].take();
    assert_eq!(account["balances"], true, "{account}");
    let of = match analyzer {
        "flows" => &account["sinks"][outlet],
        _ => &account["logs"][outlet],
    };
    let counts = of.as_object().unwrap_or_else(|| panic!("{outlet} in {account}"));
    let number = |value: &Value| value.as_u64().or(value["records"].as_u64()).unwrap();
    let named = counts.iter().map(|(name, value)| (name.clone(), number(value)));
    named.filter(|(_, records)| *records > 0).collect()
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, u64> {
    let named = expected.into_iter().filter(|(_, records)| *records > 0);
    named.map(|(name, records)| (name.to_owned(), records as u64)).collect()
}

/// Has later runs deliver what a run that ended `so` left in the spool of a slow server.
fn deliver_all(analyzer: &str, outlet: &str, spool: &Path, so: &Outcome) {
    let mut found = account(analyzer, so, outlet);
    let empty = spool.join("empty.pcap");
    write_pcap(&empty, std::iter::empty());
    while let Some(spooled) = found.remove("spooled") {
        let nothing = ["-r".to_owned(), arg(&empty).to_owned()];
        let run = run_into(analyzer, &nothing, outlet, &["--outlet-spool", arg(spool)]);
        // 1: there was nothing to analyze.
        assert!(matches!(run.code(), Some(0 | 1)), "{analyzer}: {}", run.stderr);
        found = account(analyzer, &run, outlet);
        let all = found.get("delivered").unwrap_or(&0) + found.get("spooled").unwrap_or(&0);
        assert_eq!((all, found["inherited"]), (spooled, spooled), "{analyzer}");
    }
}

/// Types of columns by their names, of what `--outlet-ddl` prints.
fn columns(analyzer: &str) -> BTreeMap<String, String> {
    let outcome = run_ringside(&[analyzer, "--outlet", "clickhouse://h/net", "--outlet-ddl"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let text = outcome.text();
    assert!(text.starts_with(&format!("CREATE TABLE IF NOT EXISTS net.{analyzer}\n(")), "{text}");
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix('`'));
    let split = |line: &str| {
        let (name, rest) = line.split_once("` ").unwrap();
        let kind = rest.trim_end_matches(',').split(" COMMENT").next().unwrap();
        (name.to_owned(), kind.to_owned())
    };
    lines.map(split).collect()
}

/// True if ClickHouse reads a value as one of this type.
fn fits(kind: &str, value: &Value) -> bool {
    match kind.trim_start_matches("Nullable(").trim_end_matches(')') {
        "String" => value.is_string(),
        "Bool" => value.is_boolean(),
        "UInt64" => value.is_u64(),
        "UInt16" => value.as_u64().is_some_and(|port| port <= u64::from(u16::MAX)),
        "IPv6" => value.as_str().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok()),
        "Array(String" => value.is_array(),
        other => panic!("{other}"),
    }
}

#[test]
fn clickhouse_gets_each_record_once_when_it_is_back() {
    let test = "clickhouse_gets_each_record_once_when_it_is_back";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    for analyzer in ANALYZERS {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let outlet = format!("clickhouse://127.0.0.1:{port}/net/{analyzer}");
        let spool = ["--outlet-spool", arg(folder.path())];
        let away = run_into(analyzer, &captures, &outlet, &spool);
        assert_eq!(away.code(), Some(0), "{analyzer}: {}", away.stderr);
        let first = records(&away);
        assert_eq!(account(analyzer, &away, &outlet), counts([("spooled", first.len())]));
        if !first.is_empty() {
            assert!(away.stderr.contains("the spool keeps"), "{}", away.stderr);
        }

        // Every third request is answered; of the others the table takes some.
        let (table, mut number) = (Table::default(), 0);
        let there = table.clone();
        let server = HttpServer::start(port, move |request| {
            number += 1;
            match number % 3 {
                1 => Answer::Say(500, b"not now".to_vec()),
                2 => {
                    there.take(request);
                    Answer::Die
                }
                _ => {
                    there.take(request);
                    Answer::Say(200, Vec::new())
                }
            }
        });
        let back = run_into(analyzer, &captures, &outlet, &spool);
        assert_eq!(back.code(), Some(0), "{analyzer}: {}", back.stderr);
        let second = records(&back);
        let mut found = account(analyzer, &back, &outlet);
        assert_eq!(found.remove("inherited").unwrap_or(0), first.len() as u64);
        assert!(found.keys().all(|name| matches!(name.as_str(), "delivered" | "spooled")));
        assert_eq!(found.values().sum::<u64>() as usize, first.len() + second.len());
        deliver_all(analyzer, &outlet, folder.path(), &back);
        drop(server);
        let content = table.content();
        assert_eq!(content.repeated >= 2, !first.is_empty(), "{analyzer}");
        let rows: Vec<Value> =
            content.rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(rows, [first, second].concat(), "{analyzer}");
        let columns = columns(analyzer);
        for (name, value) in rows.iter().flat_map(|row| row.as_object().unwrap()) {
            assert!(fits(&columns[name], value), "{analyzer} {name}: {value} {}", columns[name]);
        }
    }
}

#[test]
fn otlp_gets_each_record_and_a_refusal_is_counted_and_fails_the_run() {
    let test = "otlp_gets_each_record_and_a_refusal_is_counted_and_fails_the_run";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    for (status, where_to) in [(200, "delivered"), (400, "refused")] {
        let server = HttpServer::start(0, move |request| {
            assert_eq!(request.target, "/v1/logs");
            Answer::Say(status, Vec::new())
        });
        let outlet = format!("otlp://127.0.0.1:{}/v1/logs", server.port());
        for analyzer in ANALYZERS {
            let outcome = run_into(analyzer, &captures, &outlet, &[]);
            let all = records(&outcome).len();
            assert_eq!(account(analyzer, &outcome, &outlet), counts([(where_to, all)]));
            let is_lost = status == 400 && all > 0;
            assert_eq!(outcome.code() == Some(0), !is_lost, "{analyzer}: {}", outcome.stderr);
            assert_eq!(outcome.stderr.contains("did not get there"), is_lost, "{analyzer}");
        }
    }
}

#[test]
fn what_is_wrong_with_an_outlet_is_said_with_what_to_do() {
    let cases: [(&[&str], &str); 9] = [
        (&["--outlet", "https://h/x"], "clickhouse+https://, kafka+tls://, otlp+https://"),
        (&["--outlet", "h:8123"], "write clickhouse://HOST:PORT/DATABASE/TABLE"),
        (&["--outlet-spool", "d"], "--outlet"),
        (&["--outlet", "otlp://h", "--outlet", "otlp://h:4318/v1/logs"], "names a server twice"),
        (&["--outlet", "otlp://h", "--outlet-ddl"], "clickhouse://"),
        (
            &["--outlet", "otlp://h", "--outlet-spool", "d", "--outlet-spool-max", "1MB"],
            "give it at least",
        ),
        (&["--outlet-ca", "f"], "--outlet"),
        (&["--outlet", "otlp://h", "--outlet-ca", "f"], "--outlet-ca is for servers with TLS"),
        (
            &["--outlet", "otlp://me:x@h", "--outlet-user-file", "f"],
            "for an --outlet without a user",
        ),
    ];
    for analyzer in ["dns", "flows"] {
        for (args, words) in cases {
            let outcome = run_ringside(&[&[analyzer, "-r", "none.pcap"], args].concat());
            assert_ne!(outcome.code(), Some(0));
            assert!(outcome.stderr.contains(words), "{args:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn files_of_authorities_and_users_are_read_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| arg(&folder.path().join(name)).to_owned();
    let [capture, ca, user] = ["empty.pcap", "ca", "user"].map(path);
    write_pcap(Path::new(&capture), std::iter::empty());
    std::fs::write(&ca, "hello").unwrap();
    std::fs::write(&user, "me:secret").unwrap();
    std::fs::set_permissions(&user, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (args, words) in [
        (["--outlet-ca", &ca], "holds no certificate of an authority"),
        (["--outlet-ca", &ca], "(--outlet-ca)"),
        (["--outlet-ca", "/nonexistent/ca"], "reading /nonexistent/ca: No such file"),
        (["--outlet-user-file", &user], "chmod 600 (or 640) (--outlet-user-file)"),
        (["--outlet-user-file", "/nonexistent/user"], "reading /nonexistent/user: No such file"),
    ] {
        for analyzer in ["dns", "flows"] {
            let own = [analyzer, "-r", &capture, "--outlet", "otlps://127.0.0.1:1"];
            let outcome = run_ringside(&[&own[..], &args].concat());
            assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
            assert!(outcome.stderr.contains(words), "{args:?}: {}", outcome.stderr);
            assert!(!outcome.stderr.contains("secret"), "{}", outcome.stderr);
        }
    }
}

/// A server in a process of its own, killed when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(mut command: Command, port: u16) -> Server {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { child, port };
        wait_until("the server", || TcpStream::connect(("127.0.0.1", server.port)).is_ok());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a request of another program answers.
fn curl(args: &[&str]) -> String {
    run_clean("curl", &[&["--silent", "--show-error", "--fail-with-body"], args].concat())
}

#[test]
fn clickhouse_itself_has_the_records_of_each_analyzer_once() {
    let test = "clickhouse_itself_has_the_records_of_each_analyzer_once";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = ClickHouse::start(test, &folder.path().join("data")) else { return };
    server.ask("CREATE DATABASE net");
    for analyzer in ANALYZERS {
        let outlet = format!("clickhouse://127.0.0.1:{}/net/{analyzer}", server.port());
        let spool = ["--outlet-create", "--outlet-spool", arg(folder.path())];
        let outcome = run_into(analyzer, &captures, &outlet, &spool);
        assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
        let records = records(&outcome);
        deliver_all(analyzer, &outlet, folder.path(), &outcome);
        let count = server.ask(&format!("SELECT count() FROM net.{analyzer}"));
        assert_eq!(count, records.len().to_string());
        // As they went in, so they come out.
        let first = server.ask(&format!(
            "SELECT toUnixTimestamp64Nano(time) FROM net.{analyzer} ORDER BY 1 FORMAT TSV"
        ));
        let mut expected: Vec<_> =
            records.iter().map(|record| record["first_ns"].as_u64().unwrap_or(0) as i64).collect();
        expected.sort_unstable();
        let expected: Vec<_> = expected.iter().map(i64::to_string).collect();
        assert_eq!(first, expected.join("\n"), "{analyzer}");
    }
}

#[test]
fn live_records_are_sent_by_threads_without_rights() {
    let test = "live_records_are_sent_by_threads_without_rights";
    if !need_root(test) {
        return;
    }
    let (folder, port, table) = (tempfile::tempdir().unwrap(), free_port(), Table::default());
    let there = table.clone();
    let _server = HttpServer::start(port, move |request| {
        there.take(request);
        Answer::Say(200, Vec::new())
    });
    let outlet = format!("clickhouse://127.0.0.1:{port}/net/flows");
    let records = send_live(&outlet, folder.path(), &[]);
    assert_has(&table, &records);
}

#[test]
fn such_threads_speak_tls_with_what_was_read_before() {
    let test = "such_threads_speak_tls_with_what_was_read_before";
    if !need_root(test) {
        return;
    }
    let (folder, port, table) = (tempfile::tempdir().unwrap(), free_port(), Table::default());
    let files = tempfile::tempdir().unwrap();
    let [ca, user] = ["ca", "user"].map(|name| files.path().join(name));
    let authority = Authority::new("tests");
    std::fs::write(&ca, authority.pem()).unwrap();
    std::fs::write(&user, "me:secret\n").unwrap();
    std::fs::set_permissions(&user, std::fs::Permissions::from_mode(0o600)).unwrap();
    let there = table.clone();
    let _server = HttpServer::start_tls(port, &authority.certify(&["127.0.0.1"]), move |request| {
        assert_eq!(request.header("authorization"), Some("Basic bWU6c2VjcmV0"));
        there.take(request);
        Answer::Say(200, Vec::new())
    });
    let outlet = format!("clickhouse+https://me@127.0.0.1:{port}/net/flows");
    let options = ["--outlet-ca", arg(&ca), "--outlet-user-file", arg(&user)];
    let records = send_live(&outlet, folder.path(), &options);
    assert_has(&table, &records);
}

/// Records of live packets, which a server acknowledged; the outlet as it is written back.
fn send_live(shown: &str, folder: &Path, options: &[&str]) -> Vec<Value> {
    let (network, outlet) = (Network::up(), shown.replace("me@", ""));
    let mut command = Command::new(ringside());
    command.args(["flows", "--json", "--no-control", "--netns", network.receiver(), "-i", "rx0"]);
    command.args(["--outlet", &outlet, "--outlet-spool", arg(folder)]).args(options);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let mut senders = threads(running.worker_pid());
    senders.retain(|[name, ..]| name == "outlet");
    let none = ["outlet", "0", "0000000000000000", "1", "2"].map(str::to_owned);
    assert_eq!(senders, [none.clone(), none], "name, user, capabilities, no new ones, seccomp");
    inside(network.sender(), || {
        for from in 0..20 {
            let socket = UdpSocket::bind(("0.0.0.0", 20_000 + from)).unwrap();
            socket.send_to(b"hello", (RECEIVER_ADDRESS, 5_300)).unwrap();
        }
    });
    wait_until("the packets", || network.received() >= 20);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let mut records = records(&outcome);
    // The ledger of the run.
    records.retain(|record| record.get("flow_id").is_some());
    assert!(records.len() >= 20, "{}", records.len());
    let found = account("flows", &outcome, shown);
    assert_eq!(found, counts([("delivered", records.len())]), "{}", outcome.stderr);
    records
}

/// A table has these records. The threads that bring records to the sinks and to the server keep
/// their order.
fn assert_has(table: &Table, records: &[Value]) {
    let content = table.content();
    assert_eq!(content.rows.len(), records.len());
    for (row, record) in content.rows.iter().zip(records) {
        assert_eq!(&serde_json::from_str::<Value>(row).unwrap(), record);
    }
}

/// VictoriaLogs, where it is (docs/howto/outlets.md).
fn victoria_logs() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join("victoria-logs")).find(|path| path.exists())
}

#[test]
fn victoria_logs_has_the_records_of_each_analyzer() {
    let test = "victoria_logs_has_the_records_of_each_analyzer";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let Some(program) = victoria_logs() else {
        return skip(test, "victoria-logs is not in PATH (docs/howto/outlets.md)");
    };
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let mut command = Command::new(program);
    command.arg(format!("-storageDataPath={}", arg(&folder.path().join("data"))));
    command.arg(format!("-httpListenAddr=127.0.0.1:{port}"));
    // Captures are old, and some have hostile stamps.
    command.args(["-retentionPeriod=100y", "-futureRetention=100y"]);
    let _server = Server::start(command, port);
    let outlet = format!("otlp://127.0.0.1:{port}/insert/opentelemetry/v1/logs");
    for analyzer in ANALYZERS {
        let spool = ["--outlet-spool", arg(folder.path())];
        let outcome = run_into(analyzer, &captures, &outlet, &spool);
        assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
        let all = records(&outcome).len();
        deliver_all(analyzer, &outlet, folder.path(), &outcome);
        let query = format!("query=_msg:={analyzer} | stats count() records");
        let url = format!("http://127.0.0.1:{port}/select/logsql/query");
        let count = || -> Value {
            let text = curl(&["--data-urlencode", &query, &url]);
            text.lines().next().map_or(json!({}), |line| serde_json::from_str(line).unwrap())
        };
        wait_until("the records to be found", || {
            count()["records"].as_str().map_or(all == 0, |found| found == all.to_string())
        });
    }
}
