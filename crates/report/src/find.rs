//! What a search found, what it read for that, and whether it is complete.

use ringside_core::Shown;
use ringside_core::ledger::sum;
use ringside_session::dedup::Duplicates;
use ringside_session::{Gap, SearchPlan};
use ringside_store::{Notice, Tally};
use ringside_terminal::{say, units};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;

/// Gaps that are said one by one; as JSON all are.
const GAPS_SAID_MAX: usize = 10;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that is in the inputs was found.
    Complete,
    /// Something is missing in the inputs.
    Incomplete,
    /// A signal came before the end.
    Stopped,
}

impl End {
    /// Of a search that met this.
    pub fn of(is_stopped: bool, notices: &[Notice]) -> End {
        if is_stopped {
            End::Stopped
        } else if notices.iter().any(|notice| notice.condition.is_loss()) {
            End::Incomplete
        } else {
            End::Complete
        }
    }

    fn name(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Incomplete => "incomplete",
            End::Stopped => "stopped",
        }
    }
}

/// The answer, but for the packets.
#[derive(Debug)]
pub struct Answer {
    /// Packets that were found.
    pub found: u64,
    /// Packets that were left out, as they equal one of these; none if that was not asked for.
    pub duplicates: Option<Duplicates>,
    /// What was read and what was not.
    pub plan: SearchPlan,
    /// What the reading took.
    pub tally: Tally,
    /// Packets that the recorder lost.
    pub gaps: Vec<Gap>,
    /// What is to be said of the inputs.
    pub notices: Vec<Notice>,
    /// How it ended.
    pub end: End,
}

/// Says it; on standard output how many there are, if only that `is_count` was asked for.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(answer: &Answer, is_count: bool, is_json: bool) -> io::Result<()> {
    if is_json {
        let object = json!({ "find": object(answer) });
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

/// The answer as an object.
pub fn object(answer: &Answer) -> Value {
    let Answer { found, duplicates, plan, tally, gaps, notices, end } = answer;
    let duplicates = duplicates.map(
        |one| json!({ "packets": one.packets, "bytes": one.bytes, "forgotten": one.forgotten }),
    );
    let shown = |(path, reason): &(PathBuf, String)| {
        let path = path.shown().to_string();
        json!({ "path": path, "reason": reason })
    };
    let unindexed: Vec<_> = plan.unindexed.iter().map(shown).collect();
    let gaps = gaps.iter().map(|gap| {
        let (from, to) = gap.between;
        json!({ "lane": gap.lane, "from": from, "to": to, "lost": gap.lost })
    });
    json!({
        "packets": found,
        "duplicates": duplicates,
        "end": end.name(),
        "plan": {
            "files": {
                "total": plan.files,
                "passed": plan.files_passed,
                "without_index": plan.files_unindexed(),
            },
            "blocks": {
                "total": plan.blocks,
                "outside": plan.blocks_outside,
                "pruned": plan.blocks_pruned,
                "read": plan.blocks_read(),
            },
            "bytes": {
                "total": plan.bytes,
                "read": tally.bytes_read,
                "read_of_indexes": plan.index_bytes,
            },
            "without_index": unindexed,
        },
        "packets_passed": tally.frames_outside,
        "lost_while_recorded": gaps.collect::<Vec<_>>(),
        "notices": notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
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
