//! How long each test took, kept from run to run.

use super::schedule::Outcome;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Rows of the table of the slowest.
const ROWS: usize = 30;

/// Times of the last run that `path` keeps, by name; none where there is no such file. Lines that
/// are no `SECONDS<tab>NAME` are passed over: it only orders the tests.
pub fn read(path: &Path) -> HashMap<String, Duration> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let row = |line: &str| {
        let (seconds, name) = line.split_once('\t')?;
        let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        Some((name.to_owned(), time))
    };
    text.lines().filter_map(row).collect()
}

/// Writes `times`, the longest first.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, times: &HashMap<String, Duration>) -> std::io::Result<()> {
    let mut rows: Vec<_> = times.iter().collect();
    rows.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let row = |(name, time): (&String, &Duration)| format!("{:.3}\t{name}\n", time.as_secs_f64());
    std::fs::write(path, rows.into_iter().map(row).collect::<String>())
}

/// A table of the slowest tests, and how long all took one after the other.
pub fn slowest(outcomes: &[Outcome]) -> String {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by_key(|outcome| std::cmp::Reverse(outcome.time));
    let total: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let mut text = format!(
        "the {} slowest of {} tests, which take {:.0} s one after the other:\n",
        sorted.len().min(ROWS),
        sorted.len(),
        total.as_secs_f64()
    );
    for outcome in sorted.into_iter().take(ROWS) {
        writeln!(text, "{:>8.2} s  {}", outcome.time.as_secs_f64(), outcome.name)
            .expect("a String takes every write");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::child::Ending;
    use super::*;

    #[test]
    fn times_are_kept_and_bad_lines_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times");
        assert!(read(&path).is_empty());
        let times: HashMap<_, _> = [("a b", 1250), ("c", 500)]
            .map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)))
            .into();
        write(&path, &times).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "1.250\ta b\n0.500\tc\n");
        std::fs::write(&path, format!("{text}-1\tx\nNaN\ty\nz\n")).unwrap();
        assert_eq!(read(&path), times);
    }

    #[test]
    fn the_slowest_come_first() {
        let outcome = |name: &str, seconds| Outcome {
            name: name.into(),
            ending: Ending::Well,
            time: Duration::from_secs(seconds),
        };
        let table = slowest(&[outcome("quick", 1), outcome("slow", 9)]);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].contains("10 s") && lines[1].ends_with("slow"), "{table}");
    }
}
