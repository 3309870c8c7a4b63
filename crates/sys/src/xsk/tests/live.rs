//! The sockets on a veth pair of their own: what the mock plays, the kernel does.

use super::wire::{METADATA, QUEUES, Wire, on_a_wire};
use super::*;
use ringside_testkit::{Random, WAIT_MAX};
use rustix::time::{DynamicClockId, clock_gettime_dynamic};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Only a broken kernel or pair makes a test wait so long.
const PATIENCE: Duration = WAIT_MAX;

/// A lane on a queue of the pair.
struct Lane {
    socket: XskSocket,
    ends: XskEnds,
    claim: Claim,
}

impl Lane {
    fn open(wire: &Wire, umem: &Arc<Umem>, queue: u32, rx_entries: u32) -> Lane {
        Lane::share(wire, umem, queue, rx_entries, None)
    }

    fn share(
        wire: &Wire,
        umem: &Arc<Umem>,
        queue: u32,
        rx_entries: u32,
        first: Option<&Lane>,
    ) -> Lane {
        let config = XskConfig { ifindex: wire.ifindex, queue, rx_entries };
        let first = first.map(|lane| &lane.socket);
        let (socket, mut ends) = XskSocket::open(umem, queue as usize, first, config).unwrap();
        ends.rx.expect_parts();
        Lane { socket, ends, claim: Claim::new(umem.clone()) }
    }

    fn begin(&mut self, wire: &Wire, queue: u32) {
        self.ends.fill.refill();
        wire.sockets.set(queue, self.socket.as_fd()).unwrap();
    }

    /// Waits until `count` frames came and gives them back; every one has its metadata.
    fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (start, mut seen) = (Instant::now(), Vec::new());
        while seen.len() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count} frames came", seen.len());
            if self.ends.rx.claim(&mut self.claim) == 0 {
                self.socket.wait(Duration::from_millis(100)).unwrap();
                continue;
            }
            seen.append(&mut self.taken());
        }
        seen
    }

    /// The frames in the claim, which is given back.
    fn taken(&mut self) -> Vec<Vec<u8>> {
        let mut begins = true;
        for part in self.claim.parts() {
            if begins {
                let before = &self.claim.memory()[part.offset - 8..part.offset];
                assert_eq!(before, METADATA.to_ne_bytes());
            }
            begins = !part.continues;
        }
        let frames = frames(&self.claim);
        self.ends.fill.give_back(&mut self.claim);
        frames
    }

    /// Waits until the kernel has counted what is said to happen.
    fn wait_for(&self, what: impl Fn(&XskStatistics) -> bool) -> XskStatistics {
        let start = Instant::now();
        loop {
            let statistics = self.socket.statistics().unwrap();
            if what(&statistics) {
                return statistics;
            }
            assert!(start.elapsed() < PATIENCE, "{statistics:?}");
            std::thread::yield_now();
        }
    }
}

/// A UDP frame of flow `flow` with random bytes, `length` bytes long.
fn frame(flow: u16, length: usize, random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let total = (length - 14).min(65_535) as u16;
    frame.extend_from_slice(&[0x45, 0]);
    frame.extend_from_slice(&total.to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&(1000 + flow).to_be_bytes());
    frame.extend_from_slice(&2000u16.to_be_bytes());
    frame.append(&mut random.bytes(length - frame.len()));
    frame
}

fn errno(result: Result<(), std::io::Error>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn two_queues_that_share_memory_receive_frames_of_all_lengths() {
    on_a_wire("sys::xsk two queues", both_queues);
}

fn both_queues(wire: &Wire) {
    let cut = UmemLayout { lanes: 2, chunks_per_lane: 4096, ..LAYOUT };
    let umem = umem(cut);
    let first = Lane::open(wire, &umem, 0, 4096);
    // The driver of a veth pair has no zero-copy; a refusal leaves the socket as it was.
    let [zero_copy_parts, zero_copy, copy_parts, _] = BindStep::LADDER;
    for step in [zero_copy_parts, zero_copy] {
        assert_eq!(errno(first.socket.bind(step, None)), Some(libc::EOPNOTSUPP), "{step}");
    }
    first.socket.bind(copy_parts, None).unwrap();
    assert!(!first.socket.is_zero_copy().unwrap());
    let second = Lane::share(wire, &umem, 1, 4096, Some(&first));
    second.socket.bind(copy_parts, Some(&first.socket)).unwrap();
    let mut lanes = [first, second];
    for (lane, queue) in lanes.iter_mut().zip(0..QUEUES) {
        lane.begin(wire, queue);
        assert!(!lane.ends.fill.needs_wakeup() && !lane.ends.rx.needs_wakeup());
    }
    let mut random = Random::new(1);
    let (mut sent, mut seen) = (Vec::new(), Vec::new());
    for round in 0..200 {
        let length = |random: &mut Random| match round % 4 {
            0 => 60 + random.below(100),
            1 => ROOM - 2 + random.below(5),
            2 => 60 + random.below(9000),
            _ => 60 + random.below(65_549 - 59),
        };
        let batch: Vec<Vec<u8>> = (0..16)
            .map(|flow| {
                let length = length(&mut random);
                frame(flow, length, &mut random)
            })
            .collect();
        wire.send(&batch.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let start = Instant::now();
        let mut count = 0;
        while count < batch.len() {
            assert!(start.elapsed() < PATIENCE, "{count} of a batch came");
            for (queue, lane) in lanes.iter_mut().enumerate() {
                if lane.ends.rx.claim(&mut lane.claim) > 0 {
                    let frames = lane.taken();
                    count += frames.len();
                    seen.extend(frames.into_iter().map(|frame| (queue, frame)));
                }
            }
        }
        sent.extend(batch);
    }
    check_flows(&sent, &seen);
    for lane in &mut lanes {
        assert_eq!(lane.socket.statistics().unwrap(), XskStatistics::default());
        assert_eq!((lane.claim.take_damaged(), lane.ends.fill.in_reserve()), (0, 0));
    }
}

/// Each flow came by one queue, in order, byte for byte; both queues were used.
fn check_flows(sent: &[Vec<u8>], seen: &[(usize, Vec<u8>)]) {
    assert_eq!(seen.len(), sent.len());
    let port = |frame: &[u8]| u16::from_be_bytes([frame[34], frame[35]]);
    let mut used = [false; 2];
    for flow in 1000..1016 {
        let of_flow: Vec<_> = seen.iter().filter(|(_, frame)| port(frame) == flow).collect();
        let queue = of_flow[0].0;
        used[queue] = true;
        assert!(of_flow.iter().all(|(other, _)| *other == queue), "flow {flow}");
        let expected = sent.iter().filter(|frame| port(frame) == flow);
        assert!(of_flow.iter().map(|(_, frame)| frame).eq(expected), "flow {flow}");
    }
    assert_eq!(used, [true, true]);
}

#[test]
fn a_queue_has_one_socket_and_a_socket_one_queue() {
    on_a_wire("sys::xsk binding", |wire| {
        let memories = [(); 2].map(|()| umem(LAYOUT));
        let lane = Lane::open(wire, &memories[0], 0, 64);
        let nowhere = Lane::open(wire, &umem(LAYOUT), 0, 64);
        lane.socket.bind(BindStep::CopyParts, None).unwrap();
        assert_eq!(errno(lane.socket.bind(BindStep::Copy, None)), Some(libc::EBUSY));
        let config = XskConfig { ifindex: wire.ifindex, queue: 7, rx_entries: 64 };
        let (socket, _) = XskSocket::open(&memories[1], 0, None, config).unwrap();
        assert_eq!(errno(socket.bind(BindStep::Copy, None)), Some(libc::EINVAL), "no such queue");
        assert_eq!(errno(nowhere.socket.bind(BindStep::Copy, None)), Some(libc::EBUSY));
        let of_other = || _ = nowhere.socket.bind(BindStep::Copy, Some(&lane.socket));
        assert!(panics(of_other), "it shares what it is not of");
        let again = || _ = XskSocket::open(&memories[1], 0, None, config);
        assert!(panics(again), "its chunks have an owner");
        let first = Some(&lane.socket);
        let other = umem(LAYOUT);
        assert!(panics(|| _ = XskSocket::open(&other, 0, first, config)));
        let odd = XskConfig { rx_entries: 100, ..config };
        assert!(XskSocket::open(&other, 0, None, odd).is_err());
    });
}

#[test]
fn the_kernel_counts_what_it_drops_and_why() {
    on_a_wire("sys::xsk statistics", |wire| {
        let mut random = Random::new(2);
        let one = frame(0, 100, &mut random);
        // All frames are of one flow; a flow's queue is the kernel's choice.
        let lanes = (0..QUEUES).map(|queue| {
            let mut lane = Lane::open(wire, &umem_of_lanes(2), queue, 8);
            lane.socket.bind(BindStep::CopyParts, None).unwrap();
            lane.ends.fill.set_level(0);
            lane.begin(wire, queue);
            lane
        });
        let mut lanes: Vec<Lane> = lanes.collect();
        wire.send(&[&one[..]; 5]);
        let total = |lanes: &[Lane]| -> u64 {
            lanes.iter().map(|lane| lane.socket.statistics().unwrap().dropped).sum()
        };
        let start = Instant::now();
        while total(&lanes) < 5 {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let used = lanes.iter().position(|lane| lane.socket.statistics().unwrap().dropped > 0);
        let lane = &mut lanes[used.unwrap()];
        let without = XskStatistics { dropped: 5, fill_empty: 5, ..XskStatistics::default() };
        assert_eq!(lane.socket.statistics().unwrap(), without);
        lane.ends.fill.set_level(64);
        assert_eq!(lane.ends.fill.refill(), 64);
        wire.send(&[&one[..]; 20]);
        let full = lane.wait_for(|statistics| statistics.ring_full >= 12);
        assert_eq!(full, XskStatistics { ring_full: 12, ..without });
        assert_eq!(lane.receive(8), vec![one; 8]);
        let long = frame(0, 9 * ROOM, &mut random);
        wire.send(&[&long]);
        let full = lane.wait_for(|statistics| statistics.ring_full >= 13);
        assert_eq!(full, XskStatistics { ring_full: 13, ..without }, "more parts than entries");
        let fits = frame(0, 8 * ROOM, &mut random);
        wire.send(&[&fits]);
        assert_eq!(lane.receive(1), [fits]);
    });
}

fn umem_of_lanes(lanes: usize) -> Arc<Umem> {
    umem(UmemLayout { lanes, ..LAYOUT })
}

#[test]
fn a_queue_can_be_bound_as_soon_as_its_last_socket_is_closed() {
    on_a_wire("sys::xsk binding again", |wire| {
        for _ in 0..10 {
            let lane = Lane::open(wire, &umem(LAYOUT), 0, 64);
            lane.socket.bind(BindStep::Copy, None).unwrap();
        }
    });
}

#[test]
fn waiting_ends_with_a_frame_or_with_the_time() {
    on_a_wire("sys::xsk waiting", |wire| {
        let umem = umem(UmemLayout { lanes: 2, ..LAYOUT });
        let mut lanes = [0, 1].map(|queue| Lane::open(wire, &umem, queue, 64));
        for (lane, queue) in lanes.iter_mut().zip(0..) {
            lane.socket.bind(BindStep::CopyParts, None).unwrap();
            lane.begin(wire, queue);
            assert!(!lane.socket.wait(Duration::from_millis(1)).unwrap());
        }
        let one = frame(0, 100, &mut Random::new(3));
        wire.send(&[&one]);
        let start = Instant::now();
        let is_there = |lane: &Lane| lane.socket.wait(Duration::from_millis(20)).unwrap();
        let came = loop {
            assert!(start.elapsed() < PATIENCE);
            if let Some(queue) = lanes.iter().position(is_there) {
                break queue;
            }
        };
        let lane = &mut lanes[came];
        assert_eq!(lane.receive(1), [one]);
        lane.socket.set_busy_poll(BusyPoll { time_us: 20, budget: 64 }).unwrap();
        lane.socket.kick();
        assert!(!lane.socket.wait(Duration::from_millis(1)).unwrap());
        wire.delete_pair();
        lane.socket.kick();
        assert!(!lane.socket.wait(Duration::from_millis(1)).unwrap(), "it looks like silence");
    });
}

/// A socket that sends from the other end of the pair, on which no program receives.
fn sending(wire: &Wire, step: BindStep) -> (TxSocket, TxRing) {
    let layout = super::transmit::LAYOUT;
    let config = TxConfig { ifindex: wire.transmitter.ifindex(), queue: 0, layout };
    let (mut socket, mut ring) = TxSocket::open(config).unwrap();
    socket.bind(step).unwrap();
    ring.allow_parts(COPIED_PARTS_MAX);
    assert!(socket.has_metadata() && !socket.is_zero_copy() && ring.needs_wakeup());
    (socket, ring)
}

/// Kicks and reaps until nothing is out; returns how many kicks announced more to come.
fn send_all(socket: &TxSocket, ring: &mut TxRing) -> u64 {
    let (start, mut again) = (Instant::now(), 0);
    ring.publish();
    while ring.out() > 0 {
        assert!(start.elapsed() < PATIENCE, "{:?}", ring.progress());
        match socket.kick().unwrap() {
            Kick::Done => {}
            Kick::Again => again += 1,
            Kick::Refused => panic!("a veth pair has room for 64 frames"),
        }
        ring.reap();
    }
    again
}

#[test]
fn what_is_sent_comes_back_in_each_way_of_binding() {
    on_a_wire("sys::xsk sending", |wire| {
        for step in [BindStep::CopyParts, BindStep::Copy] {
            let (socket, mut ring) = sending(wire, step);
            for round in 1..100 {
                while super::transmit::put(&mut ring, &[3; 60]) {}
                let again = send_all(&socket, &mut ring);
                let calls = 64 / u64::from(socket.call_parts_max());
                assert!(again < calls, "{again} calls, {step}");
                assert_eq!(ring.put_and_completed(), (round * 64, round * 64));
            }
            let damaged = (socket.invalid_descriptors().unwrap(), ring.take_damaged());
            assert_eq!(damaged, (0, 0), "{step}");
        }
    });
}

#[test]
fn stamps_of_sending_are_the_kernels_time() {
    on_a_wire("sys::xsk stamps of sending", |wire| {
        let (socket, mut ring) = sending(wire, BindStep::CopyParts);
        let stamp = TxRequest { checksum: None, stamp: true };
        let tai_ns = || {
            let now = clock_gettime_dynamic(DynamicClockId::Tai).unwrap();
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        let before = tai_ns();
        for number in 0..40 {
            // Every other frame asks.
            let request = if number % 2 == 0 { stamp } else { TxRequest::default() };
            assert!(ring.put(60, request, |slot| slot.fill(1)).unwrap());
        }
        send_all(&socket, &mut ring);
        let after = tai_ns();
        let (stamps, lost) = ring.take_stamps();
        let mut numbers: Vec<u64> = stamps.iter().map(|stamp| stamp.number).collect();
        numbers.sort_unstable();
        assert_eq!((numbers, lost), ((0..40).step_by(2).collect(), 0));
        let inside = stamps.iter().all(|stamp| (before..=after).contains(&stamp.tai_ns));
        assert!(inside, "{before} {after} {stamps:?}");
    });
}

#[test]
fn a_kick_tells_that_the_interface_is_gone() {
    on_a_wire("sys::xsk sending to nowhere", |wire| {
        let (socket, mut ring) = sending(wire, BindStep::CopyParts);
        assert!(super::transmit::put(&mut ring, &[3; 60]));
        send_all(&socket, &mut ring);
        wire.delete_pair();
        assert!(super::transmit::put(&mut ring, &[3; 60]));
        ring.publish();
        assert_eq!(socket.kick().unwrap_err().raw_os_error(), Some(libc::ENXIO));
        let expected = TxProgress { put: 2, completed: 1, taken: 0, waiting: 1 };
        assert_eq!(ring.progress(), expected);
    });
}
