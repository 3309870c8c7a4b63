//! `ringside drop`: rules in the driver, to the frame.

use crate::common::*;

use ringside_core::Cause;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// Frames of one load, of 16 flows in turn: source addresses 10.16.0.0 to 10.16.0.15.
const LOAD: u64 = 16_000;
const FLOWS: u64 = 16;

/// A host that is protected.
struct Protected {
    network: Network,
    directory: tempfile::TempDir,
    running: Running,
}

impl Protected {
    fn start(rules: &str, more: &[&str]) -> Protected {
        Protected::on(Network::up(), rules, more)
    }

    fn on(network: Network, rules: &str, more: &[&str]) -> Protected {
        let directory = tempfile::tempdir().unwrap();
        let [socket, file] = ["control.sock", "drop.rules"].map(|name| directory.path().join(name));
        std::fs::write(&file, rules).unwrap();
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside());
        command.args(["drop", "--json", "-i", "rx0", "--netns", network.receiver()]);
        command.args(["--control", arg(&socket), "--rules", arg(&file)]).args(more);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        Protected { network, directory, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn send(&self) {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), FLOWS as u32).unwrap();
        let sent = self.network.send(SenderKind::Live, &shape, LOAD, Some(100_000));
        assert_eq!(sent.handed, LOAD);
    }

    fn rules(&self, command: &[&str]) -> Outcome {
        let socket = self.path("control.sock");
        run_ringside(&[&["rules"], command, &["--at", arg(&socket)]].concat())
    }

    /// Ids and frames of the rules, and frames of the default.
    fn stats(&self) -> (Vec<(u64, u64)>, u64) {
        let outcome = self.rules(&["stats", "--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let lines = outcome.json_lines();
        let of = |value: &serde_json::Value, field: &str| value[field].as_u64().unwrap();
        let (default, rules) = lines.split_last().unwrap();
        let rules = rules.iter().map(|line| &line["rule"]);
        let rules = rules.map(|rule| (of(rule, "id"), of(rule, "frames"))).collect();
        (rules, of(&default["default"], "frames"))
    }

    /// Waits until all frames that were sent are counted, by rules or the default.
    fn wait_for(&self, frames: u64) {
        wait_until("frames that are judged", || {
            let (rules, undecided) = self.stats();
            rules.iter().map(|rule| rule.1).sum::<u64>() + undecided >= frames
        });
    }
}

#[test]
fn what_rules_drop_never_reaches_the_host() {
    if !need_root("what_rules_drop_never_reaches_the_host") {
        return;
    }
    let rules =
        "1: src ip 10.16.0.0/30 => drop\n2: src ip 10.16.0.4 => pass\n3: udp dst port 1 => drop";
    let protected = Protected::start(rules, &[]);
    let each = LOAD / FLOWS;
    protected.send();
    protected.wait_for(LOAD);
    assert_eq!(protected.stats(), (vec![(1, 4 * each), (2, each), (3, 0)], 11 * each));

    // A rule comes and goes.
    assert_eq!(protected.rules(&["add", "9: src ip 10.16.0.8/29 => drop"]).code(), Some(0));
    protected.send();
    protected.wait_for(2 * LOAD);
    assert_eq!(protected.rules(&["del", "1"]).code(), Some(0));
    protected.send();
    protected.wait_for(3 * LOAD - 8 * each);
    assert_eq!(protected.stats().0, [(2, 3 * each), (3, 0), (9, 16 * each)]);
    let list = protected.rules(&["list"]).text();
    assert!(list.contains("driver") && list.contains("10.16.0.8/29"), "{list}");
    let refused = protected.rules(&["add", "payload \"x\" => drop"]);
    assert!(refused.code() == Some(2) && refused.stderr.contains("payload"), "{}", refused.stderr);

    let outcome = protected.running.stop();
    let ledger = outcome.checked_ledger(3 * LOAD);
    assert_eq!(ledger.lanes[0].dropped[&Cause::ByRule], 24 * each);
    assert_eq!(ledger.lanes[0].passed, 24 * each);
    let sources = outcome.json_lines().into_iter().find_map(|line| line.get("sources").cloned());
    let sources = sources.unwrap();
    assert_eq!(sources.as_array().unwrap().len(), 10);
    assert!(sources[0]["frames"].as_u64().unwrap() >= each, "{sources}");
}

#[test]
fn a_load_is_taken_at_once_and_the_counts_go_on() {
    if !need_root("a_load_is_taken_at_once_and_the_counts_go_on") {
        return;
    }
    let protected = Protected::start("1: src ip 10.16.0.0 => drop\n2: udp => drop", &[]);
    let file = protected.path("more.rules");
    let each = LOAD / FLOWS;
    protected.send();
    protected.wait_for(LOAD);
    let many: String = (100..40_100u32)
        .map(|id| {
            format!(
                "{id}: src ip 10.1.{}.{} dst ip 10.9.9.9 udp src port 5 dst port 6 => drop\n",
                id / 256,
                id % 256
            )
        })
        .collect();
    let list = protected.path("list.txt");
    std::fs::write(&list, "10.16.0.0/29\n192.0.2.0/24\n").unwrap();
    let text = format!("1: src ip 10.16.0.0 => drop\n2: src ip @list.txt => drop\n{many}");
    std::fs::write(&file, text).unwrap();
    let loaded = protected.rules(&["load", arg(&file)]);
    assert_eq!(loaded.code(), Some(0), "{}", loaded.stderr);
    protected.send();
    wait_until("frames that are judged", || protected.stats().1 >= 8 * each);
    let (rules, undecided) = protected.stats();
    assert_eq!((rules[0], rules[1], undecided), ((1, 2 * each), (2, 7 * each), 8 * each));
    assert_eq!(rules.len(), 40_002);
    let ledger = protected.running.stop().checked_ledger(2 * LOAD);
    assert_eq!(ledger.lanes[0].dropped[&Cause::ByRule], 24 * each);
}

#[test]
fn a_dry_run_lets_everything_go_on() {
    if !need_root("a_dry_run_lets_everything_go_on") {
        return;
    }
    let protected = Protected::start("1: udp => drop", &["--dry-run"]);
    protected.send();
    protected.wait_for(LOAD);
    let before = protected.network.received();
    let outcome = protected.running.stop();
    let ledger = outcome.checked_ledger(LOAD);
    assert_eq!((ledger.lanes[0].passed, before), (LOAD, LOAD));
    let told = outcome.json_lines().into_iter().find_map(|line| line.get("drop").cloned()).unwrap();
    assert_eq!(told["dropped"], LOAD);
}

#[test]
fn a_source_has_its_limit() {
    if !need_root("a_source_has_its_limit") {
        return;
    }
    // Each source sends 1,000 frames in a sixth of a second, and may send 100 at once and 10 a
    // second.
    let protected = Protected::start("1: src ip 10.16.0.0 => drop", &["--source-limit", "10,100"]);
    protected.send();
    protected.wait_for(LOAD);
    let ledger = protected.running.stop().checked_ledger(LOAD);
    let each = LOAD / FLOWS;
    let limited = ledger.lanes[0].dropped[&Cause::SourceLimit];
    assert_eq!(ledger.lanes[0].dropped[&Cause::ByRule], each);
    let passed = ledger.lanes[0].passed;
    assert_eq!(limited + passed, 15 * each);
    assert!((15 * 100..15 * 200).contains(&passed), "{passed} passed");
}

#[test]
fn it_ends_when_told_and_when_killed() {
    if !need_root("it_ends_when_told_and_when_killed") {
        return;
    }
    let protected = Protected::start("1: udp => drop", &[]);
    let receiver = protected.network.receiver().to_owned();
    let programs =
        || inside(&receiver, || ringside_netdev::by_name("rx0").unwrap().unwrap().xdp_programs);
    assert_eq!(programs().len(), 1);
    let stop = run_ringside(&["control", arg(&protected.path("control.sock")), "stop"]);
    assert_eq!(stop.code(), Some(0), "{}", stop.stderr);
    let Protected { network, running, .. } = protected;
    assert_eq!(running.finish().code(), Some(0));
    let before = programs().len();
    let killed = Protected::on(network, "1: udp => drop", &[]);
    killed.send();
    killed.wait_for(LOAD);
    killed.running.signal(Signal::KILL);
    wait_until("the interface is as it was", || programs().len() == before);
}

#[test]
fn what_cannot_be_is_refused_with_the_fix() {
    if !need_root("what_cannot_be_is_refused_with_the_fix") {
        return;
    }
    for (args, word) in [
        (&["-i", "no-such-if", "--rule", "udp => drop"][..], "no interface is called"),
        (&["-i", "lo", "--rule", "tpc => drop"], "did you mean"),
        (&["-i", "lo"], "--rules"),
    ] {
        let outcome = run_ringside(&[&["drop"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}");
        assert!(outcome.stderr.contains(word), "{args:?}: {}", outcome.stderr);
    }
    let off = run_ringside(&["drop", "off", "-i", "no-such-if"]);
    assert_eq!(off.code(), Some(1), "{}", off.stderr);
}
