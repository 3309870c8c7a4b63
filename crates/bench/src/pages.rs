//! Huge pages that a tool takes, free before it starts.

use anyhow::Context;
use ringside_keeper::{Knobs, Request};
use ringside_terminal::say;

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
}

impl Drop for HugePages {
    fn drop(&mut self) {
        for note in self.0.put_back() {
            say::message(format_args!("ringside: {note}"));
        }
    }
}
