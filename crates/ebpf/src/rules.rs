//! Rules inside the driver: `bpf/xdp_rules.bpf.c`, its tables and its place on an interface.
//!
//! A [`RulesProgram`] is one set of tables and the program that judges frames by them. Whoever
//! loads it writes the tables, through [`Words`] that are the same memory; the program reads them
//! at every frame. A [`RulesSeat`] is a place before all captures on an interface, in which one
//! program stands at a time: putting another there replaces all rules at once, and a frame is
//! judged by the old ones or the new ones.

pub mod abi;
mod program;
mod seat;

pub use program::{Options, Report, RulesProgram, Sizes, SourceLimit, Totals};
pub use ringside_sys::words::{Words, Words32, Words64};
pub use seat::{RulesSeat, SeatConfig};
