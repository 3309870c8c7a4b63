//! Huge pages that a tool takes, free before it starts.

use anyhow::Context;
use ringside_keeper::{Knobs, Request};

/// Sees to it that `pages` huge pages are free. Nothing happens while they are; another program
/// may take some at any time, a capture's ring as many as it finds.
pub(super) fn free(knobs: &Knobs<'_>, pages: u64) -> anyhow::Result<()> {
    knobs
        .turn(&Request::HugePages { pages })
        .with_context(|| format!("reserving {pages} huge pages"))
}
