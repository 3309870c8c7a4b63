//! The figures of `bench threads` as tables, CSV and charts.

use super::super::median;
use super::super::plot::{self, Line, Words};
use ringside_capture::policies::{Disorder, Outcome, Policy, Setup};
use ringside_terminal::columns;
use std::fmt::Write;
use std::path::Path;

/// First line of the CSV file. `kind` is `rate` or `order`; rates are in million frames a second.
const CSV_HEADER: &str = "kind,policy,threads,frame_bytes,offered_mps,rounds,mps,mps_best,\
    gbit_per_s,times_one_thread,times_one_thread_best,smallest_share_percent,\
    out_of_order_percent,out_of_order_percent_max,out_of_order_in_flow_percent";

/// All rounds of one setup.
pub(super) struct Row {
    pub(super) setup: Setup,
    pub(super) outcomes: Vec<Outcome>,
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct Rows {
    /// As fast as it goes, by frame size.
    pub(super) rates: Vec<Row>,
    /// At given rates.
    pub(super) orders: Vec<Row>,
}

fn mps(outcome: &Outcome) -> f64 {
    outcome.frames as f64 / outcome.elapsed.as_secs_f64() / 1e6
}

/// Which frames out of order.
type Part = fn(&Disorder) -> u64;

fn percent(outcome: &Outcome, part: Part) -> f64 {
    let disorder = &outcome.disorder;
    100.0 * part(disorder) as f64 / disorder.frames.max(1) as f64
}

fn globally(disorder: &Disorder) -> u64 {
    disorder.out_of_order
}

fn in_flow(disorder: &Disorder) -> u64 {
    disorder.out_of_order_in_flow
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Ordered => "ordered",
        Policy::Segments => "segments",
    }
}

impl Row {
    pub(super) fn new(setup: Setup) -> Row {
        Row { setup, outcomes: Vec::new() }
    }

    fn median(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.outcomes.iter().map(value).collect())
    }

    fn most(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(value).fold(0.0, f64::max)
    }

    fn gbit_per_s(&self) -> f64 {
        self.median(mps) * f64::from(self.setup.frame_bytes) * 8.0 / 1e3
    }

    /// Share of the thread that took least, in percent.
    fn smallest_share(&self) -> f64 {
        self.median(|outcome| {
            let least = outcome.by_thread.iter().copied().min().unwrap_or(0);
            100.0 * least as f64 / outcome.frames.max(1) as f64
        })
    }

    fn offered_mps(&self) -> f64 {
        self.setup.rate_per_sec.map_or(f64::NAN, |rate| rate / 1e6)
    }
}

impl Rows {
    /// The row of one thread that `row` is compared with.
    fn one_thread(&self, row: &Row) -> Option<&Row> {
        self.rates.iter().find(|other| {
            let (setup, other) = (&row.setup, &other.setup);
            other.threads == 1
                && (other.policy, other.frame_bytes, other.rate_per_sec)
                    == (setup.policy, setup.frame_bytes, setup.rate_per_sec)
        })
    }

    /// How many times one thread's rate: the medians, and the best rounds.
    fn times_one_thread(&self, row: &Row) -> (f64, f64) {
        let Some(one) = self.one_thread(row) else { return (f64::NAN, f64::NAN) };
        (row.median(mps) / one.median(mps), row.most(mps) / one.most(mps))
    }

    /// Frames out of order in all measurements of a policy.
    pub(super) fn disorder_of(&self, policy: Policy) -> u64 {
        let rows = self.rates.iter().chain(&self.orders);
        let outcomes = rows.filter(|row| row.setup.policy == policy).flat_map(|row| &row.outcomes);
        outcomes.map(|outcome| outcome.disorder.out_of_order).sum()
    }

    /// Tables for people.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("As fast as it goes, medians (M/s: million frames a second)\n");
        let head = [
            "policy",
            "threads",
            "bytes",
            "M/s",
            "best M/s",
            "Gbit/s",
            "times one",
            "best",
            "least share %",
        ];
        let line = |row: &Row| {
            let (times, best) = self.times_one_thread(row);
            let setup = &row.setup;
            let mut line = vec![name(setup.policy).to_owned()];
            line.extend([setup.threads.to_string(), setup.frame_bytes.to_string()]);
            line.extend([number(row.median(mps), 2), number(row.most(mps), 2)]);
            line.extend([number(row.gbit_per_s(), 1), number(times, 2), number(best, 2)]);
            line.push(number(row.smallest_share(), 0));
            line
        };
        out.push_str(&columns::text(&head, &self.rates.iter().map(line).collect::<Vec<_>>()));
        out.push_str("\nFrames behind a later one, at given rates, medians\n");
        let head =
            ["policy", "threads", "offered M/s", "M/s", "out of order %", "most %", "in flows %"];
        let line = |row: &Row| {
            let mut line = vec![name(row.setup.policy).to_owned(), row.setup.threads.to_string()];
            line.extend([number(row.offered_mps(), 1), number(row.median(mps), 2)]);
            line.push(number(row.median(|outcome| percent(outcome, globally)), 2));
            line.push(number(row.most(|outcome| percent(outcome, globally)), 2));
            line.push(number(row.median(|outcome| percent(outcome, in_flow)), 2));
            line
        };
        out.push_str(&columns::text(&head, &self.orders.iter().map(line).collect::<Vec<_>>()));
        out
    }

    /// One line a row, below [`CSV_HEADER`].
    pub(super) fn csv(&self) -> String {
        let mut out = format!("{CSV_HEADER}\n");
        let kinds = [("rate", &self.rates), ("order", &self.orders)];
        for (kind, row) in kinds.iter().flat_map(|(kind, rows)| rows.iter().map(move |r| (kind, r)))
        {
            let (times, best) = self.times_one_thread(row);
            let setup = &row.setup;
            let _ = writeln!(
                out,
                "{kind},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                name(setup.policy),
                setup.threads,
                setup.frame_bytes,
                number(row.offered_mps(), 3),
                row.outcomes.len(),
                number(row.median(mps), 4),
                number(row.most(mps), 4),
                number(row.gbit_per_s(), 3),
                number(times, 3),
                number(best, 3),
                number(row.smallest_share(), 1),
                number(row.median(|outcome| percent(outcome, globally)), 4),
                number(row.most(|outcome| percent(outcome, globally)), 4),
                number(row.median(|outcome| percent(outcome, in_flow)), 4),
            );
        }
        out
    }

    /// Charts; `dir` exists.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        for (policy, file, title) in [
            (Policy::Ordered, "rate-ordered.svg", "One lane by threads, in the order of receipt"),
            (Policy::Segments, "rate-segments.svg", "One ring by threads, in fixed segments"),
        ] {
            let words = Words {
                title,
                x: "frame size in bytes",
                y: "Gbit/s of frames, copied into the capture memory",
            };
            let lines = lines(&self.rates, policy, |row| {
                (f64::from(row.setup.frame_bytes), row.gbit_per_s())
            });
            plot::chart(&dir.join(file), words, &lines)?;
        }
        for (file, title, part) in [
            ("disorder.svg", "Frames behind a later one", globally as Part),
            ("disorder-in-flows.svg", "Frames behind a later one of their flow", in_flow),
        ] {
            let words =
                Words { title, x: "million frames a second, offered", y: "percent of the frames" };
            let point =
                |row: &Row| (row.offered_mps(), row.median(|outcome| percent(outcome, part)));
            let mut drawn = lines(&self.orders, Policy::Segments, point);
            drawn.iter_mut().for_each(|line| line.name.insert_str(0, "segments, "));
            // All of ours lie on each other: one stands for them.
            drawn.extend(
                lines(&self.orders, Policy::Ordered, point)
                    .pop()
                    .map(|line| Line { name: format!("ordered, {}", line.name), ..line }),
            );
            plot::chart(&dir.join(file), words, &drawn)?;
        }
        Ok(())
    }
}

/// A line for each number of threads.
fn lines(rows: &[Row], policy: Policy, point: impl Fn(&Row) -> (f64, f64)) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|row| row.setup.policy == policy) {
        let threads = row.setup.threads;
        let name = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        let line = match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line,
            None => {
                lines.push(Line { name, points: Vec::new(), mixes: Vec::new() });
                lines.last_mut().expect("just pushed")
            }
        };
        line.points.push(point(row));
    }
    lines
}

/// With `decimals` digits; empty for what is not a number.
fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rows() -> Rows {
        let mut rows = Rows::default();
        for policy in [Policy::Ordered, Policy::Segments] {
            for threads in 1..=4 {
                for (frame_bytes, rate_per_sec) in [(64, None), (1514, None), (64, Some(4e6))] {
                    let setup = Setup {
                        policy,
                        threads,
                        cpus: Vec::new(),
                        frame_bytes,
                        rate_per_sec,
                        descriptors: 1024,
                        buffer_bytes: 1 << 20,
                        time_max: Duration::from_secs(1),
                    };
                    let mut row = Row::new(setup);
                    let frames = 1_000_000 * threads as u64;
                    let by_thread = vec![1_000_000; threads];
                    let elapsed = Duration::from_secs(1);
                    let mut disorder = Disorder::default();
                    disorder.frames = frames;
                    row.outcomes.push(Outcome { frames, elapsed, by_thread, disorder });
                    let rows =
                        if rate_per_sec.is_some() { &mut rows.orders } else { &mut rows.rates };
                    rows.push(row);
                }
            }
        }
        rows
    }

    #[test]
    fn a_row_is_compared_with_one_thread_of_its_policy_and_size() {
        let rows = rows();
        let row = rows.rates.iter().rfind(|row| row.setup.threads == 3).unwrap();
        assert_eq!(rows.times_one_thread(row), (3.0, 3.0));
        assert!((row.smallest_share() - 100.0 / 3.0).abs() < 1e-9);
        let text = rows.text();
        assert!(text.contains("segments") && text.contains("3.00"), "{text}");
        let csv = rows.csv();
        let fields = |line: &str| line.split(',').count();
        assert!(csv.lines().all(|line| fields(line) == fields(CSV_HEADER)), "{csv}");
    }

    #[test]
    fn every_chart_is_drawn_with_its_words() {
        let dir = tempfile::tempdir().unwrap();
        rows().draw(dir.path()).unwrap();
        for (file, word) in [
            ("rate-ordered.svg", "4 threads"),
            ("rate-segments.svg", "fixed segments"),
            ("disorder.svg", "segments, 2 threads"),
            ("disorder-in-flows.svg", "of their flow"),
        ] {
            let svg = std::fs::read_to_string(dir.path().join(file)).unwrap();
            assert!(svg.contains(word), "{file}: {word}");
        }
    }
}
