use super::*;
use crate::backend::BackendError;
use crate::backend::tests::*;
use ringside_core::{
    Cause, Direction, InterfaceId, OwnedFrame, Source, SourceError, Timestamp, TimestampKind,
};
use ringside_sys::clock;
use std::time::{Duration, Instant};

mod faults;
mod frames;
mod queues;

/// Memory for everything that a test sends before it reads.
const AMPLE_BYTES: u64 = 32 << 20;

fn config() -> AfXdpConfig {
    AfXdpConfig {
        interface: RX.into(),
        interface_id: InterfaceId(0),
        lanes: None,
        threads: 1,
        memory_bytes: AMPLE_BYTES,
        snaplen_bytes: ringside_core::limits::FRAME_BYTES_MAX,
        promiscuous: true,
        filter: None,
        stamps: Stamps::On,
        waiting: Waiting::Sleep,
    }
}

/// Opens the lanes and starts them.
fn open_started(config: &AfXdpConfig) -> Vec<AfXdpSource> {
    let mut sources = open(config).unwrap().sources;
    sources.iter_mut().for_each(|source| source.start().unwrap());
    sources
}

fn open_one(config: &AfXdpConfig) -> AfXdpSource {
    let mut sources = open_started(config);
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

/// received = lent + passed + dropped, and nothing is filtered.
fn assert_accounted(source: &mut AfXdpSource, lent: u64) {
    let counters = source.counters();
    assert_eq!(counters.filtered, Some(0));
    assert_balanced(&counters, lent + counters.passed);
}

const WAYS: [Waiting; 4] = [Waiting::Spin, Waiting::Sleep, Waiting::Poll, Waiting::BusyPoll];

#[test]
fn every_frame_comes_once_in_order_with_its_bytes() {
    on_a_wire("af_xdp_every_frame_comes_once_in_order_with_its_bytes", |_| {
        for waiting in WAYS {
            let mut source = open_one(&AfXdpConfig { waiting, ..config() });
            let before = device(RX).statistics.rx_packets;
            let frames: Vec<Vec<u8>> = std::iter::repeat_n(zoo(), 20).flatten().collect();
            let got = send_and_take(&mut source, &frames);
            assert_same_bytes(&got, &frames);
            assert!(got.iter().all(|frame| frame.meta.direction == Direction::Inbound));
            // A tag that was in the frame stays there.
            assert!(got.iter().all(|frame| frame.meta.vlan.is_none()));

            source.detach().unwrap();
            assert_eq!(drain(&mut source), 0);
            assert_accounted(&mut source, frames.len() as u64);
            let counters = source.counters();
            assert_eq!(counters.received, Some(frames.len() as u64), "{waiting:?}");
            assert_eq!(counters.received, Some(device(RX).statistics.rx_packets - before));
            assert_eq!((counters.passed, counters.inversions), (0, 0), "{waiting:?}");
            assert_eq!(source.low_water(), Timestamp::MAX);
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none(), "finished for good");
        }
    });
}

#[test]
fn stamps_are_the_kernels_and_never_go_back() {
    on_a_wire("af_xdp_stamps_are_the_kernels_and_never_go_back", |_| {
        let mut source = open_one(&config());
        let frames = zoo();
        let mut newest = Timestamp(0);
        for _ in 0..20 {
            let before = clock::realtime_now();
            send(TX, &frames);
            let sent = clock::realtime_now();
            let got = take(&mut source, frames.len());
            // A packet socket hands over in the sender's call or a softirq right behind it.
            let taken = clock::realtime_now();
            assert!(sent <= taken);
            for frame in &got {
                let stamp = frame.meta.timestamp;
                assert_eq!(frame.meta.timestamp_kind, TimestampKind::Kernel);
                assert!((before..=taken).contains(&stamp), "{before:?} {stamp:?} {taken:?}");
                assert!(stamp >= newest, "{newest:?} {stamp:?}");
                newest = stamp;
            }
            assert!(source.low_water() >= newest);
        }
    });
}

#[test]
fn without_stamps_the_time_is_none() {
    on_a_wire("af_xdp_without_stamps_the_time_is_none", |_| {
        let mut source = open_one(&AfXdpConfig { stamps: Stamps::Off, ..config() });
        let frames = zoo();
        let got = send_and_take(&mut source, &frames);
        assert_same_bytes(&got, &frames);
        assert!(got.iter().all(|frame| frame.meta.timestamp == Timestamp(0)));
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_accounted(&mut source, frames.len() as u64);
        assert_eq!(source.counters().inversions, 0);
    });
}

#[test]
fn one_frame_on_a_quiet_link_comes_at_once_and_time_goes_on() {
    on_a_wire("af_xdp_one_frame_on_a_quiet_link_comes_at_once", |_| {
        for waiting in WAYS {
            let mut source = open_one(&AfXdpConfig { waiting, ..config() });
            for number in 0..5 {
                send(TX, &[numbered(number, 60)]);
                let batch =
                    source.next_batch(PATIENCE).unwrap().expect("a frame, not the time-out");
                assert_eq!(batch.frame_count(), 1);
                let stamp = batch.get(0).unwrap().meta.timestamp;
                drop(batch);
                assert!(source.low_water() >= stamp, "{waiting:?}");
                let hold_ns = ringside_core::limits::MERGE_HOLD_NS;
                std::thread::sleep(Duration::from_nanos(hold_ns + 1_000_000));
                let before = clock::realtime_now();
                assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
                assert!(source.low_water().0 >= before.0 - hold_ns, "{waiting:?}");
                assert!(source.low_water() > stamp, "{waiting:?}");
                // A wait ends when its time is over.
                let start = Instant::now();
                let wait = Duration::from_millis(20);
                assert!(source.next_batch(wait).unwrap().is_none());
                assert!(start.elapsed() >= wait, "{waiting:?}");
            }
        }
    });
}

#[test]
fn without_memory_the_kernel_drops_and_the_source_balances() {
    on_a_wire("af_xdp_without_memory_the_kernel_drops", |_| {
        let least = 64 * 4096;
        for (waiting, memory_bytes) in WAYS.into_iter().zip([least, 2 * least, 3 * least, least]) {
            let mut source = open_one(&AfXdpConfig { memory_bytes, waiting, ..config() });
            let frames: Vec<Vec<u8>> = (0..2000).map(|i| udp(i, i as u16 % 100, 1514)).collect();
            let mut lent = 0;
            for round in 1..=2u64 {
                send(TX, &frames);
                lent += take_waiting(&mut source);
                let dropped = source.counters().dropped;
                assert!(lent >= 64 * round, "what there was room for: {lent}");
                assert_eq!(dropped[&Cause::FillRingEmpty], 2000 * round - lent, "{dropped:?}");
                assert_eq!(dropped.len(), 1, "{dropped:?}");
            }
            // It has all its memory again.
            let few = &frames[..64];
            assert_same_bytes(&send_and_take(&mut source, few), few);
            source.detach().unwrap();
            assert_eq!(drain(&mut source), 0);
            assert_accounted(&mut source, lent + 64);
            assert!(source.profile().unwrap().fill_starved > 0);
        }
    });
}

/// Takes what waits now.
fn take_waiting(source: &mut AfXdpSource) -> u64 {
    let mut count = 0;
    while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
        count += batch.frame_count() as u64;
    }
    count
}

/// Frames of many parts share little memory with short ones: each is there whole, or dropped.
#[test]
fn long_frames_are_whole_or_dropped() {
    on_a_wire("af_xdp_long_frames_are_whole_or_dropped", |_| {
        let sizes = [60, 9_014, 65_549, 3_840, 3_841, 1_514, 30_000];
        let frames: Vec<Vec<u8>> =
            (0..700).map(|number| numbered(number, sizes[number as usize % sizes.len()])).collect();
        for chunks in [64, 128, 256, 1024] {
            let mut source = open_one(&AfXdpConfig { memory_bytes: chunks * 4096, ..config() });
            let mut got = Vec::new();
            for piece in frames.chunks(100) {
                send(TX, piece);
                while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
                    got.extend(batch.iter().map(|frame| frame.to_owned_frame()));
                }
            }
            source.detach().unwrap();
            assert_eq!(drain(&mut source), 0);
            assert_accounted(&mut source, got.len() as u64);
            assert_eq!(source.counters().received, Some(700));
            let mut last = None;
            for frame in &got {
                let number = u32::from_be_bytes(frame.bytes[14..18].try_into().unwrap());
                assert!(last < Some(number), "in order");
                last = Some(number);
                assert!(frame.bytes == frames[number as usize], "frame {number}");
            }
            let is_enough = chunks == 1024;
            assert_eq!(got.len() == 700, is_enough, "{} in {chunks} chunks", got.len());
            assert!(got.len() >= 100, "{} in {chunks} chunks", got.len());
        }
    });
}

#[test]
fn a_batch_that_is_leaked_gives_its_memory_back_with_the_next_one() {
    on_a_wire("af_xdp_a_batch_that_is_leaked", |_| {
        let mut source = open_one(&AfXdpConfig { memory_bytes: 64 * 4096, ..config() });
        let frames: Vec<Vec<u8>> = (0..60).map(|number| numbered(number, 100)).collect();
        let mut lent = 0;
        for _ in 0..50 {
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
            send(TX, &frames);
            let start = Instant::now();
            let until = lent + frames.len();
            while lent < until {
                if let Some(batch) = source.next_batch(Duration::from_millis(20)).unwrap() {
                    lent += batch.frame_count();
                    std::mem::forget(batch);
                }
                assert!(start.elapsed() < PATIENCE, "{lent} of {until}");
            }
        }
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_accounted(&mut source, lent as u64);
        assert_eq!(source.counters().dropped.values().sum::<u64>(), 0);
    });
}

#[test]
fn the_profile_tells_of_the_work() {
    on_a_wire("af_xdp_the_profile_tells_of_the_work", |_| {
        let mut source = open_one(&config());
        let frames: Vec<Vec<u8>> = (0..1000).map(|number| numbered(number, 100)).collect();
        send(TX, &frames);
        let got = take(&mut source, frames.len());
        assert_same_bytes(&got, &frames);
        let profile = source.profile().unwrap();
        let batches: u64 = profile.batches.iter().sum();
        assert!((4..=1000).contains(&batches), "{profile:?}");
        assert!(profile.ring_high_water >= 256 && profile.ring_high_water <= 1000, "{profile:?}");
        assert_eq!(profile.fill_level, 8192, "all of the memory at first: {profile:?}");
        assert_eq!(profile.fill_starved, 0, "{profile:?}");
        assert!(profile.returns <= batches && profile.returned == 1000, "{profile:?}");
        for _ in 0..3 {
            source.next_batch(Duration::from_millis(1)).unwrap();
        }
        assert!(source.profile().unwrap().empty_polls >= 1);
    });
}
