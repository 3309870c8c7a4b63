//! Copies that rules send through other interfaces: exactly the frames of the rule, whole, and what
//! an interface does not take is counted.

use crate::common::verifier::shape;
use crate::common::*;
use ringside_core::Cause;
use ringside_lab::LabConfig;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Stamp};
use std::collections::BTreeSet;
use std::path::Path;

/// Frames in ten flows, a tenth in each, so slowly that no receiver loses one.
const FRAMES: u64 = 50_000;
const FLOWS: u64 = 10;
const FLOW: u64 = FRAMES / FLOWS;
const RATE: u64 = 50_000;
const FRAME_BYTES: u16 = 300;

/// Rings that ride out stalls of a busy machine: nothing may be lost.
const PATIENT: [&str; 4] = ["--kernel-ring-size", "256MiB", "--ring-size", "64MiB"];

const RULES: &str = "\
1: src port 1024 => take, cap 60, mirror rx1
2: src port 1025 => mirror rx1
3: src port 1025-1026 => drop, mirror rx2
4: src port 1027 => mirror rx2
";

/// A network whose receiver has two more interfaces, for copies.
fn network(queues: u16) -> Network {
    Network::with(LabConfig { pairs: 3, queues, ..LabConfig::default() })
}

fn send(network: &Network, kind: SenderKind) {
    let shape = shape(&[FRAME_BYTES], FLOWS as u32);
    let sent = network.send(kind, &shape, FRAMES, Some(RATE));
    assert_eq!(sent.handed, FRAMES, "{sent:?}");
}

/// What a run says of the copies to an interface: frames, bytes, and those that failed.
fn mirrored(lines: &[serde_json::Value], interface: &str) -> (u64, u64, serde_json::Value) {
    let all = lines.iter().filter_map(|line| line.get("mirror"));
    let one = all.clone().find(|mirror| mirror["interface"] == interface).unwrap();
    let count = |name: &str| one[name].as_u64().unwrap();
    (count("frames"), count("bytes"), one["failed"].clone())
}

/// The numbers of the frames in a file, each of which is what was sent; by interface.
fn numbers(path: &Path) -> [Vec<u64>; 2] {
    let shape = shape(&[FRAME_BYTES], FLOWS as u32);
    let mut numbers = [Vec::new(), Vec::new()];
    let notices = for_each_frame(&[path.to_owned()], |frame, _| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        assert!(frame.bytes == shape.frame(stamp.stream, stamp.sequence), "{stamp:?}");
        numbers[frame.meta.interface.0 as usize].push(stamp.sequence);
    });
    assert!(notices.is_empty(), "{notices:?}");
    numbers
}

/// Copies arrive at the far ends, exactly those that the rules count, whole and unchanged.
fn copies_arrive(args: &[&str], default: &str, queues: u16, in_order: bool) {
    let (network, folder) = (network(queues), tempfile::tempdir().unwrap());
    let [rules, far] = ["some.rules", "far.pcapng"].map(|name| folder.path().join(name));
    std::fs::write(&rules, format!("{RULES}default {default}\n")).unwrap();
    let mut command = std::process::Command::new(ringside());
    command.args(["capture", "--netns", network.sender(), "-i", "tx1", "-i", "tx2", "--json"]);
    command.args(["--backend", "af-packet", "-Qin", "-w", arg(&far)]).args(PATIENT);
    let far_end = Running::start(command);
    far_end.wait_for_stderr("listening on");
    let own = ["-i", "rx0", "--rules", arg(&rules)];
    let running = network.capture(&[&own[..], &PATIENT, args].concat());
    send(&network, if queues > 1 { SenderKind::Packet } else { SenderKind::Live });

    let outcome = running.stop();
    let ledger = outcome.checked_ledger(FRAMES);
    assert_eq!(ledger.lost(), 0, "{ledger:#?}");
    let lines = outcome.json_lines();
    let rule = |id: u64| {
        let rule = lines.iter().find(|line| line["rule"]["id"] == id).unwrap();
        rule["rule"]["frames"].as_u64().unwrap()
    };
    assert_eq!([1, 2, 3, 4].map(rule), [FLOW, FLOW, 2 * FLOW, FLOW]);
    let none = serde_json::json!({});
    let bytes = |frames: u64| frames * u64::from(FRAME_BYTES);
    assert_eq!(mirrored(&lines, "rx1"), (2 * FLOW, bytes(2 * FLOW), none.clone()));
    assert_eq!(mirrored(&lines, "rx2"), (3 * FLOW, bytes(3 * FLOW), none));
    // What is copied has the fate that it would have had.
    let turned_away = ledger.filtered.unwrap() + ledger.dropped[&Cause::ByRule];
    assert_eq!((ledger.taken, turned_away), (FLOW, FRAMES - FLOW));

    let far_ledger = far_end.stop().checked_ledger(5 * FLOW);
    assert_eq!((far_ledger.lost(), far_ledger.taken), (0, 5 * FLOW), "{far_ledger:#?}");
    let flows = [&[0, 1][..], &[1, 2, 3]];
    for (numbers, flows) in numbers(&far).iter().zip(flows) {
        let expected: Vec<u64> =
            (0..FRAMES).filter(|number| flows.contains(&(number % FLOWS))).collect();
        if in_order {
            assert_eq!(*numbers, expected);
        }
        let each: BTreeSet<u64> = numbers.iter().copied().collect();
        assert!(each.into_iter().eq(expected.iter().copied()) && numbers.len() == expected.len());
    }
}

#[test]
fn copies_leave_next_to_a_packet_socket() {
    if need_root("copies_leave_next_to_a_packet_socket") {
        copies_arrive(&["--backend", "af-packet"], "pass", 1, true);
        copies_arrive(&["--backend", "af-packet", "--queues", "2"], "drop", 1, false);
    }
}

#[test]
fn copies_leave_behind_the_driver_with_several_threads_too() {
    if need_root("copies_leave_behind_the_driver_with_several_threads_too") {
        copies_arrive(&["--backend", "xdp-ring"], "drop", 1, true);
        copies_arrive(&["--backend", "af-xdp", "--threads", "3"], "drop", 1, false);
    }
}

#[test]
fn what_an_interface_does_not_take_is_counted() {
    if !need_root("what_an_interface_does_not_take_is_counted") {
        return;
    }
    let (network, folder) = (network(1), tempfile::tempdir().unwrap());
    let [rules, socket] = ["some.rules", "control.sock"].map(|name| folder.path().join(name));
    std::fs::write(&rules, "1: any => mirror rx1\n2: src port 1024 => mirror rx2\ndefault take\n")
        .unwrap();
    let link =
        |args: &[&str]| run_clean("ip", &[&["-n", network.receiver(), "link"], args].concat());
    link(&["set", "rx1", "mtu", "200"]);
    let own = ["-i", "rx0", "--rules", arg(&rules), "--control", arg(&socket)];
    let running = network.capture(&[&own[..], &PATIENT].concat());
    link(&["set", "rx2", "down"]);
    send(&network, SenderKind::Live);
    let stats = || {
        let outcome = run_ringside(&["rules", "stats", "--at", arg(&socket), "--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.json_lines()
    };
    let failed = |lines: &[serde_json::Value], interface: &str, why: &str| {
        mirrored(lines, interface).2[why].as_u64().unwrap_or(0)
    };
    wait_until("copies that fail", || failed(&stats(), "rx1", "too_long") == FRAMES);
    let text = run_ringside(&["rules", "stats", "--at", arg(&socket)]).text();
    assert!(
        text.contains("mirror rx1: 0 frames sent, 0 bytes; 50,000 not sent: too_long"),
        "{text}"
    );
    // Rules that come may send to what was opened at the start, and nowhere else.
    let add = |rule: &str| run_ringside(&["rules", "add", rule, "--at", arg(&socket)]);
    assert_eq!(add("3: udp => mirror rx2").code(), Some(0));
    let refused = add("udp => mirror tx7");
    assert!(refused.code() == Some(2) && refused.stderr.contains("start it with such a rule"));
    link(&["set", "rx1", "mtu", "1500"]);
    send(&network, SenderKind::Live);
    wait_until("copies", || mirrored(&stats(), "rx1").0 == FRAMES);

    let outcome = running.stop();
    let ledger = outcome.checked_ledger(2 * FRAMES);
    assert_eq!(ledger.taken, 2 * FRAMES);
    let lines = outcome.json_lines();
    let bytes = FRAMES * u64::from(FRAME_BYTES);
    let too_long = serde_json::json!({ "too_long": FRAMES });
    assert_eq!(mirrored(&lines, "rx1"), (FRAMES, bytes, too_long));
    // A frame that two rules send to one interface is sent there once.
    assert_eq!(failed(&lines, "rx2", "interface_down"), FLOW + FRAMES);
    assert_eq!(mirrored(&lines, "rx2").0, 0);
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let rules = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let unknown = rules("unknown", "4: udp => mirror rx7");
    let refused = |args: &[&str], words: &[&str]| {
        let outcome = run_ringside(&[&["capture"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        let said = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    };
    refused(
        &["-r", "trace.pcap", "--rules", arg(&unknown)],
        &["rule 4", "receive from an interface"],
    );
    refused(&["-i", "lo", "-s", "96", "--rules", arg(&unknown)], &["rule 4", "write `cap 96`"]);
    if !need_root("what_cannot_be_sent_is_refused_with_the_fix") {
        return;
    }
    let network = network(1);
    let own = ["--netns", network.receiver(), "-i", "rx0", "--rules"];
    let (same, down) =
        (rules("same", "9: udp => mirror rx0"), rules("down", "9: udp => mirror rx2"));
    run_clean("ip", &["-n", network.receiver(), "link", "set", "rx2", "down"]);
    for (file, words) in [
        (&unknown, &["rule 4", "no interface rx7", "did you mean"][..]),
        (&same, &["rule 9", "is captured itself"]),
        (&down, &["rule 9", "ip link set rx2 up"]),
    ] {
        refused(&[&own[..], &[arg(file)]].concat(), words);
    }
}
