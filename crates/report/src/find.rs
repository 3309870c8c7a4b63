//! What a search found, what it read for that, and whether it is complete.

use ringside_core::Shown;
use ringside_core::ledger::sum;
use ringside_search::{Answer, Duplicates, End};
use ringside_terminal::{say, units};
use serde_json::json;
use std::io;

/// Gaps that are said one by one; as JSON all are.
const GAPS_SAID_MAX: usize = 10;

/// Says it; on standard output how many there are, if only that `is_count` was asked for.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(answer: &Answer, is_count: bool, is_json: bool) -> io::Result<()> {
    if is_json {
        let object = json!({ "find": answer.object() });
        if is_count {
            return say::data(object);
        }
        say::message(object);
        return Ok(());
    }
    if is_count {
        say::data(answer.found)?;
    }
    lines(answer).iter().for_each(|line| say::message(format_args!("ringside: {line}")));
    Ok(())
}

fn lines(answer: &Answer) -> Vec<String> {
    let Answer { found, duplicates, plan, tally, gaps, notices, end } = answer;
    let mut lines = vec![
        format!(
            "{} found; {}: {} passed by, {} without an index",
            units::counted(*found, "packet"),
            units::counted(plan.files, "file"),
            units::grouped(plan.files_passed),
            units::grouped(plan.files_unindexed()),
        ),
        format!(
            "{} in indexes: {} outside the time, {} pruned, {} to be read",
            units::counted(plan.blocks, "block"),
            units::grouped(plan.blocks_outside),
            units::grouped(plan.blocks_pruned),
            units::grouped(plan.blocks_read()),
        ),
        format!(
            "{} read of {}, and {} of indexes",
            units::counted(tally.bytes_read, "byte"),
            units::grouped(plan.bytes),
            units::grouped(plan.index_bytes),
        ),
    ];
    if let Some(Duplicates { packets, bytes, forgotten }) = duplicates {
        let (packets, bytes) = (units::counted(*packets, "duplicate"), units::grouped(*bytes));
        lines.push(format!("{packets} left out, of {bytes} bytes"));
        if *forgotten > 0 {
            let forgotten = units::counted(*forgotten, "packet");
            lines.push(format!("{forgotten} forgotten early: duplicates of them may be there"));
        }
    }
    lines.extend(plan.unindexed.iter().map(|(path, reason)| {
        format!("{}: {reason}; it was read whole (`ringside index` builds it)", path.shown())
    }));
    lines.extend(gaps.iter().take(GAPS_SAID_MAX).map(|gap| {
        let lost = units::counted(sum(gap.lost.values().copied()), "packet");
        let causes: Vec<_> = gap.lost.keys().map(ToString::to_string).collect();
        let ((from, to), causes) = (gap.between, causes.join(", "));
        format!("lane {} lost {lost} between {from} and {to} ({causes})", gap.lane)
    }));
    if let Some(more) = gaps.len().checked_sub(GAPS_SAID_MAX).filter(|&more| more > 0) {
        lines.push(format!("and {more} more gaps: --json tells all"));
    }
    lines.extend(notices.iter().map(ToString::to_string));
    lines.push(match end {
        End::Complete if gaps.is_empty() => "complete: all that was recorded was searched".into(),
        End::Complete => "complete but for what was lost while it was recorded".into(),
        End::Incomplete => "not complete: something is missing in the inputs, as said above".into(),
        End::Stopped => "not complete: a signal ended the search".into(),
    });
    lines
}
