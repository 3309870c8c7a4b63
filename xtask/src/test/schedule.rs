//! Tests side by side, each in a process of its own; some with nothing next to them.

use super::child::{Children, Ending};
use super::queue::Queue;
use super::suite::Test;
use super::summary::minutes;
use anyhow::{Context, bail, ensure};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lines of a test that are kept until it is known whether it failed.
const LINES_MAX: usize = 300;
/// How often the step says how far it is.
const PROGRESS: Duration = Duration::from_secs(15);

/// What a test did.
#[derive(Debug)]
pub struct Outcome {
    /// As in [`Test::name`].
    pub name: String,
    pub ending: Ending,
    pub time: Duration,
}

/// Tests by name, each with the reason why it is in the list.
#[derive(Debug, Default)]
pub struct Listed(Vec<(String, String)>);

impl Listed {
    /// Reads lines of `NAME: REASON`; empty lines and those that begin with `#` are comments.
    ///
    /// # Errors
    /// The file cannot be read, or a line has no reason.
    pub fn read(path: &Path) -> anyhow::Result<Listed> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Listed::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Listed> {
        let mut names = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Some((name, reason)) = line.split_once(": ") else {
                bail!("'{line}' has no reason: write NAME: REASON");
            };
            names.push((name.to_owned(), reason.to_owned()));
        }
        Ok(Listed(names))
    }

    fn has(&self, test: &Test) -> bool {
        self.0.iter().any(|(name, _)| *name == test.name)
    }

    /// # Errors
    /// A name is that of no test: the list has gone stale.
    fn check(&self, tests: &[Test]) -> anyhow::Result<()> {
        for (name, _) in &self.0 {
            ensure!(tests.iter().any(|test| test.name == *name), "no test is named '{name}'");
        }
        Ok(())
    }
}

/// How long tests will take.
pub struct Expected<'a> {
    pub times: &'a HashMap<String, Duration>,
    pub others: Duration,
}

/// How tests are run.
pub struct Schedule<'a> {
    pub children: &'a Children,
    /// Tests at a time.
    pub slots: usize,
    /// Those that need the machine for themselves.
    pub alone: &'a Listed,
    /// Those of which one runs at a time, next to all others: they would wait for each other, and
    /// some keep a CPU busy meanwhile.
    pub in_turn: &'a Listed,
    /// Longest time of one test, and of all.
    pub test_time_max: Duration,
    pub time_max: Duration,
    /// The longest begin first, so that none is left over at the end.
    pub expected: Expected<'a>,
    /// Variables that the tests see.
    pub variables: &'a [(&'static str, OsString)],
}

impl Schedule<'_> {
    /// Runs all of them that `is_chosen` chooses, and says what failed as it happens.
    ///
    /// # Errors
    /// A list names none of `tests`.
    pub fn run(
        &self,
        mut tests: Vec<Test>,
        is_chosen: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Vec<Outcome>> {
        self.alone.check(&tests)?;
        self.in_turn.check(&tests)?;
        tests.retain(|test| is_chosen(&test.name));
        // The name makes the order the same each time.
        tests.sort_by(|a, b| a.name.cmp(&b.name));
        tests.sort_by_key(|test| {
            let time = self.expected.times.get(&test.name).copied();
            std::cmp::Reverse(time.unwrap_or(self.expected.others))
        });
        let begin = Instant::now();
        let progress = Progress::begin(tests.len());
        let (alone, shared): (Vec<_>, Vec<_>) =
            tests.into_iter().partition(|test| self.alone.has(test));
        for (tests, slots) in [(shared, self.slots), (alone, 1)] {
            let queue = Queue::new(tests, |test| self.in_turn.has(test));
            std::thread::scope(|scope| {
                for _ in 0..slots {
                    scope.spawn(|| self.slot(&queue, begin + self.time_max, &progress));
                }
            });
        }
        Ok(progress.end())
    }

    /// Runs one test after the other until none is left for this slot, or time is up.
    fn slot(&self, queue: &Queue<Test>, deadline: Instant, progress: &Progress) {
        while let Some(next) = queue.next() {
            let left = deadline.saturating_duration_since(Instant::now());
            let (outcome, lines) = self.one(&next.item, self.test_time_max.min(left));
            progress.note(outcome, &lines);
            queue.done(&next);
            if self.children.is_interrupted() {
                return;
            }
        }
    }

    fn one(&self, test: &Test, time_max: Duration) -> (Outcome, VecDeque<String>) {
        let mut lines = VecDeque::new();
        let mut command = test.command();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let begin = Instant::now();
        let ending = self.children.run_quietly(&mut command, time_max, |line| {
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(line.to_owned());
        });
        let ending = ending.unwrap_or_else(|error| {
            lines.push_back(format!("{command:?}: {error}"));
            Ending::Failed
        });
        let (name, time) = (test.name.clone(), begin.elapsed());
        (Outcome { name, ending, time }, lines)
    }
}

/// What is done, and when that was said last.
struct Progress {
    count: usize,
    begin: Instant,
    state: Mutex<(Vec<Outcome>, Instant)>,
}

impl Progress {
    fn begin(count: usize) -> Progress {
        let begin = Instant::now();
        Progress { count, begin, state: Mutex::new((Vec::new(), begin)) }
    }

    fn note(&self, outcome: Outcome, lines: &VecDeque<String>) {
        let mut state = self.state.lock().expect("no slot panics");
        let (outcomes, said) = &mut *state;
        if outcome.ending != Ending::Well {
            println!(
                "---- {} {} after {:.1} s",
                outcome.name,
                outcome.ending,
                outcome.time.as_secs_f64()
            );
            lines.iter().for_each(|line| println!("{line}"));
        }
        outcomes.push(outcome);
        if said.elapsed() >= PROGRESS {
            *said = Instant::now();
            let failed = outcomes.iter().filter(|outcome| outcome.ending != Ending::Well).count();
            let (done, time) = (outcomes.len(), minutes(self.begin.elapsed()));
            println!("   {time:>6}  {done} of {} tests, {failed} failed", self.count);
        }
    }

    fn end(self) -> Vec<Outcome> {
        self.state.into_inner().expect("no slot panics").0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_that_is_listed_has_a_reason_and_is_a_test() {
        let listed = Listed::parse("# comment\n\na b::c: counts its losses\n").unwrap();
        assert_eq!(listed.0, [("a b::c".to_owned(), "counts its losses".to_owned())]);
        assert!(Listed::parse("a b::c\n").unwrap_err().to_string().contains("NAME: REASON"));
        let stale = listed.check(&[]).unwrap_err().to_string();
        assert_eq!(stale, "no test is named 'a b::c'");
    }
}
