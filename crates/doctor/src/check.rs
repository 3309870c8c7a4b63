//! What a check says.

use ringside_keeper::Request;
use serde::Serialize;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works; more is possible.
    Warning,
    /// Frames are lost or changed, or nothing can be received.
    Problem,
}

impl State {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        }
    }
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The interface, or `machine`.
    pub subject: String,
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Why it matters; empty where all is well.
    pub why: &'static str,
    /// The command that fixes it; none where nothing does, or nothing is to be fixed.
    pub fix: Option<String>,
    /// There are knobs that fix it.
    pub fixable: bool,
    /// What the keeper is asked to turn to fix it.
    #[serde(skip)]
    pub requests: Vec<Request>,
}

/// Checks of one interface or of the machine.
pub struct Checks {
    subject: String,
    found: Vec<Check>,
}

impl Checks {
    /// None yet, of `subject`.
    pub fn of(subject: &str) -> Checks {
        Checks { subject: subject.to_owned(), found: Vec::new() }
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Check> {
        self.found
    }

    /// All is well.
    pub fn good(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, State::Ok, found, "");
    }

    /// Something is not, and nothing fixes it from here; see `fix`.
    pub fn add(
        &mut self,
        name: &'static str,
        state: State,
        found: impl Into<String>,
        why: &'static str,
    ) -> &mut Check {
        let (subject, found) = (self.subject.clone(), found.into());
        let (fix, fixable, requests) = (None, false, Vec::new());
        self.found.push(Check { subject, name, state, found, why, fix, fixable, requests });
        self.found.last_mut().expect("it was added")
    }
}

impl Check {
    /// The command that fixes it.
    pub fn fix(&mut self, command: impl Into<String>) -> &mut Check {
        self.fix = Some(command.into());
        self
    }

    /// The knobs that fix it.
    pub fn fixed_by(&mut self, requests: impl IntoIterator<Item = Request>) {
        self.requests = requests.into_iter().collect();
        self.fixable = !self.requests.is_empty();
    }
}
