#![forbid(unsafe_code)]
//! Stored packets found again: for a command, a service, another language.
//!
//! A [`Search`] names inputs, a [`Span`] of time and a filter. Opened, it has a source whose
//! indexes were asked which parts of files can hold such packets ([`Finder`]), and the
//! [`FrameFilter`] that decides about each. [`copy()`] moves what matches to an [`Output`]: a
//! capture file ([`Copier`]), with each packet once ([`Deduplicator`]), or elsewhere.
//!
//! A filter is compiled by a [`Compiler`](ringside_filter::Compiler) that the caller chooses, since
//! only a program knows how it becomes the bounded child that libpcap needs.

mod answer;
mod copy;
mod dedup;
mod filters;
mod finder;
mod search;
mod span;

pub use answer::{Answer, End};
pub use copy::{Copier, CopyLimits, Counter, Output, copy};
pub use dedup::{Deduplicator, Duplicates};
pub use filters::{FrameFilter, Programs};
pub use finder::{Finder, Gap, SearchPlan};
pub use search::{Opened, Search};
pub use span::{ResolvedSpan, Span};
