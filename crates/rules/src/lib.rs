#![forbid(unsafe_code)]
//! Rules: which frames are meant, and what becomes of them.
//!
//! [`language`] is the text that people write, checked, as plain data, and back:
//! [`parse`](language::parse()) makes a [`RuleSet`](language::RuleSet) of a text,
//! [`load`](language::load) of a file, [`parse_rule`](language::parse_rule) a single [`Rule`]; a
//! rule's `Display` is its canonical text, which means the same rule. The code that matches frames
//! gets sorted ranges, folded names and decided contradictions, and no text that must be checked
//! again. docs/rules.md is the language for its users.
//!
//! [`Question`] is a match made ready to be asked about a frame that was dissected once
//! ([`ringside_inspect::DissectedFrame`]): the meaning of rules, by which every faster way is
//! judged.
//!
//! [`table`] finds among many thousand rules those that a packet matches by its addresses, ports
//! and protocol; [`cover`] says what a match asks of these. An [`Engine`] puts all of it to work:
//! it judges frames, and every rule counts. [`patterns`] looks for the payload patterns of all
//! rules at once, and [`streams`] follows TCP flows, so that they are found across segments.
//! [`pre_filter`] says of frames that no rule can match them, as a program that runs in the kernel.
//!
//! This crate refuses to guess: what has no meaning is an error that says where, what is wrong and
//! what would be right. Rules come from files and sockets, so every size, list and depth has a
//! limit, and the work is linear in the text.

pub mod book;
pub mod cover;
pub mod engine;
pub mod exact;
pub mod key;
pub mod language;
pub mod memory;
#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
pub mod patterns;
pub mod plan;
pub mod pre_filter;
pub mod question;
pub mod streams;
pub mod table;

pub use engine::Engine;
pub use language::Rule;
pub use question::Question;
