//! The pre-filter of rules, end to end: a capture whose kernel turns away what no rule can match
//! reports what one reports that judges every frame; rules that change never lose a frame to it.

use crate::common::*;
use ringside_core::{Cause, Ledger};
use ringside_testkit::rules::random_frame;
use ringside_testkit::{Random, need_root};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Frames of one load, in sixteen flows in turn, with source addresses from 10.16.0.0 on.
const LOAD: u64 = 48_000;
const EACH: u64 = LOAD / 16;
/// Frames a second: a busy machine loses none.
const RATE: u64 = 80_000;

/// Rules of all kinds about the frames of [`random_frame`].
const RULES: &str = "\
1: tcp dst port 1-3 => take
2: src ip 10.0.0.2-10.0.0.4 udp => take, cap 60
3: src ip 2001:db8::/127 => count
4: udp src port 5 payload \"b\" => drop
5: dst ip 10.0.0.1 icmp => take, sample 1/2
6: dst ip 10.0.0.0/31 vlan 5 => take
";

/// A rule that may be for any frame, and is for none of these.
const FOR_ANY: &str = "99: mpls 1048575 => count\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn add(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// What a run counted: each rule and the default, and the ledger with its lanes.
fn report(outcome: &Outcome, received: u64) -> (Vec<serde_json::Value>, Ledger) {
    let ledger = outcome.checked_ledger(received);
    let is_count = |line: &serde_json::Value| !line["rule"].is_null() || !line["default"].is_null();
    let counts = outcome.json_lines().into_iter().filter(is_count);
    (counts.filter(|line| line["rule"]["id"] != 99).collect(), ledger)
}

/// Frames that reach a packet socket: the kernel drops a tag without room for a type behind it.
fn reaches(bytes: &[u8]) -> bool {
    let tagged = matches!(bytes.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    bytes.len() >= if tagged { 20 } else { 14 }
}

#[test]
fn reports_are_those_of_a_run_that_judges_every_frame() {
    if !need_root("reports_are_those_of_a_run_that_judges_every_frame") {
        return;
    }
    let (network, folder) = (Network::up(), Folder(tempfile::tempdir().unwrap()));
    let before = folder.add("before.rules", &format!("{RULES}default drop\n"));
    let alone = folder.add("alone.rules", &format!("{RULES}{FOR_ANY}default drop\n"));
    let variants: [&[&str]; 5] = [
        &[],
        &["--queues", "3"],
        &["-s", "60"],
        &["greater 55 and not ether[13] = 6"],
        &["--queues", "2", "-s", "96", "ip or ip6 or vlan"],
    ];
    let start = |rules: &Path, variant: &[&str]| {
        network.capture(&[&["-i", "rx0", "--rules", arg(rules)], variant].concat())
    };
    let pairs = variants.map(|variant| [&before, &alone].map(|rules| start(rules, variant)));
    for [pre_filtered, judged] in &pairs {
        let said = pre_filtered.stderr_so_far();
        assert!(said.contains("pre-filter: 6 of 6 rules in the kernel's filter"), "{said}");
        let said = judged.stderr_so_far();
        assert!(said.contains("pre-filter: none: rule 99 may match any frame"), "{said}");
    }
    let mut random = Random::new(41);
    let frames = (0..).map(|_| random_frame(&mut random)).filter(|frame| reaches(frame));
    let frames: Vec<Vec<u8>> = frames.take(12_000).collect();
    network.replay(&frames);
    for (variant, pair) in variants.iter().zip(pairs) {
        let [(counts, ledger), (expected, ledger_alone)] =
            pair.map(|running| report(&running.stop(), frames.len() as u64));
        assert_eq!(counts, expected, "{variant:?}");
        assert_eq!(ledger, ledger_alone, "{variant:?}");
        assert!(ledger.dropped[&Cause::ByRule] > 3_000 && ledger.taken > 1_000, "{ledger:#?}");
        let has_filter = variant.last().is_some_and(|last| last.contains(' '));
        assert_eq!(ledger.filtered.is_some_and(|filtered| filtered > 0), has_filter);
    }
}

/// A capture that judges by rules which can change.
struct Judged {
    network: Network,
    folder: Folder,
    running: Running,
    sent: u64,
}

impl Judged {
    fn start(rules: &str, more: &[&str]) -> Judged {
        let (network, folder) = (Network::up(), Folder(tempfile::tempdir().unwrap()));
        let file = folder.add("start.rules", rules);
        let socket = folder.0.path().join("control.sock");
        let mut args = vec!["-i", "rx0", "--control", arg(&socket), "--rules", arg(&file)];
        args.extend(more);
        let running = network.capture(&args);
        Judged { network, folder, running, sent: 0 }
    }

    fn rules(&self, command: &[&str]) -> Outcome {
        let socket = self.folder.0.path().join("control.sock");
        let outcome = run_ringside(&[&["rules"], command, &["--at", arg(&socket)]].concat());
        assert_eq!(outcome.code(), Some(0), "{command:?}: {}", outcome.stderr);
        outcome
    }

    /// Frames and bytes of each rule and, last, of the default.
    fn stats(&self) -> Vec<(u64, u64)> {
        let of = |line: &serde_json::Value| {
            let counts = if line["rule"].is_null() { &line["default"] } else { &line["rule"] };
            let [frames, bytes] = ["frames", "bytes"].map(|field| counts[field].as_u64().unwrap());
            (frames, bytes)
        };
        self.rules(&["stats", "--json"]).json_lines().iter().map(of).collect()
    }

    /// Sends a load; gives what of it each rule and the default have counted so far. Each frame is
    /// for one of them.
    fn send(&mut self) -> Vec<u64> {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
        let sent = self.network.send(SenderKind::Live, &shape, LOAD, Some(RATE));
        assert_eq!(sent.handed, LOAD);
        self.sent += LOAD;
        let mut stats = self.stats();
        wait_until("frames that are judged", || {
            stats = self.stats();
            stats.iter().map(|(frames, _)| frames).sum::<u64>() >= self.sent
        });
        assert!(stats.iter().all(|(frames, bytes)| *bytes == 64 * frames), "{stats:?}");
        stats.into_iter().map(|(frames, _)| frames).collect()
    }

    #[track_caller]
    fn expect(&self, text: &str) {
        let list = self.rules(&["list"]).text();
        assert!(list.contains(text), "{list}");
    }
}

#[test]
fn a_rule_that_widens_what_is_wanted_gets_every_frame() {
    if !need_root("a_rule_that_widens_what_is_wanted_gets_every_frame") {
        return;
    }
    let rules = "1: src ip 10.16.0.0/30 udp => take\ndefault drop\n";
    let mut judged = Judged::start(rules, &["--queues", "2"]);
    judged.expect("pre-filter of rx0: 1 of 1 rules in the kernel's filter");
    assert_eq!(judged.send(), [4 * EACH, 12 * EACH]);

    // One that is known to it, and one that is not.
    judged.rules(&["add", "0: src ip 10.16.0.1 udp => drop"]);
    judged.expect("2 of 2 rules in the kernel's filter");
    assert_eq!(judged.send(), [EACH, 7 * EACH, 24 * EACH]);
    judged.rules(&["add", "2: src ip 10.16.0.8 => take"]);
    judged.expect("off, with 2 of 3 rules in the kernel's filter: all frames are judged");
    assert_eq!(judged.send(), [2 * EACH, 10 * EACH, EACH, 35 * EACH]);

    // On again without it; the counts of the default stay, whichever program made them.
    judged.rules(&["del", "2"]);
    judged.sent -= EACH;
    judged.expect("2 of 2 rules in the kernel's filter");
    assert_eq!(judged.send(), [3 * EACH, 13 * EACH, 47 * EACH]);

    // Another default: all frames are wanted.
    let load = judged.folder.add("load.rules", "0: src ip 10.16.0.1 udp => drop\ndefault take\n");
    judged.rules(&["load", arg(&load)]);
    judged.sent -= 13 * EACH;
    judged.expect("off, as the default is not drop any more");
    assert_eq!(judged.send(), [4 * EACH, 62 * EACH]);
    judged.rules(&["flush"]);
    judged.sent -= 4 * EACH;
    assert_eq!(judged.send(), [78 * EACH]);

    let ledger = judged.running.stop().checked_ledger(6 * LOAD);
    let taken = (4 + 3 + 3 + 1 + 3 + 15 + 16) * EACH;
    assert_eq!((ledger.taken, ledger.lost()), (taken, 0), "{ledger:#?}");
    assert_eq!(ledger.dropped[&Cause::ByRule], 6 * LOAD - taken);
}

/// Frames come while rules come and go: none that a rule was there for is lost.
#[test]
fn changes_under_load_lose_nothing() {
    if !need_root("changes_under_load_lose_nothing") {
        return;
    }
    let rules = "1: src ip 10.16.0.0/30 udp => take\ndefault drop\n";
    let mut judged = Judged::start(rules, &[]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let socket = judged.folder.0.path().join("control.sock");
    std::thread::scope(|scope| {
        let (is_over, socket) = (&is_over, &socket);
        scope.spawn(move || {
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                for command in [&["add", "2: src ip 10.16.0.8 => drop"][..], &["del", "2"]] {
                    let at = ["--at", arg(socket)];
                    let outcome = run_ringside(&[&["rules"], command, &at].concat());
                    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
                }
            }
        });
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
        judged.network.send(SenderKind::Live, &shape, LOAD, Some(RATE / 2));
        is_over.store(true, std::sync::atomic::Ordering::Release);
    });
    judged.sent = LOAD;
    let ledger = judged.running.stop().checked_ledger(LOAD);
    assert_eq!((ledger.taken, ledger.dropped[&Cause::ByRule]), (4 * EACH, 12 * EACH));
}

#[test]
fn what_the_kernel_turned_away_is_known_when_the_worker_is_killed() {
    if !need_root("what_the_kernel_turned_away_is_known_when_the_worker_is_killed") {
        return;
    }
    let rules = "1: src ip 10.16.0.0/30 udp => take\ndefault drop\n";
    let mut judged = Judged::start(rules, &["--queues", "2"]);
    judged.send();
    // No thread reads any more: what comes waits in the kernel.
    judged.running.signal_worker(Signal::STOP);
    let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
    judged.network.send(SenderKind::Live, &shape, LOAD, Some(RATE));
    judged.running.signal_worker(Signal::KILL);
    let outcome = judged.running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    assert_eq!(ledger.received, Some(2 * LOAD), "{ledger:#?}");
    assert_eq!(ledger.dropped[&Cause::ByRule], 24 * EACH, "{ledger:#?}");
    let died = ledger.dropped.get(&Cause::WorkerDied).copied().unwrap_or(0);
    assert_eq!(ledger.taken + died, 8 * EACH, "{ledger:#?}");
}
