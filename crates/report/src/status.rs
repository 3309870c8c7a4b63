//! What running captures do: a table, or JSON lines.

use ringside_control::{Rates, RingStatus, Status};
use ringside_core::Shown;
use ringside_core::ledger::sum;
use ringside_terminal::say;
use ringside_terminal::units::{grouped, scaled};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Columns of the table.
const COLUMNS: usize = 10;

/// A JSON object a line for each capture, with the path of its control socket.
///
/// # Errors
/// Standard output cannot be written.
pub fn json<'s>(captures: impl Iterator<Item = (&'s Path, &'s Status)>) -> io::Result<()> {
    for (socket, status) in captures {
        say::data(serde_json::json!({ "socket": socket, "status": status }))?;
    }
    Ok(())
}

/// When something began, as a status gives it: RFC 3339, in whole seconds.
pub fn since(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.0}"))
}

/// A line for each capture, under headings.
pub fn table<'s>(statuses: impl Iterator<Item = &'s Status>) -> String {
    const HEADINGS: [&str; COLUMNS] =
        ["PID", "RUNNING", "FRAMES/S", "BIT/S", "TAKEN", "LOST", "LATE", "RING", "FROM", "TO"];
    /// Columns of numbers, which stand to the right.
    const NUMBERS: usize = 8;
    let mut rows = vec![HEADINGS.map(String::from)];
    rows.extend(statuses.map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < NUMBERS { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn row(status: &Status) -> [String; COLUMNS] {
    let rate = |number: fn(Rates) -> u64| {
        status.rates.map_or_else(|| "-".into(), |rates| scaled(number(rates) as f64))
    };
    let ledger = &status.ledger;
    let late = sum(ledger.consumers.iter().map(|consumer| consumer.late));
    let to = match (status.output.kind.as_str(), &status.output.paths[..]) {
        ("count", _) => "counts only".into(),
        ("print", _) => "prints".into(),
        (kind, []) => kind.shown().to_string(),
        (_, paths) => paths.join(", ").shown().to_string(),
    };
    [
        status.pid.to_string(),
        running(status.running_ms / 1000),
        rate(|rates| rates.frames_per_second),
        rate(|rates| rates.bits_per_second),
        grouped(ledger.taken),
        grouped(ledger.lost()),
        grouped(late),
        status.ring.as_ref().map_or_else(|| "-".into(), fullest),
        status.source.shown().to_string(),
        to,
    ]
}

/// How full the fullest lane's part of the ring is.
fn fullest(ring: &RingStatus) -> String {
    let held = ring.held_bytes.iter().max().copied().unwrap_or(0);
    format!("{:.0} %", held as f64 / ring.lane_bytes.max(1) as f64 * 100.0)
}

/// Hours, minutes and seconds.
fn running(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_control::{
        OutputStatus, Reply, RuleStatus, RulesReply, StatusParts, VERSION, read_reply,
    };
    use ringside_core::{Consumer, Ledger};

    #[test]
    fn the_table_has_a_line_for_each_capture() {
        let rates = Rates { frames_per_second: 1_420_000, bits_per_second: 17 };
        let ledger = Ledger { taken: 1_234_567, ..Ledger::default() };
        let counting = Status {
            pid: 4711,
            worker_pid: Some(4712),
            program: "ringside 0.1.0".into(),
            started: "2026-11-21T13:00:00Z".into(),
            running_ms: 3_725_999,
            source: "rx0 (af-packet, 1 lane)".into(),
            interfaces: vec!["rx0".into()],
            lanes: 1,
            output: OutputStatus { kind: "count".into(), paths: Vec::new() },
            rates: Some(rates),
            ring: None,
            readers: None,
            ledger,
            flows: None,
            route: None,
            balance: None,
            decap: None,
        };
        let output = OutputStatus { kind: "print".into(), paths: Vec::new() };
        let printing = Status { output, ..counting.clone() };
        let paths = vec!["/data/a".into(), "/data/b".into()];
        let output = OutputStatus { kind: "directory".into(), paths };
        let ring = Some(RingStatus { lane_bytes: 200, held_bytes: vec![1, 50] });
        let recording = Status { pid: 9, rates: None, ring, output, ..counting.clone() };
        let text = table([&counting, &recording, &printing].into_iter());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        for word in ["4711", "1:02:05", "1.42 M", "1,234,567", "(af-packet, 1 lane)  counts only"] {
            assert!(lines[1].contains(word), "{text}");
        }
        assert!(lines[2].starts_with("   9  ") && lines[2].ends_with("  /data/a, /data/b"));
        assert!(lines[2].contains("  25 %  "), "{text}");
        assert!(lines[3].ends_with("  prints"), "{text}");
    }

    fn line(reply: Reply) -> Vec<u8> {
        let mut line = Vec::new();
        reply.append_line(&mut line);
        line
    }

    fn status() -> Status {
        let consumer = Consumer { late: u64::MAX, delivered: u64::MAX, ..Consumer::default() };
        let consumers = vec![consumer.clone(), consumer];
        let ledger = Ledger { taken: 7, received: Some(7), consumers, ..Ledger::default() };
        let output =
            OutputStatus { kind: "directory".into(), paths: vec!["/data/\u{1b}[2J\n".into()] };
        let ring = RingStatus { lane_bytes: 0, held_bytes: vec![usize::MAX, 1] };
        let parts = StatusParts::new("rx0".into(), vec!["rx0".into()], output);
        Status { ring: Some(ring), ..parts.status(ledger) }
    }

    #[test]
    fn whatever_a_capture_answers_it_is_told_in_a_line() {
        let rule = RuleStatus {
            id: 7,
            frames: u64::MAX,
            bytes: 1,
            place: "driver".into(),
            text: "7: udp => drop".into(),
        };
        let rules = RulesReply { list: Some(vec![rule]), more: true, ..RulesReply::default() };
        let replies = [Reply::status(status()), Reply::rules(rules), Reply::refused("no")];
        let seeds = replies.map(line);
        ringside_testkit::fuzz("control-reply", 30_000, &seeds, |bytes| {
            let Ok(reply) = read_reply(bytes) else { return };
            assert_eq!((reply.version, reply.ok), (VERSION, true));
            if let Some(status) = reply.status {
                let text = table(std::iter::once(&*status));
                assert_eq!(text.lines().count(), 2, "{text}");
                assert!(!text.contains('\u{1b}') && text.len() <= 8 * bytes.len() + 1000);
                let _ = (status.ledger.lost(), status.ledger.balance());
            }
        });
    }
}
