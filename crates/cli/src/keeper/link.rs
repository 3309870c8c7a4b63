//! The worker's end: orders in, reports out.

use super::knob::Request;
use super::message::{ToKeeper, ToWorker};
use crate::say;
use crate::signals::{ABORT_STATUS, StopSignal};
use anyhow::{Context, bail};
use ringside_sys::child;
use ringside_sys::netns::Namespace;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The worker's connection to its keeper.
pub struct Link {
    socket: Arc<OwnedFd>,
    stop: StopSignal,
}

impl Link {
    /// Ignores the signals that the keeper answers.
    pub(super) fn new(socket: OwnedFd) -> anyhow::Result<Link> {
        Ok(Link { socket: Arc::new(socket), stop: StopSignal::left_to_the_keeper()? })
    }

    /// Set once the keeper ordered the run to stop, or is gone.
    pub fn stop_signal(&self) -> StopSignal {
        self.stop.clone()
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
                Some(order) => follow(&order, &self.stop),
                None => bail!("the keeper is gone"),
            }
        }
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
        let (socket, stop) = (self.socket.clone(), self.stop.clone());
        let obey = move || {
            while let Some(order) = next(&socket) {
                follow(&order, &stop);
            }
            say::message("ringside: the keeper is gone; the run ends");
            stop.set();
        };
        let thread = std::thread::Builder::new().name("orders".into()).spawn(obey);
        thread.map(|_| ()).context("cannot start a thread")
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

fn follow(order: &ToWorker, stop: &StopSignal) {
    match order {
        ToWorker::Stop => stop.set(),
        ToWorker::Abort => std::process::exit(ABORT_STATUS),
        // Nobody waits for it any more.
        ToWorker::Turned(_) => {}
    }
}
