//! From the frames of a recording and the changes that were made: how late each change was at work,
//! and whether a frame was lost, or judged by half of a change.
//!
//! Frame `n` is of flow `n` mod [`FLOWS`]. The rule drops the flow [`SUBJECT`], so that the
//! recording lacks a run of its frames for each time that the rule was there; of the flow
//! [`WITNESS`] it lacks none. A change is at work with the last frame of the run before, or the
//! first behind: the stamp of a frame that was judged by the rules before an addition, or by those
//! behind a deletion.

use super::changer::Change;
use anyhow::ensure;
use std::collections::VecDeque;

/// Flows of the generator.
pub(super) const FLOWS: u64 = 4;
/// The flow that the rule is about.
pub(super) const SUBJECT: u64 = 0;
/// The flow that shows whether frames came at all.
pub(super) const WITNESS: u64 = 1;
/// The receiving CPU stood still if no frame came for so long: a hundred times what is between two
/// frames, and twice what the generator needs to look at its limits.
const PAUSE_NS: u64 = 100_000;

/// A frame of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) number: u64,
    /// UTC, in nanoseconds since 1970.
    pub(super) stamp_ns: u64,
}

/// A rule came, and went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) add: Change,
    pub(super) delete: Change,
}

/// How late a change was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    /// From when its request was read; negative if frames that were received before were judged
    /// after it.
    pub(super) delay_ns: i64,
    /// The same from when it was sent.
    pub(super) since_sent_ns: i64,
    /// What the other side says that it took.
    pub(super) took_ns: u64,
    /// The receiving CPU stood still meanwhile.
    pub(super) is_paused: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Analysis {
    pub(super) adds: Vec<Effect>,
    pub(super) deletes: Vec<Effect>,
    /// Between two frames of the subject: of 100 distances 99 are no longer.
    pub(super) spacing_ns: u64,
    /// Frames in the recording.
    pub(super) recorded: u64,
    /// Frames of the subject that the rule dropped.
    pub(super) dropped: u64,
    /// Frames of the witness that are missing.
    pub(super) lost: u64,
    /// Runs of missing frames beyond one for each time that the rule was there.
    pub(super) stray: u64,
    /// Frames that were judged by the old rules although the answer to a change had been given; not
    /// known where frames are judged some time after their stamp.
    pub(super) belated: u64,
    /// Times that the rule came and went without an effect, because no frame came meanwhile.
    pub(super) unseen: u64,
}

/// Missing frames of the subject: those between two that are there.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: Seen,
    behind: Seen,
}

/// Matches what is missing with what was changed. If frames are judged some time after their stamp
/// (`is_late`), so may a whole run be, before the rule came that it was judged by.
///
/// # Errors
/// Frames stand in another order than they were sent in, or a flow is not there at all.
pub(super) fn analyse(seen: &[Seen], pairs: &[Pair], is_late: bool) -> anyhow::Result<Analysis> {
    let of = |flow: u64| -> Vec<Seen> {
        seen.iter().copied().filter(|frame| frame.number % FLOWS == flow).collect()
    };
    let (subject, witness) = (of(SUBJECT), of(WITNESS));
    ensure!(subject.len() > 1 && witness.len() > 1, "{} frames were recorded", seen.len());
    let is_in_order = seen.is_sorted_by(|a, b| a.number < b.number);
    ensure!(is_in_order, "frames were recorded twice, or in another order than they were sent in");
    let gaps = gaps(&subject);
    let mut analysis = Analysis {
        spacing_ns: spacing_ns(&subject),
        recorded: seen.len() as u64,
        dropped: gaps.iter().map(Gap::frames).sum(),
        lost: self::gaps(&witness).iter().map(Gap::frames).sum(),
        ..Analysis::default()
    };
    let mut first = 0;
    let mut is_taken = vec![false; gaps.len()];
    // Runs that belong to no stay of the rule, so far.
    let mut rest: VecDeque<Gap> = VecDeque::new();
    for pair in pairs {
        let (from_ns, until_ns) = (pair.add.read_ns, pair.delete.read_ns);
        // What ends before this rule comes and was no earlier one's.
        while let Some(gap) = gaps.get(first).filter(|gap| gap.behind.stamp_ns <= from_ns) {
            rest.extend((!is_taken[first]).then_some(*gap));
            first += 1;
        }
        let touching = gaps[first..].iter().take_while(|gap| gap.before.stamp_ns < until_ns);
        let touching = first..first + touching.count();
        let mut fresh = touching.clone().filter(|&index| !is_taken[index]).map(|index| gaps[index]);
        match fresh.next().or_else(|| if is_late { rest.pop_front() } else { None }) {
            Some(gap) => analysis.note(gap, pair, &witness),
            None => analysis.unseen += 1,
        }
        // The rule was there and away again before it was to stay away.
        rest.extend(fresh);
        is_taken[touching].fill(true);
    }
    let after = is_taken[first..].iter().filter(|&&is_taken| !is_taken).count();
    analysis.stray = (rest.len() + after) as u64;
    analysis.belated = if is_late { 0 } else { belated(&subject, &gaps, pairs) };
    Ok(analysis)
}

/// Frames that were judged by the old rules although the answer to a change had been given: let
/// through between an addition's end and the deletion, or dropped between that one's and the next.
fn belated(subject: &[Seen], gaps: &[Gap], pairs: &[Pair]) -> u64 {
    let passed = pairs.iter().map(|Pair { add, delete }| {
        let until = subject.partition_point(|frame| frame.stamp_ns < delete.read_ns);
        let done = subject.partition_point(|frame| frame.stamp_ns <= add.done_ns());
        // One may have been judged, and not yet stamped.
        until.saturating_sub(done + 1)
    });
    // Of a run of missing frames it is known when the ones around it came. Where both came while
    // the rule was away, all of it did.
    let is_away = |gap: &Gap| {
        let next = pairs.partition_point(|pair| pair.add.read_ns <= gap.behind.stamp_ns);
        let last = next.checked_sub(1).and_then(|index| pairs.get(index));
        last.is_none_or(|last| gap.before.stamp_ns > last.delete.done_ns())
    };
    let dropped = gaps.iter().filter(|gap| is_away(gap)).map(Gap::frames);
    passed.sum::<usize>() as u64 + dropped.sum::<u64>()
}

impl Analysis {
    fn note(&mut self, gap: Gap, Pair { add, delete }: &Pair, witness: &[Seen]) {
        self.adds.push(Effect::of(add, gap.before.stamp_ns, witness));
        self.deletes.push(Effect::of(delete, gap.behind.stamp_ns, witness));
    }
}

impl Effect {
    fn of(change: &Change, stamp_ns: u64, witness: &[Seen]) -> Effect {
        let since = |from_ns: u64| stamp_ns.cast_signed() - from_ns.cast_signed();
        let delay_ns = since(change.read_ns);
        Effect {
            delay_ns,
            since_sent_ns: since(change.sent_ns),
            took_ns: change.took_ns,
            is_paused: longest_ns(witness, change.read_ns, stamp_ns) > PAUSE_NS,
        }
    }
}

impl Gap {
    fn frames(&self) -> u64 {
        (self.behind.number - self.before.number) / FLOWS - 1
    }
}

/// Where frames of one flow are missing.
fn gaps(flow: &[Seen]) -> Vec<Gap> {
    flow.windows(2)
        .filter_map(|two| match *two {
            [before, behind] if behind.number != before.number + FLOWS => {
                Some(Gap { before, behind })
            }
            _ => None,
        })
        .collect()
}

/// From a frame to the next, where none is missing: of 100 distances 99 are no longer.
fn spacing_ns(flow: &[Seen]) -> u64 {
    let next = flow.windows(2).filter(|two| two[1].number == two[0].number + FLOWS);
    let mut distances: Vec<u64> =
        next.map(|two| two[1].stamp_ns.saturating_sub(two[0].stamp_ns)).collect();
    distances.sort_unstable();
    distances.get(distances.len() * 99 / 100).copied().unwrap_or(0)
}

/// The longest time without a frame of those that touch the time between two moments.
fn longest_ns(flow: &[Seen], from_ns: u64, until_ns: u64) -> u64 {
    let first = flow.partition_point(|frame| frame.stamp_ns < from_ns).saturating_sub(1);
    let touching = flow[first..].windows(2).take_while(|two| two[0].stamp_ns <= until_ns);
    let longest = touching.map(|two| two[1].stamp_ns.saturating_sub(two[0].stamp_ns)).max();
    longest.unwrap_or(0)
}

#[cfg(test)]
mod tests;
