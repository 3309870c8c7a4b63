//! A search from what is asked to what is read.

use crate::answer::{Answer, End};
use crate::filters::{FrameFilter, Programs};
use crate::finder::Finder;
use crate::span::Span;
use ringside_core::{Source, TimeRange};
use ringside_store::{MergedSource, Query, StoredSource};
use std::path::PathBuf;
use std::sync::Arc;

/// Which stored packets.
#[derive(Clone, Debug)]
pub struct Search {
    /// Files, and directories of recordings.
    pub inputs: Vec<PathBuf>,
    /// Of what time.
    pub span: Span,
    /// What they match.
    pub programs: Arc<Programs>,
}

/// A search whose inputs are open.
pub struct Opened {
    /// Frames of the time that is meant, without those that indexes say cannot match.
    pub source: MergedSource,
    /// Which of these match.
    pub filter: FrameFilter,
    finder: Arc<Finder>,
    range: TimeRange,
    /// Bytes that were read to find the newest packet.
    bytes_read: u64,
}

impl Search {
    /// Frames of which time, in which inputs: for what reads them without an index.
    ///
    /// # Errors
    /// Nothing lies in the span, it depends on the end of a stream, or an input cannot be read.
    pub fn query(&self) -> anyhow::Result<Query> {
        self.resolve().map(|(query, _)| query)
    }

    fn resolve(&self) -> anyhow::Result<(Query, u64)> {
        let pruner = Arc::new(Finder::of_all());
        let resolved = self.span.resolve(&self.inputs, Some(pruner))?;
        let query = Query { inputs: self.inputs.clone(), range: resolved.range };
        Ok((query, resolved.bytes_read))
    }

    /// Opens the inputs; a wrong filter is refused before anything is read. `say_unoptimised` hears
    /// of a filter that is longer than libpcap's optimiser takes: its length in instructions.
    ///
    /// # Errors
    /// As [`query`](Search::query), or libpcap refuses the filter.
    pub fn open(&self, say_unoptimised: fn(usize)) -> anyhow::Result<Opened> {
        let (query, bytes_read) = self.resolve()?;
        let finder = Arc::new(Finder::of(self.programs.clone()));
        let source = query.open_pruned(finder.clone())?;
        let filter = FrameFilter::of(self.programs.clone()).on_unoptimised(say_unoptimised);
        let mut opened = Opened { source, filter, finder, range: query.range, bytes_read };
        opened.prepare()?;
        Ok(opened)
    }
}

impl Opened {
    /// Compiles the filter for the interfaces that are known.
    fn prepare(&mut self) -> anyhow::Result<()> {
        for interface in self.source.interfaces() {
            self.filter.prepare(interface.link_type)?;
        }
        Ok(())
    }

    /// The answer, after `found` packets; `is_stopped` if the reading was ended.
    pub fn answer(&self, found: u64, is_stopped: bool) -> Answer {
        let mut tally = self.source.tally();
        tally.bytes_read += self.bytes_read;
        let (plan, gaps) = (self.finder.plan(), self.finder.gaps(self.range));
        let notices = self.source.notices();
        let end = End::of(is_stopped, &notices);
        Answer { found, duplicates: None, plan, tally, gaps, notices, end }
    }
}
