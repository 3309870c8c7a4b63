//! What tests that kill need: how often, when, and a load that does not end.

use super::{Network, Running, ringside, wait_until};
use ringside_testkit::Random;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// How many kills: what RINGSIDE_KILLS says, or what a run of all tests can afford.
pub fn kills(affordable: u64) -> u64 {
    std::env::var("RINGSIDE_KILLS").ok().map_or(affordable, |text| text.parse().unwrap())
}

/// Numbers from a seed that is printed, or that RINGSIDE_SEED says.
pub fn random() -> Random {
    let seed = std::env::var("RINGSIDE_SEED").ok().map(|text| text.parse().unwrap());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
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
