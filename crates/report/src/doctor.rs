//! Problems of a machine and their fixes.

use ringside_doctor::{Report, State};
use std::fmt::Write;

/// Each check in a line, under the machine or the interface that it is about, with the fix of what
/// is not right.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for note in &report.done {
        let _ = writeln!(out, "{note}");
    }
    for note in &report.failed {
        // What --undo could not do says so in its own words.
        let prefix = if report.checks.is_empty() { "" } else { "not fixed: " };
        let _ = writeln!(out, "{prefix}{note}");
    }
    let mut subject = "";
    for check in &report.checks {
        if check.subject != subject {
            subject = &check.subject;
            let _ = writeln!(out, "{subject}");
        }
        let _ = writeln!(out, "  {:<16} {:<28} {}", check.state.text(), check.name, check.found);
        if check.state != State::Ok {
            let _ = writeln!(out, "  {:<16} {:<28} {}", "", "  why", check.why);
        }
        if let Some(fix) = &check.fix {
            let by_fix = if check.fixable { "" } else { "   (not by --fix)" };
            let _ = writeln!(out, "  {:<16} {:<28} {fix}{by_fix}", "", "  fix");
        }
    }
    out
}
