//! The subcommands.

pub mod attach;
pub mod backends;
pub mod bench;
pub mod capture;
pub mod control;
pub mod demo;
pub mod doctor;
pub mod drop;
pub mod lab;
pub mod read;
pub mod repair;
pub mod rules;
pub mod send;
pub mod status;

use ringside_keeper::privileges;
use std::process::ExitCode;

/// Compiles one filter from standard input to standard output, bounded, then exits.
pub fn filter_child() -> ExitCode {
    if let Err(error) = privileges::give_up_all() {
        tracing::warn!("the child that compiles a filter keeps its rights: {error:#}");
    }
    let code = ringside_filter::child_main(std::io::stdin().lock(), std::io::stdout().lock());
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}
