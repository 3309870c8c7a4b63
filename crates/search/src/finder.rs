//! Packets found again: indexes are asked which parts of files can hold them.

use crate::filters::Programs;
use ringside_core::ledger::ByCause;
use ringside_core::{LaneId, LinkType, Stamps, TimeRange, Timestamp};
use ringside_index::{Index, Loss, Plan, Pruned, State, Unusable};
use ringside_store::{Part, Pruner};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files without an index that are named one by one.
const NAMED_MAX: usize = 10;
/// Gaps that are kept one by one, from all that the ledgers of a recording may have.
const GAPS_MAX: usize = 1000;

/// A search: which parts of files are read for it, and why. It keeps an account of that.
#[derive(Debug)]
pub struct Finder {
    programs: Arc<Programs>,
    plans: Mutex<BTreeMap<LinkType, Option<Arc<Plan>>>>,
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    plan: SearchPlan,
    /// What ledgers say, by lane and ring block.
    losses: BTreeMap<(String, LaneId), BTreeMap<u64, Loss>>,
    /// Files that are in the account: a lane's first is looked at twice.
    seen: BTreeSet<(u64, u64)>,
}

/// Which files and blocks a search reads. Blocks are known of files with an index only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPlan {
    /// Files that were come to.
    pub files: u64,
    /// Of these, files with an index,
    pub files_indexed: u64,
    /// and of those again, files of which nothing but their header is read.
    pub files_passed: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Blocks of files with an index.
    pub blocks: u64,
    /// Blocks without a frame of the time that is asked for.
    pub blocks_outside: u64,
    /// Other blocks that hold nothing that is asked for.
    pub blocks_pruned: u64,
    /// Bytes that were read of indexes.
    pub index_bytes: u64,
    /// The first files without an index, and why.
    pub unindexed: Vec<(PathBuf, String)>,
}

impl SearchPlan {
    /// Files that are read from their beginning to their end.
    pub fn files_unindexed(&self) -> u64 {
        self.files - self.files_indexed
    }

    /// Blocks that are read.
    pub fn blocks_read(&self) -> u64 {
        self.blocks - self.blocks_outside - self.blocks_pruned
    }
}

/// Frames that were lost while a lane was recorded, as its ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The lane.
    pub lane: LaneId,
    /// They were lost behind the frames up to the first and, as the ledger has it, before the
    /// second.
    pub between: (Timestamp, Timestamp),
    /// How many, and why.
    pub lost: ByCause,
}

impl Finder {
    /// Of all packets: indexes are asked for times alone.
    pub fn of_all() -> Finder {
        Finder::of(Programs::accept_all())
    }

    /// Of packets that programs accept, which others may use too.
    pub fn of(programs: Arc<Programs>) -> Finder {
        Finder { programs, plans: Mutex::default(), account: Mutex::default() }
    }

    /// What it came to so far.
    pub fn plan(&self) -> SearchPlan {
        self.account().plan.clone()
    }

    /// Frames of `range` that the recorder lost, in order of lanes and time, at most 1,000. Ledgers
    /// are known of files with an index.
    pub fn gaps(&self, range: TimeRange) -> Vec<Gap> {
        let account = self.account();
        let lanes = account.losses.iter();
        let gaps = lanes.flat_map(|((_, lane), blocks)| gaps_of(*lane, blocks));
        let is_meant =
            |gap: &Gap| range.meets(Stamps { earliest: gap.between.0, latest: gap.between.1 });
        gaps.filter(is_meant).take(GAPS_MAX).collect()
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is asked of the fields of frames of these link types; none if that may be anything.
    fn plans(&self, links: Option<&[LinkType]>) -> Option<Vec<Arc<Plan>>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan =
            |&link: &LinkType| plans.entry(link).or_insert_with(|| self.plan_for(link)).clone();
        links?.iter().map(plan).collect()
    }

    fn plan_for(&self, link: LinkType) -> Option<Arc<Plan>> {
        // What libpcap refuses is said when the first frame is to be judged.
        let compiled = self.programs.get(link).ok().flatten()?;
        Plan::new(&compiled.program, link).map(Arc::new)
    }

    fn ask(&self, index: &Index, range: TimeRange) -> Result<Pruned, Unusable> {
        let plans = self.plans(index.links());
        let plans: Option<Vec<&Plan>> = plans.as_ref().map(|p| p.iter().map(|p| &**p).collect());
        index.prune(plans.as_deref(), range)
    }
}

impl Pruner for Finder {
    fn passed(&self, path: &Path, file: &File, range: TimeRange) -> Vec<Part> {
        let index = Index::open(path, file);
        let asked = index.and_then(|index| Ok((self.ask(&index, range)?, index)));
        let mut account = self.account();
        if let Ok(metadata) = file.metadata()
            && account.seen.insert((metadata.dev(), metadata.ino()))
        {
            account.plan.files += 1;
            account.plan.bytes += metadata.len();
            account.note(path, &asked);
        }
        asked.map(|(pruned, _)| pruned.passed).unwrap_or_default()
    }
}

impl Account {
    fn note(&mut self, path: &Path, asked: &Result<(Pruned, Index), Unusable>) {
        let plan = &mut self.plan;
        let (pruned, index) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                if plan.unindexed.len() < NAMED_MAX {
                    plan.unindexed.push((path.to_owned(), error.to_string()));
                }
                return;
            }
        };
        plan.files_indexed += 1;
        plan.files_passed += u64::from(pruned.bytes_left == 0 && index.state() == State::Whole);
        plan.blocks += index.parts();
        plan.blocks_outside += pruned.outside;
        plan.blocks_pruned += pruned.passed.len() as u64 - pruned.outside;
        plan.index_bytes += pruned.index_bytes;
        if let Some((run, lane)) = index.lane() {
            let known = self.losses.entry((run.to_owned(), lane)).or_default();
            known.extend(pruned.losses.iter().map(|loss| (loss.block, loss.clone())));
        }
    }
}

/// Where the counts of a lane's ledger grew. What they were before the first ring block that is
/// there is known of the run's first only.
fn gaps_of(lane: LaneId, blocks: &BTreeMap<u64, Loss>) -> Vec<Gap> {
    let nothing = Loss { block: 0, latest: Timestamp::default(), dropped: Arc::default() };
    let mut gaps = Vec::new();
    let mut before =
        blocks.values().next().map(|first| if first.block == 0 { &nothing } else { first });
    for loss in blocks.values() {
        let Some(known) = before.replace(loss) else { continue };
        let more = |(&cause, &frames): (_, &u64)| {
            let more = frames.saturating_sub(known.dropped.get(&cause).copied().unwrap_or(0));
            (more > 0).then_some((cause, more))
        };
        let lost: ByCause =
            loss.dropped.iter().filter(|(cause, _)| cause.is_loss()).filter_map(more).collect();
        if !lost.is_empty() {
            gaps.push(Gap { lane, between: (known.latest, loss.latest), lost });
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::Cause;

    #[test]
    fn gaps_lie_where_the_counts_of_a_ledger_grew() {
        let loss = |block, latest, full, rule| {
            let dropped = ByCause::from([(Cause::KernelRingFull, full), (Cause::ByRule, rule)]);
            (block, Loss { block, latest: Timestamp(latest), dropped: dropped.into() })
        };
        let all = BTreeMap::from([loss(0, 10, 2, 5), loss(1, 20, 2, 9), loss(4, 30, 7, 9)]);
        let lost = |frames| ByCause::from([(Cause::KernelRingFull, frames)]);
        let between = |from, to| (Timestamp(from), Timestamp(to));
        let lane = LaneId(3);
        let late = Gap { lane, between: between(20, 30), lost: lost(5) };
        let early = Gap { lane, between: between(0, 10), lost: lost(2) };
        assert_eq!(gaps_of(lane, &all), [early, late.clone()], "what a rule dropped is no loss");
        let rest = all.into_iter().skip(1).collect();
        assert_eq!(gaps_of(lane, &rest), [late], "what was before ring block 1 is not known");
        assert_eq!(gaps_of(lane, &BTreeMap::new()), []);
    }
}
