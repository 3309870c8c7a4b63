#![forbid(unsafe_code)]
//! What this machine and its interfaces can do, which problems a capture has, and what fixes them.
//!
//! A [`Check`] is a question with its answer: how it stands, why that matters, the command that
//! fixes it, and the knobs that do the same. [`Report::of`] asks them all and changes nothing;
//! [`Report::fixed`] turns the knobs first, which stay until [`Report::undone`] or the next start
//! of the system. [`backends`] tells what the machine can capture with.
//!
//! This stands apart from the command line, so that a service may look at its machine before it
//! captures. It turns nothing itself, but has the keeper's journal do it, and refuses to judge
//! what it has just put back: that is how somebody wanted it.

pub mod backends;
mod check;
mod clock;
mod dpdk;
mod interface;
mod machine;
mod netmap;
mod pf_ring;
mod polling;

pub use check::{Check, State};

use ringside_keeper::{Request, in_namespace, put_back_of_the_dead, turn_for_good};
use ringside_sys::netns::Namespace;
use serde::Serialize;

/// What was found and done.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// How everything stands; none after [`Report::undone`].
    pub checks: Vec<Check>,
    /// What has been turned now, or put back.
    pub done: Vec<String>,
    /// What could not be turned, or put back.
    pub failed: Vec<String>,
}

impl Report {
    /// Of the machine and of `interfaces` in `namespace`; not all of the machine's settings are
    /// seen from there.
    ///
    /// # Errors
    /// There is no such interface, or the system cannot be asked.
    pub fn of(interfaces: &[String], namespace: &Namespace) -> anyhow::Result<Report> {
        Ok(Report { checks: look(interfaces, namespace)?, ..Report::default() })
    }

    /// The same after what can be fixed has been.
    ///
    /// # Errors
    /// As [`of`](Report::of); or there is no place for the journal.
    pub fn fixed(interfaces: &[String], namespace: &Namespace) -> anyhow::Result<Report> {
        let mut report = Report::of(interfaces, namespace)?;
        report.fix(namespace)?;
        report.checks = look(interfaces, namespace)?;
        Ok(report)
    }

    /// Puts back what [`fixed`](Report::fixed) turned. Nothing is checked afterwards: a
    /// problem that is there again was wanted.
    ///
    /// # Errors
    /// The journal is damaged.
    pub fn undone() -> anyhow::Result<Report> {
        let (done, failed) = ringside_keeper::put_back_what_stays()?;
        Ok(Report { checks: Vec::new(), done, failed })
    }

    /// True if a check found a problem.
    pub fn has_problem(&self) -> bool {
        self.checks.iter().any(|check| check.state == State::Problem)
    }

    /// Fixes what can be fixed, each check for itself: one that fails holds up no other.
    fn fix(&mut self, namespace: &Namespace) -> anyhow::Result<()> {
        self.done.extend(put_back_of_the_dead());
        let requests = self.checks.iter().flat_map(|check| &check.requests);
        let requests: Vec<Request> = requests.cloned().collect();
        if requests.is_empty() {
            return Ok(());
        }
        for result in turn_for_good(&requests, namespace)? {
            match result {
                Ok(names) => {
                    self.done.extend(names.into_iter().map(|name| format!("{name}: turned")));
                }
                Err(error) => self.failed.push(format!("{error:#}")),
            }
        }
        Ok(())
    }
}

fn look(interfaces: &[String], namespace: &Namespace) -> anyhow::Result<Vec<Check>> {
    let mut checks = machine::checks();
    for name in interfaces {
        checks.extend(in_namespace(namespace, || interface::checks(name))?);
    }
    Ok(checks)
}
