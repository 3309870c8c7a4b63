//! Queues and CPUs: what is turned for a run, what is put back, where the workers go.

use crate::common::*;
use ringside_lab::{LabConfig, Napi};
use ringside_netdev as netdev;
use ringside_sys::thread::{allowed_cpus, allowed_cpus_of};
use ringside_testkit::need_root;
use rustix::process::{Pid, Signal, kill_process};

/// Two queues and no program, so that veth takes fewer.
fn network() -> Network {
    Network::with(LabConfig { queues: 2, xdp_pass: false, ..LabConfig::default() })
}

fn queues(network: &Network) -> u32 {
    inside(network.receiver(), || netdev::channels("rx0").unwrap().receiving())
}

#[test]
fn queues_are_set_for_a_run_and_put_back_whoever_dies() {
    if !need_root("queues_are_set_for_a_run") {
        return;
    }
    let network = network();
    let args = ["-i", "rx0", "--set-queues", "1", "--rss", "symmetric"];
    let running = network.capture(&args);
    assert_eq!(queues(&network), 1, "{}", running.stderr_so_far());
    assert_eq!(running.stop().code(), Some(0));
    assert_eq!(queues(&network), 2, "an ordinary end");

    let running = network.capture(&args);
    running.signal_worker(Signal::KILL);
    assert_eq!(running.finish().code(), Some(2));
    assert_eq!(queues(&network), 2, "the worker died");

    let running = network.capture(&args);
    let worker = running.worker_pid();
    running.signal(Signal::KILL);
    kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL).unwrap();
    running.finish();
    // Another test's start may have put them back already.
    let repaired = run_ringside(&["repair", "--knobs"]);
    assert_eq!(repaired.code(), Some(0), "{}", repaired.stderr);
    wait_until("the queues to be put back", || queues(&network) == 2);
}

#[test]
fn what_an_interface_cannot_do_is_refused_and_nothing_stays_turned() {
    if !need_root("what_an_interface_cannot_do") {
        return;
    }
    let network = network();
    for (args, expected) in [
        (&["--set-queues", "3"][..], "interface rx0 can have 1 to 2"),
        (&["--rss", "symmetric"], "interface rx0 has no RSS"),
        (&["--rss", "even", "--set-queues", "1"], "interface rx0 has no RSS"),
    ] {
        let mut command = network.capture_command();
        command.args(["-i", "rx0"]).args(args);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert_eq!(queues(&network), 2, "{args:?}");
    }
}

/// The CPUs of the thread of lane 0.
fn worker_cpus(running: &Running) -> Vec<usize> {
    let folder = format!("/proc/{}/task", running.worker_pid());
    let is_worker = |id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.trim_end() == "lane 0"
    };
    let mut worker = None;
    // A thread names itself a moment after it was started.
    wait_until("the worker's thread", || {
        let tasks = std::fs::read_dir(&folder).unwrap().flatten();
        let mut ids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
        worker = ids.find(is_worker);
        worker.is_some()
    });
    allowed_cpus_of(worker.unwrap()).unwrap()
}

/// The thread goes to its CPUs a moment after it has named itself.
fn wait_for_cpus(running: &Running, expected: &[usize]) {
    wait_until(&format!("CPUs {expected:?}"), || worker_cpus(running) == expected);
}

#[test]
fn a_worker_keeps_off_the_cpu_where_its_only_queue_is_polled() {
    let test = "a_worker_keeps_off_the_cpu";
    if !need_root(test) {
        return;
    }
    let allowed = allowed_cpus().unwrap();
    let [first, second, ..] = allowed[..] else {
        ringside_testkit::skip(test, "one CPU");
        return;
    };
    for (polled, expected) in [(first, second), (second, first)] {
        let napi = Napi::Pinned(polled);
        let network = Network::with(LabConfig { napi, ..LabConfig::default() });
        let running = network.capture(&["-i", "rx0"]);
        let said = running.stderr_so_far();
        let line = format!("rx0 lane 0 on CPU {expected} (its queue is polled on CPU {polled})");
        assert!(said.contains(&line), "{said}");
        wait_for_cpus(&running, &[expected]);
        assert_eq!(running.stop().code(), Some(0));
        let cpu = polled.to_string();
        let running = network.capture(&["-i", "rx0", "--cpus", &cpu]);
        assert!(!running.stderr_so_far().contains("placement"), "{}", running.stderr_so_far());
        wait_for_cpus(&running, &[polled]);
        assert_eq!(running.stop().code(), Some(0));
    }
}

#[test]
fn one_worker_is_left_to_the_scheduler_where_nobody_knows_the_cpu_of_the_napi() {
    if !need_root("one_worker_is_left") {
        return;
    }
    for napi in [Napi::Softirq, Napi::Threaded] {
        let network = Network::with(LabConfig { napi, ..LabConfig::default() });
        let running = network.capture(&["-i", "rx0"]);
        assert_eq!(worker_cpus(&running), allowed_cpus().unwrap());
        assert!(!running.stderr_so_far().contains("placement"), "{}", running.stderr_so_far());
        assert_eq!(running.stop().code(), Some(0));
    }
}
