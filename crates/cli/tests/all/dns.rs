//! `dns`: dnsmasq answers, dig asks, and every message is accounted for.

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::{need_root, need_tool, wait_until};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

/// dnsmasq in the receiver's namespace, killed when dropped.
struct Dnsmasq(Child);

impl Dnsmasq {
    fn start(network: &Network) -> Dnsmasq {
        let listen = format!("--listen-address={RECEIVER_ADDRESS}");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", network.receiver(), "dnsmasq", "--no-daemon"]);
        command.args(["--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces"]);
        command.args([&listen, "--address=/known.test/192.0.2.7"]);
        let server = Dnsmasq(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("dnsmasq to answer", || dig(network.receiver(), &["known.test"]).success);
        server
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Dig {
    success: bool,
    text: String,
}

fn dig(namespace: &str, questions: &[&str]) -> Dig {
    let at = format!("@{RECEIVER_ADDRESS}");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "dig", "+time=2", "+tries=1", &at]);
    let output = command.args(questions).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Dig { success: output.status.success(), text }
}

/// `ID TYPE NAME RESULT ENDING` of a line.
fn facts(line: &serde_json::Value) -> String {
    let of = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
    let (id, kind) = (&line["id"], of("type"));
    format!("{id} {kind} {} {} {}", of("name"), of("rcode"), of("ending"))
}

#[test]
fn dig_sees_the_answers_that_are_logged_live_and_recorded() {
    let test = "dig_sees_the_answers_that_are_logged_live_and_recorded";
    if !need_root(test) || !need_tool(test, "dnsmasq") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let _server = Dnsmasq::start(&network);
    let recording = folder.path().join("recording");
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["dns", "--json", "--no-control", "-w", arg(&recording)]);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let questions: Vec<String> = (0..20).map(|n| format!("n{n}.known.test")).collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    let over_udp = dig(network.sender(), &[&questions, ["none.test"].as_slice()].concat());
    let over_tcp = dig(network.sender(), &["+tcp", "-t", "TXT", "known.test"]);
    inside(network.sender(), || {
        // No process listens there.
        let query =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04lost\x04test\x00\x00\x01\x00\x01";
        let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        socket.send_to(query, (RECEIVER_ADDRESS, 5_300)).unwrap();
    });
    running.wait_for_stdout("\"name\":\"known.test\"");
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = &lines.last().unwrap()["account"];
    assert_eq!(account["balances"], true, "{account}");
    let found: Vec<_> = lines.iter().filter(|line| line.get("ending").is_some()).collect();
    // dig shows the header of each answer: `opcode: QUERY, status: NOERROR, id: 4711`.
    let mut expected: Vec<(String, String)> = Vec::new();
    for line in (over_udp.text + &over_tcp.text).lines() {
        let Some((_, header)) = line.split_once("status: ") else { continue };
        let (status, id) = header.split_once(", id: ").unwrap();
        expected.push((id.to_owned(), status.to_owned()));
    }
    assert_eq!(expected.len(), 22);
    let answered = found.iter().filter(|line| line["ending"] == "answered");
    let answered: Vec<_> = answered
        .map(|line| (line["id"].to_string(), line["rcode"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(answered, expected);
    let unanswered = found.iter().filter(|line| line["ending"] != "answered");
    let unanswered: Vec<_> = unanswered.map(|line| facts(line)).collect();
    assert_eq!(unanswered, ["4660 A lost.test - forced"]);
    assert_eq!(account["dns"]["messages"], 2 * 22 + 1);
    let stored = run_ringside(&["dns", "-r", arg(&recording), "--json"]);
    assert_eq!(stored.code(), Some(0), "{}", stored.stderr);
    let again = stored.json_lines();
    let again: Vec<_> = again.iter().filter(|line| line.get("ending").is_some()).collect();
    let without_interface = |lines: &[&serde_json::Value]| -> Vec<serde_json::Value> {
        let mut lines: Vec<serde_json::Value> = lines.iter().map(|&line| line.clone()).collect();
        lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("interface")));
        lines
    };
    assert_eq!(without_interface(&again), without_interface(&found));
}
