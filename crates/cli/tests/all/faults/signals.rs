//! The ways in which a run is made to end.

use super::support::*;
use crate::common::*;
use ringside_testkit::need_root;
use rustix::process::Signal;

#[test]
fn every_polite_signal_ends_with_the_ledger() {
    if !need_root("every_polite_signal") {
        return;
    }
    let network = Network::up();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let folder = tempfile::tempdir().unwrap();
        let running = network.capture(&["-i", "rx0", "-w", arg(folder.path())]);
        assert_eq!(promiscuity(&network), 1);
        let report = send(&network, 200, 500);
        running.signal(signal);
        let ledger = running.finish().checked_ledger(report.handed);
        assert_eq!(ledger.consumers[0].delivered, 500, "{signal:?}");
        assert_eq!(packets_by_wireshark(&files_in(folder.path())[0]), 500, "{signal:?}");
        assert_eq!(promiscuity(&network), 0, "{signal:?}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    if !need_root("a_second_signal") {
        return;
    }
    let network = Network::up();
    // No process reads this pipe: the run waits for its reader when the signal comes.
    let (_from, to) = std::io::pipe().unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "-w", "-"]).stdout(to);
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    send(&network, 1_000, 1_000);
    // Signals at once are one order; the second order is one that comes later.
    wait_until("the end after a second signal", || {
        running.signal(Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(100));
        running.worker_pid() == 0
    });
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    // The ledger would have come after the wait.
    assert!(!outcome.stderr.contains("received"), "{}", outcome.stderr);
    assert_eq!(promiscuity(&network), 0);
}

#[test]
fn a_signal_to_the_whole_group_ends_in_order_once() {
    if !need_root("a_signal_to_the_whole_group") {
        return;
    }
    let network = Network::up();
    // `timeout` signals its child and then its process group.
    let mut command = std::process::Command::new("timeout");
    command.args(["--signal=TERM", "3"]).arg(ringside());
    command.args([
        "capture",
        "--netns",
        network.receiver(),
        "-i",
        "rx0",
        "--json",
        "--count",
        "-Qin",
    ]);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code(), Some(124), "{}", outcome.stderr);
    check_ledger(&outcome.ledger(), outcome.ledger().received.unwrap());
}

#[test]
fn a_run_whose_keeper_is_killed_ends_in_order() {
    if !need_root("a_run_whose_keeper_is_killed") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path())]);
    let report = send(&network, 300, 700);
    running.signal(Signal::KILL);
    // What it says comes until the worker has ended.
    let outcome = running.finish();
    assert_eq!(outcome.code(), None);
    assert!(outcome.stderr.contains("the keeper is gone"), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    check_ledger(&ledger, report.handed);
    assert_eq!(packets_by_wireshark(&files_in(folder.path())[0]), 700);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    if !need_root("a_signal_that_was_ignored") {
        return;
    }
    let network = Network::up();
    let mut command = std::process::Command::new("env");
    command.arg("--ignore-signal=HUP").arg(ringside());
    command.args([
        "capture",
        "--netns",
        network.receiver(),
        "-i",
        "rx0",
        "--json",
        "--count",
        "-Qin",
    ]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    running.signal(Signal::HUP);
    let report = send(&network, 1_000, 500);
    let ledger = running.stop().checked_ledger(report.handed);
    assert_eq!(ledger.taken, 500, "as under nohup");
}
