//! What a run adds up to.

use super::child::Ending;
use super::schedule::Outcome;
use super::times;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Counts over all steps.
#[derive(Debug, Default)]
pub struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    skips: Vec<String>,
    steps: Vec<String>,
    /// All that ran one by one.
    outcomes: Vec<Outcome>,
    /// Failures when the step began that runs now.
    failed_before: u64,
}

impl Summary {
    /// Reads a line of cargo test's output; others are passed over.
    pub fn line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
        } else if let Some(name) = line.strip_suffix(" ... FAILED") {
            self.failures.push(name.trim_start_matches("test ").to_owned());
        }
    }

    /// Counts tests that ran one by one, and says how that ended.
    pub fn tests(&mut self, outcomes: Vec<Outcome>) -> Ending {
        let (passed, failed): (Vec<_>, Vec<_>) =
            outcomes.iter().partition(|outcome| outcome.ending == Ending::Well);
        self.passed += passed.len() as u64;
        self.failed += failed.len() as u64;
        self.failures.extend(failed.iter().map(|outcome| outcome.name.clone()));
        let interrupted = failed.iter().any(|outcome| outcome.ending == Ending::Interrupted);
        let ending = match (interrupted, failed.is_empty()) {
            (true, _) => Ending::Interrupted,
            (false, true) => Ending::Well,
            (false, false) => Ending::Failed,
        };
        self.outcomes.extend(outcomes);
        ending
    }

    /// Counts something that did not run, as `name: reason`.
    pub fn skip(&mut self, line: &str) {
        self.skips.push(line.to_owned());
    }

    /// A step ended. If it failed without a failed test, that is one failure.
    pub fn end_step(&mut self, name: &str, ending: Ending, time: Duration) {
        if ending != Ending::Well && self.failed == self.failed_before {
            self.failed += 1;
            self.failures.push(format!("step {name}"));
        }
        self.failed_before = self.failed;
        let ending = ending.to_string();
        let row = format!("{name:<12} {ending:<12} {:>7.1} s", time.as_secs_f64());
        println!("-- {row}");
        self.steps.push(row);
    }

    /// Failures so far.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The closing report. `skips` holds the lines that testkit::skip wrote, as `test: reason`;
    /// such a test returned early, so cargo counted it as passed, and here it is not.
    pub fn report(&self, skips: &str, captures: &str) -> String {
        let mut by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in skips.lines().chain(self.skips.iter().map(String::as_str)) {
            let (test, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
            by_reason.entry(reason).or_default().insert(test);
        }
        let tests: BTreeSet<&str> =
            skips.lines().map(|line| line.split(": ").next().unwrap_or(line)).collect();
        let skipped_tests = tests.len() as u64;
        let skipped = skipped_tests + self.ignored + self.skips.len() as u64;
        let mut text =
            if self.outcomes.is_empty() { String::new() } else { times::slowest(&self.outcomes) };
        for row in &self.steps {
            line(&mut text, format_args!("{row}"));
        }
        line(&mut text, format_args!("{captures}"));
        for (reason, tests) in by_reason {
            let names: Vec<&str> = tests.into_iter().collect();
            line(&mut text, format_args!("skipped, {reason}: {}", names.join(", ")));
        }
        if self.ignored > 0 {
            line(&mut text, format_args!("skipped, ignored in the code: {}", self.ignored));
        }
        for name in &self.failures {
            line(&mut text, format_args!("failed: {name}"));
        }
        let passed = self.passed.saturating_sub(skipped_tests);
        let failed = self.failed;
        line(&mut text, format_args!("{passed} passed, {failed} failed, {skipped} skipped"));
        text
    }
}

/// Minutes and seconds, as `12:05`.
pub fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a String takes every write");
}

/// The number before `word` in `ok. 3 passed; 0 failed; …`; 0 where there is none.
fn count(counts: &str, word: &str) -> u64 {
    let mut parts = counts.split(['.', ';']).map(str::trim);
    let found = parts.find_map(|part| part.strip_suffix(word));
    found.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_line(summary: &Summary, skips: &str) -> String {
        summary.report(skips, "captures").lines().last().unwrap().to_owned()
    }

    #[test]
    fn results_of_all_runs_are_added_up() {
        let mut summary = Summary::default();
        summary.line("test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out");
        summary.line("test a::b ... FAILED");
        summary.line("test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; 0 filtered");
        summary.line("running 7 tests");
        summary.end_step("tests", Ending::Failed, Duration::ZERO);
        assert_eq!(last_line(&summary, ""), "14 passed, 1 failed, 1 skipped");
        assert!(summary.report("", "").contains("failed: a::b\n"));
    }

    #[test]
    fn a_step_that_fails_without_a_failed_test_is_one_failure() {
        let mut summary = Summary::default();
        summary.end_step("format", Ending::Well, Duration::ZERO);
        assert_eq!(summary.failed(), 0);
        summary.end_step("clippy", Ending::TimedOut, Duration::ZERO);
        assert_eq!(last_line(&summary, ""), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one_and_its_reason_is_said() {
        let mut summary = Summary::default();
        summary.line("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        summary.skip("loom: no test");
        let skips = "a: needs root\nb: needs root\na: needs tshark\n";
        assert_eq!(last_line(&summary, skips), "3 passed, 0 failed, 3 skipped");
        let report = summary.report(skips, "");
        assert!(report.contains("skipped, needs root: a, b\n"), "{report}");
        assert!(report.contains("skipped, no test: loom\n"), "{report}");
    }
}
