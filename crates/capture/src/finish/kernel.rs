//! What the kernel counted for the lanes of a dead process, and the final counters of a lane.

use super::{Finished, LaneRemains};
use crate::backend::af_packet::KernelHandles;
use crate::lane::BoardReading;
use ringside_core::ledger::total;
use ringside_core::{Cause, LaneCounters};
use ringside_ebpf::socket_filter::FilterCounters;
use ringside_sys::packet::{LeftBehind, PacketStatistics};

/// What the kernel says of a lane that was detached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Since the process last asked.
    pub(super) since: PacketStatistics,
    /// Since the start.
    pub(super) filter: Filter,
}

/// Where frames were filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Filter {
    /// Nowhere.
    #[default]
    None,
    /// In the kernel.
    Kernel(FilterCounters),
    /// In the process.
    Process,
}

/// Detaches all lanes, as close together as possible, then reads what was counted. `None` for a
/// lane of which the kernel tells nothing.
pub(super) fn close(lanes: &[LaneRemains], finished: &mut Finished) -> Vec<Option<Count>> {
    let mut sockets = Vec::new();
    for lane in lanes {
        let socket = lane.kernel.as_ref().map(|kernel| kernel.socket.try_clone());
        sockets.push(socket.and_then(Result::ok).map(LeftBehind::new));
    }
    for (lane, socket) in lanes.iter().zip(&sockets) {
        if let Some(Err(error)) = socket.as_ref().map(LeftBehind::detach) {
            finished.errors.push(format!("{}: {error}", lane.interface));
        }
    }
    let mut counts = Vec::new();
    for (lane, socket) in lanes.iter().zip(sockets) {
        let count = lane.kernel.as_ref().zip(socket).map(|(kernel, socket)| read(kernel, &socket));
        counts.push(match count.transpose() {
            Ok(count) => count,
            Err(error) => {
                finished.errors.push(format!("{}: {error}", lane.interface));
                None
            }
        });
    }
    counts
}

fn read(kernel: &KernelHandles, socket: &LeftBehind) -> Result<Count, String> {
    let since = socket.statistics().map_err(|error| error.to_string())?;
    let filter = match (&kernel.counters, kernel.filtered_here) {
        (Some(map), _) => {
            let map = map.try_clone().map_err(|error| error.to_string())?;
            Filter::Kernel(FilterCounters::read(map).map_err(|error| error.to_string())?)
        }
        (None, true) => Filter::Process,
        (None, false) => Filter::None,
    };
    Ok(Count { since, filter })
}

/// The final counters of a lane, from its worker's last reading, what the kernel counted and the
/// frames that lie in the ring (`None` for a lane without one). The second value says what is not
/// known, if anything.
pub(super) fn final_counters(
    reading: Option<BoardReading>,
    count: Option<Count>,
    frames_in_ring: Option<u64>,
) -> (LaneCounters, Option<&'static str>) {
    let is_interrupted = reading.as_ref().is_some_and(|reading| reading.is_interrupted);
    let last = reading.map(|reading| reading.counters).unwrap_or_default();
    let taken = frames_in_ring.unwrap_or(last.taken);
    let mut lane = LaneCounters { taken, in_flight: 0, ..last.clone() };
    let Some(Count { since, filter }) = count else {
        // The last reading is older than the last frame.
        (lane.received, lane.filtered) = (None, None);
        return (lane, Some("this backend does not tell what came after the last reading"));
    };
    let accepted = last.received.unwrap_or(0) + since.received;
    let mut unknown = None;
    (lane.received, lane.filtered) = match filter {
        Filter::Kernel(FilterCounters { seen, accepted }) => {
            (Some(seen), Some(seen.saturating_sub(accepted)))
        }
        Filter::None => (Some(accepted), Some(0)),
        Filter::Process => {
            unknown = Some("how many frames the worker's filter turned away at last");
            (Some(accepted), None)
        }
    };
    if since.dropped > 0 {
        *lane.dropped.entry(Cause::KernelRingFull).or_default() += since.dropped;
    }
    // What the kernel told the process in its last moment was told once. With a filter in the
    // kernel, whose counters stay, only the cause is not known then.
    if is_interrupted && !matches!(filter, Filter::Kernel(_)) {
        lane.received = None;
        unknown = Some("the kernel's counters went down with the worker, which was reading them");
    }
    if let Some(received) = lane.received {
        let filtered = lane.filtered.or(last.filtered).unwrap_or(0);
        let accounted = lane.taken + lane.passed + filtered + total(&lane.dropped);
        let lost = received.saturating_sub(accounted);
        if lost > 0 {
            *lane.dropped.entry(Cause::WorkerDied).or_default() += lost;
        }
    }
    (lane, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::ledger::ByCause;

    fn reading(received: u64, taken: u64, is_interrupted: bool) -> Option<BoardReading> {
        let counters = LaneCounters {
            received: Some(received),
            filtered: Some(0),
            taken,
            dropped: ByCause::from([(Cause::RecorderBehind, 2)]),
            in_flight: received - taken - 2,
            ..LaneCounters::default()
        };
        Some(BoardReading { counters, is_interrupted })
    }

    fn since(received: u64, dropped: u64, filter: Filter) -> Option<Count> {
        let since = PacketStatistics { received, dropped, freezes: 0 };
        Some(Count { since, filter })
    }

    fn lost(lane: &LaneCounters) -> u64 {
        lane.dropped.get(&Cause::WorkerDied).copied().unwrap_or(0)
    }

    fn check(lane: &LaneCounters) {
        let ledger = ringside_core::Ledger::from_lanes(vec![lane.clone()]);
        assert_eq!(ledger.balance(), Ok(()), "{lane:#?}");
        assert_eq!(lane.in_flight, 0);
    }

    #[test]
    fn what_nobody_had_put_into_the_ring_died_with_the_worker() {
        let (lane, unknown) =
            final_counters(reading(100, 90, false), since(50, 7, Filter::None), Some(120));
        check(&lane);
        assert_eq!((lane.received, lane.taken, lost(&lane)), (Some(150), 120, 150 - 120 - 2 - 7));
        assert_eq!(lane.dropped[&Cause::KernelRingFull], 7);
        assert_eq!(unknown, None);
    }

    #[test]
    fn a_filter_in_the_kernel_has_counted_everything() {
        let counters = FilterCounters { seen: 1_000, accepted: 150 };
        for is_interrupted in [false, true] {
            let (lane, unknown) = final_counters(
                reading(900, 90, is_interrupted),
                since(10, 0, Filter::Kernel(counters)),
                Some(120),
            );
            check(&lane);
            assert_eq!((lane.received, lane.filtered), (Some(1_000), Some(850)));
            assert_eq!((lost(&lane), unknown), (150 - 120 - 2, None));
        }
    }

    #[test]
    fn what_cannot_be_known_is_null_and_told() {
        let interrupted = reading(100, 90, true);
        let (lane, unknown) = final_counters(interrupted, since(5, 0, Filter::None), Some(120));
        assert_eq!((lane.received, lane.taken, lost(&lane)), (None, 120, 0));
        assert!(unknown.unwrap().contains("reading them"));
        let in_process = since(50, 0, Filter::Process);
        let (lane, unknown) = final_counters(reading(100, 90, false), in_process, Some(120));
        assert_eq!((lane.received, lane.filtered), (Some(150), None));
        assert!(unknown.unwrap().contains("filter"));
        let (lane, unknown) = final_counters(reading(100, 90, false), None, Some(120));
        assert_eq!((lane.received, lane.filtered, lane.taken), (None, None, 120));
        assert!(unknown.is_some());
    }

    #[test]
    fn a_worker_that_never_read_has_left_what_the_kernel_counted() {
        let (lane, unknown) = final_counters(None, since(50, 3, Filter::None), Some(0));
        check(&lane);
        assert_eq!((lane.received, lost(&lane), unknown), (Some(50), 47, None));
    }
}
