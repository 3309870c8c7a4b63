//! How a worker waits for frames, as people type it.

use clap::ValueEnum;

/// Ways of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// By where the kernel's receive path runs.
    Auto,
    /// Look again at once.
    Spin,
    /// Sleep 50 to 500 µs while frames come.
    Sleep,
    /// Be woken by the next frames.
    Poll,
    /// Poll the interface's queue from the worker.
    BusyPoll,
}
