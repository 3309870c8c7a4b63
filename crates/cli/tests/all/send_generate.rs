//! `ringside send` makes frames: what it says it sent is what the far end got, and what was asked.

use crate::common::*;
use ringside_lab::LabConfig;
use ringside_testkit::{need_root, need_tool};
use ringside_transmit::{SequenceCheck, Stamp};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `ringside send` into the network.
fn send_command(network: &Network, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(ringside());
    command.args(["send", "--json", "--netns", network.sender(), "-i", "tx0"]).args(args);
    command
}

/// What it says at its end.
fn sent(outcome: &Outcome) -> serde_json::Value {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    outcome.json_lines().last().unwrap()["sent"].clone()
}

/// Sends while the far end records to a file; gives the report and the file. The capture must have
/// received what the sender says it handed over.
fn recorded(network: &Network, dir: &Path, args: &[&str]) -> (serde_json::Value, PathBuf) {
    let file = dir.join("got.pcapng");
    let capture = network.capture(&["-i", "rx0", "-w", arg(&file)]);
    let report = sent(&Running::start(send_command(network, args)).finish());
    let handed = report["handed"].as_u64().unwrap();
    wait_until("the far end's frames", || network.received() >= handed);
    capture.stop().checked_ledger(handed);
    assert_eq!(
        report["offered"].as_u64().unwrap(),
        handed
            + report["refused_ring_full"].as_u64().unwrap()
            + report["refused_before_ring"].as_u64().unwrap()
    );
    (report, file)
}

/// The bytes of every frame of a file.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for_each_frame(&[file.to_owned()], |frame, _| frames.push(frame.bytes.to_vec()));
    frames
}

#[test]
fn every_number_arrives_with_every_engine() {
    if !need_root("every_number_arrives_with_every_engine") {
        return;
    }
    for engine in ["live", "af-xdp", "af-packet", "tx-ring", "pcap"] {
        let (network, dir) = (Network::up(), tempfile::tempdir().unwrap());
        let args = ["-c", "20000", "--rate", "50kpps", "--size", "64-1514", "--engine", engine];
        let ranges = ["--src", "10.7.0.0/24", "--dst-port", "5000-5002", "--flows", "768"];
        let (report, file) = recorded(&network, dir.path(), &[&args[..], &ranges].concat());
        assert_eq!(
            (report["offered"].as_u64(), report["handed"].as_u64()),
            (Some(20_000), Some(20_000))
        );
        let mut check = SequenceCheck::new(20_000);
        let mut flows = BTreeSet::new();
        for frame in frames(&file) {
            check.note(0, &frame);
            let flow = Stamp::read(&frame).unwrap().flow.unwrap();
            assert_eq!(frame[26..30], [10, 7, 0, flow as u8]);
            assert_eq!(frame[36..38], (5000 + flow as u16 % 3).to_be_bytes());
            flows.insert(flow);
        }
        assert!(check.report(&[20_000]).is_complete(), "{engine}");
        assert_eq!(flows.len(), 768);
    }
}

#[test]
fn tshark_finds_the_headers_that_were_asked_for_and_nothing_wrong() {
    const TEST: &str = "tshark_finds_the_headers_that_were_asked_for_and_nothing_wrong";
    if !need_root(TEST) || !need_tool(TEST, "tshark") {
        return;
    }
    let (network, dir) = (Network::up(), tempfile::tempdir().unwrap());
    let usual = ["-c", "300", "--rate", "10kpps", "--stamp", "--vlan", "100-109"];
    let v6 = ["--tcp", "--src", "2001:db8::/120", "--dst", "2001:db8:1::7", "--size", "98-600"];
    let (_, file) = recorded(&network, dir.path(), &[&usual[..], &v6].concat());
    let fields = ["vlan.id", "ipv6.src", "ipv6.dst", "tcp.checksum.status", "tcp.dstport"];
    let wanted = fields.iter().flat_map(|field| ["-e", field]);
    let options = ["-o", "tcp.check_checksum:TRUE", "-T", "fields", "-E", "separator=,"];
    let args: Vec<&str> = ["-r", arg(&file)].into_iter().chain(options).chain(wanted).collect();
    let text = run_clean("tshark", &args);
    assert_eq!(text.lines().count(), 300);
    for (flow, line) in text.lines().enumerate() {
        let source = match flow % 256 {
            0 => "2001:db8::".to_string(),
            low => format!("2001:db8::{low:x}"),
        };
        assert_eq!(line, format!("{},{source},2001:db8:1::7,1,9", 100 + flow % 10));
    }
    let (_, file) = recorded(&network, dir.path(), &["-c", "50", "--rate", "1kpps", "--checksum"]);
    let checks = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y"];
    let right = ["udp.checksum.status == 1 && ip.checksum.status == 1"];
    let args: Vec<&str> = ["-r", arg(&file)].into_iter().chain(checks).chain(right).collect();
    assert_eq!(run_clean("tshark", &args).lines().count(), 50);
}

#[test]
fn a_frame_of_a_capture_is_the_template() {
    if !need_root("a_frame_of_a_capture_is_the_template") {
        return;
    }
    let (network, dir) = (Network::up(), tempfile::tempdir().unwrap());
    let (_, first) =
        recorded(&network, dir.path(), &["-c", "3", "--rate", "1kpps", "--size", "200"]);
    let template = dir.path().join("template.pcapng");
    std::fs::rename(&first, &template).unwrap();
    let second = frames(&template).swap_remove(1);
    let same = format!("{}:2", arg(&template));
    let args = ["-c", "5", "--rate", "1kpps", "--no-number", "--template", &same];
    let (_, file) = recorded(&network, dir.path(), &args);
    assert_eq!(frames(&file), vec![second.clone(); 5]);
    let other = ["-c", "5", "--rate", "1kpps", "--template", &same, "--dst", "192.0.2.0/30"];
    let (_, file) = recorded(&network, dir.path(), &other);
    let got = frames(&file);
    assert_eq!(got.iter().map(|frame| frame[33]).collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
    assert!(got.iter().all(|frame| frame[70..] == second[70..] && frame.len() == 200));
}

#[test]
fn a_signal_ends_a_run_with_its_account() {
    if !need_root("a_signal_ends_a_run_with_its_account") {
        return;
    }
    let network = Network::up();
    let running = Running::start(send_command(&network, &["--rate", "10kpps"]));
    wait_until("some frames", || network.received() > 100);
    running.signal(Signal::INT);
    let report = sent(&running.finish());
    assert_eq!(report["stopped"], true);
    assert_eq!(report["handed"], report["offered"]);
    wait_until("the rest", || Some(network.received()) >= report["handed"].as_u64());
    assert_eq!(Some(network.received()), report["handed"].as_u64());
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_fix() {
    if !need_root("what_cannot_be_sent_is_refused_with_the_fix") {
        return;
    }
    let network = Network::up();
    let capture = arg(&ringside_testkit::project_root().join("README.md")).to_owned();
    for (args, said) in [
        (&["--for", "1s"][..], "give a rate"),
        (&["-c", "1", "--rate", "20Gbps"], "--link-speed"),
        (&["-c", "1", "--rate", "0"], "no rate"),
        (&["-c", "1", "--rate", "101%"], "no rate"),
        (&["-c", "0"], "1.."),
        (&["-c", "1", "--size", "1515"], "MTU"),
        (&["-c", "1", "--size", "13"], "14 to 65535"),
        (&["-c", "1", "--engine", "live", "--size", "3409"], "3408"),
        (&["-c", "1", "--flows", "5", "--src", "10.0.0.1"], "at most 1"),
        (&["-c", "1", "--src", "10.0.0.1-"], "192.0.2.1"),
        (&["-c", "1", "--src", "10.0.0.1", "--dst", "::1"], "IPv6"),
        (&["-c", "1", "--tcp", "--size", "60"], "--size 74"),
        (&["-c", "1", "--template", "/nothing.pcap"], "/nothing.pcap"),
        (&["-c", "1", "--template", &capture], "README.md"),
        (&["-c", "1", "--cpus", "0,0"], "given once"),
    ] {
        let outcome = Running::start(send_command(&network, args)).finish();
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
    }
    let nowhere = run_ringside(&["send", "-i", "nothing0", "-c", "1"]);
    assert!(nowhere.stderr.contains("ip link"), "{}", nowhere.stderr);
    assert_eq!(network.received(), 0);
}

/// A sender that goes on until it is ended.
fn endless(network: &Network, engine: &str) -> Running {
    let args = ["--rate", "2kpps", "--for", "60s", "--engine", engine];
    let running = Running::start(send_command(network, &args));
    wait_until("its frames", || network.received() >= 100);
    running
}

#[test]
fn an_error_in_the_middle_ends_with_its_account_and_status_2() {
    if !need_root("an_error_in_the_middle_ends_with_its_account_and_status_2") {
        return;
    }
    let network = Network::up();
    let running = endless(&network, "af-packet");
    run_clean("ip", &["-n", network.sender(), "link", "set", "tx0", "down"]);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    let report = &outcome.json_lines()[0]["sent"];
    let count = |name: &str| report[name].as_u64().unwrap();
    let refused = count("refused_ring_full") + count("refused_before_ring");
    assert_eq!((count("offered"), refused > 0), (count("handed") + refused, true), "{report}");
    assert_eq!(count("handed"), network.received(), "{report}");
    let failure = report["failure"].as_str().unwrap();
    assert!(failure.contains("was set down") && outcome.stderr.contains(failure), "{failure}");
}

#[test]
fn a_queue_that_keeps_its_frames_does_not_keep_a_run_from_its_end() {
    let test = "a_queue_that_keeps_its_frames_does_not_keep_a_run_from_its_end";
    if !need_root(test) || !need_tool(test, "tc") {
        return;
    }
    let network = Network::up();
    // More than a second for each frame, and the socket's buffer holds some: a call that sent all
    // that it could would last for hours.
    let shaped = "tbf rate 8kbit burst 2kb limit 10mb";
    let tc = ["netns", "exec", network.sender(), "tc", "qdisc", "add", "dev", "tx0", "root"];
    let words: Vec<&str> = shaped.split(' ').collect();
    run_clean("ip", &[&tc[..], &words].concat());
    let args = ["-c", "1000000", "--size", "1514", "--engine", "pcap", "--for", "500ms"];
    let outcome = Running::start(send_command(&network, &args)).finish();
    let sent = sent(&outcome);
    assert_eq!(sent["handed"], sent["offered"], "{sent}");
    assert!(sent["offered"].as_u64().is_some_and(|count| (1..10_000).contains(&count)), "{sent}");
}

#[test]
fn live_frames_have_an_interface_to_themselves() {
    if !need_root("live_frames_have_an_interface_to_themselves") {
        return;
    }
    let network = Network::up();
    let running = endless(&network, "live");
    let other = |engine: &str| {
        let args = ["-c", "100", "--rate", "1kpps", "--engine", engine];
        Running::start(send_command(&network, &args)).finish()
    };
    let second = other("live");
    assert_eq!(second.code(), Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("another sender of live frames"), "{}", second.stderr);
    let auto = other("auto");
    assert_eq!(sent(&auto)["handed"], 100);
    assert!(auto.stderr.contains("by af-xdp: XDP program"), "{}", auto.stderr);
    // The kernel clears up after one that was killed.
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(sent(&other("live"))["handed"], 100);
}

#[test]
fn an_interface_without_its_other_end_is_refused_in_every_mode() {
    if !need_root("an_interface_without_its_other_end_is_refused_in_every_mode") {
        return;
    }
    let network = Network::with(LabConfig { pairs: 2, ..LabConfig::default() });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.pcapng");
    let (_, got) = recorded(&network, dir.path(), &["-c", "3", "--rate", "1kpps"]);
    std::fs::rename(got, &file).unwrap();
    run_clean("ip", &["-n", network.receiver(), "link", "set", "rx0", "down"]);
    let generated = ["live", "af-xdp", "af-packet", "auto"].map(|engine| {
        let args = ["-c", "1", "--rate", "1kpps", "--engine", engine];
        args.to_vec()
    });
    let place = ["--to", "10.99.0.2:9", "--mac-dst", "02:00:00:00:00:09"];
    let others = [
        vec!["-r", arg(&file)],
        [&["--stream", "1MB"][..], &place].concat(),
        vec!["--relay", "tx1", "-c", "1"],
    ];
    for args in generated.into_iter().chain(others) {
        let outcome = Running::start(send_command(&network, &args)).finish();
        assert_eq!((outcome.code(), outcome.stdout.len()), (Some(2), 0), "{args:?}: {outcome:?}");
        for said in ["tx0 has no link", "set the other end up"] {
            assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
        }
    }
    // It is as good as before once the other end is there again.
    run_clean("ip", &["-n", network.receiver(), "link", "set", "rx0", "up"]);
    let args = ["-c", "3", "--rate", "1kpps"];
    assert_eq!(sent(&Running::start(send_command(&network, &args)).finish())["handed"], 3);
}
