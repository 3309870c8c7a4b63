//! The two layers under the af-xdp backend on a driver that does zero-copy: sockets of all queues
//! are bound so, in one memory, and the programs hand them every frame.

use crate::common::run_clean;
use crate::pair::Card;
use ringside_core::LinkType;
use ringside_ebpf::capture::{CaptureConfig, CaptureProgram, Metadata, Mode, QueueCounters};
use ringside_netdev as netdev;
use ringside_sys::xsk::{
    BindStep, CHUNK_BYTES_MIN, Claim, Umem, UmemLayout, XskConfig, XskEnds, XskSocket,
};
use ringside_transmit::{Shape, Sizes};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Frames of a run; chunks and rings hold all of them, so no thread has to keep up.
const FRAMES: u64 = 2_000;
const CHUNKS: u32 = 8_192;

const QUEUES: u32 = 2;

/// Bytes of a frame: small, and with a number.
const BYTES: u16 = 64;

#[test]
fn igb() {
    bind(Card::Igb, "bind::igb");
}

#[test]
fn virtio() {
    bind(Card::Virtio, "bind::virtio");
}

/// A bound socket with its ends.
struct Lane {
    socket: XskSocket,
    ends: XskEnds,
}

fn bind(card: Card, test: &str) {
    let Some(pair) = card.pair(test) else { return };
    // The numbered frames are to no card's address, and a card takes other frames only in
    // promiscuous mode.
    run_clean("ip", &["link", "set", pair.receiver(), "promisc", "on"]);
    let ifindex = netdev::by_name(pair.receiver()).unwrap().unwrap().ifindex;
    let mut program = CaptureProgram::open(&CaptureConfig {
        interface: pair.receiver(),
        ifindex,
        queues: QUEUES,
        metadata: Metadata::Stamp,
        filter: None,
        link_type: LinkType::ETHERNET,
        generic_allowed: false,
    })
    .unwrap();
    assert_eq!(program.mode(), Mode::Native, "{:?}", program.notes());
    let layout = UmemLayout {
        lanes: QUEUES as usize,
        chunks_per_lane: CHUNKS,
        chunk_bytes: CHUNK_BYTES_MIN,
        arena_bytes: 0,
    };
    let umem = Arc::new(Umem::new(layout).unwrap());
    let mut lanes: Vec<Lane> = Vec::new();
    for queue in 0..QUEUES {
        let lane = lane(&umem, lanes.first(), ifindex, queue);
        lanes.push(lane);
    }
    for (queue, lane) in (0..).zip(&lanes) {
        program.set_socket(queue, lane.socket.as_fd()).unwrap();
    }
    program.start().unwrap();
    pair.wait_for_carrier();
    let shape = Shape::new(Sizes::fixed(BYTES).unwrap(), 63).unwrap();
    pair.send_numbered(&shape, FRAMES);
    program.stop().unwrap();
    check(&umem, &program, &mut lanes);
}

/// Binds a socket to `queue`, as `first` is bound, or by the first step that the driver takes; that
/// must be zero-copy.
fn lane(umem: &Arc<Umem>, first: Option<&Lane>, ifindex: u32, queue: u32) -> Lane {
    let config = XskConfig { ifindex, queue, rx_entries: CHUNKS };
    let first = first.map(|lane| &lane.socket);
    let (socket, mut ends) = XskSocket::open(umem, queue as usize, first, config).unwrap();
    // Before the driver looks for chunks.
    ends.fill.refill();
    let step = BindStep::LADDER.into_iter().find(|&step| match socket.bind(step, first) {
        Ok(()) => true,
        Err(error) => {
            println!("queue {queue}: {step} refused: {error}");
            false
        }
    });
    step.expect("a step that the driver takes");
    assert!(socket.is_zero_copy().unwrap(), "{step:?}");
    println!("queue {queue}: zero-copy");
    socket.kick();
    Lane { socket, ends }
}

/// Every frame came out of one of the sockets, stamped; and the counters say so.
fn check(umem: &Arc<Umem>, program: &CaptureProgram, lanes: &mut [Lane]) {
    let (mut by_socket, mut by_program) = (Vec::new(), Vec::new());
    for (queue, lane) in (0..).zip(lanes) {
        let mut claim = Claim::new(umem.clone());
        let mut frames = 0;
        while lane.ends.rx.claim(&mut claim) > 0 {
            for part in claim.parts() {
                let stamp = &claim.memory()[part.offset - 8..part.offset];
                let stamp = u64::from_ne_bytes(stamp.try_into().unwrap());
                assert!(stamp > 0 && part.bytes == u32::from(BYTES), "{part:?} at {stamp}");
                frames += 1;
            }
            lane.ends.fill.give_back(&mut claim);
        }
        assert_eq!(claim.take_damaged(), 0);
        by_socket.push(frames);
        by_program.push(program.counters(queue).unwrap());
        println!("queue {queue}: {frames} frames, {:?}", lane.socket.statistics().unwrap());
    }
    let steered = |&seen: &u64| QueueCounters { seen, steered: seen, ..QueueCounters::default() };
    assert_eq!(by_program, by_socket.iter().map(steered).collect::<Vec<_>>());
    assert_eq!(by_socket.iter().sum::<u64>(), FRAMES);
    assert!(by_socket.iter().all(|&frames| frames >= FRAMES / 10), "{by_socket:?}");
}
