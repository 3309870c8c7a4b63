//! The keeper's own life: start the worker, pass orders on, wait for its end.

use super::heartbeat::{self, Heartbeat};
use super::journal::Journal;
use super::knob::Request;
use super::message::{ToKeeper, ToWorker};
use super::process::ProcessIdentity;
use super::remains::{self, Left};
use super::{ENVIRONMENT, KeeperOptions, knobs};
use crate::privileges;
use crate::privileges::Role;
use anyhow::{Context, bail};
use ringside_control::{CAPTURE_KIND, remove_left, state_directory};
use ringside_sys::child::{self, Received};
use ringside_sys::netns::Namespace;
use ringside_terminal::signals::{ABORT_STATUS, SignalPipe};
use ringside_terminal::{say, service};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::CapabilitySet;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Signals within this time are one order: `timeout` signals its child and then its whole process
/// group, so the same order comes twice. No user sends a second one so fast.
const ONE_ORDER: Duration = Duration::from_millis(250);
/// Where settings of the system and of interfaces are written.
const SETTINGS: [&str; 2] = ["/proc/sys", "/sys"];
/// How long a worker that was ordered to end at once may take, before it is killed.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// Starts the worker, keeps it company until it ends, and passes its status on.
///
/// # Errors
/// It could not be started or waited for.
pub(super) fn run(options: &KeeperOptions<'_>) -> anyhow::Result<ExitCode> {
    // The signals first: one that comes while the worker starts must reach it.
    let signals = SignalPipe::install()?;
    let mut keeper = Keeper::start(signals, options)?;
    privileges::raise_descriptors();
    let status = keeper.wait()?;
    // Knobs are put back after it: huge pages are free once no process holds the ring any more.
    let code = keeper.conclude(status, options);
    remove_left(&keeper.sockets);
    code
}

/// Directories in which this process may have to write, other than those of a recording, which it
/// holds.
fn written(outputs: &[PathBuf], sockets: &[PathBuf]) -> Vec<PathBuf> {
    let is_file = |path: &&PathBuf| *path != Path::new("-") && !path.is_dir();
    let files = outputs.iter().filter(is_file).chain(sockets);
    let parents = files.map(|path| path.parent().map(Path::to_owned).unwrap_or_default());
    parents.chain(state_directory::candidates().into_iter().map(|place| place.path)).collect()
}

/// The process that receives cannot be started. A run without a keeper needs none.
#[derive(Debug, Error)]
#[error("cannot start the process that receives")]
pub struct NoWorker(#[source] std::io::Error);

struct Keeper {
    signals: SignalPipe,
    worker: Child,
    /// Readable once the worker and all its threads have ended.
    pidfd: OwnedFd,
    socket: OwnedFd,
    orders: Orders,
    knobs: TurnedKnobs,
    left: Left,
    /// Of the worker, while it receives.
    heartbeat: Option<Heartbeat>,
    /// Where the worker's sockets may be.
    sockets: Vec<PathBuf>,
    /// What the run writes, as it was named.
    outputs: Vec<PathBuf>,
    started: bool,
    closed: bool,
}

/// What was turned for the worker. It is put back whichever way the keeper ends.
struct TurnedKnobs(Option<Journal>);

impl Drop for TurnedKnobs {
    fn drop(&mut self) {
        for note in knobs::put_back(&mut self.0) {
            say::message(format_args!("ringside: {note}"));
        }
    }
}

/// Orders that were given.
#[derive(Default)]
struct Orders {
    stop: Option<Instant>,
    abort: Option<Instant>,
    killed: bool,
}

impl Keeper {
    fn start(signals: SignalPipe, options: &KeeperOptions<'_>) -> anyhow::Result<Keeper> {
        let (socket, theirs) = child::pair()?;
        let mut command = Command::new(program());
        let mut args = std::env::args_os();
        if let Some(name) = args.next() {
            command.arg0(name);
        }
        command.args(args).env(ENVIRONMENT, child::leave_for_child(&theirs)?);
        let worker = command.spawn().map_err(NoWorker)?;
        let mut sockets =
            ringside_control::paths(&options.control, CAPTURE_KIND, std::process::id());
        sockets.extend(options.share.map(Path::to_owned));
        let pidfd = pidfd_open(Pid::from_child(&worker), PidfdFlags::empty())
            .context("watching the process that receives")?;
        Ok(Keeper {
            signals,
            worker,
            pidfd,
            socket,
            orders: Orders::default(),
            knobs: TurnedKnobs(None),
            left: Left::default(),
            heartbeat: None,
            sockets,
            outputs: options.directories.to_vec(),
            started: false,
            closed: false,
        })
    }

    /// Waits for the worker's end; meanwhile passes orders on and takes its messages.
    fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let mut talking = true;
        loop {
            let readable = self.poll(talking)?;
            if readable.signals {
                self.signals.clear();
                self.answer_signals();
            }
            if readable.socket {
                talking = self.hear();
            }
            let report = self.heartbeat.as_mut().and_then(|beat| beat.check(Instant::now()));
            if let Some(report) = report {
                say::message(format_args!("ringside: warning: {report}"));
            }
            if self.orders.abort.is_some_and(|at| at.elapsed() >= ABORT_PATIENCE)
                && !std::mem::replace(&mut self.orders.killed, true)
            {
                // An error says that it has ended meanwhile.
                let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            }
            if readable.end {
                // What it still said is in the socket; its end of it is closed.
                while talking {
                    talking = self.hear();
                }
                return self.worker.wait().context("waiting for the process that receives");
            }
        }
    }

    fn poll(&self, talking: bool) -> anyhow::Result<Readable> {
        let timeout = match (self.orders.abort, self.orders.killed) {
            (Some(at), false) => Some(ABORT_PATIENCE.saturating_sub(at.elapsed())),
            _ => self.heartbeat.as_ref().map(|_| heartbeat::INTERVAL),
        };
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(self.signals.reader(), PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        let count = if talking { 3 } else { 2 };
        match poll(&mut fds[..count], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the process that receives"),
        }
        let [end, signals, socket] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Readable { end, signals, socket: socket && talking })
    }

    /// Passes on what signals ask for.
    fn answer_signals(&mut self) {
        if self.signals.statistics.take() {
            self.tell(&ToWorker::Statistics);
        }
        let is_hung_up = self.signals.hang_up.take();
        if self.signals.stop.take() || is_hung_up && self.signals.hang_up.is_of_terminal() {
            self.order();
        } else if is_hung_up {
            self.tell(&ToWorker::HangUp);
        }
    }

    /// Passes an order on: the first to stop, the second to stop at once.
    fn order(&mut self) {
        let order = match &mut self.orders {
            Orders { stop: stop @ None, .. } => {
                *stop = Some(Instant::now());
                ToWorker::Stop
            }
            Orders { stop: Some(at), abort: abort @ None, .. } if at.elapsed() >= ONE_ORDER => {
                *abort = Some(Instant::now());
                ToWorker::Abort
            }
            _ => return,
        };
        self.tell(&order);
    }

    fn tell(&self, message: &ToWorker) {
        let bytes = serde_json::to_vec(message).expect("messages have text keys only");
        // A worker that does not hear is ending.
        let _ = child::send(&self.socket, &bytes, &[]);
    }

    /// Takes one message; false once the worker's end is closed.
    fn hear(&mut self) -> bool {
        match child::receive(&self.socket) {
            Ok(Some(received)) => {
                self.note(received);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!("messages of the worker are lost: {error}");
                false
            }
        }
    }

    fn note(&mut self, received: Received) {
        match serde_json::from_slice(&received.bytes) {
            Ok(ToKeeper::Turn(request)) => {
                let result = self.turn(&request, received.fds);
                self.tell(&ToWorker::Turned(result.map_err(|error| format!("{error:#}"))));
            }
            Ok(ToKeeper::Leave(part)) if !self.started => {
                if let Err(error) = self.left.take(part, received.fds) {
                    tracing::warn!("the worker left something of no use: {error:#}");
                }
            }
            Ok(ToKeeper::Leave(_)) => tracing::warn!("the worker left something too late"),
            Ok(ToKeeper::Started { others_files }) => self.give_up_privileges(others_files),
            Ok(ToKeeper::Received) => {
                self.heartbeat = None;
                remove_left(&self.sockets);
            }
            Ok(ToKeeper::Closed) => self.closed = true,
            Err(error) => tracing::warn!("a message of the worker was not understood: {error}"),
        }
    }

    fn turn(&mut self, request: &Request, fds: Vec<OwnedFd>) -> anyhow::Result<()> {
        // Once the worker has dropped its privileges, it may not use ours.
        if self.started {
            bail!("the run has begun");
        }
        let namespace = fds.into_iter().next().map(Namespace::from_fd);
        let journal = &mut self.knobs.0;
        let first = journal.is_none();
        knobs::turn(journal, request, namespace)?;
        if let Some(journal) = journal.as_mut().filter(|_| first) {
            let worker = ProcessIdentity::of(self.worker.id());
            worker.into_iter().try_for_each(|worker| journal.add_user(worker))?;
        }
        Ok(())
    }

    /// Keeps what is needed to end the worker, to finish its files and to put knobs back.
    fn give_up_privileges(&mut self, others_files: bool) {
        self.started = true;
        // While sockets can still be made.
        service::ready();
        self.heartbeat = self.left.memory().and_then(Heartbeat::of);
        let mut kept = CapabilitySet::KILL | privileges::needed_for_maps();
        if others_files {
            kept |= CapabilitySet::DAC_OVERRIDE;
        }
        if self.knobs.0.is_some() {
            // To enter a network namespace, and to set an interface in it.
            kept |= CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
        }
        if let Err(error) = privileges::keep_only(kept) {
            tracing::warn!("the keeper keeps its privileges: {error:#}");
            return;
        }
        let puts_back = self.knobs.0.is_some();
        let mut places = written(&self.outputs, &self.sockets);
        if puts_back {
            places.extend(SETTINGS.map(PathBuf::from));
        }
        let held: Vec<_> = self.left.directories().map(AsFd::as_fd).collect();
        let places = places.iter().map(PathBuf::as_path);
        privileges::confine(&held, places, Some(&[]), Role::Keeper { puts_back });
    }

    /// What the worker's end means: its status is passed on, or what it left is finished.
    fn conclude(
        &mut self,
        status: ExitStatus,
        options: &KeeperOptions<'_>,
    ) -> anyhow::Result<ExitCode> {
        let left = std::mem::take(&mut self.left);
        let failed = ExitCode::from(ABORT_STATUS as u8);
        let was_ordered = self.orders.abort.is_some();
        match (status.code(), status.signal()) {
            (Some(code), _) if self.closed || !self.started || was_ordered => {
                Ok(ExitCode::from(u8::try_from(code).unwrap_or(ABORT_STATUS as u8)))
            }
            (None, Some(_)) if self.closed || was_ordered && !self.orders.killed => Ok(failed),
            (code, signal) => {
                let reason = reason(code, signal);
                self.finish(left, &reason, options)?;
                Ok(failed)
            }
        }
    }

    /// Finishes for a worker that died.
    fn finish(&self, left: Left, reason: &str, options: &KeeperOptions<'_>) -> anyhow::Result<()> {
        if std::io::stderr().is_terminal() {
            // The worker's live line stands there without an end.
            say::message("");
        }
        if !self.started {
            say::message(format_args!("ringside: the worker {reason} before the run began"));
            // The locks go first: no process holds the run any more, if it had got so far.
            drop(left);
            remains::repair_of_the_dead(options.directories);
            return Ok(());
        }
        say::message(format_args!("ringside: the worker {reason}; its keeper finishes the run"));
        if let Some(finish) = options.finish {
            return finish(left.into_kept(), reason).context("the run cannot be finished");
        }
        let finished = left.finish().context("the run cannot be finished")?;
        Ok(remains::tell(&finished, reason, options.json)?)
    }
}

/// How the worker ended, for people.
fn reason(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("was killed by signal {signal} ({name})"),
            None => format!("was killed by signal {signal}"),
        },
        (Some(code), None) => format!("ended with status {code} in the middle of the run"),
        (None, None) => "is gone".to_owned(),
    }
}

/// What a poll found.
struct Readable {
    end: bool,
    signals: bool,
    socket: bool,
}

/// This program. Its file may have been replaced or removed since it was started.
fn program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    std::env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| running.to_path_buf())
}
