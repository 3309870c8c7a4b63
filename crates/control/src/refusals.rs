//! How a run refuses what it is not made for.

use super::protocol::{Command, Reply};

/// Refuses orders about rules.
pub const NO_RULES: &str = "this run judges by no rules; it must be started with some";

/// Refuses questions about flows.
pub const NO_FLOWS: &str = "this run makes no flows; `ringside flows` does";

/// Refuses orders about reals.
const NO_BALANCER: &str = "this run balances nothing; `ringside balance` does";

/// Refuses an order that is not for every run.
pub fn not_for_this_run(command: &Command) -> Reply {
    Reply::refused(match command {
        Command::Rules(_) => NO_RULES,
        Command::Flows { .. } => NO_FLOWS,
        Command::Balance(_) => NO_BALANCER,
        _ => "this run writes no files that could end and begin",
    })
}
