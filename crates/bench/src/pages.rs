//! Huge pages that a tool takes, free before it starts.

use anyhow::Context;
use ringside_keeper::{Knobs, Request};
use ringside_terminal::say;

/// Starts of a tool that takes huge pages, until it is not there.
const STARTS_MAX: usize = 3;

/// Huge pages of the system; put back when this is dropped.
pub(super) struct HugePages(Knobs<'static>);

impl HugePages {
    pub(super) fn new() -> HugePages {
        HugePages(Knobs::new(None))
    }

    /// Sees to it that `pages` huge pages are free. Nothing happens while they are; another program
    /// may take some at any time, a capture's ring as many as it finds.
    pub(super) fn free(&self, pages: u64) -> anyhow::Result<()> {
        self.0
            .turn(&Request::HugePages { pages })
            .with_context(|| format!("reserving {pages} huge pages"))
    }

    /// Starts what takes `pages` huge pages, after that many were free. A capture that starts
    /// between the two may take some of them: then once more.
    pub(super) fn start<T>(
        &self,
        pages: u64,
        start: impl Fn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let once = || {
            if pages > 0 {
                self.free(pages)?;
            }
            start()
        };
        let again_max = if pages > 0 { STARTS_MAX - 1 } else { 0 };
        (0..again_max).fold(once(), |started, _| started.or_else(|_| once()))
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        for note in self.0.put_back() {
            say::message(format_args!("ringside: {note}"));
        }
    }
}
