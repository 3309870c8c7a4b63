#![forbid(unsafe_code)]
//! Applications inside the driver.
//!
//! [`DriverRules`] judges the frames of an interface by a set of rules in XDP, before the kernel
//! makes socket buffers of them. It writes the rules' tables, and a program of `bpf/` reads them.
//! Single rules are added and removed while frames are judged. `ringside-rules` defines what rules
//! mean: a frame is judged here exactly as by its `Engine`, or not here at all.
//!
//! Where the first rules ask one thing each, a *fast path* with tables for just that stands in
//! front of the program that has all rules. It never changes: a change of single rules puts it
//! aside, and [`DriverRules::settle`] makes another one.
//!
//! Rules may outlive their process ([`Options::is_pinned`]); then [`PinnedRules`] reads what they
//! count.
//!
//! Not every rule can be judged in a driver. [`NotHere`] says why: what is asked is compiled to a
//! short list of checks ([`checks`]). The payload of protocols, filters, and what lies within
//! tunnels are left to user space. A set that protects a host ([`Mode::Protect`]) is refused if it
//! has such a rule; where a capture stands behind ([`Mode::Share`]), frames that meet one are
//! handed up, and are judged and counted there alone.

pub mod checks;
mod driver;
mod error;
mod fast;
mod instance;
mod offenders;
mod options;
mod pinned;
mod records;
mod room;
mod sets;
mod texts;

pub use checks::NotHere;
pub use driver::{Decided, DriverRules, Target};
pub use error::RulesError;
pub use offenders::Offender;
pub use options::{Mode, Options};
pub use pinned::{PinnedRule, PinnedRules};
pub use ringside_ebpf::pins::{self, Pins};
pub use ringside_ebpf::rules::{SourceLimit, Totals};
pub use sets::SetId;
