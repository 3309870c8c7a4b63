//! What the kernel counted for the lanes of a dead process, and the final counters of a lane.

use super::{Finished, LaneRemains};
use crate::backend::kernel_side::{Programs, text};
use crate::backend::{KernelCount, KernelSide, LastReading};
use crate::lane::BoardReading;
use ringside_core::ledger::{add_frames, sum, total};
use ringside_core::{Cause, InterfaceId, LaneCounters};
use ringside_ebpf::capture::CaptureLeftBehind;

/// Detaches all lanes, as close together as possible, reads what was counted, and lets go what the
/// kernel held for them. `None` for a lane of which the kernel tells nothing.
pub(super) fn close(
    lanes: &mut [LaneRemains],
    finished: &mut Finished,
) -> Vec<Option<Box<dyn KernelCount>>> {
    let mut programs = Programs::new();
    let mut held = Vec::new();
    for lane in &mut *lanes {
        let side = lane.kernel.take();
        let result = side.map(|side| hold(lane.interface_id, side, &mut programs));
        held.push(or_tell(result.transpose(), lane, finished).flatten());
    }
    // An interface's further lanes find the program taken out.
    for (lane, program) in
        lanes.iter().filter_map(|lane| Some((lane, program_of(lane, &programs)?)))
    {
        or_tell(program.stop().map_err(text), lane, finished);
    }
    for (lane, side) in lanes.iter().zip(&held) {
        let detached = side.as_ref().map_or(Ok(()), |side| side.detach());
        or_tell(detached, lane, finished);
    }
    let mut counts = Vec::new();
    for (lane, side) in lanes.iter().zip(held) {
        let count = side.map(|side| side.count(lane.queue, program_of(lane, &programs)));
        counts.push(or_tell(count.transpose(), lane, finished).flatten());
    }
    counts
}

fn program_of<'p>(lane: &LaneRemains, programs: &'p Programs) -> Option<&'p CaptureLeftBehind> {
    programs.get(&lane.interface_id)
}

/// Keeps the program that came with the first lane of an interface apart from what is of the lane.
fn hold(
    interface: InterfaceId,
    mut side: Box<dyn KernelSide>,
    programs: &mut Programs,
) -> Result<Box<dyn KernelSide>, String> {
    if let Some(program) = side.take_program() {
        programs.insert(interface, CaptureLeftBehind::new(program).map_err(text)?);
    }
    Ok(side)
}

/// What went wrong with a lane goes to `finished`.
fn or_tell<T>(result: Result<T, String>, lane: &LaneRemains, finished: &mut Finished) -> Option<T> {
    result.map_err(|error| finished.errors.push(format!("{}: {error}", lane.interface))).ok()
}

/// The final counters of a lane, from its worker's last reading, what the kernel counted and the
/// frames that lie in the ring (`None` for a lane without one). The second value says what is not
/// known, if anything.
pub(super) fn final_counters(
    reading: Option<BoardReading>,
    count: Option<Box<dyn KernelCount>>,
    frames_in_ring: Option<u64>,
) -> (LaneCounters, Option<&'static str>) {
    let turns_away = reading.as_ref().is_some_and(|reading| reading.turns_away);
    let last_reading = reading.as_ref().map_or(LastReading::default(), |reading| LastReading {
        is_interrupted: reading.is_interrupted,
        turned_away_before: reading.turned_away_before,
    });
    let last = reading.map(|reading| reading.counters).unwrap_or_default();
    let taken = frames_in_ring.unwrap_or(last.taken);
    let mut lane = LaneCounters { taken, in_flight: Some(0), ..last.clone() };
    let mut unknown = match count {
        None => {
            // The last reading is older than the last frame.
            (lane.received, lane.filtered) = (None, None);
            return (lane, Some("this backend does not tell what came after the last reading"));
        }
        Some(count) => count.bring_up(&mut lane, &last_reading),
    };
    if turns_away {
        // Of a filter in the kernel the last reading has all but the last, too.
        lane.filtered = None;
        unknown = unknown.or(Some("how many frames the worker's rules turned away at last"));
    }
    if let Some(received) = lane.received {
        let filtered = lane.filtered.or(last.filtered).unwrap_or(0);
        let accounted = sum([lane.taken, lane.passed, filtered, total(&lane.dropped)]);
        let lost = received.saturating_sub(accounted);
        add_frames(&mut lane.dropped, Cause::WorkerDied, lost);
    }
    (lane, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::af_packet::kernel_side::{Filter, PacketCount};
    use crate::backend::af_xdp::kernel_side::XdpCount;
    use ringside_core::ledger::ByCause;
    use ringside_ebpf::capture::QueueCounters;
    use ringside_ebpf::socket_filter::FilterCounters;
    use ringside_sys::packet::PacketStatistics;
    use ringside_sys::xsk::XskStatistics;

    fn reading(received: u64, taken: u64, is_interrupted: bool) -> Option<BoardReading> {
        let counters = LaneCounters {
            received: Some(received),
            filtered: Some(0),
            taken,
            dropped: ByCause::from([(Cause::RecorderBehind, 2)]),
            in_flight: Some(received - taken - 2),
            ..LaneCounters::default()
        };
        let (turns_away, turned_away_before) = (false, 0);
        Some(BoardReading { counters, is_interrupted, turns_away, turned_away_before })
    }

    fn since(received: u64, dropped: u64, filter: Filter) -> Option<Box<dyn KernelCount>> {
        let since = PacketStatistics { received, dropped, freezes: 0 };
        Some(Box::new(PacketCount { since, filter }))
    }

    fn lost(lane: &LaneCounters) -> u64 {
        lane.dropped.get(&Cause::WorkerDied).copied().unwrap_or(0)
    }

    fn check(lane: &LaneCounters) {
        let ledger = ringside_core::Ledger::from_lanes(vec![lane.clone()]);
        assert_eq!(ledger.balance(), Ok(()), "{lane:#?}");
        assert_eq!(lane.in_flight, Some(0));
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
        let counters = FilterCounters { seen: 1_000, accepted: 150, ..FilterCounters::default() };
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
    fn a_pre_filter_has_counted_everything_too() {
        let counters =
            FilterCounters { seen: 1_000, accepted: 900, turned_away: 700, turned_away_bytes: 0 };
        let mut reading = reading(850, 90, false).unwrap();
        // 600 were turned away in the kernel by then, and 30 by the worker.
        reading.counters.dropped.insert(Cause::ByRule, 630);
        reading.turned_away_before = 600;
        let filter = Filter::Kernel(counters);
        let (lane, _) = final_counters(Some(reading), since(10, 0, filter), Some(120));
        check(&lane);
        assert_eq!((lane.received, lane.filtered), (Some(1_000), Some(100)));
        assert_eq!(lane.dropped[&Cause::ByRule], 730);
        assert_eq!(lost(&lane), 1_000 - 100 - 730 - 120 - 2);
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

    #[test]
    fn the_driver_has_counted_everything_since_the_start() {
        let program =
            QueueCounters { seen: 1_000, passed: 300, steered: 700, ..QueueCounters::default() };
        let socket = XskStatistics { dropped: 50, ring_full: 7, fill_empty: 40, invalid_fill: 0 };
        let count = |zero_copy| {
            Some(Box::new(XdpCount { program, socket, zero_copy }) as Box<dyn KernelCount>)
        };
        for is_interrupted in [false, true] {
            let (lane, unknown) =
                final_counters(reading(900, 90, is_interrupted), count(false), Some(500));
            check(&lane);
            assert_eq!((lane.received, lane.passed, lane.taken), (Some(1_000), 300, 500));
            assert_eq!(lane.dropped[&Cause::FillRingEmpty], 40);
            assert_eq!(lane.dropped[&Cause::FrameTooLarge], 10);
            assert_eq!(lane.dropped[&Cause::KernelRingFull], 7);
            assert_eq!((lost(&lane), unknown), (700 - 500 - 57 - 2, None));
        }
        // Without a copy the want of memory loses no frame by itself.
        let (lane, _) = final_counters(None, count(true), Some(500));
        check(&lane);
        assert_eq!(lane.dropped.get(&Cause::FillRingEmpty), None);
        assert_eq!(lost(&lane), 700 - 500 - 57);
    }
}
