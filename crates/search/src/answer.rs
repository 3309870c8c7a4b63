//! What a search found, what it read for that, and whether it is complete.

use crate::dedup::Duplicates;
use crate::finder::{Gap, SearchPlan};
use ringside_core::Shown;
use ringside_store::{Notice, Tally};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that is in the inputs was found.
    Complete,
    /// Something is missing in the inputs.
    Incomplete,
    /// It was ended before its end.
    Stopped,
}

impl End {
    /// Of a search that met this.
    pub(crate) fn of(is_stopped: bool, notices: &[Notice]) -> End {
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

impl Answer {
    /// The answer as an object.
    pub fn object(&self) -> Value {
        let Answer { found, duplicates, plan, tally, gaps, notices, end } = self;
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
}
