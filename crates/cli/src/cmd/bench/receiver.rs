//! A tool that receives, as a child process.

use super::{KERNEL_RING_BYTES, TOOL_CPU};
use anyhow::{Context, bail, ensure};
use ringside_lab::{Lab, RECEIVER_INTERFACE};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Clock ticks of /proc/PID/stat in a second; constant on Linux (USER_HZ).
const TICKS_PER_SEC: u64 = 100;

/// A running tool.
pub(super) struct Receiver {
    child: Child,
    messages: JoinHandle<String>,
    output: JoinHandle<String>,
}

impl Receiver {
    /// Starts it and waits until it listens. `line` holds program and arguments; `DIR` stands for
    /// `dir`.
    pub(super) fn start(lab: &Lab, line: &[&str], dir: &Path) -> anyhow::Result<Receiver> {
        let cpu = TOOL_CPU.to_string();
        let ring = KERNEL_RING_BYTES.to_string();
        let tcpdump_ring = (KERNEL_RING_BYTES >> 10).to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.status().receiver_namespace, "taskset", "-c", &cpu]);
        match line[0] {
            "ringside" => command.arg(std::env::current_exe()?).args([
                "capture",
                "-i",
                RECEIVER_INTERFACE,
                "--kernel-ring-size",
                &ring,
            ]),
            program => command.args([program, "-n", "-i", RECEIVER_INTERFACE, "-B", &tcpdump_ring]),
        };
        command.args(line[1..].iter().map(|part| part.replace("DIR", &dir.to_string_lossy())));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the tool's output")?;
        let mut stderr = BufReader::new(child.stderr.take().context("the tool's messages")?);
        let mut said = String::new();
        while !said.contains("listening on") {
            said.clear();
            if stderr.read_line(&mut said)? == 0 {
                bail!("the tool did not start ({})", child.wait()?);
            }
        }
        // tcpdump says so a little before its socket is ready.
        sleep(Duration::from_millis(300));
        Ok(Receiver { child, messages: collect(stderr), output: collect(BufReader::new(stdout)) })
    }

    /// Ends the tool; returns the frames that it got, and its CPU time.
    pub(super) fn stop(mut self) -> anyhow::Result<(u64, f64)> {
        let pid = self.child.id();
        let cpu_seconds = cpu_seconds(pid)?;
        let status = Command::new("kill").args(["-TERM", &pid.to_string()]).status()?;
        ensure!(status.success(), "cannot end the tool");
        let status = self.child.wait()?;
        let messages = self.messages.join().unwrap_or_default();
        let output = self.output.join().unwrap_or_default();
        ensure!(status.success(), "the tool failed ({status}): {}", messages.trim());
        let received = received(&output, &messages).context("the tool's count of frames")?;
        Ok((received, cpu_seconds))
    }
}

fn collect(mut reader: impl BufRead + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read shows as a missing count.
        let _ = reader.read_to_string(&mut text);
        text
    })
}

/// User and system time of a process, /proc/PID/stat fields 14 and 15 (proc(5)).
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|text| text.parse::<u64>().ok())
        .sum();
    Ok(ticks as f64 / TICKS_PER_SEC as f64)
}

/// What the tool delivered: our ledger, or tcpdump's "N packets captured".
fn received(output: &str, messages: &str) -> Option<u64> {
    if let Some(line) = output.lines().last() {
        let ledger: serde_json::Value = serde_json::from_str(line).ok()?;
        return ledger["ledger"]["consumers"][0]["delivered"].as_u64();
    }
    let line = messages.lines().find(|line| line.ends_with("packets captured"))?;
    line.split_whitespace().next()?.parse().ok()
}
