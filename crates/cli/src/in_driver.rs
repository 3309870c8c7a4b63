//! A run whose frames stay in the driver, from its start to its end: it is looked after, answers
//! its clients, and says each second how it goes.

use anyhow::bail;
use ringside_control::{Asked, ControlSocket, Desk, serve_while};
use ringside_core::Ledger;
use ringside_terminal::progress::{INTERVAL, line_bar, tell_wanted};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{ledger_text, say};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often signals are looked at, and the run is looked after.
const TICK: Duration = Duration::from_millis(50);

/// A run that is looked after.
pub trait Tended: Asked {
    /// What was counted at one moment.
    type Account;

    /// Does what is due, some 20 times a second. Gives what people are to know.
    fn tend(&self) -> anyhow::Result<Vec<String>>;

    /// What was counted so far.
    fn account(&self) -> anyhow::Result<Self::Account>;

    /// What happened between two moments, on one line.
    fn line(now: &Self::Account, before: &Self::Account, elapsed: Duration) -> String;

    /// The account, for programs.
    fn json(account: &Self::Account) -> Value;
}

/// What is at work in a driver, of the thread that has the lock: the run's, or that of its clients.
pub struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    /// Has others reach it too.
    pub fn new(at_work: T) -> Locked<T> {
        Locked(Mutex::new(at_work))
    }

    /// It, once no other thread has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What ends a run, and how it says how it goes.
pub struct Course {
    stop: StopSignal,
    statistics: Wanted,
    duration: Option<Duration>,
    json: bool,
}

impl Course {
    /// From now on signals are answered: to be called before anything is attached. A run may end by
    /// itself after `duration`.
    pub fn begin(duration: Option<Duration>, json: bool) -> anyhow::Result<Course> {
        let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
        Ok(Course { stop, statistics, duration, json })
    }

    /// The signal that ends it.
    pub fn stop(&self) -> &StopSignal {
        &self.stop
    }

    /// Until the end is asked for; then `end` takes it off, and says what was done.
    pub fn run<R: Tended>(
        &self,
        socket: Option<ControlSocket>,
        desk: Desk<R>,
        end: impl FnOnce(&R) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let answer = |command| desk.answer(command);
        let (watched, clients) = serve_while(socket, answer, || self.watch(&desk));
        end(desk.run())?;
        watched?;
        // A process that waits for the end may take the place at once.
        drop(desk);
        drop(clients);
        Ok(ExitCode::SUCCESS)
    }

    fn watch<R: Tended>(&self, desk: &Desk<R>) -> anyhow::Result<()> {
        let line = line_bar();
        let started = Instant::now();
        // What went on without a process has counted before.
        let (mut shown_at, mut shown) = (started, desk.run().account()?);
        while !self.stop.is_set() && !desk.is_stopping() {
            let left = self.duration.map(|duration| duration.saturating_sub(started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            std::thread::sleep(left.map_or(TICK, |left| left.min(TICK)));
            let notes = desk.run().tend()?;
            line.suspend(|| tell(&notes));
            let elapsed = shown_at.elapsed();
            tell_wanted(&self.statistics, &line, || match desk.run().account() {
                Ok(now) => R::line(&now, &shown, elapsed),
                Err(error) => format!("{error:#}"),
            });
            if elapsed < INTERVAL {
                continue;
            }
            let now = desk.run().account()?;
            line.set_message(R::line(&now, &shown, elapsed));
            if self.json {
                say::data(json!({ "status": R::json(&now) }))?;
            }
            (shown_at, shown) = (Instant::now(), now);
        }
        line.finish_and_clear();
        Ok(())
    }
}

/// The last account of a run.
pub struct LastAccount {
    /// Its name in JSON: the kind of run.
    pub kind: &'static str,
    /// For programs.
    pub account: Value,
    /// As a ledger, for programs too.
    pub lanes: Ledger,
    /// For people.
    pub text: String,
    /// What is wrong with it.
    pub balance: Result<(), String>,
}

impl LastAccount {
    /// Says it.
    ///
    /// # Errors
    /// Frames are missing in it; of what is pinned, and goes on while it is read, that is none.
    pub fn tell(self, json: bool, is_pinned: bool) -> anyhow::Result<()> {
        if json {
            say::data(json!({ self.kind: self.account }))?;
            say::data(ledger_text::json(&self.lanes))?;
        } else {
            say::message(self.text.trim_end());
        }
        match self.balance {
            Err(wrong) if !is_pinned => bail!("the account does not balance: {wrong}"),
            _ => Ok(()),
        }
    }
}

/// Tells people.
pub fn tell(notes: &[String]) {
    for note in notes {
        say::message(format_args!("ringside: {note}"));
    }
}
