//! The child that compiles a filter: this program again, without rights.

use crate::privileges;
use anyhow::Context;
use ringside_core::LinkType;
use ringside_filter::{Compiled, Compiler};
use std::process::ExitCode;

/// The one argument by which this program becomes such a child; it then calls [`run`].
pub const FILTER_CHILD: &str = "filter-child";

/// Compiles one filter from standard input to standard output, bounded, then exits.
pub fn run() -> ExitCode {
    if let Err(error) = privileges::give_up_all() {
        tracing::warn!("the child that compiles a filter keeps its rights: {error:#}");
    }
    let code = ringside_filter::child_main(std::io::stdin().lock(), std::io::stdout().lock());
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}

/// The compiler of filters: this program as a bounded child.
///
/// # Errors
/// The system does not say which program this is.
pub fn filter_compiler() -> anyhow::Result<Compiler> {
    let exe = std::env::current_exe().context("finding this program, to compile the filter")?;
    Ok(Compiler::Child { exe, args: vec![FILTER_CHILD.into()] })
}

/// Compiles a filter for frames of `link_type`; `None` for an empty one.
///
/// # Errors
/// libpcap refuses it, or it does not end in time.
pub fn compile(expression: &str, link_type: LinkType) -> anyhow::Result<Option<Compiled>> {
    if expression.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(ringside_filter::compile(expression, link_type, 0, &filter_compiler()?)?))
}
