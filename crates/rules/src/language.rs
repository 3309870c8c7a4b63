//! The rule language: from text to checked data, and back.
//!
//! Reading order: [`Rule`] (`rule.rs`), [`Expression`] and [`Term`] are what is said about a frame,
//! [`Actions`] what is done with it. `parse/` reads them, `show.rs` and its neighbours write them.

pub mod limits;

mod actions;
mod address_set;
mod address_text;
mod error;
mod exact;
mod expression;
mod lines;
mod names;
mod numbers;
mod parse;
mod ranges;
mod rule;
mod sets;
mod show;
mod term;
mod words;

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;

pub use actions::{Actions, CpuId, InterfaceName, Next, Redirect, Sample, Trim, Verdict};
pub use address_set::{AddressSet, AddressSpan};
pub use error::{RuleError, RuleErrors};
pub use exact::ExactFlow;
pub use expression::{Expression, Match};
pub use numbers::{HttpStatus, MplsLabel, VlanId};
pub use parse::{parse, parse_rule};
pub use ranges::{Ordinal, Ranges, Span};
pub use rule::{Rule, RuleId, RuleSet};
pub use sets::{AddressFile, LoadError, Sets, load, load_with_sets};
pub use term::{
    Addresses, BytePattern, BytesBase, FlagPattern, HostField, HostPattern, IpVersion, MacPattern,
    PayloadPattern, Side, TcpFlags, Term, TextField,
};
