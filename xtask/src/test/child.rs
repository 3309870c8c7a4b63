//! Child processes that end: by themselves, at their time limit, or when the user interrupts.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL: time for a test to take its namespaces down.
const GRACE: Duration = Duration::from_secs(10);
/// How often the limit and the user's signal are looked at while a child is silent.
const LOOK: Duration = Duration::from_millis(100);
/// Lines that wait for the terminal; a faster child waits for them.
const LINES_MAX: usize = 1024;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit status 0.
    Well,
    /// Another exit status, or a signal.
    Failed,
    /// It was killed at its time limit.
    TimedOut,
    /// It was killed because this process got SIGINT or SIGTERM.
    Interrupted,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Ending::Well => "well",
            Ending::Failed => "FAILED",
            Ending::TimedOut => "TIMED OUT",
            Ending::Interrupted => "INTERRUPTED",
        })
    }
}

/// Starts children, each in a process group of its own, and ends whole groups.
pub struct Children {
    interrupted: Arc<AtomicBool>,
}

impl Children {
    /// From here on SIGINT and SIGTERM end the child that runs, then the run.
    pub fn new() -> std::io::Result<Children> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Children { interrupted })
    }

    /// True once this process got SIGINT or SIGTERM.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs `command` for at most `time_max`, shows its standard output and gives `look` each
    /// line of it. What it leaves behind in its process group is killed.
    pub fn run(
        &self,
        command: &mut Command,
        time_max: Duration,
        mut look: impl FnMut(&str),
    ) -> std::io::Result<Ending> {
        let (pipe, writer) = std::io::pipe()?;
        command.stdout(writer);
        self.watch(command, pipe, time_max, |line| {
            println!("{line}");
            look(line);
        })
    }

    /// The same without showing anything; both outputs are looked at, in the order of writing.
    pub fn run_quietly(
        &self,
        command: &mut Command,
        time_max: Duration,
        look: impl FnMut(&str),
    ) -> std::io::Result<Ending> {
        let (pipe, writer) = std::io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        self.watch(command, pipe, time_max, look)
    }

    fn watch(
        &self,
        command: &mut Command,
        pipe: PipeReader,
        time_max: Duration,
        mut look: impl FnMut(&str),
    ) -> std::io::Result<Ending> {
        let deadline = Instant::now() + time_max;
        let mut child = command.process_group(0).spawn()?;
        // This process's own write ends would keep the pipe open.
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        let group = Pid::from_child(&child);
        let lines = read_lines(pipe);
        let ending = loop {
            let open = pass_on(&lines, &mut look);
            if let Some(status) = child.try_wait()? {
                break if status.success() { Ending::Well } else { Ending::Failed };
            }
            let stop = if self.is_interrupted() {
                Some(Ending::Interrupted)
            } else {
                (Instant::now() >= deadline).then_some(Ending::TimedOut)
            };
            match stop {
                Some(ending) => {
                    end(&mut child, group)?;
                    break ending;
                }
                // A closed pipe no longer paces the loop.
                None if !open => wait_for_end(group),
                None => {}
            }
        };
        // No such group any more is the good case.
        let _ = kill_process_group(group, Signal::KILL);
        // With the group dead the pipe closes, unless a child made a session of its own.
        let last = Instant::now() + GRACE;
        while Instant::now() < last && pass_on(&lines, &mut look) {}
        Ok(ending)
    }
}

/// Waits until the process ends, at most [`LOOK`].
fn wait_for_end(process: Pid) {
    let limit = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    let ended = pidfd_open(process, PidfdFlags::empty())
        .and_then(|pidfd| poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)));
    if ended.is_err() {
        std::thread::sleep(LOOK);
    }
}

/// Ends the group politely, then by force.
fn end(child: &mut Child, group: Pid) -> std::io::Result<()> {
    let _ = kill_process_group(group, Signal::TERM);
    let last = Instant::now() + GRACE;
    while Instant::now() < last && child.try_wait()?.is_none() {
        std::thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().map(drop)
}

/// Passes on the lines that come within `LOOK`; false once the pipe is closed.
fn pass_on(lines: &Receiver<String>, show: &mut impl FnMut(&str)) -> bool {
    let last = Instant::now() + LOOK;
    loop {
        match lines.recv_timeout(last.saturating_duration_since(Instant::now())) {
            Ok(line) => show(&line),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if Instant::now() >= last {
            return true;
        }
    }
}

/// A thread reads, so that silence does not block the limit. It ends with the pipe or, if a
/// process outside the group holds that open, with the run.
fn read_lines(pipe: PipeReader) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, time_max: Duration) -> (Ending, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let children = Children { interrupted: Arc::default() };
        let ending = children.run(&mut command, time_max, |line| lines.push(line.to_owned()));
        (ending.unwrap(), lines)
    }

    #[test]
    fn the_exit_status_and_every_line_are_seen() {
        let (ending, lines) = shell("echo a; printf 'b\\377\\nlast'", GRACE);
        assert_eq!((ending, lines.len()), (Ending::Well, 3));
        assert_eq!(lines[2], "last");
        assert_eq!(shell("exit 3", GRACE).0, Ending::Failed);
    }

    /// True once the process is gone or a zombie; it was killed, so that is only a matter of time.
    fn dies(pid: &str) -> bool {
        let last = Instant::now() + GRACE;
        while Instant::now() < last {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            if stat.map_or(true, |stat| stat.contains(") Z ")) {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    #[test]
    fn a_hang_ends_with_its_whole_group() {
        let (ending, lines) = shell("sleep 600 & echo $!; wait", Duration::from_millis(300));
        assert_eq!(ending, Ending::TimedOut);
        assert!(dies(&lines[0]));
    }

    #[test]
    fn what_a_child_leaves_behind_is_killed() {
        let (ending, lines) = shell("sleep 600 & echo $!", GRACE);
        assert_eq!(ending, Ending::Well);
        assert!(dies(&lines[0]));
    }

    #[test]
    fn an_interrupt_ends_the_child() {
        let children = Children { interrupted: Arc::new(AtomicBool::new(true)) };
        let ending = children.run(Command::new("sleep").arg("600"), GRACE, |_| {});
        assert_eq!(ending.unwrap(), Ending::Interrupted);
    }
}
