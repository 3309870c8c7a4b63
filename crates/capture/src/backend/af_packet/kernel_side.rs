//! What the kernel holds of a packet socket's lane.

use super::{AfPacketSource, LaneFilter};
use crate::backend::AF_PACKET;
use crate::backend::kernel_side::{KernelCount, KernelSide, LastReading, text};
use ringside_core::ledger::add_frames;
use ringside_core::{Cause, LaneCounters};
use ringside_ebpf::capture::CaptureLeftBehind;
use ringside_ebpf::socket_filter::FilterCounters;
use ringside_sys::packet::{LeftBehind, PacketStatistics};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A packet socket and its filter's counters, if it has some.
#[derive(Debug)]
struct PacketSide {
    socket: OwnedFd,
    counters: Option<OwnedFd>,
    facts: Facts,
}

#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    /// Frames are filtered by the process: the kernel does not know how many were.
    filtered_here: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCount {
    /// Since the process last asked.
    pub(crate) since: PacketStatistics,
    /// Since the start.
    pub(crate) filter: Filter,
}

/// Where frames were filtered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    /// There was no filter.
    None,
    /// In the kernel.
    Kernel(FilterCounters),
    /// In the process.
    Process,
}

impl AfPacketSource {
    /// Copies of the lane's descriptors, for a process that is to outlive this one.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn kernel_side(&self) -> std::io::Result<Box<dyn KernelSide>> {
        let counters = match &self.filter {
            LaneFilter::Kernel { filter, .. } => Some(filter.counters_fd().try_clone_to_owned()?),
            LaneFilter::None | LaneFilter::User(_) => None,
        };
        let socket = self.ring.as_fd().try_clone_to_owned()?;
        let filtered_here = matches!(self.filter, LaneFilter::User(_));
        Ok(Box::new(PacketSide { socket, counters, facts: Facts { filtered_here } }))
    }
}

pub(crate) fn restore(facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
    let facts = serde_json::from_str(facts).ok()?;
    let mut fds = fds.into_iter();
    let (socket, counters) = (fds.next()?, fds.next());
    Some(Box::new(PacketSide { socket, counters, facts }))
}

impl PacketSide {
    fn socket(&self) -> Result<LeftBehind, String> {
        Ok(LeftBehind::new(self.socket.try_clone().map_err(text)?))
    }

    fn filter(&self) -> Result<Filter, String> {
        Ok(match (&self.counters, self.facts.filtered_here) {
            (Some(map), _) => {
                let map = map.try_clone().map_err(text)?;
                Filter::Kernel(FilterCounters::read(map).map_err(text)?)
            }
            (None, true) => Filter::Process,
            (None, false) => Filter::None,
        })
    }
}

impl KernelSide for PacketSide {
    fn backend(&self) -> &'static str {
        AF_PACKET.name
    }

    fn facts(&self) -> String {
        serde_json::to_string(&self.facts).expect("a flag is JSON")
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        [&self.socket].into_iter().chain(&self.counters).map(AsFd::as_fd).collect()
    }

    fn detach(&self) -> Result<(), String> {
        self.socket()?.detach().map_err(text)
    }

    fn count(
        &self,
        _queue: u16,
        _program: Option<&CaptureLeftBehind>,
    ) -> Result<Box<dyn KernelCount>, String> {
        let since = self.socket()?.statistics().map_err(text)?;
        Ok(Box::new(PacketCount { since, filter: self.filter()? }))
    }
}

impl KernelCount for PacketCount {
    /// Adds to the last reading what the socket has counted since.
    fn bring_up(&self, lane: &mut LaneCounters, last: &LastReading) -> Option<&'static str> {
        if let Filter::Kernel(counters) = self.filter {
            add_turned_away(lane, counters.turned_away, last.turned_away_before);
        }
        let accepted = lane.received.unwrap_or(0).saturating_add(self.since.received);
        let mut unknown = None;
        (lane.received, lane.filtered) = match self.filter {
            Filter::Kernel(FilterCounters { seen, accepted, .. }) => {
                let filtered = seen.checked_sub(accepted);
                if filtered.is_none() {
                    unknown = Some("how many frames were filtered: more were accepted than seen");
                }
                (Some(seen), filtered)
            }
            Filter::None => (Some(accepted), Some(0)),
            Filter::Process => {
                unknown = Some("how many frames the worker's filter turned away at last");
                (Some(accepted), None)
            }
        };
        add_frames(&mut lane.dropped, Cause::KernelRingFull, self.since.dropped);
        // What the kernel reported to the process in its last moment is reported once. With a
        // filter in the kernel, whose counters stay, only the cause is not known then.
        if last.is_interrupted && !matches!(self.filter, Filter::Kernel(_)) {
            lane.received = None;
            unknown =
                Some("the kernel's counters went down with the worker, which was reading them");
        }
        unknown
    }
}

/// Puts what a pre-filter has turned away since the start in place of what it had at the last
/// reading. The worker drops frames by rule too.
fn add_turned_away(lane: &mut LaneCounters, now: u64, last: u64) {
    let by_worker = lane.dropped.remove(&Cause::ByRule).unwrap_or(0).saturating_sub(last);
    add_frames(&mut lane.dropped, Cause::ByRule, by_worker.saturating_add(now));
}

/// Counts of such numbers, without a filter and with one.
#[cfg(test)]
pub(crate) fn counts_of_numbers(number: &mut impl FnMut() -> u64) -> [Box<dyn KernelCount>; 2] {
    let since = PacketStatistics { received: number(), dropped: number(), freezes: number() };
    let filter = FilterCounters {
        seen: number(),
        accepted: number(),
        turned_away: number(),
        turned_away_bytes: number(),
    };
    [Filter::None, Filter::Kernel(filter)]
        .map(|filter| Box::new(PacketCount { since, filter }) as Box<dyn KernelCount>)
}
