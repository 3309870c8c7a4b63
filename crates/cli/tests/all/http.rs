//! `http`: nginx's own log is the judge of live and recorded traffic, goaccess of the formats.

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::{WAIT_MAX, by_run, capture_sample, need_root, need_tool, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// nginx in the receiver's namespace, killed when dropped.
struct Nginx {
    child: Child,
    log: PathBuf,
}

impl Nginx {
    fn start(network: &Network, folder: &Path) -> Nginx {
        let log = folder.join("access.log");
        let root = folder.join("root");
        std::fs::create_dir(&root).unwrap();
        for (name, bytes) in [("small", 10), ("large", 40_000), ("empty", 0)] {
            std::fs::write(root.join(name), "x".repeat(bytes)).unwrap();
        }
        let at = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log {at}/access.log combined; client_body_temp_path {at}/body;\n\
             proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n\
             uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
             keepalive_requests 1000000;\n\
             server {{ listen 80; root {at}/root; location /moved {{ return 302 /small; }} }} }}\n"
        );
        let path = folder.join("nginx.conf");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", network.receiver(), "nginx", "-c", arg(&path)]);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let is_there =
            || inside(network.receiver(), || TcpStream::connect((RECEIVER_ADDRESS, 80)).is_ok());
        wait_until("nginx to listen", is_there);
        Nginx { child, log }
    }

    /// Its log, once it has as many lines.
    fn lines(&self, count: usize) -> Vec<String> {
        let read = || std::fs::read_to_string(&self.log).unwrap_or_default();
        wait_until("nginx to write its log", || read().lines().count() >= count);
        read().lines().map(without_time).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// nginx writes when it is done, and we the time of the request.
fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once('[').expect("a time");
    format!("{before}{}", rest.split_once(']').expect("a time").1)
}

fn request(number: usize) -> String {
    let targets = ["/small", "/large", "/empty", "/none", "/moved", "/small?a=b&c=%20d"];
    let method = if number % 7 == 3 { "HEAD" } else { "GET" };
    let target = targets[number % targets.len()];
    format!(
        "{method} {target} HTTP/1.1\r\nHost: h\r\nUser-Agent: test \"{number}\"\r\n\
         Referer: http://r/{number}\r\n\r\n"
    )
}

/// Asks for `count` things on one connection, `pipelined` at a time, and reads all answers.
fn ask(count: usize, pipelined: usize) {
    let mut stream = TcpStream::connect((RECEIVER_ADDRESS, 80)).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let numbers: Vec<usize> = (0..count).collect();
    for batch in numbers.chunks(pipelined) {
        let text: String = batch.iter().map(|&number| request(number)).collect();
        stream.write_all(text.as_bytes()).unwrap();
        for &number in batch {
            read_response(&mut reader, request(number).starts_with("HEAD"));
        }
    }
}

fn read_response(reader: &mut BufReader<TcpStream>, is_head: bool) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    if !is_head {
        std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap();
    }
}

fn start(network: &Network, args: &[&str]) -> Running {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside()).arg("http").args(args);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    running
}

#[test]
fn nginx_logs_the_same_live_and_recorded() {
    let test = "nginx_logs_the_same_live_and_recorded";
    if !need_root(test) || !need_tool(test, "nginx") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let nginx = Nginx::start(&network, folder.path());
    let recording = folder.path().join("recording");
    let log = folder.path().join("http.log");
    let recorded = start(&network, &["--no-control", "-w", arg(&recording), "--log", arg(&log)]);
    let alone = start(&network, &["--no-control"]);
    let kept = by_run(2_000, 8_000);
    inside(network.sender(), || {
        ask(kept, 1);
        ask(by_run(500, 2_000), 10);
    });
    let expected = nginx.lines(kept + by_run(500, 2_000));
    for running in [recorded, alone] {
        let outcome = running.stop();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let text = match outcome.text() {
            text if text.is_empty() => std::fs::read_to_string(&log).unwrap(),
            text => text,
        };
        let lines: Vec<_> = text.lines().map(without_time).collect();
        assert_eq!(lines, expected);
    }
    let stored = run_ringside(&["http", "-r", arg(&recording)]);
    assert_eq!(stored.code(), Some(0), "{}", stored.stderr);
    assert_eq!(stored.text().lines().map(without_time).collect::<Vec<_>>(), expected);
}

#[test]
fn only_heads_are_enough_for_a_log() {
    let test = "only_heads_are_enough_for_a_log";
    if !need_root(test) || !need_tool(test, "nginx") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let nginx = Nginx::start(&network, folder.path());
    let args = ["--no-control", "--headers-only", "--json"];
    let running = start(&network, &args);
    inside(network.sender(), || ask(500, 1));
    let expected = nginx.lines(500);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = &lines.last().unwrap()["account"];
    // A packet for each request and each status line.
    assert_eq!((&account["frames"], &account["balances"]), (&1_000.into(), &true.into()));
    let found: Vec<_> = lines.iter().filter(|line| line.get("ending").is_some()).collect();
    assert_eq!(found.len(), 500);
    for (line, expected) in found.iter().zip(expected) {
        let bytes = match line["method"] == "HEAD" {
            true => "0".into(),
            false => line["response_declared_bytes"].to_string(),
        };
        let status = format!(" {} {bytes} ", line["status"]);
        assert!(expected.contains(&status), "{expected} {status}");
    }
}

#[test]
fn a_log_that_is_not_written_ends_the_run_unless_packets_are_recorded() {
    let test = "a_log_that_is_not_written_ends_the_run";
    if !need_root(test) || !need_tool(test, "nginx") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let _nginx = Nginx::start(&network, folder.path());
    let recording = folder.path().join("recording");
    let full = ["--no-control", "--log", "/dev/full"];
    let recorded = start(&network, &[&full, ["-w", arg(&recording)].as_slice()].concat());
    let alone = start(&network, &full);
    inside(network.sender(), || ask(100, 1));
    let why = "/dev/full is not written any more: No space left on device";
    let outcome = alone.finish();
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    recorded.wait_for_stderr(why);
    let outcome = recorded.stop();
    assert_eq!(outcome.code(), Some(2));
    assert_eq!(outcome.stderr.matches(why).count(), 1, "{}", outcome.stderr);
    let stored = run_ringside(&["http", "-r", arg(&recording)]);
    assert_eq!((stored.code(), stored.text().lines().count()), (Some(0), 100));
}

#[test]
fn a_log_is_no_file_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let before = b"packets";
    std::fs::write(&path, before).unwrap();
    let other = folder.path().join("b.pcap");
    std::fs::hard_link(&path, &other).unwrap();
    for log in [&path, &other] {
        let outcome = run_ringside(&["http", "-r", arg(&path), "--log", arg(log)]);
        assert_eq!(outcome.code(), Some(2));
        let why = "is read and written at once: name another file";
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn goaccess_takes_every_line_of_all_formats() {
    let test = "goaccess_takes_every_line_of_all_formats";
    if !need_tool(test, "goaccess") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let native = "%x.%^ %~%L %h %^/%s %b %m %U";
    let formats: [(&str, &[&str], &[&str]); 4] = [
        ("combined", &[], &["--log-format=COMBINED"]),
        ("w3c", &[], &["--log-format=W3C"]),
        ("squid", &["--syslog-prefix", "probe"], &["--log-format=SQUID"]),
        ("squid", &[], &["--log-format", native, "--datetime-format=%s"]),
    ];
    for (format, options, reader) in formats {
        let log = folder.path().join("log");
        let mut text = String::new();
        for path in capture_sample(test, 6) {
            let outcome = run_ringside(
                &[&["http", "-r", arg(&path), "--log-format", format], options].concat(),
            );
            text.push_str(&outcome.text());
        }
        std::fs::write(&log, &text).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        let out = folder.path().join("out.json");
        let mut args = vec![arg(&log), "--no-progress", "-o", arg(&out)];
        args.extend(reader);
        let outcome = run("goaccess", &args);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        // It undoes escapes, and writes bytes that are no UTF-8.
        let report = String::from_utf8_lossy(&std::fs::read(&out).unwrap()).into_owned();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let general = &report["general"];
        assert_eq!(general["failed_requests"], 0, "{format}: {general}");
        assert_eq!(general["valid_requests"], lines, "{format}");
    }
}
