//! A capture that is started for a device, and ends with it.

use ringside_client::Attachment;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the program that is started, where it does not lie in the search path.
const PROGRAM_VARIABLE: &str = "RINGSIDE";
/// How long a start may take: memory for the ring is touched first.
const START_MAX: Duration = Duration::from_secs(30);
/// How long the end may take: what is in the kernel's ring comes first.
const END_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
/// What it says is kept as far as it may be shown.
const WORDS_BYTES_MAX: u64 = 4 << 10;

/// What is asked of the interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) snaplen_bytes: u32,
    pub(crate) is_promiscuous: bool,
}

/// The capture. It ends when its standard input does: so also if this process is killed, and if it
/// has given up the right to signal.
pub(crate) struct Capture {
    child: Child,
    folder: TempDir,
}

impl Capture {
    /// Starts a capture, and attaches to it.
    ///
    /// # Errors
    /// It does not start; what it said.
    pub(crate) fn start(
        backend: &str,
        interface: &str,
        wishes: Wishes,
    ) -> Result<(Capture, Attachment), String> {
        let folder = tempfile::Builder::new().prefix("ringside-pcap-").tempdir();
        let folder = folder.map_err(|error| format!("making a folder for a socket: {error}"))?;
        let program = std::env::var_os(PROGRAM_VARIABLE).unwrap_or_else(|| "ringside".into());
        let words = File::create(folder.path().join("words")).map_err(|error| error.to_string())?;
        let mut command = Command::new(&program);
        command
            .args(["capture", "--until-stdin-closes", "--backend", backend, "-i", interface])
            .arg("--snaplen")
            .arg(wishes.snaplen_bytes.to_string())
            .arg("--share")
            .arg(folder.path().join("share"))
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(words);
        if !wishes.is_promiscuous {
            command.arg("--no-promiscuous");
        }
        let child = command.spawn().map_err(|error| {
            let program = program.to_string_lossy();
            format!("cannot start {program} ({error}); {PROGRAM_VARIABLE}=/path/of/ringside helps")
        })?;
        let mut capture = Capture { child, folder };
        let attachment = capture.attach()?;
        Ok((capture, attachment))
    }

    fn attach(&mut self) -> Result<Attachment, String> {
        let (socket, deadline) = (self.folder.path().join("share"), Instant::now() + START_MAX);
        loop {
            let is_over = !matches!(self.child.try_wait(), Ok(None)) || Instant::now() >= deadline;
            match Attachment::connect(&socket) {
                Ok(attachment) => return Ok(attachment),
                Err(error) if is_over => return Err(self.words().unwrap_or(error.to_string())),
                Err(_) => sleep(LOOK),
            }
        }
    }

    /// The first thing that it said.
    fn words(&self) -> Option<String> {
        let path: PathBuf = self.folder.path().join("words");
        let mut words = String::new();
        let file = File::open(path).ok()?;
        file.take(WORDS_BYTES_MAX).read_to_string(&mut words).ok()?;
        let line = words.lines().find(|line| !line.trim().is_empty())?;
        Some(line.strip_prefix("ringside: ").unwrap_or(line).to_owned())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(LOOK);
        }
    }
}
