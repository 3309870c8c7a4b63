//! Why rules are not put to work in a driver.

use crate::checks::NotHere;
use ringside_rules::book::BookError;
use ringside_rules::language::RuleId;
use ringside_rules::plan::PlanError;
use std::io;
use thiserror::Error;

/// Why rules cannot be used; the rules before stay in force.
#[derive(Debug, Error)]
pub enum RulesError {
    /// One of the rules is wrong.
    #[error("rule {id}: {source}")]
    Rule {
        /// Id of the rule.
        id: RuleId,
        /// What is wrong with it.
        source: Refusal,
    },
    /// The id is taken.
    #[error("rule {0} is there already; delete it first, or give the new one another id")]
    Exists(RuleId),
    /// There are too many rules.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The tables cannot be made larger by a process that has given up its privileges.
    #[error(
        "the tables have the room that they got at the start, and no more for these rules ({0}): \
         start the run anew with them, or with more room"
    )]
    NoRoom(String),
    /// The interface, or the kernel.
    #[error(transparent)]
    Driver(#[from] ringside_ebpf::Error),
}

/// Why a rule cannot be put to work.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It is not for a driver.
    #[error("not for the driver: {0}")]
    NotHere(NotHere),
    /// The arrays have no room for it; larger ones may.
    #[error("no room for another rule")]
    NoRoom,
    /// The interface that frames are to be sent to.
    #[error("cannot send frames to {name}: {source}")]
    Interface {
        /// Name of the interface.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The CPU that frames are to be sent to.
    #[error(transparent)]
    Cpu(ringside_ebpf::Error),
}

impl From<NotHere> for Refusal {
    fn from(reason: NotHere) -> Refusal {
        Refusal::NotHere(reason)
    }
}

/// The error of one rule.
pub(crate) fn rule_error(id: RuleId, error: BookError<Refusal>) -> RulesError {
    match error {
        BookError::Exists(id) => RulesError::Exists(id),
        BookError::Full(full) => RulesError::Plan(PlanError::Full(full)),
        BookError::Store(source) => RulesError::Rule { id, source },
    }
}
