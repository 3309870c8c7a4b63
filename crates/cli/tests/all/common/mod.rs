//! The program under test as its users run it: a child process, a test network, files.
//!
//! Every wait is bounded by [`WAIT_MAX`]; a child is killed when its handle is dropped, a network
//! is removed when its guard is.

#![allow(dead_code)] // each test file uses its own part

pub mod chaos;
pub mod flow_runs;
pub mod folder;
pub mod overload;
pub mod user;
pub mod verifier;
pub mod wireshark;

use ringside_core::{Frame, Ledger, SourceInterface};
use ringside_lab::{Lab, LabConfig, RECEIVER_INTERFACE};
use ringside_netdev as netdev;
use ringside_store::Notice;
use ringside_sys::netns::Namespace;
use ringside_testkit::judge;
pub use ringside_testkit::{WAIT_MAX, wait_until};
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// The binary: `RINGSIDE_BIN`, by its path or by that in the project's folder, else the one that
/// cargo built for this test.
pub fn ringside() -> PathBuf {
    binary(std::env::var_os("RINGSIDE_BIN").as_deref())
}

/// Cargo runs tests in the folder of their crate, where no relative path of a user begins.
fn binary(asked: Option<&std::ffi::OsStr>) -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_ringside"));
    asked.map_or_else(built, |path| ringside_testkit::project_root().join(path))
}

#[test]
fn a_relative_path_of_the_binary_begins_at_the_projects_folder() {
    let at_root = ringside_testkit::project_root().join("target/release/ringside");
    for (asked, found) in [
        ("target/release/ringside", at_root.as_path()),
        ("/usr/bin/ringside", Path::new("/usr/bin/ringside")),
    ] {
        assert_eq!(binary(Some(asked.as_ref())), found);
    }
}

/// A test network of its own for one test; it is removed when this is dropped.
pub struct Network {
    lab: Lab,
}

impl Network {
    /// One queue, MTU 1,500.
    pub fn up() -> Network {
        Network::with(LabConfig::default())
    }

    /// As `config` says, but for the name, which is unique.
    pub fn with(config: LabConfig) -> Network {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("e2e{}-{number}", std::process::id());
        Network { lab: Lab::up(&LabConfig { name, ..config }).unwrap() }
    }

    /// Its name, for `ringside lab`.
    pub fn name(&self) -> &str {
        &self.lab.status().config.name
    }

    /// Namespace of `tx0`.
    pub fn sender(&self) -> &str {
        &self.lab.status().sender_namespace
    }

    /// Namespace of `rx0`.
    pub fn receiver(&self) -> &str {
        &self.lab.status().receiver_namespace
    }

    /// Frames that `rx0` has received since it was made.
    pub fn received(&self) -> u64 {
        self.received_by(RECEIVER_INTERFACE)
    }

    /// Frames that an interface of the receiver's namespace has received since it was made.
    pub fn received_by(&self, interface: &str) -> u64 {
        inside(self.receiver(), || {
            netdev::by_name(interface).unwrap().unwrap().statistics.rx_packets
        })
    }

    /// Sends `count` numbered frames, at `rate` a second or as fast as it goes.
    pub fn send(&self, kind: SenderKind, shape: &Shape, count: u64, rate: Option<u64>) -> Report {
        self.send_load(kind, Load::Numbered(shape.clone()), count, rate)
    }

    /// Sends `frames` once, in order, by a packet socket, so slowly that none is refused.
    pub fn replay(&self, frames: &[Vec<u8>]) -> Report {
        let meta = ringside_core::FrameMeta::default();
        let own = |bytes: &Vec<u8>| ringside_core::OwnedFrame { bytes: bytes.clone(), meta };
        let load = Load::Replay(frames.iter().map(own).collect());
        let report = self.send_load(SenderKind::Packet, load, frames.len() as u64, Some(5000));
        assert_eq!(report.handed, frames.len() as u64, "{report:?}");
        report
    }

    fn send_load(
        &self,
        sender: SenderKind,
        load: Load,
        count: u64,
        rate_per_sec: Option<u64>,
    ) -> Report {
        let limits = Limits::new(Some(count), Some(WAIT_MAX)).unwrap();
        let (wire, cpus) = (self.lab.wire(), Vec::new());
        let job = Job { sender, wire, load, cpus, rate_per_sec, limits };
        let mut outcome = ringside_transmit::run(&job, &|| false);
        // Between fork and exec a child of another thread has what the sender before has closed.
        wait_until("the place of the sender before", || {
            let is_taken =
                outcome.as_ref().is_err_and(|error| error.to_string().contains("another sender"));
            if is_taken {
                outcome = ringside_transmit::run(&job, &|| false);
            }
            !is_taken
        });
        let report = outcome.unwrap();
        assert_eq!(report.offered, count, "the sender was too slow: {report:?}");
        report
    }

    /// Starts `ringside capture --netns RECEIVER --direction in ARGS` and waits until it listens.
    /// `args` name the interfaces; `--json` is added unless the output goes to `-`, and `--count`
    /// if there is no output.
    pub fn capture(&self, args: &[&str]) -> Running {
        let mut command = self.capture_command();
        command.args(defaults_first(args));
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        running
    }

    /// `ringside capture --netns RECEIVER --direction in`, to be completed: what the receiver sends
    /// of itself is not counted.
    pub fn capture_command(&self) -> Command {
        // Whatever started the tests may ignore signals, and what ignores SIGHUP keeps ignoring it.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside());
        command.args(["capture", "--netns", self.receiver(), "--direction", "in"]);
        command
    }
}

/// Puts `--json` before the arguments, unless the output goes to `-`, and `--count` if there is no
/// output.
fn defaults_first<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let stream = args.windows(2).any(|pair| pair == ["-w", "-"]);
    let json = (!stream).then_some("--json");
    let count = (!args.contains(&"-w")).then_some("--count");
    json.into_iter().chain(count).chain(args.iter().copied()).collect()
}

/// Runs `work` on a thread of its own in the network namespace `name`.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            Namespace::open(name).unwrap().enter().unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// A child whose output is collected by threads; killed when dropped.
pub struct Running {
    child: Child,
    stdout: Option<Collector>,
    stderr: Collector,
}

/// What a child did.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output; empty where the test had directed it elsewhere.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Running {
    /// Starts `command`, both outputs collected, nothing on the input.
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Running::start_directed(command)
    }

    /// Starts `command` with standard input and output where the caller has directed them.
    pub fn start_directed(mut command: Command) -> Running {
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdout = child.stdout.take().map(Collector::start);
        let stderr = Collector::start(child.stderr.take().unwrap());
        Running { child, stdout, stderr }
    }

    /// Starts `command` with its outputs on a terminal, of which `screen` is the other end: what is
    /// shown there is collected as standard output.
    pub fn start_shown(mut command: Command, screen: std::fs::File) -> Running {
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        // The terminal ends with the last process that has it open.
        drop(command);
        let (stdout, stderr) = (Some(Collector::start(screen)), Collector::start(std::io::empty()));
        Running { child, stdout, stderr }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Process id of the worker: the child of what was started, which is its keeper. 0 if it has
    /// none (any more).
    pub fn worker_pid(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().next().map_or(0, |pid| pid.parse().unwrap())
    }

    /// Sends a signal to the worker only.
    pub fn signal_worker(&self, signal: Signal) {
        let worker = i32::try_from(self.worker_pid()).ok().and_then(Pid::from_raw);
        kill_process(worker.expect("there is a worker"), signal).unwrap();
    }

    /// Waits until standard error says `text`.
    pub fn wait_for_stderr(&self, text: &str) {
        wait_until(&format!("{text:?}, said: {}", self.stderr_so_far()), || {
            let said = self.stderr_so_far();
            assert!(said.contains(text) || !self.is_over(), "it ended, and said: {said}");
            said.contains(text)
        });
    }

    /// Waits until standard output says `text`.
    pub fn wait_for_stdout(&self, text: &str) {
        wait_until(&format!("{text:?}"), || {
            let said = self.stdout_so_far();
            assert!(!self.is_over(), "it ended, and said: {}", self.stderr_so_far());
            String::from_utf8_lossy(&said).contains(text)
        });
    }

    /// True once it has closed standard error, which it does at its end.
    pub fn is_over(&self) -> bool {
        self.stderr.is_done()
    }

    /// What it has said on standard error.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.so_far()).into_owned()
    }

    /// What it has put out on standard output.
    pub fn stdout_so_far(&self) -> Vec<u8> {
        self.stdout.as_ref().map(Collector::so_far).unwrap_or_default()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGTERM, which no shell has its background jobs ignore, then as [`Running::finish`].
    pub fn stop(self) -> Outcome {
        self.signal(Signal::TERM);
        self.finish()
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Outcome {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let said = || self.stderr_so_far();
            assert!(start.elapsed() < WAIT_MAX, "did not end in {WAIT_MAX:?}, said: {}", said());
            std::thread::sleep(POLL);
        };
        let stdout = self.stdout.as_ref().map(Collector::all).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&self.stderr.all()).into_owned();
        Outcome { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Name, user, effective capabilities, no_new_privs and seccomp mode of every thread of a process.
pub fn threads(pid: u32) -> Vec<[String; 5]> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let look = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).unwrap();
        ["Name:", "Uid:", "CapPrm:", "NoNewPrivs:", "Seccomp:"].map(|field| {
            let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        })
    };
    tasks.map(|task| look(task.unwrap())).collect()
}

/// The first line of each packet that was printed: it begins with a stamp. Behind it there may be
/// lines that begin with white space, or say what is in a tunnel.
pub fn packet_lines(text: &str) -> impl Iterator<Item = &str> {
    let is_stamp = |word: &str| {
        let (seconds, fraction) = word.split_once('.').unwrap_or_default();
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
        !seconds.is_empty() && is_number(seconds) && is_number(fraction)
    };
    text.lines().filter(move |line| line.split(' ').next().is_some_and(is_stamp))
}

impl Outcome {
    /// Exit status; none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// Packets that were printed as text.
    pub fn packets(&self) -> usize {
        packet_lines(&self.text()).count()
    }

    /// Standard output as JSON lines.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.text().lines().map(parse).collect()
    }

    /// The ledger: the last JSON line.
    pub fn ledger(&self) -> Ledger {
        let lines = self.json_lines();
        let last = lines.last().unwrap_or_else(|| panic!("no JSON, said: {}", self.stderr));
        serde_json::from_value(last["ledger"].clone()).unwrap()
    }

    /// The ledger of a run that ended well; both stages balance, nothing is in flight, and
    /// `received` frames were received.
    pub fn checked_ledger(&self, received: u64) -> Ledger {
        assert_eq!(self.code(), Some(0), "{}", self.stderr);
        let ledger = self.ledger();
        check_ledger(&ledger, received);
        ledger
    }
}

/// Both stages balance, nothing is in flight, there is a consumer, `received` frames were received.
pub fn check_ledger(ledger: &Ledger, received: u64) {
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    assert_eq!(ledger.in_flight, Some(0), "{ledger:#?}");
    assert_eq!(ledger.received, Some(received), "{ledger:#?}");
    assert!(!ledger.consumers.is_empty(), "{ledger:#?}");
    let taken: u64 = ledger.lanes.iter().map(|lane| lane.taken).sum();
    assert_eq!(taken, ledger.taken, "{ledger:#?}");
}

/// Runs `program` to its end.
pub fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.args(args);
    Running::start(command).finish()
}

/// Runs `ringside ARGS` to its end.
pub fn run_ringside(args: &[&str]) -> Outcome {
    run(ringside(), args)
}

/// True if a TCP checksum is right, by tshark's word on it and its value. Of 0xffff tshark says
/// that it is wrong and wants 0 (RFC 1624). The kernel writes it where it finishes a sum of 0
/// (skb_checksum_help), and it is the same number (RFC 1071): one frame in 65,536 has it.
pub fn is_right_tcp(status: &str, checksum: &str) -> bool {
    status == "1" || checksum == "0xffff"
}

/// Runs another program, which must end with 0 and say nothing on standard error but its own
/// greeting; gives its standard output.
pub fn run_clean(program: &str, args: &[&str]) -> String {
    let outcome = run(program, args);
    let clean = outcome.status.success() && is_greeting(&outcome.stderr);
    assert!(clean, "{program} {args:?}: {outcome:?}");
    outcome.text()
}

/// The same of `PROGRAM ARGS FILE`, from an earlier run where there was one: for files that are
/// the same in every run.
pub fn judged(program: &str, args: &[&str], file: &Path) -> String {
    let answer = judge::ask(program, args, file);
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.success && is_greeting(&said), "{program} {args:?} {}: {said}", file.display());
    answer.text().to_owned()
}

/// True if a program has said nothing on standard error but its greeting.
fn is_greeting(stderr: &str) -> bool {
    let greeting =
        |line: &str| line.starts_with("Running as user") || line.starts_with("reading from file ");
    stderr.lines().all(greeting)
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Gives every frame of files or directories, in order, with the interfaces known by then; the
/// notices at the end.
pub fn for_each_frame(
    paths: &[PathBuf],
    mut note: impl FnMut(&Frame<'_>, &[SourceInterface]),
) -> Vec<Notice> {
    let mut source = ringside_store::open(paths).unwrap();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(WAIT_MAX).unwrap() {
            batch.iter().for_each(|frame| note(&frame, batch.interfaces()));
        }
    }
    source.notices()
}

/// The files of a directory, by name, without hidden ones.
pub fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_hidden = |path: &PathBuf| arg(path).rsplit('/').next().unwrap().starts_with('.');
    let is_index = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "index");
    let mut files: Vec<PathBuf> =
        paths.filter(|path| !is_hidden(path) && !is_index(path)).collect();
    files.sort();
    files
}

/// A thread that reads a pipe to its end.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Collector {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = bytes.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Collector { bytes, thread: Mutex::new(Some(thread)) }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    fn is_done(&self) -> bool {
        self.thread.lock().unwrap().as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Everything; the child has ended, so the pipe ends unless a grandchild holds it.
    fn all(&self) -> Vec<u8> {
        wait_until("the end of a child's output", || self.is_done());
        self.so_far()
    }
}

/// A file of pcap.
pub fn write_pcap<'f>(path: &Path, frames: impl Iterator<Item = &'f [u8]>) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [1, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}
