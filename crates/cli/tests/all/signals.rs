//! Signals to runs: what they end, have said, and begin.

use crate::common::*;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};

/// `ringside ARGS` as a shell without job control starts it in the background.
fn in_background(network: &Network, args: &[&str]) -> Running {
    let mut command = Command::new("env");
    command.args(["--ignore-signal=INT,QUIT"]).arg(ringside()).args(["capture", "--json"]);
    command.args(["--netns", network.receiver()]).args(args);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    running
}

fn send(network: &Network, count: u64) {
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 1).unwrap();
    network.send(SenderKind::Packet, &shape, count, Some(20_000));
}

#[test]
fn an_interrupt_ends_a_background_job_of_a_script() {
    if !need_root("an_interrupt_ends_a_background_job") {
        return;
    }
    let network = Network::up();
    for args in [&["-i", "rx0"][..], &["-i", "rx0", "--no-keeper"]] {
        let running = in_background(&network, args);
        running.signal(Signal::INT);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{args:?}: {}", outcome.stderr);
        assert_eq!(outcome.ledger().balance(), Ok(()));
    }
}

#[test]
fn status_names_the_process_that_was_started_and_both_end_in_order() {
    if !need_root("status_names_the_process") {
        return;
    }
    let network = Network::up();
    for (to_worker, signal) in
        [(false, Signal::TERM), (true, Signal::TERM), (true, Signal::INT), (true, Signal::HUP)]
    {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let running = network.capture(&["-i", "rx0", "--control", arg(&socket)]);
        let status = run_ringside(&["status", "--json", arg(&socket)]).json_lines().remove(0);
        let pids = ["pid", "worker_pid"].map(|name| status["status"][name].as_u64().unwrap());
        assert_eq!(pids, [running.pid(), running.worker_pid()].map(u64::from));
        send(&network, 200);
        let pid = pids[usize::from(to_worker)];
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
        let ledger = running.finish().checked_ledger(200);
        assert_eq!(ledger.taken, 200, "{signal:?}");
    }
}

#[test]
fn a_second_signal_ends_a_worker_at_once_whose_keeper_is_gone() {
    if !need_root("a_second_signal_ends_a_worker") {
        return;
    }
    let network = Network::up();
    // The ledger, of which no part fits the pipe any more, would hold up its end for ever.
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl_setpipe_size(&writer, 4096).unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "--json"]).stdin(Stdio::null()).stdout(writer);
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    send(&network, 200);
    let worker = Pid::from_raw(i32::try_from(running.worker_pid()).unwrap()).unwrap();
    running.signal(Signal::KILL);
    running.wait_for_stderr("the keeper is gone");
    wait_until("the end of the worker", || {
        // An error says that it has ended.
        let _ = kill_process(worker, Signal::TERM);
        running.is_over()
    });
    assert!(!running.finish().stderr.contains("the ledger balances"));
    drop(reader);
}

#[test]
fn statistics_are_said_and_the_run_goes_on() {
    if !need_root("statistics_are_said") {
        return;
    }
    let network = Network::up();
    for args in [&["-i", "rx0"][..], &["-i", "rx0", "--no-keeper"]] {
        let running = network.capture(args);
        send(&network, 300);
        wait_until("statistics with all frames", || {
            running.signal(Signal::USR1);
            std::thread::sleep(std::time::Duration::from_millis(20));
            running.stderr_so_far().contains("taken 300 ")
        });
        if running.worker_pid() != 0 {
            running.signal_worker(Signal::USR1);
        }
        send(&network, 100);
        assert_eq!(running.stop().checked_ledger(400).taken, 400, "{args:?}");
    }
}

#[test]
fn a_hang_up_begins_new_files_where_files_rotate() {
    if !need_root("a_hang_up_begins_new_files") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcapng");
    let running = network.capture(&["-i", "rx0", "-w", arg(&file), "-C", "100MB"]);
    send(&network, 100);
    running.signal(Signal::HUP);
    let frames_in = |name: &str| {
        let path = folder.path().join(name);
        let mut frames = 0;
        if path.exists() {
            for_each_frame(&[path], |_, _| frames += 1);
        }
        frames
    };
    wait_until("frames in a second file", || {
        send(&network, 1);
        frames_in("a-000001.pcapng") > 0
    });
    let ledger = running.stop();
    let ledger = ledger.ledger();
    assert_eq!(ledger.balance(), Ok(()));
    let frames = frames_in("a-000000.pcapng") + frames_in("a-000001.pcapng");
    assert_eq!(ledger.consumers[0].delivered, frames);
    assert_eq!(files_in(folder.path()).len(), 2);
}

#[test]
fn senders_and_droppers_say_how_far_they_are_and_go_on() {
    if !need_root("senders_and_droppers_say") {
        return;
    }
    let network = Network::up();
    let start = |args: &[&str]| {
        let mut command = Command::new(ringside());
        command.args(args);
        Running::start(command)
    };
    let send =
        ["send", "--netns", network.sender(), "-i", "tx0", "--size", "64", "--rate", "1000pps"];
    let drop = ["drop", "--netns", network.receiver(), "-i", "rx0", "--rule", "udp => drop"];
    for (args, ready, said) in
        [(&send[..], "sending through", "offered "), (&drop[..], "listening on", "dropped so far")]
    {
        let running = start(args);
        running.wait_for_stderr(ready);
        wait_until("it to catch the signal", || catches(running.pid(), 10));
        running.signal(Signal::USR1);
        running.wait_for_stderr(said);
        let outcome = running.stop();
        assert!(matches!(outcome.code(), Some(0 | 1)), "{args:?}: {}", outcome.stderr);
    }
}

/// True once a process catches the signal of this number.
fn catches(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
