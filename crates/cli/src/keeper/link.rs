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
use std::sync::mpsc::{Receiver, Sender, channel};

/// The worker's connection to its keeper.
pub struct Link {
    socket: Arc<OwnedFd>,
    stop: StopSignal,
    answers: Receiver<Result<(), String>>,
}

impl Link {
    /// Ignores the signals that the keeper answers, and listens to the keeper instead.
    pub(super) fn new(socket: OwnedFd) -> anyhow::Result<Link> {
        let socket = Arc::new(socket);
        let stop = StopSignal::left_to_the_keeper()?;
        let (orders, flag) = (socket.clone(), stop.clone());
        let (answer, answers) = channel();
        std::thread::Builder::new()
            .name("orders".into())
            .spawn(move || obey(&orders, &flag, &answer))
            .context("cannot start a thread")?;
        Ok(Link { socket, stop, answers })
    }

    /// Set once the keeper ordered the run to stop, or is gone.
    pub fn stop_signal(&self) -> StopSignal {
        self.stop.clone()
    }

    /// Has the keeper turn a knob in the calling thread's network namespace; it puts it back at the
    /// end of the run, however that comes.
    ///
    /// # Errors
    /// Why it is as it was.
    pub fn turn(&self, request: &Request) -> anyhow::Result<()> {
        let namespace = Namespace::current()?;
        self.send(&ToKeeper::Turn(request.clone()), &[namespace.as_fd()]);
        match self.answers.recv() {
            Ok(answer) => answer.map_err(anyhow::Error::msg),
            Err(_) => bail!("the keeper is gone"),
        }
    }

    /// The run begins: the keeper does no more than to finish after it.
    pub fn started(&self) {
        self.send(&ToKeeper::Started, &[]);
    }

    /// The run has ended and its ledger is printed.
    pub fn closed(&self) {
        self.send(&ToKeeper::Closed, &[]);
    }

    /// A keeper that is gone hears nothing: the order to stop, which its end is, will be seen.
    fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) {
        let bytes = serde_json::to_vec(message).expect("messages have text keys only");
        if let Err(error) = child::send(&*self.socket, &bytes, fds) {
            tracing::debug!("telling the keeper: {error}");
        }
    }
}

/// Waits for orders until the keeper is gone.
fn obey(socket: &OwnedFd, stop: &StopSignal, answer: &Sender<Result<(), String>>) {
    loop {
        let message = match child::receive(socket) {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!("orders of the keeper are lost: {error}");
                break;
            }
        };
        match serde_json::from_slice(&message.bytes) {
            Ok(ToWorker::Stop) => stop.set(),
            Ok(ToWorker::Abort) => std::process::exit(ABORT_STATUS),
            // Nobody waits for it if it comes too late.
            Ok(ToWorker::Turned(result)) => drop(answer.send(result)),
            Err(error) => tracing::warn!("an order of the keeper was not understood: {error}"),
        }
    }
    say::message("ringside: the keeper is gone; the run ends");
    stop.set();
}
