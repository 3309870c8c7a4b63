//! Settings of interfaces that a run may change while it lasts.

use std::fmt;

/// Ways of receive side scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// Both directions of a flow in one queue.
    Symmetric,
    /// The same share for all queues.
    Even,
}

/// A setting of an interface that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Its receive queues.
    Queues,
    /// How it spreads frames over them.
    Rss(Rss),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setting::Queues => "the number of receive queues",
            Setting::Rss(Rss::Symmetric) => "symmetric receive side scaling",
            Setting::Rss(Rss::Even) => "even receive side scaling",
        })
    }
}
