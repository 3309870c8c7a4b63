//! Flows of files, directories and standard input.

use super::FlowsArgs;
use anyhow::ensure;
use ringside_report::flows;
use std::process::ExitCode;

/// Reads the inputs to their end, or to the order to stop.
pub fn run(args: &FlowsArgs) -> anyhow::Result<ExitCode> {
    let mut stored = args.inputs.stored(&args.run)?;
    let shown = args.shown();
    let (mut monitor, mut outputs) = args.flows.monitor(shown, true)?;
    let read = stored.show(&mut monitor, &mut || outputs.look());
    let status = monitor.handle().status();
    // What was read before an error is shown all the same.
    let is_whole = flows::finish(&args.flows.top(), shown, &status, read.as_ref().ok().copied())?;
    stored.tell_notices();
    let read = read?;
    let all_arrived = outputs.finish()?;
    ensure!(is_whole, "the account of flows does not balance");
    ensure!(all_arrived, "a collector or a server did not get all records");
    Ok(stored.exit_code(read))
}
