//! Child processes that end: by themselves, at their time limit, or when the user interrupts.

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Read};
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
        let deadline = Instant::now() + time_max;
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        let lines = child.stdout.take().map(read_lines);
        let mut show = |line: &str| {
            println!("{line}");
            look(line);
        };
        let ending = loop {
            let open = lines.as_ref().is_some_and(|lines| pass_on(lines, &mut show));
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
                None if !open => std::thread::sleep(LOOK),
                None => {}
            }
        };
        // No such group any more is the good case.
        let _ = kill_process_group(group, Signal::KILL);
        // With the group dead the pipe closes, unless a child made a session of its own.
        if let Some(lines) = lines {
            let last = Instant::now() + GRACE;
            while Instant::now() < last && pass_on(&lines, &mut show) {}
        }
        Ok(ending)
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
fn read_lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
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
