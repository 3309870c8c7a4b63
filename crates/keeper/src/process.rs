//! Identifies a process by its id and start time, so that a later one with the same id is another.

use serde::{Deserialize, Serialize};

/// A process of this system since its last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since the system's start (field 22 of /proc/PID/stat).
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this id now; `None` if there is none, or it has ended.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let start_ticks = start_ticks(&text)?;
        Some(ProcessIdentity { pid, start_ticks })
    }

    /// True if this very process is running, be it stopped.
    pub fn is_alive(self) -> bool {
        ProcessIdentity::of(self.pid) == Some(self)
    }
}

/// The start time in the text of /proc/PID/stat; `None` for a process that has ended and was not
/// waited for.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    // The second field is the program's name in parentheses, and may hold anything, also `)`.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // That was field 3; of those left, field 22 is number 18.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_distinguished_from_a_later_one_with_its_id() {
        let own = ProcessIdentity::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        let earlier = ProcessIdentity { start_ticks: own.start_ticks - 1, ..own };
        assert!(!earlier.is_alive());
        assert_eq!(ProcessIdentity::of(u32::MAX), None);
    }

    #[test]
    fn a_start_is_found_behind_any_name() {
        let line = "7 (ringside) S 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4711 9 9";
        let seeds = [line, ") R", "7 (x) Z 1"].map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("proc-stat", 200_000, &seeds, |bytes| {
            if let Some(ticks) = start_ticks(bytes) {
                let text = String::from_utf8_lossy(bytes);
                let is_it = |word: &str| word.parse() == Ok(ticks);
                assert!(text.split_ascii_whitespace().any(is_it), "{text}");
            }
            // As the name of a program, whatever it is.
            let (head, tail) = line.split_once("ringside").unwrap();
            let stat = [head.as_bytes(), bytes, tail.as_bytes()].concat();
            assert_eq!(start_ticks(&stat), Some(4711));
        });
    }

    #[test]
    fn names_do_not_confuse_and_the_dead_have_no_time() {
        let line = |name: &str, state: &str| {
            format!("7 ({name}) {state} 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4711 9 9")
        };
        for name in ["ringside", "a b", ") R 1", "((", ""] {
            assert_eq!(start_ticks(line(name, "S").as_bytes()), Some(4711), "{name}");
        }
        assert_eq!(start_ticks(line("ringside", "Z").as_bytes()), None);
        for damaged in [&b""[..], b"7 (x", b"7 (x) R 1 2", b"\xff)\xff"] {
            assert_eq!(start_ticks(damaged), None);
        }
    }
}
