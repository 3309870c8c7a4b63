//! A source: where frames come from.

use crate::ledger::Cause;
use crate::{Batch, FrameMeta, InterfaceId, LinkType, Profile, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// One lane of frames: a receive queue, a fanout member, a libpcap handle or a file.
///
/// - [`next_batch`](Source::next_batch) lends the next frames in order of receipt. `Ok(None)` says
///   that none came within `timeout`, or that the source is finished; [`is_finished`] says which.
/// - [`start`](Source::start) begins the supply: a frame that reaches the interface before is
///   neither counted nor lent. Whatever takes time (memory, files, filters) is made ready first.
/// - Being finished is sticky. A live source never is, until [`detach`] was called and its memory
///   is drained.
/// - [`detach`](Source::detach) stops the supply: no frame that reaches the interface after it
///   returns is counted or lent. What was accepted before is still lent by `next_batch`.
/// - [`counters`](Source::counters) are cumulative since the source was opened, whatever the kernel
///   interface resets on reading. Once finished they are final and exact: then
///   `received = lent + passed + filtered + dropped`, `None` where the backend cannot count.
/// - [`low_water`](Source::low_water) promises that no later frame of this source bears an earlier
///   time, but for inversions of the source's own clock. It moves also while no frame comes, so
///   that a merge of several lanes is not held up by a quiet one.
///
/// Sources are used by one thread at a time and may be sent to it. A lane that several threads can
/// drain gives each a *handle* ([`another_handle`](Source::another_handle)).
///
/// [`is_finished`]: Source::is_finished
/// [`detach`]: Source::detach
pub trait Source: Send {
    /// Begins the supply. Does nothing the second time, nor for a source that supplies from its
    /// opening (a file, libpcap).
    ///
    /// # Errors
    /// The kernel refused.
    fn start(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Lends the next frames; waits up to `timeout` for the first of them.
    ///
    /// # Errors
    /// The interface went away or the input is damaged. A source that failed is finished: what it
    /// had accepted before stays counted.
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError>;

    /// True when no frame will ever come again.
    fn is_finished(&self) -> bool;

    /// The interfaces that frames of this source refer to, by `FrameMeta::interface`. The ids are
    /// those of the run. A file may add interfaces while it is read.
    fn interfaces(&self) -> &[SourceInterface];

    /// What was counted since the start.
    fn counters(&mut self) -> SourceCounters;

    /// No later frame is older than this.
    fn low_water(&self) -> Timestamp;

    /// True if frames that are not taken at once are not lost: a file, or memory that reaches back.
    /// Then a caller that has no room waits instead of dropping them.
    fn can_wait(&self) -> bool {
        false
    }

    /// How the lane is worked on, where the backend counts that.
    fn profile(&self) -> Option<Profile> {
        None
    }

    /// Another handle on the same lane, for another thread; `None` if one thread must drain it.
    ///
    /// A handle is a source that draws on the lane's one supply: `next_batch` takes what follows
    /// the batch that any handle took last, and `start`, `detach`, `counters`, `low_water` and
    /// `is_finished` are of the lane, whichever handle is asked. All calls to the handles of a lane
    /// are made one at a time, in the order in which their frames are to be kept. The exception:
    /// several batches may be lent at a time, and a batch may be dropped, which gives its memory
    /// back, during any other call and in any order. So taking needs no lock against taking, giving
    /// back needs one of its own (one producer), and the batch of one handle must not be disturbed
    /// by another.
    fn another_handle(&mut self) -> Option<Box<dyn Source>> {
        None
    }

    /// Stops the supply; the rest is still lent. Does nothing for a file.
    ///
    /// # Errors
    /// The kernel refused; the source then ends by being dropped.
    fn detach(&mut self) -> Result<(), SourceError>;
}

/// An interface as a capture file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInterface {
    /// Name, as `eth1`; empty where a file gives none.
    pub name: String,
    /// How frames begin.
    pub link_type: LinkType,
    /// Longest capture, in bytes; 0 stands for no limit.
    pub snaplen_bytes: u32,
    /// Free text about it, for the file.
    pub description: String,
    /// Filter expression that was applied, empty for none.
    pub filter: String,
}

impl SourceInterface {
    /// The interface of a frame, in the table that its source, or its run, gave once: the one place
    /// where the number in a frame becomes a link type. There is no other to fall back to: frames
    /// of another kind would be read as something that they are not.
    ///
    /// # Errors
    /// The table does not have it.
    #[inline]
    pub fn of<'i>(
        meta: &FrameMeta,
        interfaces: &'i [SourceInterface],
    ) -> Result<&'i SourceInterface, UnknownInterface> {
        let (interface, known) = (meta.interface, interfaces.len());
        interfaces.get(interface.0 as usize).ok_or(UnknownInterface { interface, known })
    }

    /// One without a name, of [`LinkType::UNKNOWN`], for a reader that has to go on.
    pub fn unknown() -> SourceInterface {
        SourceInterface { link_type: LinkType::UNKNOWN, ..SourceInterface::ethernet("") }
    }

    /// One of Ethernet, of which nothing more is said: no cut, no filter.
    pub fn ethernet(name: impl Into<String>) -> SourceInterface {
        SourceInterface {
            name: name.into(),
            link_type: LinkType::ETHERNET,
            snaplen_bytes: 0,
            description: String::new(),
            filter: String::new(),
        }
    }
}

/// A frame of an interface that its source never named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a frame is of interface {interface} of {known} that are named (from 0), so that nobody knows \
     how it begins"
)]
pub struct UnknownInterface {
    /// Interface of the frame.
    pub interface: InterfaceId,
    /// Interfaces that are named.
    pub known: usize,
}

/// Counters of a source, by the terms of the ledger; `None` where it cannot be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// Frames that the interface accepted for this lane since the start.
    pub received: Option<u64>,
    /// Frames that the filter turned away.
    pub filtered: Option<u64>,
    /// Frames that were left to the host and not taken (AF_XDP).
    pub passed: u64,
    /// Frames lost before they were lent, by cause.
    pub dropped: BTreeMap<Cause, u64>,
    /// Frames that were accepted and not yet lent, as counted where they lie; while the supply goes
    /// on, others come meanwhile. Of a source that is finished, what it left there.
    pub in_flight: Option<u64>,
    /// Frames whose stamp is earlier than that of the frame before.
    pub inversions: u64,
}

/// Why a source failed.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The interface was removed or set down while it was captured.
    #[error("interface {name} {event}; what was received before is kept")]
    InterfaceGone {
        /// Name of the interface.
        name: String,
        /// What happened, as "was removed".
        event: String,
    },
    /// Input that cannot be read further.
    #[error("{0}")]
    Damaged(String),
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, with the value and the fix.
        context: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_no_named_interface_is_no_ethernet_frame() {
        let raw = SourceInterface { link_type: LinkType::RAW, ..SourceInterface::ethernet("tun0") };
        let interfaces = [SourceInterface::ethernet("eth0"), raw];
        let of = |interface| {
            let meta = FrameMeta { interface: InterfaceId(interface), ..FrameMeta::default() };
            SourceInterface::of(&meta, &interfaces).map(|found| found.link_type)
        };
        assert_eq!((of(0), of(1)), (Ok(LinkType::ETHERNET), Ok(LinkType::RAW)));
        let error = of(2).unwrap_err();
        assert_eq!(error, UnknownInterface { interface: InterfaceId(2), known: 2 });
        assert!(error.to_string().starts_with("a frame is of interface 2 of 2"), "{error}");
        assert_eq!(SourceInterface::unknown().link_type.to_string(), "65535");
    }
}
