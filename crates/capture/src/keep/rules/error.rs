//! Why rules are refused, at the start of a run or while it goes on.

use crate::keep::pieces::LISTS_MAX;
use ringside_ebpf::socket_filter::SocketFilterError;
use ringside_rules::engine::BuildError;
use ringside_rules::language::RuleId;
use thiserror::Error;

/// Why rules cannot be applied in user space.
#[derive(Debug, Error)]
pub enum RulesError {
    /// An action that only a program in the driver can take.
    #[error(
        "rule {id}: `{action}` needs a program in the driver, and this run judges frames in user \
         space: write `take`, `drop` or `pass` instead"
    )]
    InDriver {
        /// The rule.
        id: RuleId,
        /// What it asks for.
        action: String,
    },
    /// Records that no output takes.
    #[error("rule {id}: `digest` hands over records, and this run writes none")]
    Digest {
        /// The rule.
        id: RuleId,
    },
    /// Copies that no interface sends.
    #[error(
        "rule {id}: `mirror {name}` sends frames on while they are received, and this run sends \
         none"
    )]
    Mirror {
        /// The rule.
        id: RuleId,
        /// Where copies were to go.
        name: String,
    },
    /// Each is an interface in the file.
    #[error("the rules have more than {LISTS_MAX} different `keep` lists: use `cap`, or fewer")]
    TooManyKeeps,
    /// They are too many, or wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Why rules cannot be changed; those that are at work go on.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// They are too many, or wrong, or ask for what this run cannot do.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A list of pieces is an interface of the file, which has begun.
    #[error(
        "rule {id}: no rule kept these pieces when the run began, and its files can name no more \
         of them: use `cap`, or a `keep` that was there"
    )]
    NewKeep {
        /// The rule.
        id: RuleId,
    },
    /// A filter is compiled in a process of its own, which a run that gave up its privileges may
    /// not start.
    #[error(
        "rule {id}: a `filter` cannot come while the run goes on: say it in other terms, or start \
         the run with it"
    )]
    Filter {
        /// The rule.
        id: RuleId,
    },
    /// Interfaces are opened before the run gives up its privileges.
    #[error(
        "rule {id}: no rule sent copies to {name} when the run began, and it has given up the \
         privilege to open an interface: start it with such a rule"
    )]
    NewMirror {
        /// The rule.
        id: RuleId,
        /// Where copies were to go.
        name: String,
    },
    /// The host does not get what is left to it.
    #[error(
        "`pass` leaves frames to the host, and this run has taken them away before: write `drop`"
    )]
    Pass,
    /// Filters in the kernel would turn frames away that the rules want.
    #[error("the kernel's filter cannot be told to let all frames through: {0}")]
    PreFilter(#[from] SocketFilterError),
}
