//! A child process that answers one question within limits of time and memory, for libraries in C
//! that have none: a question goes to its standard input, the answer comes from its output.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Limits this process, for the rest of its life: seconds of processor time, and bytes of address
/// space. Nothing else must run in it.
pub fn limit_this_process(cpu_seconds: u64, memory_bytes: u64) {
    limit(Resource::Cpu, cpu_seconds);
    limit(Resource::As, memory_bytes);
    limit(Resource::Core, 0);
}

fn limit(resource: Resource, value: u64) {
    // An already lower hard limit refuses this, and then is the better limit.
    let _ = setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
}

/// A child at work on one question; killed when dropped.
#[derive(Debug)]
pub struct BoundedChild {
    child: Child,
    answer: Receiver<io::Result<Vec<u8>>>,
}

impl BoundedChild {
    /// Starts a child and sends it the question. Of its answer `answer_bytes_max` are read, and
    /// one more, which says that it is too long.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(
        exe: &Path,
        args: &[OsString],
        question: Vec<u8>,
        answer_bytes_max: usize,
    ) -> io::Result<BoundedChild> {
        let mut child = Command::new(exe)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (sender, answer) = channel();
        let running = BoundedChild { child, answer };
        let (Some(mut stdin), Some(stdout)) = pipes else {
            return Err(io::Error::other("no pipes"));
        };
        // Both pipes are served by threads, so that a child that neither reads nor writes cannot
        // hold anyone; killing it closes the pipes and ends them.
        std::thread::spawn(move || {
            // A child that died early is seen by its missing answer.
            let _ = stdin.write_all(&question);
        });
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(answer_bytes_max as u64 + 1).read_to_end(&mut bytes);
            let _ = sender.send(read.map(|_| bytes));
        });
        Ok(running)
    }

    /// Waits for the answer, all that the child wrote; `None` if it writes still at `deadline`.
    ///
    /// # Errors
    /// The answer cannot be read.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.answer.recv_timeout(left) {
            Ok(answer) => answer.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(Some(Vec::new())),
        }
    }

    /// How it ended. One that closed its output ends at once: its status explains a missing answer.
    pub fn status(&mut self) -> Option<ExitStatus> {
        for _ in 0..50 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for BoundedChild {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
