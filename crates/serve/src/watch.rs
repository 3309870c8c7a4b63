//! The captures as last asked: once a second, however many clients look.

use crate::limits::{CAPTURES_MAX, HISTORY_MAX};
use ringside_control::{Client, Command, Status, running};
use ringside_core::ledger::sum;
use ringside_report::losses;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use utoipa::ToSchema;

/// The captures at one moment.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Captures {
    /// Grows with each look, also over a restart.
    pub sequence: u64,
    /// When they were asked, in milliseconds since 1970.
    pub time_ms: u64,
    /// By process id.
    pub captures: Vec<Capture>,
    /// Captures that run and could not be asked, and why.
    pub unreachable: Vec<String>,
}

/// A running capture.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Capture {
    /// Process id of what the user started.
    pub id: u32,
    /// Its control socket.
    pub socket: String,
    /// Frames lost in either stage.
    pub lost: u64,
    /// These by cause; what a rule or trigger left out is no loss.
    pub lost_by_cause: BTreeMap<String, u64>,
    /// As `ringside status --json` has it (docs/control.md), with the ledger (docs/LEDGER.md).
    #[schema(value_type = Object)]
    pub status: Status,
}

/// What a chart shows of a moment.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Sample {
    /// Of [`Captures`].
    pub sequence: u64,
    /// Of [`Captures`].
    pub time_ms: u64,
    /// By process id.
    pub captures: Vec<CaptureSample>,
}

/// What a chart shows of a capture.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CaptureSample {
    /// Process id.
    pub id: u32,
    /// Of the last whole second; null in the first.
    pub frames_per_second: Option<u64>,
    /// Of the last whole second; null in the first.
    pub bits_per_second: Option<u64>,
    /// Frames lost so far.
    pub lost: u64,
}

/// A look, and its text, which is the same for all clients.
#[derive(Debug)]
pub struct Look {
    /// What was seen.
    pub captures: Captures,
    /// The same as JSON.
    pub json: String,
}

impl Look {
    fn of(captures: Captures) -> Look {
        let json = serde_json::to_string(&captures).unwrap_or_default();
        Look { captures, json }
    }
}

/// Asks captures, and keeps what they said.
#[derive(Debug)]
pub struct Watch {
    /// Sockets that were named; all running captures, if none were.
    sockets: Vec<PathBuf>,
    latest: watch::Sender<Arc<Look>>,
    history: Mutex<VecDeque<Sample>>,
}

impl Watch {
    /// Of the captures at `sockets`, or of all in the default directories if there are none.
    pub fn new(sockets: Vec<PathBuf>) -> Watch {
        let nothing = Arc::new(Look::of(Captures::default()));
        Watch { sockets, latest: watch::Sender::new(nothing), history: Mutex::default() }
    }

    /// The last look.
    pub fn latest(&self) -> Arc<Look> {
        self.latest.borrow().clone()
    }

    /// Sees every look from now on that it has time for.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Look>> {
        self.latest.subscribe()
    }

    /// The last minutes, those behind look `sequence`.
    pub fn history(&self, sequence: u64) -> Vec<Sample> {
        self.samples().iter().filter(|sample| sample.sequence > sequence).cloned().collect()
    }

    /// Looks every `tick`, for good.
    pub async fn run(&self, tick: Duration) {
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    /// Asks all captures once.
    pub async fn look(&self) {
        let mut sockets = self.sockets.clone();
        if sockets.is_empty() {
            sockets = tokio::task::spawn_blocking(running).await.unwrap_or_default();
        }
        sockets.truncate(CAPTURES_MAX);
        // Each on a thread of its own: one that stands still holds up no other.
        let asked: Vec<_> = sockets
            .into_iter()
            .map(|path| tokio::task::spawn_blocking(move || ask(&path)))
            .collect();
        let mut captures = Captures { time_ms: now_ms(), ..Captures::default() };
        captures.sequence = self.latest().captures.sequence.max(captures.time_ms / 1000) + 1;
        for answer in asked {
            match answer.await {
                Ok(Ok(capture)) => captures.captures.extend(capture),
                Ok(Err(error)) => captures.unreachable.push(format!("{error:#}")),
                Err(_) => captures.unreachable.push("asking a capture failed".into()),
            }
        }
        captures.captures.sort_by_key(|capture| capture.id);
        self.keep(captures);
    }

    fn keep(&self, captures: Captures) {
        let sample = |capture: &Capture| CaptureSample {
            id: capture.id,
            frames_per_second: capture.status.rates.map(|rates| rates.frames_per_second),
            bits_per_second: capture.status.rates.map(|rates| rates.bits_per_second),
            lost: capture.lost,
        };
        let (sequence, time_ms) = (captures.sequence, captures.time_ms);
        let sample =
            Sample { sequence, time_ms, captures: captures.captures.iter().map(sample).collect() };
        let mut history = self.samples();
        history.push_back(sample);
        if history.len() > HISTORY_MAX {
            history.pop_front();
        }
        drop(history);
        self.latest.send_replace(Arc::new(Look::of(captures)));
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Captures {
    /// The capture with this process id.
    pub fn get(&self, id: u32) -> Option<&Capture> {
        self.captures.iter().find(|capture| capture.id == id)
    }
}

/// What runs at `path`; nothing if it has ended.
fn ask(path: &Path) -> anyhow::Result<Option<Capture>> {
    let Some(mut client) = Client::connect(path)? else { return Ok(None) };
    let Some(status) = client.ask(&Command::Status {})?.status else { return Ok(None) };
    let losses = losses(&status.ledger);
    Ok(Some(Capture {
        id: status.pid,
        socket: path.to_string_lossy().into_owned(),
        lost: sum(losses.values().copied()),
        lost_by_cause: losses.iter().map(|(cause, &n)| (cause.name().to_owned(), n)).collect(),
        status: *status,
    }))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_bounded_and_begins_where_it_is_asked_for() {
        let watch = Watch::new(Vec::new());
        for sequence in 1..=HISTORY_MAX as u64 + 5 {
            watch.keep(Captures { sequence, ..Captures::default() });
        }
        assert_eq!(watch.history(0).len(), HISTORY_MAX);
        assert_eq!(watch.history(HISTORY_MAX as u64 + 3).len(), 2);
        assert_eq!(watch.latest().captures.sequence, HISTORY_MAX as u64 + 5);
    }
}
