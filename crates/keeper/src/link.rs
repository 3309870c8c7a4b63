//! The worker's end: orders in, reports out.

use super::knob::Request;
use super::message::{ToKeeper, ToWorker};
use super::part::Part;
use anyhow::{Context, bail};
use ringside_sys::child;
use ringside_sys::netns::Namespace;
use ringside_terminal::signals::{ABORT_STATUS, RunSignals};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The worker's connection to its keeper.
pub struct Link {
    socket: Arc<OwnedFd>,
    signals: RunSignals,
    keeper_pid: Option<u32>,
    is_gone: Arc<AtomicBool>,
}

impl Link {
    /// The keeper is the parent now; later it may be gone.
    pub(super) fn new(socket: OwnedFd) -> anyhow::Result<Link> {
        let signals = RunSignals::with_keeper()?;
        let keeper = rustix::process::getppid();
        let keeper_pid = keeper.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
        let is_gone = Arc::default();
        Ok(Link { socket: Arc::new(socket), signals, keeper_pid, is_gone })
    }

    /// What signals and the keeper's orders ask of the run, which is to stop if the keeper
    /// [is gone](Link::is_keeper_gone).
    pub fn signals(&self) -> RunSignals {
        self.signals.clone()
    }

    /// True once the keeper ended during the run, which is to stop for it.
    pub fn is_keeper_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// The process that the user started.
    pub fn keeper_pid(&self) -> Option<u32> {
        self.keeper_pid
    }

    /// Has the keeper turn a knob in the calling thread's network namespace; it puts it back at the
    /// end of the run, however that comes. To be called before [`started`](Link::started).
    ///
    /// # Errors
    /// Why it is as it was.
    pub fn turn(&self, request: &Request) -> anyhow::Result<()> {
        let namespace = Namespace::current()?;
        self.send(&ToKeeper::Turn(request.clone()), &[namespace.as_fd()]);
        loop {
            match next(&self.socket) {
                Some(ToWorker::Turned(answer)) => return answer.map_err(anyhow::Error::msg),
                Some(order) => follow(&order, &self.signals),
                None => bail!("the keeper is gone"),
            }
        }
    }

    /// Has the keeper keep something of the subcommand's own, for
    /// [`KeeperOptions::finish`](crate::KeeperOptions::finish). To be called before
    /// [`started`](Link::started).
    pub fn keep(&self, facts: String, descriptors: &[BorrowedFd<'_>]) {
        self.send(&ToKeeper::Leave(Part::Kept(facts)), descriptors);
    }

    /// The run begins: orders are followed by a thread from now on, which inherits what privileges
    /// the caller has left, and the keeper does no more than to finish after this process. Orders
    /// that were given before have waited. `others_files` says that the files belong to another
    /// user than the keeper's.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn started(&self, others_files: bool) -> anyhow::Result<()> {
        self.send(&ToKeeper::Started { others_files }, &[]);
        let (socket, signals) = (self.socket.clone(), self.signals.clone());
        let is_gone = self.is_gone.clone();
        let obey = move || {
            while let Some(order) = next(&socket) {
                follow(&order, &signals);
            }
            // Before the order to stop: what follows that can say why.
            is_gone.store(true, Ordering::Release);
            if let Err(error) = signals.keeper_is_gone() {
                tracing::warn!("a second signal will not end this process: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("orders".into()).spawn(obey);
        thread.map(|_| ()).context("cannot start a thread")
    }

    /// The run receives no more, and its control socket is closed.
    pub fn received(&self) {
        self.send(&ToKeeper::Received, &[]);
    }

    /// The run has ended and its ledger is printed.
    pub fn closed(&self) {
        self.send(&ToKeeper::Closed, &[]);
    }

    /// A keeper that is gone hears nothing: the order to stop, which its end is, will be seen.
    pub(super) fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) {
        let bytes = serde_json::to_vec(message).expect("messages have text keys only");
        if let Err(error) = child::send(&*self.socket, &bytes, fds) {
            tracing::debug!("telling the keeper: {error}");
        }
    }
}

/// Waits for the next message; `None` once the keeper is gone.
fn next(socket: &OwnedFd) -> Option<ToWorker> {
    loop {
        let message = child::receive(socket).unwrap_or_else(|error| {
            tracing::warn!("orders of the keeper are lost: {error}");
            None
        })?;
        match serde_json::from_slice(&message.bytes) {
            Ok(message) => return Some(message),
            Err(error) => tracing::warn!("an order of the keeper was not understood: {error}"),
        }
    }
}

fn follow(order: &ToWorker, signals: &RunSignals) {
    match order {
        ToWorker::Stop => signals.stop.set(),
        ToWorker::HangUp => signals.hang_up.set(),
        ToWorker::Statistics => signals.statistics.set(),
        ToWorker::Abort => std::process::exit(ABORT_STATUS),
        // No thread waits for it any more.
        ToWorker::Turned(_) => {}
    }
}
