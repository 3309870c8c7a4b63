//! What the kernel counted for the lanes of a dead process, and the final counters of a lane.

use super::{Finished, LaneRemains};
use crate::backend::KernelHandles;
use crate::backend::af_packet::PacketHandles;
use crate::backend::af_xdp::{self, XdpHandles};
use crate::backend::xdp_ring::{self, RingHandles};
use crate::lane::BoardReading;
use ringside_core::ledger::{ByCause, add_frames, sum, total};
use ringside_core::{Cause, InterfaceId, LaneCounters};
use ringside_ebpf::capture::{CaptureHandles, CaptureLeftBehind, QueueCounters};
use ringside_ebpf::socket_filter::FilterCounters;
use ringside_sys::packet::{LeftBehind, PacketStatistics};
use ringside_sys::xsk::XskStatistics;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the kernel says of a lane that was detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// A packet socket and its filter.
    Packet {
        /// Since the process last asked.
        since: PacketStatistics,
        /// Since the start.
        filter: Filter,
    },
    /// An AF_XDP socket and the program in the driver, both since the start.
    Xdp {
        /// Of the lane's queue, and of those that count with it.
        program: QueueCounters,
        /// Of its socket.
        socket: XskStatistics,
        /// The driver put frames into the lane's memory itself.
        zero_copy: bool,
    },
    /// A program that puts frames into a ring: of the lane's queue, and of those that count with
    /// it, since the start.
    Ring(QueueCounters),
}

#[cfg(test)]
impl Count {
    /// One of each kind, of such numbers.
    pub(super) fn of_numbers(mut number: impl FnMut() -> u64) -> [Count; 4] {
        let since = PacketStatistics { received: number(), dropped: number(), freezes: number() };
        let program = QueueCounters {
            seen: number(),
            passed: number(),
            steered: number(),
            unmarked: number(),
            no_room: number(),
            too_long: number(),
        };
        let socket = XskStatistics {
            dropped: number(),
            invalid_fill: number(),
            ring_full: number(),
            fill_empty: number(),
        };
        let filter = FilterCounters {
            seen: number(),
            accepted: number(),
            turned_away: number(),
            turned_away_bytes: number(),
        };
        [
            Count::Packet { since, filter: Filter::None },
            Count::Packet { since, filter: Filter::Kernel(filter) },
            Count::Xdp { program, socket, zero_copy: false },
            Count::Ring(program),
        ]
    }
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

/// What is held of a lane.
enum Held {
    Packet(LeftBehind, PacketHandles),
    Xdp(XdpHandles),
    Ring(RingHandles),
}

/// The programs in drivers, one for each interface.
type Programs = BTreeMap<InterfaceId, CaptureLeftBehind>;

/// Detaches all lanes, as close together as possible, reads what was counted, and lets go what the
/// kernel held for them. `None` for a lane of which the kernel tells nothing.
pub(super) fn close(lanes: &mut [LaneRemains], finished: &mut Finished) -> Vec<Option<Count>> {
    let mut programs = Programs::new();
    let mut held = Vec::new();
    for lane in &mut *lanes {
        let handles = lane.kernel.take();
        let result = handles.map(|handles| hold(lane.interface_id, handles, &mut programs));
        held.push(or_tell(result.transpose(), lane, finished).flatten());
    }
    for (lane, held) in lanes.iter().zip(&held) {
        if let Some(Held::Packet(socket, _)) = held {
            or_tell(socket.detach().map_err(text), lane, finished);
        }
        if let Some(Held::Xdp(_) | Held::Ring(_)) = held
            && let Some(program) = programs.get(&lane.interface_id)
        {
            // The interface's further lanes find it taken out.
            or_tell(program.stop().map_err(text), lane, finished);
        }
    }
    let mut counts = Vec::new();
    for (lane, held) in lanes.iter().zip(held) {
        let count = held.map(|held| match held {
            Held::Packet(socket, handles) => read_packet(&socket, &handles),
            Held::Xdp(handles) => read_xdp(lane, &handles, programs.get(&lane.interface_id)),
            Held::Ring(handles) => {
                let program = programs.get(&lane.interface_id);
                read_program(lane, handles.other_queues, program).map(Count::Ring)
            }
        });
        counts.push(or_tell(count.transpose(), lane, finished).flatten());
    }
    counts
}

fn hold(
    interface: InterfaceId,
    handles: KernelHandles,
    programs: &mut Programs,
) -> Result<Held, String> {
    match handles {
        KernelHandles::AfPacket(handles) => {
            let socket = handles.socket.try_clone().map_err(text)?;
            Ok(Held::Packet(LeftBehind::new(socket), handles))
        }
        KernelHandles::AfXdp(mut handles) => {
            keep(interface, handles.program.take(), programs)?;
            Ok(Held::Xdp(handles))
        }
        KernelHandles::XdpRing(mut handles) => {
            keep(interface, handles.program.take(), programs)?;
            Ok(Held::Ring(handles))
        }
    }
}

/// Keeps the program that came with the first lane of an interface.
fn keep(
    interface: InterfaceId,
    program: Option<CaptureHandles>,
    programs: &mut Programs,
) -> Result<(), String> {
    if let Some(program) = program {
        programs.insert(interface, CaptureLeftBehind::new(program).map_err(text)?);
    }
    Ok(())
}

/// What went wrong with a lane goes to `finished`.
fn or_tell<T>(result: Result<T, String>, lane: &LaneRemains, finished: &mut Finished) -> Option<T> {
    result.map_err(|error| finished.errors.push(format!("{}: {error}", lane.interface))).ok()
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

fn read_packet(socket: &LeftBehind, handles: &PacketHandles) -> Result<Count, String> {
    let since = socket.statistics().map_err(text)?;
    let filter = match (&handles.counters, handles.filtered_here) {
        (Some(map), _) => {
            let map = map.try_clone().map_err(text)?;
            Filter::Kernel(FilterCounters::read(map).map_err(text)?)
        }
        (None, true) => Filter::Process,
        (None, false) => Filter::None,
    };
    Ok(Count::Packet { since, filter })
}

fn read_xdp(
    lane: &LaneRemains,
    handles: &XdpHandles,
    program: Option<&CaptureLeftBehind>,
) -> Result<Count, String> {
    let program = read_program(lane, handles.other_queues.clone(), program)?;
    let socket = XskStatistics::of(&handles.socket).map_err(text)?;
    Ok(Count::Xdp { program, socket, zero_copy: handles.zero_copy })
}

fn read_program(
    lane: &LaneRemains,
    other_queues: Range<u32>,
    program: Option<&CaptureLeftBehind>,
) -> Result<QueueCounters, String> {
    let program = program.ok_or("the descriptors of its program are missing")?;
    let mut sum = program.counters_at(lane.queue.into()).map_err(text)?;
    for entry in other_queues {
        let other = program.counters_at(entry).map_err(text)?;
        sum.seen = sum.seen.saturating_add(other.seen);
        sum.passed = sum.passed.saturating_add(other.passed);
    }
    Ok(sum)
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
    let turns_away = reading.as_ref().is_some_and(|reading| reading.turns_away);
    let turned_away_before = reading.as_ref().map_or(0, |reading| reading.turned_away_before);
    let last = reading.map(|reading| reading.counters).unwrap_or_default();
    let taken = frames_in_ring.unwrap_or(last.taken);
    let mut lane = LaneCounters { taken, in_flight: Some(0), ..last.clone() };
    let mut unknown = match count {
        None => {
            // The last reading is older than the last frame.
            (lane.received, lane.filtered) = (None, None);
            return (lane, Some("this backend does not tell what came after the last reading"));
        }
        Some(Count::Packet { since, filter }) => {
            if let Filter::Kernel(counters) = filter {
                add_turned_away(&mut lane, counters.turned_away, turned_away_before);
            }
            add_packet(&mut lane, since, filter, is_interrupted)
        }
        Some(Count::Xdp { program, socket, zero_copy }) => {
            add_program(&mut lane, &program, af_xdp::dropped(&socket, zero_copy));
            None
        }
        Some(Count::Ring(program)) => {
            add_program(&mut lane, &program, xdp_ring::dropped(&program));
            None
        }
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

/// Puts what a program in the driver has counted since the start in place of the last reading.
fn add_program(lane: &mut LaneCounters, program: &QueueCounters, dropped: ByCause) {
    (lane.received, lane.filtered) = (Some(program.seen), Some(0));
    lane.passed = program.passed;
    for (cause, count) in dropped {
        // The worker drops frames by some of the causes too.
        let dropped = lane.dropped.entry(cause).or_default();
        *dropped = count.max(*dropped);
    }
}

/// Puts what a pre-filter has turned away since the start in place of what it had at the last
/// reading. The worker drops frames by rule too.
fn add_turned_away(lane: &mut LaneCounters, now: u64, last: u64) {
    let by_worker = lane.dropped.remove(&Cause::ByRule).unwrap_or(0).saturating_sub(last);
    add_frames(&mut lane.dropped, Cause::ByRule, by_worker.saturating_add(now));
}

/// Adds to the last reading what a packet socket has counted since. Returns what is not known.
fn add_packet(
    lane: &mut LaneCounters,
    since: PacketStatistics,
    filter: Filter,
    is_interrupted: bool,
) -> Option<&'static str> {
    let accepted = lane.received.unwrap_or(0).saturating_add(since.received);
    let mut unknown = None;
    (lane.received, lane.filtered) = match filter {
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
    add_frames(&mut lane.dropped, Cause::KernelRingFull, since.dropped);
    // What the kernel told the process in its last moment was told once. With a filter in the
    // kernel, whose counters stay, only the cause is not known then.
    if is_interrupted && !matches!(filter, Filter::Kernel(_)) {
        lane.received = None;
        unknown = Some("the kernel's counters went down with the worker, which was reading them");
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn since(received: u64, dropped: u64, filter: Filter) -> Option<Count> {
        let since = PacketStatistics { received, dropped, freezes: 0 };
        Some(Count::Packet { since, filter })
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
        let count = Some(Count::Xdp { program, socket, zero_copy: false });
        for is_interrupted in [false, true] {
            let (lane, unknown) =
                final_counters(reading(900, 90, is_interrupted), count, Some(500));
            check(&lane);
            assert_eq!((lane.received, lane.passed, lane.taken), (Some(1_000), 300, 500));
            assert_eq!(lane.dropped[&Cause::FillRingEmpty], 40);
            assert_eq!(lane.dropped[&Cause::FrameTooLarge], 10);
            assert_eq!(lane.dropped[&Cause::KernelRingFull], 7);
            assert_eq!((lost(&lane), unknown), (700 - 500 - 57 - 2, None));
        }
        // Without a copy the want of memory loses no frame by itself.
        let count = Some(Count::Xdp { program, socket, zero_copy: true });
        let (lane, _) = final_counters(None, count, Some(500));
        check(&lane);
        assert_eq!(lane.dropped.get(&Cause::FillRingEmpty), None);
        assert_eq!(lost(&lane), 700 - 500 - 57);
    }
}
