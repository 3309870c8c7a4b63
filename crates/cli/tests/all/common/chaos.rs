//! What tests that kill need: how often, when, and a load that does not end.

use super::{Network, Running, ringside, wait_until};
use ringside_testkit::{Random, by_run, number};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// How many kills: what RINGSIDE_KILLS says, or what a short and a long run can afford.
pub fn kills([short, long]: [u64; 2]) -> u64 {
    number("RINGSIDE_KILLS").unwrap_or_else(|| by_run(short, long))
}

/// Numbers from a seed that is printed, or that RINGSIDE_SEED says.
pub fn random() -> Random {
    let seed = number("RINGSIDE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("RINGSIDE_SEED={seed}");
    Random::new(seed)
}

/// Frames of all lengths, as many as the path takes, until it is stopped; `more` are the sender's.
pub fn full_rate(network: &Network, more: &[&str]) -> Running {
    let mut sender = Command::new(ringside());
    sender.args(["lab", "send", "--name", network.name(), "--size", "60-1514", "--for", "10000s"]);
    sender.args(more);
    let running = Running::start(sender);
    let before = network.received();
    wait_until("frames", || network.received() > before);
    running
}

/// kill -9.
pub fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}
