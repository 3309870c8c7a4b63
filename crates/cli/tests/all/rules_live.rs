//! Rules of a running capture, changed while frames come.

use crate::common::*;
use ringside_core::Cause;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Frames of one load, and how many of them a second: a load takes a second, so that many changes
/// fall into it.
const LOAD: u64 = 50_000;

/// Ends what another thread of a scope does when it is dropped, also by a test that fails: the
/// scope waits for that thread.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A capture that judges by rules.
struct Judged {
    network: Network,
    directory: tempfile::TempDir,
    running: Running,
}

impl Judged {
    fn start(rules: &str, more: &[&str]) -> Judged {
        let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
        let [socket, file] =
            ["control.sock", "start.rules"].map(|name| directory.path().join(name));
        std::fs::write(&file, rules).unwrap();
        let mut args = vec!["-i", "rx0", "--control", arg(&socket), "--rules", arg(&file)];
        args.extend(more);
        let running = network.capture(&args);
        Judged { network, directory, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn send(&self) {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
        let sent = self.network.send(SenderKind::Live, &shape, LOAD, Some(LOAD));
        assert_eq!(sent.handed, LOAD);
    }

    /// `ringside rules COMMAND...` at this capture.
    fn rules(&self, command: &[&str]) -> Outcome {
        let socket = self.path("control.sock");
        run_ringside(&[&["rules"], command, &["--at", arg(&socket)]].concat())
    }

    fn done(&self, command: &[&str]) -> Outcome {
        let outcome = self.rules(command);
        assert_eq!(outcome.code(), Some(0), "{command:?}: {}", outcome.stderr);
        outcome
    }

    /// Ids and frames of the rules, and frames of the default.
    fn stats(&self) -> (Vec<(u64, u64)>, u64) {
        let lines = self.done(&["stats", "--json"]).json_lines();
        let of = |value: &serde_json::Value, field: &str| value[field].as_u64().unwrap();
        let (default, rules) = lines.split_last().unwrap();
        let rules = rules.iter().map(|line| &line["rule"]);
        let rules = rules.map(|rule| (of(rule, "id"), of(rule, "frames"))).collect();
        (rules, of(&default["default"], "frames"))
    }

    /// Waits until the first rule, which is for every frame, has counted `frames`.
    fn wait_for(&self, frames: u64) {
        wait_until("frames that are judged", || self.stats().0[0].1 >= frames);
    }
}

#[test]
fn rules_come_and_go_and_every_frame_is_accounted_for() {
    if !need_root("rules_come_and_go_and_every_frame_is_accounted_for") {
        return;
    }
    let judged = Judged::start("1: any => count\ndefault take", &[]);
    judged.send();
    judged.wait_for(LOAD);
    assert_eq!(judged.stats(), (vec![(1, LOAD)], LOAD));

    judged.done(&["add", "udp => drop", "7: port 9 => count"]);
    judged.send();
    judged.wait_for(2 * LOAD);
    assert_eq!(judged.stats(), (vec![(1, 2 * LOAD), (2, LOAD), (7, 0)], LOAD));
    let list = judged.done(&["list"]).text();
    assert!(list.contains("user space") && list.contains("udp => drop"), "{list}");

    // What is not there, what is there already, what is wrong.
    assert_eq!(judged.rules(&["del", "8", "7"]).code(), Some(1));
    let exists = judged.rules(&["add", "2: tcp => drop"]);
    assert!(exists.code() == Some(2) && exists.stderr.contains("rule 2 is there already"));
    let wrong = judged.rules(&["add", "udp => redirect eth9"]);
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("in the driver"), "{}", wrong.stderr);

    let filter = judged.rules(&["add", "filter \"udp\" => drop"]);
    assert!(filter.code() == Some(2) && filter.stderr.contains("a `filter` cannot come"));

    // Frames come while rules change.
    let is_over = AtomicBool::new(false);
    let changes = std::thread::scope(|scope| {
        let end = EndOnDrop(&is_over);
        let changes = scope.spawn(|| {
            let mut changes = 0;
            while !is_over.load(Ordering::Acquire) {
                judged.done(&["del", "2"]);
                judged.done(&["add", "2: udp => drop"]);
                changes += 2;
            }
            changes
        });
        judged.send();
        drop(end);
        changes.join().unwrap()
    });
    assert!(changes > 2, "{changes} changes");
    judged.wait_for(3 * LOAD);
    let (rules, undecided) = judged.stats();
    assert_eq!(rules[0], (1, 3 * LOAD));
    // A rule that was deleted takes its counts with it.
    assert!(undecided > LOAD && undecided < 2 * LOAD, "{undecided}");

    let ledger = judged.running.stop().checked_ledger(3 * LOAD);
    let dropped = ledger.lanes[0].dropped[&Cause::ByRule];
    assert_eq!((ledger.lanes[0].taken, dropped), (undecided, 3 * LOAD - undecided));
}

#[test]
fn a_load_replaces_all_rules_and_keeps_the_counts_of_those_that_stay() {
    if !need_root("a_load_replaces_all_rules_and_keeps_the_counts_of_those_that_stay") {
        return;
    }
    let judged = Judged::start("1: any => count\n2: udp => drop\ndefault take", &[]);
    judged.send();
    judged.wait_for(LOAD);
    let (rules, list) = (judged.path("more.rules"), judged.path("list.txt"));
    let many = exact(50_000);
    let text = format!("1: any => count\n2: udp => take\n3: src ip @list.txt => drop\n{many}");
    std::fs::write(&rules, text + "default take\n").unwrap();
    let addresses: String =
        (0..20_000u32).map(|n| format!("192.0.{}.{}\n", n / 256, n % 256)).collect();
    std::fs::write(&list, addresses).unwrap();
    let told = judged.done(&["load", arg(&rules)]).stderr;
    assert!(told.contains("50,003 rules in force"), "{told}");
    judged.send();
    judged.wait_for(2 * LOAD);
    let (counts, undecided) = judged.stats();
    assert_eq!(counts.len(), 50_003);
    assert_eq!((counts[0], counts[1], undecided), ((1, 2 * LOAD), (2, LOAD), 0));

    // Wrong rules change nothing; no rules leave the default.
    std::fs::write(&rules, "1: tpc => drop\n").unwrap();
    let wrong = judged.rules(&["load", arg(&rules)]);
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("did you mean `tcp`"));
    judged.done(&["flush"]);
    judged.send();
    wait_until("frames by default", || judged.stats().1 >= LOAD);
    assert_eq!(judged.stats(), (vec![], LOAD));
    let ledger = judged.running.stop().checked_ledger(3 * LOAD);
    assert_eq!(ledger.lanes[0].taken, 2 * LOAD);
}

#[test]
fn several_threads_and_lanes_go_by_the_same_rules() {
    if !need_root("several_threads_and_lanes_go_by_the_same_rules") {
        return;
    }
    for more in [&["--backend", "af-xdp", "--threads", "2"][..], &["--queues", "4"]] {
        let judged = Judged::start("1: any => count\ndefault take", more);
        judged.send();
        judged.wait_for(LOAD);
        judged.done(&["add", "udp => drop"]);
        judged.send();
        judged.wait_for(2 * LOAD);
        assert_eq!(judged.stats(), (vec![(1, 2 * LOAD), (2, LOAD)], LOAD), "{more:?}");
        let ledger = judged.running.stop().checked_ledger(2 * LOAD);
        let taken: u64 = ledger.lanes.iter().map(|lane| lane.taken).sum();
        assert_eq!(taken, LOAD, "{more:?}");
    }
}

#[test]
fn a_run_without_rules_says_so() {
    if !need_root("a_run_without_rules_says_so") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let socket = directory.path().join("control.sock");
    let running = network.capture(&["-i", "rx0", "--control", arg(&socket)]);
    let outcome = run_ringside(&["rules", "list", "--at", arg(&socket)]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("--rules FILE"), "{}", outcome.stderr);
    running.stop();
}

/// What the driver decides ends there, what it hands up is judged by a lane; each frame is counted
/// in one place, by the rules and in the ledger.
#[test]
fn the_driver_decides_what_it_can() {
    if !need_root("the_driver_decides_what_it_can") {
        return;
    }
    let each = LOAD / 16;
    for backend in ["af-xdp", "xdp-ring"] {
        let judged = Judged::in_driver(backend);
        judged.done(&["add", "3: src ip 10.16.0.8/31 => drop"]);
        let refused = judged.rules(&["add", "payload \"x\" => take"]);
        assert!(refused.code() == Some(2) && refused.stderr.contains("payload"));
        judged.send();
        let counts = vec![(1, 8 * each), (2, 8 * each), (3, 2 * each)];
        assert_eq!(judged.counted(2 * LOAD), (counts, 14 * each), "{backend}");
        let list = judged.done(&["list"]).text();
        assert!(list.contains("driver"), "{list}");
        let outcome = judged.running.stop();
        let ledger = outcome.checked_ledger(2 * LOAD);
        assert_eq!((ledger.taken, ledger.passed), (8 * each, 14 * each), "{backend}");
        assert_eq!(ledger.dropped[&Cause::ByRule], 10 * each, "{backend}");
        let reported = outcome.json_lines().into_iter().find(|line| line["rule"]["id"] == 1);
        assert_eq!(reported.unwrap()["rule"]["frames"], 8 * each);
    }
    // A rule that looks into payload: frames are handed up, and judged here.
    let rules = "1: src ip 10.16.0.0/30 => drop\n2: payload \"RINGSIDE\" => take\ndefault drop";
    let judged = Judged::start(rules, &["--backend", "xdp-ring", "--rules-in-driver"]);
    judged.send();
    wait_until("frames that are judged", || judged.stats().0 == [(1, 4 * each), (2, 12 * each)]);
    let list = judged.done(&["list"]).text();
    assert!(list.contains("user space: it asks about payload"), "{list}");
    let ledger = judged.running.stop().checked_ledger(LOAD);
    assert_eq!((ledger.taken, ledger.dropped[&Cause::ByRule]), (12 * each, 4 * each));

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("payload.rules");
    std::fs::write(&file, "1: payload \"x\" => take\ndefault pass").unwrap();
    let network = Network::up();
    for (backend, word) in [("af-xdp", "`pass` leaves a frame"), ("af-packet", "--rules-in-driver")]
    {
        let mut command = network.capture_command();
        command.args(["-i", "rx0", "--backend", backend, "--rules", arg(&file)]);
        let outcome = Running::start({
            command.arg("--rules-in-driver");
            command
        });
        let outcome = outcome.finish();
        assert_eq!(outcome.code(), Some(2));
        assert!(outcome.stderr.contains(word), "{}", outcome.stderr);
    }
}

impl Judged {
    fn load(&self, rules: &str) -> Outcome {
        let file = self.path("more.rules");
        std::fs::write(&file, rules).unwrap();
        self.rules(&["load", arg(&file)])
    }

    fn loaded(&self, rules: &str) {
        let outcome = self.load(rules);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    }

    /// Two rules in the driver, which a first load has met: of 16 flows in turn, source addresses
    /// from 10.16.0.0 on.
    fn in_driver(backend: &str) -> Judged {
        let rules = "1: src ip 10.16.0.0/30 => drop\n2: src ip 10.16.0.4/30 => take\ndefault pass";
        let judged = Judged::start(rules, &["--backend", backend, "--rules-in-driver"]);
        judged.send();
        let each = LOAD / 16;
        let expected = (vec![(1, 4 * each), (2, 4 * each)], 8 * each);
        assert_eq!(judged.counted(LOAD), expected, "{backend}");
        judged
    }

    /// Waits until `frames` are counted, by the rules that are there and the default.
    fn counted(&self, frames: u64) -> (Vec<(u64, u64)>, u64) {
        let sum = |(rules, undecided): &(Vec<(u64, u64)>, u64)| {
            rules.iter().map(|rule| rule.1).sum::<u64>() + undecided
        };
        wait_until("frames that are judged", || sum(&self.stats()) >= frames);
        let stats = self.stats();
        assert_eq!(sum(&stats), frames, "{stats:?}");
        stats
    }
}

/// Exact rules that no frame meets.
fn exact(count: u32) -> String {
    let line = |id: u32| {
        let (high, low) = (id / 256, id % 256);
        let source = format!("src ip 10.1.{high}.{low}");
        format!("{id}: {source} dst ip 10.9.9.9 udp src port 5 dst port 6 => drop\n")
    };
    (100..100 + count).map(line).collect()
}

/// A capture that has given up its privileges fills the tables that lie ready, again and again.
#[test]
fn a_load_replaces_the_rules_in_the_driver() {
    if !need_root("a_load_replaces_the_rules_in_the_driver") {
        return;
    }
    let each = LOAD / 16;
    for backend in ["af-xdp", "xdp-ring"] {
        let judged = Judged::in_driver(backend);

        // A rule stays, one goes, one comes, and an address file with it.
        std::fs::write(judged.path("list.txt"), "10.16.0.8\n10.16.0.10/31\n").unwrap();
        let first = "1: src ip 10.16.0.0/30 => drop\n";
        judged.loaded(&format!("{first}4: src ip @list.txt => drop\n{}default pass", exact(3000)));
        judged.send();
        let (rules, undecided) = judged.counted(2 * LOAD - 4 * each);
        assert_eq!((&rules[..2], undecided), (&[(1, 8 * each), (4, 3 * each)][..], 17 * each));
        let list = judged.done(&["list"]).text();
        assert!(list.contains("driver") && !list.contains("user space"), "{list}");

        // What cannot be changes nothing, with what to do instead.
        for (rules, word) in [
            (format!("{first}payload \"x\" => take\ndefault pass"), "payload"),
            (exact(60_000), "--rules-room"),
            (format!("{first}1: udp => drop"), "are both rule 1"),
        ] {
            let refused = judged.load(&rules);
            assert_eq!(refused.code(), Some(2), "{word}");
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
        assert_eq!(judged.stats().0.len(), 3002);
        judged.done(&["flush"]);
        judged.send();
        // The default went on counting.
        assert_eq!(judged.counted(LOAD + 17 * each), (vec![], 33 * each), "{backend}");
        judged.loaded("1: udp => take\ndefault pass");
        judged.done(&["add", "7: src ip 10.16.0.1 => count"]);
        judged.send();
        wait_until("frames that are judged", || judged.stats().0[0].1 == LOAD);
        let ledger = judged.running.stop().checked_ledger(4 * LOAD);
        assert_eq!(ledger.taken, LOAD + 4 * each, "{backend}");
        assert_eq!((ledger.passed, ledger.dropped[&Cause::ByRule]), (33 * each, 11 * each));
    }
}

/// Frames come while all rules are replaced: each is judged by one set, and counted once.
#[test]
fn no_frame_is_lost_while_the_driver_gets_other_rules() {
    if !need_root("no_frame_is_lost_while_the_driver_gets_other_rules") {
        return;
    }
    let more = ["--backend", "xdp-ring", "--rules-in-driver", "--rules-room", "40000"];
    // Every flow is dropped by both sets, half of it by each in the driver.
    let judged = Judged::start("1: src ip 10.16.0.0/29 => drop\ndefault drop", &more);
    judged.loaded(&format!("{}default drop", exact(40_000)));
    let is_over = AtomicBool::new(false);
    let loads = AtomicU64::new(0);
    let sent = std::thread::scope(|scope| {
        let _end = EndOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let payload = "payload hex \"ff ff ff ff\" => drop";
                judged.loaded(&format!("src ip 10.16.0.0/29 => drop\n{payload}\ndefault drop"));
                judged.loaded("2: src ip 10.16.0.8/29 => drop\ndefault drop");
                loads.fetch_add(2, Ordering::AcqRel);
            }
        });
        // However slow the machine is: some loads came between frames.
        let start = std::time::Instant::now();
        let mut sent = 0;
        while loads.load(Ordering::Acquire) < 4 && start.elapsed() < ringside_testkit::WAIT_MAX {
            judged.send();
            sent += 1;
        }
        sent
    });
    assert!(loads.into_inner() >= 4);
    judged.send();
    let ledger = judged.running.stop().checked_ledger((sent + 1) * LOAD);
    assert_eq!((ledger.taken, ledger.dropped[&Cause::ByRule]), (0, (sent + 1) * LOAD));
}
