//! The ways in which a run is told to end.

use crate::common::*;
use crate::support::*;
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
        assert_eq!(tshark_count(&files_in(folder.path())[0]), 500, "{signal:?}");
        assert_eq!(promiscuity(&network), 0, "{signal:?}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    if !need_root("a_second_signal") {
        return;
    }
    let network = Network::up();
    // Nobody reads this pipe: the run waits for its reader when it is told to end.
    let (_from, to) = std::io::pipe().unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "-w", "-"]).stdout(to);
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    send(&network, 1_000, 1_000);
    running.signal(Signal::INT);
    let status = format!("/proc/{}/status", running.pid());
    wait_until("the first signal to be taken", || {
        let text = std::fs::read_to_string(&status).unwrap();
        text.lines().any(|line| line.starts_with("ShdPnd:") && line.ends_with("0000"))
    });
    running.signal(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    // The ledger would have come after the wait.
    assert!(!outcome.stderr.contains("received"), "{}", outcome.stderr);
    assert_eq!(promiscuity(&network), 0);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    if !need_root("a_signal_that_was_ignored") {
        return;
    }
    let network = Network::up();
    let mut command = std::process::Command::new("env");
    command.arg("--ignore-signal=HUP").arg(ringside());
    command.args(["capture", "--netns", network.receiver(), "-i", "rx0", "--json"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    running.signal(Signal::HUP);
    let report = send(&network, 1_000, 500);
    let ledger = running.stop().checked_ledger(report.handed);
    assert_eq!(ledger.taken, 500, "as under nohup");
}
