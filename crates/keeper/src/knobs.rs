//! Turning knobs for a run: by its keeper, or where there is none by this process.

use super::journal::Journal;
use super::knob::{Knob, Request};
use super::link::Link;
use ringside_sys::netns::Namespace;
use std::cell::RefCell;

/// Who turns the knobs of a run.
pub enum Knobs<'l> {
    /// The keeper, which puts them back.
    Keeper(&'l Link),
    /// This process, by [`put_back`](Knobs::put_back), or when this is dropped.
    Own(RefCell<Option<Journal>>),
}

impl<'l> Knobs<'l> {
    /// By the keeper, if there is one.
    pub fn new(link: Option<&'l Link>) -> Knobs<'l> {
        link.map_or(Knobs::Own(RefCell::new(None)), Knobs::Keeper)
    }

    /// Turns a knob, in the calling thread's network namespace if it has to do with one.
    ///
    /// # Errors
    /// Why it is as it was.
    pub fn turn(&self, request: &Request) -> anyhow::Result<()> {
        match self {
            Knobs::Keeper(link) => link.turn(request),
            Knobs::Own(journal) => {
                turn(&mut journal.borrow_mut(), request, Some(Namespace::current()?))
            }
        }
    }

    /// Puts back what this process turned; says what was not to be had. A keeper does it when the
    /// run is over.
    pub fn put_back(&mut self) -> Vec<String> {
        match self {
            Knobs::Keeper(_) => Vec::new(),
            Knobs::Own(journal) => put_back(journal.get_mut()),
        }
    }

    /// True if this process must put knobs back itself, for which it needs what it turned them by.
    pub fn need_privileges(&self) -> bool {
        matches!(self, Knobs::Own(journal) if journal.borrow().is_some())
    }
}

impl Drop for Knobs<'_> {
    fn drop(&mut self) {
        for note in self.put_back() {
            tracing::warn!("{note}");
        }
    }
}

/// Turns a knob and notes it in the journal, which is made for the first.
pub(super) fn turn(
    journal: &mut Option<Journal>,
    request: &Request,
    namespace: Option<Namespace>,
) -> anyhow::Result<()> {
    for knob in Knob::plan(request, namespace.as_ref())? {
        if journal.is_none() {
            *journal = Some(Journal::create()?);
        }
        let turned = journal.as_mut().expect("made above").turn(knob)?;
        tracing::info!("turned: {turned:?}");
    }
    Ok(())
}

/// Puts everything back, once; says what was not to be had.
pub(super) fn put_back(journal: &mut Option<Journal>) -> Vec<String> {
    let Some(mut journal) = journal.take() else { return Vec::new() };
    // Without the lock it puts back all the same: no other process will.
    let _lock = journal.lock().inspect_err(|error| tracing::warn!("{error:#}"));
    let (done, others): (Vec<String>, Vec<String>) =
        journal.put_back().into_iter().partition(|note| note.ends_with(": put back"));
    done.iter().for_each(|note| tracing::info!("{note}"));
    others
}

/// Turns knobs that stay turned when this process ends; those of interfaces in `namespace`. Gives
/// for each request the names of what was turned, or why nothing was.
///
/// # Errors
/// There is no place for the journal.
pub fn turn_for_good(
    requests: &[Request],
    namespace: &Namespace,
) -> anyhow::Result<Vec<anyhow::Result<Vec<String>>>> {
    let mut journal = Journal::kept()?;
    let _lock = journal.lock()?;
    // Somebody else may have turned more before we had the lock.
    journal = Journal::kept()?;
    let mut turn = |request: &Request| {
        let planned = Knob::plan(request, Some(namespace))?.into_iter();
        planned.map(|knob| Ok(journal.turn(knob)?.name())).collect()
    };
    Ok(requests.iter().map(&mut turn).collect())
}

/// Puts back what [`turn_for_good`] turned, in all namespaces; says what was done, and what could
/// not be.
///
/// # Errors
/// The journal is damaged.
pub fn put_back_what_stays() -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let journal = Journal::kept()?;
    let _lock = journal.lock()?;
    let notes = Journal::kept()?.put_back().into_iter();
    Ok(notes.partition(|note| !note.contains(": cannot be put back: ")))
}

/// What [`turn_for_good`] turned and was not put back, the last first.
///
/// # Errors
/// The journal is damaged.
pub fn what_stays_turned() -> anyhow::Result<Vec<String>> {
    Ok(Journal::kept()?.names())
}
