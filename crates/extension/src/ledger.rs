//! What became of packets, and of records.

use serde::Serialize;

/// Why a call of an extension did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It did not end within its fuel.
    OutOfFuel,
    /// Calls within each other were too deep.
    StackExhausted,
    /// It read or wrote outside its memory.
    OutOfBounds,
    /// Any other trap: a panic, a division by zero. Of an object: it returned XDP_ABORTED.
    Trapped,
    /// The kernel did not run the object.
    NotRun,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 5] = [
        Fault::OutOfFuel,
        Fault::StackExhausted,
        Fault::OutOfBounds,
        Fault::Trapped,
        Fault::NotRun,
    ];

    /// The name, as it stands in accounts.
    pub fn name(self) -> &'static str {
        match self {
            Fault::OutOfFuel => "out_of_fuel",
            Fault::StackExhausted => "stack_exhausted",
            Fault::OutOfBounds => "out_of_bounds",
            Fault::Trapped => "trapped",
            Fault::NotRun => "not_run",
        }
    }

    /// Where it stands in [`Fault::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A call that did not come to its end.
#[derive(Debug)]
pub(crate) struct Faulted {
    pub(crate) fault: Fault,
    /// What is said of it.
    pub(crate) text: String,
}

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It lies outside the extension's memory.
    OutsideMemory,
    /// It has more than [`RECORD_BYTES_MAX`](crate::limits::RECORD_BYTES_MAX) bytes.
    TooLong,
    /// It is no JSON object of numbers, texts, booleans and nulls, or has a field twice, or too
    /// many fields.
    NoRecord,
    /// The packet had its records.
    TooMany,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 4] =
        [Refusal::OutsideMemory, Refusal::TooLong, Refusal::NoRecord, Refusal::TooMany];

    /// The name, as it stands in accounts.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::OutsideMemory => "outside_memory",
            Refusal::TooLong => "too_long",
            Refusal::NoRecord => "no_record",
            Refusal::TooMany => "too_many",
        }
    }

    /// Where it stands in [`Refusal::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The account of an extension. At any time between packets:
///
/// ```text
/// packets = analyzed + Σ faults + after_stop
/// emitted = taken + Σ refused          taken = what each log was given
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExtensionLedger {
    /// Packets that were there.
    pub packets: u64,
    /// Packets with which the extension came to its end.
    pub analyzed: u64,
    /// Packets with which it did not, by why, at [`Fault::index`].
    pub faults: [u64; Fault::ALL.len()],
    /// Packets that it was not shown, because it had been stopped.
    pub after_stop: u64,
    /// Of the analyzed: packets that came without their end, because they were too long.
    pub cut: u64,
    /// Records that it handed over.
    pub emitted: u64,
    /// Of these, written to logs.
    pub taken: u64,
    /// Of these, not taken, by why, at [`Refusal::index`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Orders to count something that were not taken.
    pub counts_refused: u64,
    /// Fuel that packets took, of a module.
    pub fuel: u64,
}

impl ExtensionLedger {
    /// Packets with which the extension did not come to its end.
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Records that were not taken.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// True if no packet and no record is missing.
    pub fn balances(&self) -> bool {
        self.packets == self.analyzed + self.faults() + self.after_stop
            && self.emitted == self.taken + self.refused()
    }
}
