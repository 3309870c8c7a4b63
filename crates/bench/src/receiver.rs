//! A tool that receives, as a child process: started, watched until it is idle, ended.

use super::TOOL_CPU;
use super::load;
use super::network;
use super::process::{CpuTime, cpu_time};
use anyhow::{Context, bail, ensure};
use ringside_terminal::signals::StopSignal;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Longest start: a tool may touch its memory first, and under a profiler it is slow.
const START_MAX: Duration = Duration::from_secs(60);
/// Between the socket that runs and the first frame: a filter may still be changed.
pub(super) const AFTER_START: Duration = Duration::from_millis(300);
/// A tool is idle if it uses at most a tick in this time.
const IDLE_WINDOW: Duration = Duration::from_millis(100);
/// Longest wait for idleness; some tools never are.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// What a profiled tool gets instead, beyond its settling.
const PROFILED_IDLE: Duration = Duration::from_secs(1);
/// Longest end; what is left in memory is written then.
const END_MAX: Duration = Duration::from_secs(60);
/// How long a tool that is known to hang may take for its last write.
const HANG_AFTER: Duration = Duration::from_millis(1500);

/// A tool that is to be run.
pub(super) struct Program<'a> {
    /// As people call it.
    pub(super) name: String,
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// Part of what it says once it receives; empty if it says nothing.
    pub(super) ready_text: &'static str,
    /// True if it receives only once it has a packet socket that runs.
    pub(super) has_packet_socket: bool,
    /// How to tell that it has nothing left to do.
    pub(super) idle: Idle,
    /// How long after the last frame it must be left alone.
    pub(super) settle: Duration,
    /// The signal that ends it cleanly.
    pub(super) stop_signal: Signal,
    /// True if it hangs after its last write and must be killed.
    pub(super) hangs_at_end: bool,
    /// What it delivered, from its standard output and its standard error.
    pub(super) summary: Summarize<'a>,
}

/// Reads what a tool said on standard output and standard error.
pub(super) type Summarize<'a> = Box<dyn Fn(&str, &str) -> Option<Summary> + 'a>;

/// What a tool says at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// Frames that it delivered: recorded, or counted if nothing is recorded.
    pub(super) frames: u64,
    /// Frames that it knows it lost.
    pub(super) lost: Option<u64>,
}

/// How to tell that a tool has nothing left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// By the CPU time that it does not use.
    Watched,
    /// It never rests; what it has not got when it has settled it will not get.
    Never,
}

/// A running tool; killed when dropped.
pub(super) struct Receiver<'a> {
    program: Program<'a>,
    is_profiled: bool,
    child: Child,
    output: Collector,
    messages: Collector,
    cpu_at_start: CpuTime,
}

/// What a tool did.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// What it says.
    pub(super) summary: Summary,
    /// CPU time of all its threads and processes, from before the first frame until it was idle.
    pub(super) cpu: CpuTime,
    /// How long it was seen at work after the last frame, and its end.
    pub(super) drain: Duration,
    /// Everything on its standard error, a profiler's figures with it.
    pub(super) messages: String,
}

impl<'a> Receiver<'a> {
    /// Starts `program` on the tool's CPU in `namespace` and waits until it receives. `wrapper` is
    /// a profiler's command line before the tool's, or empty.
    ///
    /// # Errors
    /// It cannot be started, or ends at once; what it said is in the error.
    pub(super) fn start(
        namespace: &str,
        program: Program<'a>,
        wrapper: &[OsString],
        stop: &StopSignal,
    ) -> anyhow::Result<Receiver<'a>> {
        Receiver::start_on(TOOL_CPU, namespace, program, wrapper, stop)
    }

    /// As [`Receiver::start`], on another CPU.
    ///
    /// # Errors
    /// The same.
    pub(super) fn start_on(
        cpu: usize,
        namespace: &str,
        program: Program<'a>,
        wrapper: &[OsString],
        stop: &StopSignal,
    ) -> anyhow::Result<Receiver<'a>> {
        let sockets_before = running_sockets(namespace)?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "taskset", "-c", &cpu.to_string()]);
        command.args(wrapper).args(&program.command);
        // A group of its own: Ctrl-C reaches this program alone, which ends the tool in order.
        command.process_group(0);
        // A pipe that stays open: testpmd ends with its standard input.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting ip netns exec")?;
        let output = Collector::start(child.stdout.take().context("the tool's output")?);
        let messages = Collector::start(child.stderr.take().context("the tool's messages")?);
        let cpu_at_start = CpuTime::default();
        let is_profiled = !wrapper.is_empty();
        let mut receiver = Receiver { program, is_profiled, child, output, messages, cpu_at_start };
        receiver.wait_until_ready(namespace, sockets_before, stop)?;
        sleep(AFTER_START);
        receiver.cpu_at_start = cpu_time(receiver.child.id())?;
        Ok(receiver)
    }

    fn wait_until_ready(
        &mut self,
        namespace: &str,
        sockets_before: usize,
        stop: &StopSignal,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let name = &self.program.name;
        loop {
            load::check(stop)?;
            let messages = self.messages.so_far();
            let said = self.output.so_far() + &messages;
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} did not start ({status}): {}", messages.trim());
            }
            let has_socket =
                !self.program.has_packet_socket || running_sockets(namespace)? > sockets_before;
            if has_socket && said.contains(self.program.ready_text) {
                return Ok(());
            }
            ensure!(
                start.elapsed() < START_MAX,
                "{name} did not begin to receive in {START_MAX:?}: {}",
                messages.trim()
            );
            sleep(POLL);
        }
    }

    /// Waits until everything that was sent has been dealt with, ends the tool, and reads what it
    /// says. The last frame was sent at `sent`.
    ///
    /// # Errors
    /// It failed, or did not say what it received.
    pub(super) fn finish(mut self, sent: Instant) -> anyhow::Result<Received> {
        let (cpu, worked) = self.wait_until_idle(sent)?;
        let ending = Instant::now();
        let status = self.end()?;
        // What hangs has written everything before: it was idle.
        let end = if self.program.hangs_at_end { Duration::ZERO } else { ending.elapsed() };
        let drain = worked + end;
        let (output, messages) = (self.output.all(), self.messages.all());
        ensure!(
            status.success() || self.program.hangs_at_end,
            "{} failed ({status}): {}",
            self.program.name,
            messages.trim()
        );
        let summary = (self.program.summary)(&output, &messages);
        let name = &self.program.name;
        let summary = summary
            .with_context(|| format!("{name} did not say how many frames it got: {messages}"))?;
        Ok(Received { summary, cpu: cpu - self.cpu_at_start, drain, messages })
    }

    /// CPU time used until the tool is idle, and when it was last seen at work.
    fn wait_until_idle(&self, sent: Instant) -> anyhow::Result<(CpuTime, Duration)> {
        let mut before = cpu_time(self.child.id())?;
        let settle = self.program.settle;
        if self.is_profiled || self.program.idle == Idle::Never {
            // A profiled tool is never idle, and its life must have the same length each time.
            let idle = if self.is_profiled { PROFILED_IDLE } else { Duration::ZERO };
            sleep((settle + idle).saturating_sub(sent.elapsed()));
            return Ok((before, Duration::ZERO));
        }
        let mut worked_until = Duration::ZERO;
        loop {
            sleep(IDLE_WINDOW);
            let now = cpu_time(self.child.id())?;
            let elapsed = sent.elapsed();
            let is_idle = now.ticks() <= before.ticks() + 1;
            if !is_idle {
                worked_until = elapsed;
            }
            if (is_idle && elapsed >= settle) || elapsed > IDLE_MAX {
                return Ok((now, worked_until));
            }
            before = now;
        }
    }

    fn end(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(self.program.stop_signal);
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if self.program.hangs_at_end && start.elapsed() > HANG_AFTER {
                self.signal(Signal::KILL);
            }
            ensure!(start.elapsed() < END_MAX, "{} does not end", self.program.name);
            sleep(POLL);
        }
    }

    fn signal(&self, signal: Signal) {
        // An error says that it has ended already, which the caller sees.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // In order first: a keeper ends its worker and takes knobs back.
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < HANG_AFTER && matches!(self.child.try_wait(), Ok(None)) {
            sleep(POLL);
        }
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Packet sockets of the namespace that are bound to all protocols and run (/proc/net/packet,
/// columns Proto and R).
fn running_sockets(namespace: &str) -> anyhow::Result<usize> {
    let table = network::inside(namespace, || {
        Ok(std::fs::read_to_string("/proc/thread-self/net/packet")?)
    })?;
    let runs = |line: &&str| {
        let mut columns = line.split_whitespace();
        columns.nth(3) == Some("0003") && columns.nth(1) == Some("1")
    };
    Ok(table.lines().skip(1).filter(runs).count())
}

/// A thread that reads a pipe to its end.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Collector {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = bytes.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            // What cannot be read shows as a missing summary.
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                if let Ok(mut bytes) = shared.lock() {
                    bytes.extend_from_slice(&buffer[..count]);
                }
            }
        });
        Collector { bytes, thread: Some(thread) }
    }

    fn so_far(&self) -> String {
        let bytes = self.bytes.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Everything; call it after the child's end.
    fn all(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
        self.so_far()
    }
}
