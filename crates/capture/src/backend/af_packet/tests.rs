use super::open::open_lanes;
use super::*;
use crate::backend::tests::*;
use crate::backend::{BackendError, OpenWarning, find_device};
use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_core::{Direction, LinkType, OwnedFrame, TimestampKind, VlanTag};
use ringside_sys::packet::CaptureDirection;

mod faults;

/// A ring that lasts 1.6 s at any low rate: tests send a little, and read then.
fn config() -> AfPacketConfig {
    AfPacketConfig { block_timeout_ms: 200, ring_bytes: 8 << 20, ..AfPacketConfig::new(RX) }
}

fn open_one(config: &AfPacketConfig) -> AfPacketSource {
    let opened = open(config).unwrap();
    // Some tests want a ring that overflows.
    let is_small = |warning: &OpenWarning| matches!(warning, OpenWarning::ShortBlocks { .. });
    assert!(opened.warnings.iter().all(is_small));
    opened.sources.into_iter().next().unwrap()
}

/// Accepts frames whose ethertype, in the bytes as on the wire, is `kind`.
fn ethertype_filter(kind: u16) -> ClassicProgram {
    let instruction =
        |code, jump_true, jump_false, k| Instruction { code, jump_true, jump_false, k };
    ClassicProgram {
        instructions: vec![
            instruction(0x28, 0, 0, 12),
            instruction(0x15, 0, 1, u32::from(kind)),
            instruction(0x06, 0, 0, 262_144),
            instruction(0x06, 0, 0, 0),
        ],
    }
}

#[test]
fn every_frame_comes_once_in_order_with_its_bytes() {
    on_a_wire("every_frame_comes_once_in_order_with_its_bytes", |_| {
        let mut source = open_one(&config());
        let before = device(RX).statistics.rx_packets;
        let frames: Vec<Vec<u8>> = std::iter::repeat_n(zoo(), 20).flatten().collect();
        let got = send_and_take(&mut source, &frames);
        assert_same_bytes(&got, &frames);
        assert!(got.iter().all(|frame| frame.meta.direction == Direction::Inbound));
        assert!(got.iter().all(|frame| frame.meta.timestamp_kind == TimestampKind::Kernel));
        let tag = got[zoo().len() - 10].meta.vlan;
        assert_eq!(tag, Some(VlanTag { tpid: 0x88a8, tci: 0x2064 }));

        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        let counters = source.counters();
        assert_balanced(&counters, frames.len() as u64);
        assert_eq!(counters.received, Some(frames.len() as u64));
        assert_eq!(counters.received, Some(device(RX).statistics.rx_packets - before));
        assert_eq!(source.low_water(), Timestamp::MAX);
        assert!(source.next_batch(Duration::ZERO).unwrap().is_none(), "finished for good");
    });
}

#[test]
fn flows_are_spread_over_the_lanes_and_every_frame_is_in_one() {
    on_a_wire("flows_are_spread_over_the_lanes_and_every_frame_is_in_one", |_| {
        let frames: Vec<Vec<u8>> =
            (0..20_000).map(|number| udp(number, (number % 1000) as u16, 128)).collect();
        for lanes in [1, 2, 4] {
            let mut sources = open(&AfPacketConfig { lanes, ..config() }).unwrap().sources;
            // Another group on the same interface takes no frames away from this one.
            let mut others = open(&AfPacketConfig { lanes: 2, ..config() }).unwrap().sources;
            let mut got: Vec<Vec<OwnedFrame>> = sources.iter().map(|_| Vec::new()).collect();
            let mut other = 0;
            for piece in frames.chunks(2000) {
                send(TX, piece);
                for (source, got) in sources.iter_mut().zip(&mut got) {
                    read_available(source, got);
                }
                for source in &mut others {
                    let mut frames = Vec::new();
                    read_available(source, &mut frames);
                    other += frames.len();
                }
            }
            for source in sources.iter_mut().chain(&mut others) {
                source.detach().unwrap();
            }
            for (source, got) in sources.iter_mut().zip(&mut got) {
                got.extend(read_all(source));
                assert_balanced(&source.counters(), got.len() as u64);
            }
            assert_lanes(&got, &frames);
            other += others.iter_mut().map(|source| read_all(source).len()).sum::<usize>();
            assert_eq!(other, frames.len(), "the other group, beside {lanes} lanes");
        }
    });
}

/// Every frame is in one lane, in the order of sending, and each lane has a fair part.
fn assert_lanes(got: &[Vec<OwnedFrame>], sent: &[Vec<u8>]) {
    let mut seen = vec![false; sent.len()];
    for lane in got {
        assert!(lane.len() * got.len() * 10 >= sent.len() * 5, "{} in a lane", lane.len());
        assert!(lane.is_sorted_by_key(udp_number), "order within the lane");
        for frame in lane {
            let number = udp_number(frame) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            assert_eq!(frame.bytes, sent[number]);
        }
    }
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "{} lanes", got.len());
}

/// Number behind Ethernet, IPv4 and UDP headers.
fn udp_number(frame: &OwnedFrame) -> u32 {
    u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap())
}

fn read_available(source: &mut AfPacketSource, into: &mut Vec<OwnedFrame>) {
    while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
        into.extend(batch.iter().map(|frame| frame.to_owned_frame()));
    }
}

fn read_all(source: &mut AfPacketSource) -> Vec<OwnedFrame> {
    let mut got = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(PATIENCE).unwrap() {
            got.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
    }
    got
}

#[test]
fn filtered_frames_are_counted_in_the_kernel_and_in_the_worker_alike() {
    on_a_wire("filtered_frames_are_counted_in_the_kernel_and_in_the_worker_alike", |_| {
        let plain = (0..700).map(|number| numbered(number, 100));
        let with_tag = (0..300).map(|number| tagged(number, 100, &[(0x8100, 9)]));
        let frames: Vec<Vec<u8>> = plain.chain(with_tag).collect();
        for (kind, accepted) in [(0x88b5, 700), (0x8100, 300), (0x86dd, 0)] {
            let program = ethertype_filter(kind);
            let text = format!("ether proto {kind:#x}");
            let config = AfPacketConfig {
                filter: Some((program.clone(), text.clone())),
                snaplen_bytes: 60,
                ..config()
            };
            for in_kernel in [true, false] {
                let mut source =
                    if in_kernel { open_one(&config) } else { open_in_worker(&config, &program) };
                assert_eq!(matches!(source.filter, LaneFilter::Kernel { .. }), in_kernel);
                deliver(TX, &frames);
                source.detach().unwrap();
                let got = read_all(&mut source);
                assert_eq!(got.len(), accepted, "{text}");
                assert!(got.iter().all(|frame| frame.bytes.len() == 60));
                assert_eq!(source.interfaces()[0].filter, text);
                let counters = source.counters();
                assert_eq!(counters.received, Some(frames.len() as u64));
                assert_eq!(counters.filtered, Some((frames.len() - accepted) as u64));
                assert_balanced(&counters, accepted as u64);
            }
        }
    });
}

/// Opens the lanes and starts them.
fn open(config: &AfPacketConfig) -> Result<Opened, BackendError> {
    let mut opened = super::open(config)?;
    opened.sources.iter_mut().for_each(|source| source.start().unwrap());
    Ok(opened)
}

/// As where the kernel takes no eBPF program.
fn open_in_worker(config: &AfPacketConfig, program: &ClassicProgram) -> AfPacketSource {
    let filters = vec![LaneFilter::User(Prepared::new(program).unwrap())];
    let device = find_device(RX).unwrap();
    let opened = open_lanes(config, &device, LinkType::ETHERNET, filters).unwrap();
    let mut source = opened.sources.into_iter().next().unwrap();
    source.start().unwrap();
    source
}

#[test]
fn a_snapshot_length_cuts_and_keeps_the_length_on_the_wire() {
    on_a_wire("a_snapshot_length_cuts_and_keeps_the_length_on_the_wire", |_| {
        let frames = zoo();
        for snaplen in [1, 11, 12, 15, 16, 17, 60, 96] {
            let mut source = open_one(&AfPacketConfig { snaplen_bytes: snaplen, ..config() });
            send(TX, &frames);
            for (got, sent) in take(&mut source, frames.len()).iter().zip(&frames) {
                assert_eq!(got.meta.wire_bytes as usize, sent.len());
                let captured = sent.len().min(snaplen as usize);
                assert_eq!(got.bytes, sent[..captured], "snaplen {snaplen}");
            }
        }
    });
}

#[test]
fn a_full_ring_drops_and_the_source_balances() {
    on_a_wire("a_full_ring_drops_and_the_source_balances", |_| {
        for lanes in [1, 2] {
            let config = AfPacketConfig { lanes, ring_bytes: 128 << 10, ..config() };
            let mut sources = open(&config).unwrap().sources;
            let frames: Vec<Vec<u8>> = (0..2000).map(|i| udp(i, i as u16 % 100, 1514)).collect();
            deliver(TX, &frames);
            let (mut received, mut dropped) = (0, 0);
            for source in &mut sources {
                source.detach().unwrap();
                let lent = drain(source);
                let counters = source.counters();
                assert_balanced(&counters, lent);
                received += counters.received.unwrap();
                dropped += counters.dropped[&Cause::KernelRingFull];
                assert!(lent > 0);
            }
            assert_eq!(received, 2000);
            assert!(dropped > 1000, "{dropped}");
        }
    });
}

#[test]
fn sent_frames_are_captured_only_when_asked_for() {
    on_a_wire("sent_frames_are_captured_only_when_asked_for", |_| {
        let frames: Vec<Vec<u8>> = (0..100).map(|i| udp(i, i as u16, 100)).collect();
        for lanes in [1, 2] {
            for (direction, expected) in
                [(CaptureDirection::Inbound, 100), (CaptureDirection::Both, 200)]
            {
                let mut sources =
                    open(&AfPacketConfig { lanes, direction, ..config() }).unwrap().sources;
                deliver(RX, &frames);
                deliver(TX, &frames);
                let (mut inbound, mut all) = (0, 0);
                for source in &mut sources {
                    source.detach().unwrap();
                    let got = read_all(source);
                    all += got.len();
                    let is_inbound = |f: &&OwnedFrame| f.meta.direction == Direction::Inbound;
                    inbound += got.iter().filter(is_inbound).count();
                    assert_balanced(&source.counters(), got.len() as u64);
                }
                assert_eq!((inbound, all), (100, expected), "{lanes} lanes");
            }
        }
    });
}

#[test]
fn one_frame_on_a_quiet_link_is_not_held_back_and_time_goes_on() {
    on_a_wire("one_frame_on_a_quiet_link_is_not_held_back_and_time_goes_on", |_| {
        let mut source = open_one(&AfPacketConfig { block_timeout_ms: 20, ..config() });
        for number in 0..5 {
            send(TX, &[numbered(number, 60)]);
            let batch = source.next_batch(PATIENCE).unwrap().expect("a frame, not the time-out");
            assert_eq!(batch.frame_count(), 1);
            let stamp = batch.get(0).unwrap().meta.timestamp;
            drop(batch);
            assert!(source.low_water() >= stamp);
            // Idle: the mark follows the clock at the distance of time-out and margin.
            let hold_ns = source.block_timeout_ns + MERGE_HOLD_NS;
            std::thread::sleep(Duration::from_nanos(hold_ns + 1_000_000));
            let before = clock::realtime_now();
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
            assert!(source.low_water().0 >= before.0 - hold_ns);
            assert!(source.low_water() > stamp);
        }
    });
}

#[test]
fn promiscuous_mode_ends_with_the_source() {
    on_a_wire("promiscuous_mode_ends_with_the_source", |_| {
        assert_eq!(device(RX).promiscuity, 0);
        let sources = open(&AfPacketConfig { lanes: 2, ..config() }).unwrap().sources;
        assert!(device(RX).promiscuity > 0);
        drop(sources);
        // A child that another test starts holds the sockets too, from its fork to its exec.
        let start = Instant::now();
        while device(RX).promiscuity > 0 {
            assert!(start.elapsed() < PATIENCE, "still promiscuous");
        }
        let _source = open_one(&AfPacketConfig { promiscuous: false, ..config() });
        assert_eq!(device(RX).promiscuity, 0);
    });
}
