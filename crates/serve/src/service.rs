//! What every request can reach.

use crate::guesses::Guesses;
use crate::hosts::Hosts;
use crate::identity::Tls;
use crate::limits::{CHANGES_MAX, DOWNLOADS_MAX, Limits, SEARCHES_MAX, STREAMS_MAX, UNDO_MAX};
use crate::problem::Problem;
use crate::tokens::{Scopes, Tokens};
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What it serves, and to which clients.
#[derive(Debug, Default)]
pub struct Config {
    /// Control sockets of captures; all captures in the default directories, if there are none.
    pub control: Vec<PathBuf>,
    /// Recordings and capture files that are searched.
    pub recordings: Vec<PathBuf>,
    /// Where records are kept that SQL is asked about.
    pub store: Option<PathBuf>,
    /// Further names that clients may know this service by, as a proxy hands them on.
    pub hosts: Vec<String>,
    /// Users whose processes may connect, in addition to the own one and root.
    pub users: Vec<u32>,
    /// If there are tokens, every request needs one.
    pub tokens: Option<Tokens>,
    /// If there is a certificate, TCP is encrypted.
    pub tls: Option<Tls>,
    /// Answer for metrics alone. They hold counts and names of interfaces, as every process of this
    /// host may read them elsewhere, so every process of this host may ask where there are no
    /// tokens.
    pub metrics_only: bool,
    /// What clients may cost.
    pub limits: Limits,
}

/// Who sends a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the log calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
}

/// A recording or capture file, by the name that clients know.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The last part of its path, and a number where several have the same.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// A change of the rules of a capture, as it can be undone.
#[derive(Clone, Debug)]
pub enum Change {
    /// Rules that came, by id.
    Added(Vec<u32>),
    /// Rules that went, with their ids.
    Deleted(Vec<String>),
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    /// What it was started with.
    pub config: Config,
    /// The names that clients may know it by; any, where only Unix sockets lead here.
    pub hosts: Option<Hosts>,
    /// Wrong tokens of other hosts.
    pub guesses: Guesses,
    /// The captures.
    pub watch: Watch,
    /// The recordings.
    pub recordings: Vec<Recording>,
    /// Streams of events.
    pub streams: Queue,
    /// Searches and dry runs of rules.
    pub searches: Queue,
    /// Downloads of packets.
    pub downloads: Queue,
    /// Orders about rules.
    pub changes: Queue,
    undo: Mutex<BTreeMap<u32, Vec<Change>>>,
}

/// How many requests of one kind are worked on at once.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Semaphore>);

impl Queue {
    fn of(length: usize) -> Queue {
        Queue(Arc::new(Semaphore::new(length)))
    }

    /// A place, until it is dropped. Nothing waits here: a client that is turned away knows it at
    /// once.
    ///
    /// # Errors
    /// All places are taken.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.0.clone().try_acquire_owned().map_err(|_| Problem::busy())
    }
}

impl Service {
    /// Of `config`; `port` is that of TCP, if it listens there.
    pub fn new(config: Config, port: Option<u16>) -> Service {
        Service {
            hosts: port.map(|port| Hosts::new(port, &config.hosts)),
            guesses: Guesses::default(),
            watch: Watch::new(config.control.clone()),
            recordings: named(&config.recordings),
            streams: Queue::of(STREAMS_MAX),
            searches: Queue::of(SEARCHES_MAX),
            downloads: Queue::of(DOWNLOADS_MAX),
            changes: Queue::of(CHANGES_MAX),
            undo: Mutex::default(),
            config,
        }
    }

    /// Keeps a change of the rules of a capture. What was changed first is forgotten first.
    pub fn note_change(&self, id: u32, change: Change) {
        let mut undo = self.undo.lock().unwrap_or_else(PoisonError::into_inner);
        // Of captures that have ended.
        let running = &self.watch.latest().captures;
        undo.retain(|&other, _| other == id || running.get(other).is_some());
        let changes = undo.entry(id).or_default();
        changes.push(change);
        if changes.len() > UNDO_MAX {
            changes.remove(0);
        }
    }

    /// The last change, which is forgotten.
    pub fn take_change(&self, id: u32) -> Option<Change> {
        self.undo.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&id)?.pop()
    }

    /// How many changes can be undone.
    pub fn changes_of(&self, id: u32) -> usize {
        self.undo.lock().unwrap_or_else(PoisonError::into_inner).get(&id).map_or(0, Vec::len)
    }
}

/// Does what blocks on a thread of its own, and no longer than `time_max` as far as the client
/// sees.
///
/// # Errors
/// The work's own; or it takes too long, and goes on unseen to its own end.
pub async fn blocking<T: Send + 'static>(
    time_max: Duration,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::time::timeout(time_max, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Err(Problem::failed(&error.into())),
        Err(_) => Err(Problem::late()),
    }
}

fn named(paths: &[PathBuf]) -> Vec<Recording> {
    let mut recordings: Vec<Recording> = Vec::new();
    for path in paths {
        let last = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let same = |name: &str| recordings.iter().any(|known| known.name == name);
        let numbered = (2..).map(|number| format!("{last}-{number}"));
        let mut names = std::iter::once(last.clone()).chain(numbered);
        let name = names.find(|name| !same(name)).unwrap_or(last);
        recordings.push(Recording { name, path: path.clone() });
    }
    recordings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_has_a_name_of_its_own() {
        let paths = ["/a/eth1", "/b/eth1", "/c/eth2", "/"].map(PathBuf::from);
        let recordings = named(&paths);
        let names: Vec<&str> = recordings.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["eth1", "eth1-2", "eth2", "/"]);
    }

    #[test]
    fn the_last_changes_are_undone_first_and_the_first_forgotten() {
        let service = Service::new(Config::default(), None);
        for id in 0..UNDO_MAX as u32 + 1 {
            service.note_change(7, Change::Added(vec![id]));
        }
        assert_eq!(service.changes_of(7), UNDO_MAX);
        let last = service.take_change(7);
        assert!(matches!(last, Some(Change::Added(ids)) if ids == [UNDO_MAX as u32]));
        service.note_change(8, Change::Added(vec![1]));
        assert_eq!(service.changes_of(7), 0, "it does not run");
    }
}
