//! An observer that shows meanwhile what it has found.

use crate::counts::LogStatus;
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An observer that can say what it has found so far.
pub trait Watched: Observer {
    /// What it says.
    type Status: Status;

    /// What was found so far; nothing will be added once `is_finished`.
    fn status(&self, is_finished: bool) -> Self::Status;
}

/// What an observer has found so far, and where everything is.
pub trait Status: Clone + Default + Send {
    /// The account of each log.
    fn logs(&self) -> &[LogStatus];
}

/// Drives an observer, and answers a [`MonitorHandle`].
pub struct Monitor<O: Watched> {
    observer: O,
    status: Arc<Mutex<O::Status>>,
}

/// Asks a monitor, which may be in another thread.
#[derive(Clone)]
pub struct MonitorHandle<S>(Arc<Mutex<S>>);

impl<O: Watched> Monitor<O> {
    /// Drives this observer.
    pub fn new(observer: O) -> Monitor<O> {
        Monitor { observer, status: Arc::default() }
    }

    /// A handle for another thread.
    pub fn handle(&self) -> MonitorHandle<O::Status> {
        MonitorHandle(self.status.clone())
    }

    fn publish(&mut self, is_finished: bool) {
        *lock(&self.status) = self.observer.status(is_finished);
    }
}

impl<O: Watched> Observer for Monitor<O> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.observer.see(frame, received);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.observer.tick(low_water);
        self.publish(false);
    }

    fn finish(&mut self) {
        self.observer.finish();
        self.publish(true);
    }

    fn runs_programs(&self) -> bool {
        self.observer.runs_programs()
    }
}

impl<S: Status> MonitorHandle<S> {
    /// The latest status, some tenth of a second of the packets' time old: after the stream's end
    /// the last.
    pub fn status(&self) -> S {
        lock(&self.0).clone()
    }

    /// Whether all logs are written.
    ///
    /// # Errors
    /// One of them cannot be written, and gets nothing any more.
    pub fn check_logs(&self) -> io::Result<()> {
        let refused = |log: &LogStatus| {
            let error = log.error.as_ref()?;
            Some(io::Error::other(format!("{} is not written any more: {error}", log.name)))
        };
        lock(&self.0).logs().iter().find_map(refused).map_or(Ok(()), Err)
    }
}

/// What another thread that panicked has left is a whole status.
fn lock<S>(status: &Mutex<S>) -> MutexGuard<'_, S> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
