//! Rules inside the driver: `bpf/xdp_rules.bpf.c`, its tables and its place on an interface.
//!
//! A [`RulesProgram`] is one set of tables and the program that judges frames by them. The process
//! that loads it writes the tables, through [`Words`] that are the same memory; the program reads
//! them at every frame. A [`RulesAttachment`] is a place before all captures on an interface, in
//! which one program stands at a time: putting another there replaces all rules at once, and a
//! frame is judged by the old ones or the new ones. What is pinned ([`pins`](crate::pins)) is in
//! force without a process, and can be read: [`PinnedRules`].
//!
//! A [`FastProgram`] (`bpf/fast.h`) may stand in the place instead, for rules that ask one
//! thing each; it leads to the other for what it does not decide, and counts in the same arrays.

mod attachment;
mod counters;
mod fast;
mod pinned;
mod program;

pub use attachment::{RulesAttachment, RulesAttachmentConfig};
pub use counters::Totals;
pub use fast::{FastProgram, FastTables};
pub use pinned::PinnedRules;
pub use program::{Options, Report, RulesProgram, Sizes, SourceLimit, TEXT_BYTES};
pub use ringside_sys::words::{Words, Words32, Words64};
