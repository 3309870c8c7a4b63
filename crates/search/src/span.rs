//! A span of recorded time as somebody asks for it: moments, or so long before the newest packet.

use anyhow::bail;
use ringside_core::{TimeRange, Timestamp};
use ringside_store::{Pruner, Query};
use ringside_terminal::units::When;
use std::path::PathBuf;
use std::sync::Arc;

/// A span of time; without an end on a side that is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// From this moment on.
    pub from: Option<When>,
    /// Before this one.
    pub to: Option<When>,
}

/// What a [`Span`] comes to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolvedSpan {
    /// By stamps.
    pub range: TimeRange,
    /// Bytes that were read to find the newest packet.
    pub bytes_read: u64,
}

impl Span {
    /// The range, for which the inputs are looked through if it depends on the newest packet;
    /// `pruner` may know when the packets of files were.
    ///
    /// # Errors
    /// Nothing lies in it, it depends on the end of a stream, or an input cannot be read.
    pub fn resolve(
        &self,
        inputs: &[PathBuf],
        pruner: Option<Arc<dyn Pruner>>,
    ) -> anyhow::Result<ResolvedSpan> {
        let is_relative = |when: &Option<When>| matches!(when, Some(When::BeforeNewest(_)));
        let (mut newest, mut bytes_read) = (Timestamp::default(), 0);
        if is_relative(&self.from) || is_relative(&self.to) {
            if inputs.iter().any(|path| !path.is_file() && !path.is_dir()) {
                bail!(
                    "the newest packet of a stream is known only at its end: name files, or give \
                     the moment itself, as 2026-03-01T12:00:00Z"
                );
            }
            let query = Query { inputs: inputs.to_vec(), ..Query::default() };
            let tally = query.newest_pruned(pruner)?;
            (newest, bytes_read) = (tally.newest, tally.bytes_read);
        }
        let moment = |when| match when {
            When::At(moment) => moment,
            When::BeforeNewest(ago) => newest.saturating_sub(ago),
        };
        let range = TimeRange { from: self.from.map(moment), to: self.to.map(moment) };
        if range.from.zip(range.to).is_some_and(|(from, to)| from >= to) {
            bail!(
                "nothing lies between the beginning and the end: the end, which is not included, \
                 has to come after the beginning, as 2026-03-01T12:05:00Z after \
                 2026-03-01T12:00:00Z"
            );
        }
        Ok(ResolvedSpan { range, bytes_read })
    }
}
