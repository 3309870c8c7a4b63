use super::*;
use crate::backend::BackendError;
use crate::backend::tests::{
    Load, PATIENCE, RX, TX, Wire, assert_balanced, assert_same_bytes, device, drain, drain_counted,
    numbered, send, send_and_take, take, udp, zoo,
};
use crate::backend::wait::Waiting;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{Cause, InterfaceId, OwnedFrame, QueueId, Source, Timestamp};
use ringside_filter::Compiler;
use ringside_sys::clock;
use ringside_testkit::driver_ring::Program;
use ringside_testkit::{Random, wait_until};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// In front of each frame.
const RECORD_BYTES: u64 = 16;

fn config() -> XdpRingConfig {
    XdpRingConfig {
        interface: RX.into(),
        interface_id: InterfaceId(0),
        lanes: None,
        ring_bytes: 32 << 20,
        snaplen_bytes: FRAME_BYTES_MAX,
        promiscuous: true,
        filter: None,
        has_stamps: true,
        waiting: Waiting::Sleep,
    }
}

fn open_one(config: &XdpRingConfig) -> XdpRingSource {
    let mut sources = open(config).unwrap().sources;
    assert_eq!(sources.len(), 1);
    let mut source = sources.remove(0);
    source.start().unwrap();
    source
}

/// received = lent + passed + dropped, and nothing is filtered.
fn assert_accounted(source: &mut XdpRingSource, lent: u64) {
    let counters = source.counters();
    assert_eq!(counters.filtered, Some(0));
    assert_balanced(&counters, lent + counters.passed);
}

/// On a pair whose ends leave tags in frames.
fn on_a_wire(name: &str, test: impl FnOnce(&Wire) + Send + 'static) {
    crate::backend::tests::on_a_wire(name, |wire| {
        wire.inside("ethtool", &["-K", RX, "rxvlan", "off", "rx-vlan-stag-hw-parse", "off"]);
        test(wire);
    });
}

#[test]
fn every_frame_comes_once_in_order_with_its_bytes_and_its_time() {
    on_a_wire("xdp_ring_every_frame_comes_once", |_| {
        for (waiting, has_stamps) in
            [(Waiting::Spin, true), (Waiting::Sleep, true), (Waiting::Sleep, false)]
        {
            let mut source = open_one(&XdpRingConfig { waiting, has_stamps, ..config() });
            let counted = device(RX).statistics.rx_packets;
            let frames: Vec<Vec<u8>> = std::iter::repeat_n(zoo(), 20).flatten().collect();
            let before = clock::realtime_now();
            let got = send_and_take(&mut source, &frames);
            let after = clock::realtime_now();
            assert_same_bytes(&got, &frames);
            for frame in &got {
                let time = frame.meta.timestamp;
                let is_right = match has_stamps {
                    true => (before..=after).contains(&time),
                    false => time == Timestamp(0),
                };
                assert!(is_right, "{before:?} {time:?} {after:?}");
                assert_eq!((frame.meta.queue, frame.meta.vlan), (QueueId(0), None));
            }
            source.detach().unwrap();
            assert_eq!(drain(&mut source), 0);
            assert_accounted(&mut source, frames.len() as u64);
            let counters = source.counters();
            assert_eq!(counters.received, Some(device(RX).statistics.rx_packets - counted));
            assert_eq!((counters.passed, counters.inversions), (0, 0), "{waiting:?}");
            assert_eq!(source.low_water(), Timestamp::MAX);
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none(), "finished for good");
        }
    });
}

/// Frames up to the largest MTU, in a ring that few of them fill.
#[test]
fn long_frames_are_whole_or_dropped() {
    on_a_wire("xdp_ring_long_frames", |_| {
        let sizes = [60, 9_014, 65_549, 3_840, 32_768, 32_769, 1_514, 30_000];
        let frames: Vec<Vec<u8>> =
            (0..800).map(|number| numbered(number, sizes[number as usize % sizes.len()])).collect();
        for ring_bytes in [256 << 10, 16 << 20] {
            let mut source = open_one(&XdpRingConfig { ring_bytes, ..config() });
            let mut got: Vec<OwnedFrame> = Vec::new();
            for piece in frames.chunks(100) {
                send(TX, piece);
                while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
                    got.extend(batch.iter().map(|frame| frame.to_owned_frame()));
                }
            }
            source.detach().unwrap();
            assert_eq!(drain(&mut source), 0);
            assert_accounted(&mut source, got.len() as u64);
            assert_eq!(source.counters().received, Some(800));
            let number_of =
                |frame: &OwnedFrame| u32::from_be_bytes(frame.bytes[14..18].try_into().unwrap());
            assert!(got.is_sorted_by_key(number_of), "in order");
            for frame in &got {
                assert!(frame.bytes == frames[number_of(frame) as usize], "{}", number_of(frame));
            }
            assert_eq!(got.len() == 800, ring_bytes > 1 << 20, "{} of 800", got.len());
            assert!(got.len() >= 50, "{} of 800", got.len());
        }
    });
}

/// Where the records of the next batch lie; none if nothing waits.
fn positions_of_a_batch(source: &mut XdpRingSource) -> Vec<u64> {
    let Some(batch) = source.next_batch(Duration::ZERO).unwrap() else { return Vec::new() };
    let offsets: Vec<u64> = batch.slots().iter().map(|slot| slot.offset() as u64).collect();
    drop(batch);
    offsets.iter().map(|offset| source.position() + offset - RECORD_BYTES).collect()
}

/// Each record lies where the model puts it by which the protocol is checked: the reader keeps up,
/// lags and stops.
#[test]
fn the_program_finds_room_as_its_model_does() {
    on_a_wire("xdp_ring_the_program_finds_room", |_| {
        let ring_bytes = 8 << 20;
        let mut model = Program::new(ring_bytes / 4, ring_bytes, RECORD_BYTES, 64 << 10);
        let mut source = open_one(&XdpRingConfig { ring_bytes, ..config() });
        let mut random = Random::new(1);
        let length = |number: u32| match number % 50 {
            0 => 65_000,
            _ => 60 + number as usize * 7919 % 1_455,
        };
        let pool: Vec<Vec<u8>> =
            (0..6_000).map(|number| numbered(number, length(number))).collect();
        let (mut sent, mut refused, mut lent, mut expected) = (0, 0, 0, VecDeque::new());
        for round in 0..200 {
            let burst = &pool[..[20, 100, 600, pool.len()][random.below(4)]];
            send(TX, burst);
            sent += burst.len() as u64;
            wait_until("all are received", || source.counters().received == Some(sent));
            let tail = source.position();
            for frame in burst {
                let bytes = (RECORD_BYTES + frame.len() as u64).next_multiple_of(8);
                match model.find_room(bytes, || tail, |_| ()) {
                    Some(position) => {
                        expected.push_back(position);
                        model.head = position + bytes;
                    }
                    None => refused += 1,
                }
            }
            let batches = random.below(if round % 3 == 0 { 4 } else { 200 });
            for _ in 0..batches {
                let found = positions_of_a_batch(&mut source);
                lent += found.len() as u64;
                assert!(found.iter().copied().eq(expected.drain(..found.len())), "{round}");
            }
        }
        while !expected.is_empty() {
            let found = positions_of_a_batch(&mut source);
            assert!(!found.is_empty(), "what waits is found");
            lent += found.len() as u64;
            assert!(found.iter().copied().eq(expected.drain(..found.len())));
        }
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_accounted(&mut source, lent);
        assert_eq!(source.counters().dropped[&Cause::KernelRingFull], refused);
        let profile = source.profile().unwrap();
        let [back, ahead, ahead_at_start, round] = model.begun;
        let laps = [profile.laps_back, profile.laps_ahead, profile.laps_round];
        assert_eq!(laps, [back, ahead, ahead_at_start + round]);
        assert!(back.min(ahead).min(ahead_at_start).min(round) > 0, "{:?}", model.begun);
    });
}

/// The reader keeps up, lags and stops: laps go back, ahead and round.
#[test]
fn bursts_of_most_of_the_ring_come_in_order() {
    on_a_wire("xdp_ring_bursts", |_| {
        let mut source = open_one(&config());
        let frames: Vec<Vec<u8>> = (0..12_000).map(|number| numbered(number, 1_500)).collect();
        let (mut random, mut sent, mut waiting) = (Random::new(1), 0, VecDeque::new());
        for round in 0..60 {
            // The largest are 18 MB of the 32.
            let burst = [200, 1_000, 4_000, frames.len()][random.below(4)];
            send(TX, &frames[..burst]);
            sent += burst as u64;
            waiting.extend(&frames[..burst]);
            let some = random.below(if round % 4 == 3 { 100 } else { 20 });
            let batches = if burst > 1_000 { usize::MAX } else { some };
            for _ in 0..batches {
                let Some(batch) = source.next_batch(Duration::ZERO).unwrap() else { break };
                for frame in batch.iter() {
                    assert!(Some(frame.bytes) == waiting.pop_front().map(Vec::as_slice));
                }
            }
        }
        source.detach().unwrap();
        assert_eq!(drain(&mut source), waiting.len() as u64);
        assert_accounted(&mut source, sent);
        assert!(source.counters().dropped.is_empty());
    });
}

#[test]
fn a_full_ring_costs_counted_frames_and_a_dead_reader_the_host_none() {
    on_a_wire("xdp_ring_a_full_ring", |_| {
        let mut source = open_one(&XdpRingConfig { ring_bytes: 256 << 10, ..config() });
        let frames: Vec<Vec<u8>> = (0..4_000).map(|number| numbered(number, 200)).collect();
        let witness = crate::backend::af_packet::AfPacketConfig::new(RX);
        let mut witness = crate::backend::af_packet::open(&witness).unwrap().sources.remove(0);
        witness.start().unwrap();
        send(TX, &frames);
        let fits = (256 << 10) / (16 + 200);
        let counters = source.counters();
        let full = counters.dropped[&Cause::KernelRingFull];
        assert_eq!((counters.received, full), (Some(4_000), 4_000 - fits));
        // No frame was taken for longer than the program waits.
        std::thread::sleep(Duration::from_millis(1_100));
        send(TX, &frames[..100]);
        assert_eq!(source.counters().dropped[&Cause::KernelRingFull], full + 100);
        witness.detach().unwrap();
        assert_eq!(drain(&mut witness), 100, "the host has them");
        assert_eq!(drain_waiting(&mut source), fits);
        send(TX, &frames[..50]);
        assert_eq!(take(&mut source, 50).len(), 50, "and the reader those that come then");
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_accounted(&mut source, fits + 50);
    });
}

/// What is in the ring now.
fn drain_waiting(source: &mut XdpRingSource) -> u64 {
    let mut count = 0;
    while let Some(batch) = source.next_batch(Duration::from_millis(20)).unwrap() {
        count += batch.frame_count() as u64;
    }
    count
}

#[test]
fn detaching_in_full_traffic_is_exact() {
    on_a_wire("xdp_ring_detaching_in_full_traffic", |_| {
        let load = Load::start((0..64).map(|number| numbered(number, 100)).collect());
        for round in 0..10 {
            let ring_bytes = (256 << 10) << (round % 3);
            let mut source = open_one(&XdpRingConfig { ring_bytes, ..config() });
            let (mut lent, start) = (0, Instant::now());
            while lent < 20_000 {
                assert!(start.elapsed() < PATIENCE);
                if let Some(batch) = source.next_batch(Duration::from_millis(100)).unwrap() {
                    lent += batch.frame_count() as u64;
                }
            }
            source.detach().unwrap();
            let counters = source.counters();
            load.run_for(500);
            lent += drain_counted(&mut source, &counters);
            assert_accounted(&mut source, lent);
        }
    });
}

#[test]
fn a_filter_decides_in_the_driver_and_two_captures_share_it() {
    on_a_wire("xdp_ring_a_filter", |_| {
        let link_type = ringside_core::LinkType::ETHERNET;
        let program =
            ringside_filter::compile("udp", link_type, 0, &Compiler::InProcess { optimise: true })
                .unwrap();
        let filter = Some((program.program, "udp".to_owned()));
        let mut of_udp = open_one(&XdpRingConfig { filter, ..config() });
        let mut of_rest = open_one(&config());
        let frames: Vec<Vec<u8>> = (0..100).map(|number| udp(number, 1, 100)).collect();
        let others: Vec<Vec<u8>> = (0..50).map(|number| numbered(number, 100)).collect();
        send(TX, &[&frames[..], &others].concat());
        assert_same_bytes(&take(&mut of_udp, 100), &frames);
        assert_same_bytes(&take(&mut of_rest, 50), &others);
        for (source, taken, passed) in [(&mut of_udp, 100, 50), (&mut of_rest, 50, 0)] {
            source.detach().unwrap();
            assert_eq!(drain(source), 0);
            assert_eq!(source.counters().passed, passed);
            assert_accounted(source, taken);
        }
    });
}

#[test]
fn what_cannot_be_is_refused_with_the_fix() {
    on_a_wire("xdp_ring_what_cannot_be", |wire| {
        wire.ip("tuntap add dev rstap mode tap");
        wire.ip("link set rstap up");
        for (config, text) in [
            (XdpRingConfig { ring_bytes: 255 << 10, ..config() }, "memory of a lane"),
            (XdpRingConfig { ring_bytes: 512 << 20, ..config() }, "memory of a lane"),
            (XdpRingConfig { snaplen_bytes: 0, ..config() }, "snapshot length"),
            (XdpRingConfig { lanes: Some(2), ..config() }, "receive queues"),
            (XdpRingConfig { interface: "rstap".into(), ..config() }, "a tun or tap device"),
            (XdpRingConfig { interface: "rsnone".into(), ..config() }, "there is no interface"),
        ] {
            let error = open(&config).err().unwrap();
            assert!(error.to_string().contains(text), "{error}");
        }
        wire.inside("ethtool", &["-K", RX, "rxvlan", "on"]);
        let error = open(&config()).err().unwrap().to_string();
        assert!(error.contains(&format!("ethtool -K {RX} rxvlan off")), "{error}");
        wire.ip(&format!("link set {RX} down"));
        assert!(matches!(open(&config()).err().unwrap(), BackendError::InterfaceDown { .. }));
    });
}
