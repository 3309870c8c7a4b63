//! What a run of tests consists of, and how long it may take.

use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// One step. The order here is the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// cargo fmt --check
    Format,
    /// the house rules
    Tidy,
    /// cargo clippy, warnings are errors
    Clippy,
    /// cargo doc, warnings are errors
    Docs,
    /// the test programs, and in a long run the release binary
    Build,
    /// every test of every crate, end-to-end tests among them
    Tests,
    /// the examples in the documentation
    DocTests,
    /// the model checks of crates/ring, crates/sys and crates/rules
    Loom,
    /// tests of network cards, in an emulated machine
    Vm,
    /// licences, versions and sources of dependencies, by cargo-deny
    Deny,
}

impl Step {
    /// Longest time of the step, for a cold build on two cores; a hang ends here.
    pub fn time_max(self, length: Length) -> Duration {
        let minutes = match (self, length) {
            (Step::Format | Step::Tidy | Step::Deny, _) => 2,
            (Step::Docs | Step::DocTests, _) => 6,
            (Step::Clippy | Step::Loom, Length::Short) => 15,
            (Step::Build | Step::Tests | Step::Vm, Length::Short) => 25,
            (_, Length::Long) => 300,
        };
        Duration::from_secs(minutes * 60)
    }

    /// Name on the command line and in headings.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// True if nothing after it could run once it failed.
    pub fn is_foundation(self) -> bool {
        self == Step::Build
    }

    /// True if it needs what [`Step::Build`] builds.
    fn is_on_build(self) -> bool {
        matches!(self, Step::Tests | Step::Vm)
    }

    /// True if it is a part of `make test`.
    fn is_short(self) -> bool {
        !matches!(self, Step::Vm | Step::Deny)
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What can be run after each change.
    Short,
    /// Everything: `testkit::by_run` chooses the long counts, and end-to-end tests run the release
    /// binary.
    Long,
}

impl Length {
    /// What the variable RINGSIDE_TESTS says, for `testkit::by_run`.
    pub fn name(self) -> &'static str {
        match self {
            Length::Short => "short",
            Length::Long => "long",
        }
    }

    /// Longest time of a run, on a machine half as fast as that of the records; CI ends a run at 90
    /// minutes, and what comes before it (packages, the compilation of this crate) takes its share.
    pub fn run_time_max(self) -> Duration {
        match self {
            Length::Short => Duration::from_secs(80 * 60),
            Length::Long => Duration::from_secs(10 * 3600),
        }
    }

    /// Longest time of one test: its own waits are bounded by `testkit::WAIT_MAX`.
    pub fn test_time_max(self) -> Duration {
        match self {
            Length::Short => Duration::from_secs(8 * 60),
            Length::Long => Duration::from_secs(2 * 3600),
        }
    }
}

/// What is to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// These steps, or all of the run if it is empty.
    pub only: Vec<Step>,
    /// Tests whose names contain one of these, or all if it is empty.
    pub names: Vec<String>,
    /// How much.
    pub length: Length,
    /// A file for the summary, next to the terminal.
    pub record: Option<PathBuf>,
}

impl Order {
    /// True if the step is to run.
    pub fn has(&self, step: Step) -> bool {
        if self.only.is_empty() {
            return step.is_short() || self.length == Length::Long;
        }
        let needed = step == Step::Build && self.only.iter().any(|step| step.is_on_build());
        needed || self.only.contains(&step)
    }
}
