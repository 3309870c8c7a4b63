#![forbid(unsafe_code)]
//! The terminal's side of a command: what is said to people, and what they ask for by words and
//! signals.
//!
//! - [`say`] writes messages to standard error and data to standard output; [`ledger_text`],
//!   [`columns`] and the numbers of [`units`] are how both are set.
//! - [`BottomLine`] is a line at the bottom that is drawn anew and waits for no terminal;
//!   a [`Screen`] is a text that is shown anew in its place; [`progress`] is the plain one for
//!   whatever takes long.
//! - [`units`] reads sizes, durations and moments as people type them; [`Wait`] is the one choice
//!   that several commands offer in the same words.
//! - [`signals`] are those that end a run, and those that ask it something; [`service`] says to a
//!   service manager that a run has begun.
//!
//! This stands apart from the command line, so that crates that keep, control or measure a run say
//! things in the same words without knowing the subcommands. It refuses to know captures: of them
//! it sees the ledger alone.

mod bottom_line;
pub mod columns;
pub mod ledger_text;
pub mod progress;
pub mod say;
mod screen;
pub mod service;
pub mod signals;
pub mod units;
mod wait;

pub use bottom_line::{BottomLine, open_nonblocking};
pub use screen::Screen;
pub use wait::Wait;
