//! Which parts of a file need not be read for a question.

use crate::file::{Index, Unusable, read_at};
use crate::key::Condition;
use crate::plan::{Edge, Node, Plan};
use crate::segment::{Entry, Group, Head, PARTS_MAX, PartSet, SegmentEntry};
use crate::{code::checksum, file::HEADER_BYTES};
use ringside_core::ledger::ByCause;
use ringside_core::{LaneId, LinkType, TimeRange, Timestamp};
use ringside_store::Part;
use std::sync::Arc;

/// What an index says to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Parts that need not be read, in the order of the file.
    pub passed: Vec<Part>,
    /// Of these, how many hold no frame of the time that is asked for.
    pub outside: u64,
    /// Bytes of the parts that are to be read.
    pub bytes_left: u64,
    /// Bytes that were read of the index.
    pub index_bytes: u64,
    /// Where frames were lost, or may have been.
    pub losses: Vec<Loss>,
}

/// What the ledger of a recording says at the end of a part, and how far the part before came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of the ring block.
    pub block: u64,
    /// Latest stamp of its frames.
    pub latest: Timestamp,
    /// Frames that were lost since the run began.
    pub dropped: Arc<ByCause>,
}

impl Index {
    /// Run and lane of a file of a recording.
    pub fn lane(&self) -> Option<(&str, LaneId)> {
        self.directory.identity.place.as_ref().map(|(run, lane, _)| (&run[..], *lane))
    }

    /// Reads all of it, to see whether it is what was written.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), Unusable> {
        let mut offset = HEADER_BYTES as u64;
        for entry in &self.directory.segments {
            let head = self.head(entry, offset)?;
            let groups_at = offset + entry.head_bytes as u64;
            let lookup = Lookup { index: self, head: &head, groups_at };
            let mut found = PartSet::NONE;
            head.groups
                .iter()
                .try_for_each(|group| lookup.note(group, u128::MAX, |_| true, &mut found))?;
            offset = groups_at + entry.groups_bytes;
        }
        Ok(())
    }

    /// The link types of the file's interfaces; none if they are too many to be kept.
    pub fn links(&self) -> Option<&[LinkType]> {
        self.directory.links.as_deref()
    }

    /// Finds the parts that hold no frame of `range`, or none that any of `plans` accepts. Without
    /// plans every frame may be accepted.
    ///
    /// # Errors
    /// The index is damaged or cannot be read.
    pub fn prune(&self, plans: Option<&[&Plan]>, range: TimeRange) -> Result<Pruned, Unusable> {
        let mut pruned = Pruned::default();
        let mut offset = HEADER_BYTES as u64;
        for entry in &self.directory.segments {
            let head = self.head(entry, offset)?;
            pruned.index_bytes += entry.head_bytes as u64;
            let groups_at = offset + entry.head_bytes as u64;
            let lookup = Lookup { index: self, head: &head, groups_at };
            let wanted = match plans {
                Some(plans) if range.meets(entry.stamps) => {
                    lookup.matching(plans, &mut pruned.index_bytes)?
                }
                _ => PartSet::ALL,
            };
            note_losses(&head.entries, &mut pruned.losses);
            for (number, entry) in head.entries.iter().enumerate() {
                let is_outside = !range.meets(entry.part.stamps);
                if is_outside || !(entry.is_anything || wanted.holds(number)) {
                    pruned.outside += u64::from(is_outside);
                    pruned.passed.push(entry.part);
                } else {
                    pruned.bytes_left += entry.part.end - entry.part.start;
                }
            }
            offset = groups_at + entry.groups_bytes;
        }
        let is_ordered = pruned.passed.is_sorted_by(|one, next| one.end <= next.start);
        if is_ordered { Ok(pruned) } else { Err(Unusable::Damaged) }
    }

    fn head(&self, entry: &SegmentEntry, offset: u64) -> Result<Head, Unusable> {
        let mut bytes = vec![0; entry.head_bytes];
        read_at(&self.file, &mut bytes, offset)?;
        let is_same = checksum(&bytes) == entry.head_checksum;
        let covered = self.directory.covered_bytes;
        let head = is_same.then(|| Head::read(&bytes, covered, entry.groups_bytes)).flatten();
        head.ok_or(Unusable::Damaged)
    }
}

/// Notes what the ledgers of ring blocks say: of the first and the last, and of those between which
/// frames were lost.
fn note_losses(entries: &[Entry], losses: &mut Vec<Loss>) {
    let mut note = |entry: &Entry| {
        let Some(block) = entry.part.header.map(|header| header.number) else { return };
        if losses.last().is_none_or(|last| last.block != block) {
            let (latest, dropped) = (entry.part.stamps.latest, entry.dropped.clone());
            losses.push(Loss { block, latest, dropped });
        }
    };
    entries.first().into_iter().for_each(&mut note);
    for pair in entries.windows(2).filter(|pair| !is_same(&pair[0].dropped, &pair[1].dropped)) {
        pair.iter().for_each(&mut note);
    }
    entries.last().into_iter().for_each(&mut note);
}

fn is_same(one: &Arc<ByCause>, other: &Arc<ByCause>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

struct Lookup<'i> {
    index: &'i Index,
    head: &'i Head,
    groups_at: u64,
}

impl Lookup<'_> {
    /// Parts through which one of the plans comes to accept a frame.
    fn matching(&self, plans: &[&Plan], bytes_read: &mut u64) -> Result<PartSet, Unusable> {
        let mut matching = PartSet::NONE;
        for plan in plans {
            let conditions = plan.conditions.iter();
            let parts = conditions
                .map(|condition| self.parts(condition, bytes_read))
                .collect::<Result<Vec<_>, _>>()?;
            matching.unite(&accepted(plan, &parts));
        }
        Ok(matching)
    }

    /// Parts that hold a key that a condition asks for.
    fn parts(&self, condition: &Condition, bytes_read: &mut u64) -> Result<PartSet, Unusable> {
        let (low, high) = condition.bounds();
        let mut found = PartSet::NONE;
        for group in self.head.groups_of(condition.kind, low, high) {
            let is_wanted = |value| group.first.kind == condition.kind && condition.holds(value);
            self.note(group, high, is_wanted, &mut found)?;
            *bytes_read += group.bytes as u64;
        }
        Ok(found)
    }

    /// Adds the parts of those keys of a group, up to `last`, that are wanted.
    fn note(
        &self,
        group: &Group,
        last: u128,
        is_wanted: impl Fn(u128) -> bool,
        found: &mut PartSet,
    ) -> Result<(), Unusable> {
        let mut bytes = vec![0; group.bytes];
        read_at(&self.index.file, &mut bytes, self.groups_at + group.offset)?;
        let parts = group.parts(&bytes, self.head.entries.len(), last, is_wanted, found);
        parts.ok_or(Unusable::Damaged)
    }
}

/// Parts that lead through a plan to where it accepts, if these hold what each condition asks for.
pub(crate) fn accepted(plan: &Plan, parts: &[PartSet]) -> PartSet {
    let mut reached = vec![PartSet::NONE; plan.nodes.len()];
    let mut accepted = PartSet::NONE;
    if let Some(first) = reached.first_mut() {
        *first = PartSet::ALL;
    }
    for (number, node) in plan.nodes.iter().enumerate() {
        let here = reached[number];
        match *node {
            Node::Accept => accepted.unite(&here),
            Node::Reject => {}
            Node::To(one, other) => {
                for Edge { node, condition } in [Some(one), other].into_iter().flatten() {
                    let mut there = here;
                    if let Some(condition) = condition {
                        there.meet(&parts[condition]);
                    }
                    reached[node].unite(&there);
                }
            }
        }
    }
    accepted
}

const _: () = assert!(PARTS_MAX <= u16::MAX as usize, "parts are numbered by 16 bits");
