//! Both ways with a kernel that is played, and its checks.

use super::*;
use crate::SysError;
use crate::mmap::Mapping;
use ringside_testkit::Random;
use ringside_testkit::netmap::{BUFFER_BYTES, Kernel, SLOTS};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Rings of the played port, each way.
const RINGS: u16 = 3;

/// What waits at the port, what left by it, and how many frames it has room for.
#[derive(Default)]
struct Wire {
    waiting: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    room: usize,
    asked: Option<Register>,
    is_gone: bool,
    syncs: usize,
}

struct Played {
    kernel: Kernel,
    wire: Arc<Mutex<Wire>>,
}

fn port(extra_buffers: u32) -> (Box<Played>, Arc<Mutex<Wire>>) {
    let wire = Arc::new(Mutex::new(Wire { room: usize::MAX, ..Wire::default() }));
    let kernel = Kernel::new(RINGS, extra_buffers);
    (Box::new(Played { kernel, wire: wire.clone() }), wire)
}

impl Control for Played {
    fn info(&mut self, _port: &str) -> io::Result<PortInfo> {
        Ok(PortInfo { rx_rings: RINGS, host_rx_rings: 1 })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let ring = match request.ring {
            RingChoice::Card(ring) => ring,
            RingChoice::Host(ring) => RINGS + ring,
        };
        let sends = request.way == Way::Transmit;
        let answer = self.kernel.register(sends, ring, request.extra_buffers);
        self.wire.lock().unwrap().asked = Some(request.clone());
        let (offset, extra_buffers) = (answer.offset, answer.extra_buffers);
        Ok(Registered { offset, memory_bytes: answer.memory_bytes, extra_buffers })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(self.kernel.memory(), bytes)
    }

    fn sync(&mut self, way: Way) -> io::Result<()> {
        let mut wire = self.wire.lock().unwrap();
        wire.syncs += 1;
        if wire.is_gone {
            return Err(io::Error::from_raw_os_error(libc::ENXIO));
        }
        match way {
            Way::Receive => self.kernel.receive(|| wire.waiting.pop_front()),
            Way::Transmit => self.kernel.transmit(|frame| {
                let has_room = wire.sent.len() < wire.room;
                if has_room {
                    wire.sent.push(frame.to_vec());
                }
                has_room
            }),
        }
        Ok(())
    }

    fn wait(&self, _time: Duration) -> io::Result<()> {
        Ok(())
    }
}

fn frames(count: usize, bytes_max: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(25);
    let mut frame = |_| {
        let bytes = 14 + random.below(bytes_max - 13);
        random.bytes(bytes)
    };
    (0..count).map(&mut frame).collect()
}

/// Puts a frame if there is room, after two looks: what one sends the next has come back.
fn put(ring: &mut TransmitRing, frame: &[u8]) -> bool {
    for _ in 0..2 {
        if !ring.has_room(frame.len()) {
            ring.flush().unwrap();
        }
    }
    ring.has_room(frame.len()) && {
        let write = |room: &mut [u8]| {
            room.copy_from_slice(frame);
            true
        };
        ring.put(frame.len(), write).unwrap()
    }
}

/// Every frame leaves as it was put, and is accepted when its slots have come back, not before.
#[test]
fn frames_are_sent_as_they_were_put_and_counted_when_they_come_back() {
    let (control, wire) = port(0);
    let mut ring = TransmitRing::take(control, "eth1", RingChoice::Card(2), false).unwrap();
    assert_eq!(ring.frame_bytes_max(), BUFFER_BYTES);
    let frames = frames(3 * SLOTS as usize, BUFFER_BYTES);
    let mut at = 0;
    while at < frames.len() {
        at += usize::from(put(&mut ring, &frames[at]));
        assert_eq!(ring.accepted() + ring.waiting(), at as u64);
        assert!(ring.accepted() as usize <= wire.lock().unwrap().sent.len());
    }
    for _ in 0..2 {
        ring.flush().unwrap();
    }
    assert_eq!((ring.accepted(), ring.waiting()), (frames.len() as u64, 0));
    assert!(wire.lock().unwrap().sent == frames);
}

/// A port that takes no more: the ring fills up, and what was accepted is exactly what it took.
#[test]
fn a_port_without_room_leaves_frames_waiting() {
    let (control, wire) = port(0);
    wire.lock().unwrap().room = 100;
    let mut ring = TransmitRing::take(control, "vale0:1", RingChoice::Card(0), true).unwrap();
    let frame = vec![7; 60];
    let put_frames = (0..).take_while(|_| put(&mut ring, &frame)).count();
    ring.flush().unwrap();
    assert_eq!(put_frames, 100 + SLOTS as usize - 1);
    assert_eq!((ring.accepted(), ring.waiting()), (100, u64::from(SLOTS) - 1));
    wire.lock().unwrap().is_gone = true;
    assert!(ring.flush().unwrap_err().to_string().contains("vale0:1, transmit ring 0"));
    assert_eq!((ring.accepted(), ring.waiting()), (100, u64::from(SLOTS) - 1));
}

/// Long frames are cut over slots where the port puts them together again.
#[test]
fn long_frames_leave_in_several_slots() {
    let (control, wire) = port(0);
    let mut ring = TransmitRing::take(control, "eth1{3", RingChoice::Card(0), true).unwrap();
    let frames = frames(500, 9_014);
    for frame in &frames {
        while !put(&mut ring, frame) {}
    }
    for _ in 0..2 {
        ring.flush().unwrap();
    }
    assert_eq!(ring.accepted(), 500);
    assert!(wire.lock().unwrap().sent == frames);
    assert!(!ring.put(60, |_| false).unwrap(), "what is not meant is not put");
    assert_eq!(ring.waiting(), 0);
}

fn received(ring: &mut ReceiveRing) -> Vec<Vec<u8>> {
    ring.receive().unwrap();
    let bytes = |frame: Slotted| ring.memory()[frame.offset..][..frame.bytes as usize].to_vec();
    ring.frames().map(bytes).collect()
}

/// With buffers beyond its own the ring has its slots back while frames are lent, whose bytes stay
/// (the kernel that is played looks at each buffer, and that all are back at the end); with too few
/// it goes on without.
#[test]
fn extra_buffers_stand_in_for_those_that_are_lent() {
    for (extra_buffers, all) in [(FRAMES_MAX as u32, true), (100, false), (0, false)] {
        let (control, wire) = port(extra_buffers);
        let mut ring = ReceiveRing::take(control, "eth1", RingChoice::Card(1)).unwrap();
        let frames = frames(5_000, 3 * BUFFER_BYTES);
        wire.lock().unwrap().waiting = frames.clone().into();
        let (mut seen, mut looks) = (Vec::new(), 0);
        while seen.len() < frames.len() {
            let before = wire.lock().unwrap().syncs;
            let lent = ring.receive().unwrap();
            let bytes =
                |frame: Slotted| ring.memory()[frame.offset..][..frame.bytes as usize].to_vec();
            seen.extend(ring.frames().map(bytes));
            let after = wire.lock().unwrap().syncs;
            looks += usize::from(lent > 0 && after > before);
        }
        assert!(seen == frames && looks > 0);
        assert_eq!(ring.finish().unwrap(), 0, "all: {all}");
    }
}

/// The first half of a ring of short frames is lent, and the kernel has those slots already.
#[test]
fn slots_are_back_while_their_frames_are_lent() {
    let (control, wire) = port(FRAMES_MAX as u32);
    let mut ring = ReceiveRing::take(control, "eth1", RingChoice::Card(0)).unwrap();
    let frames = frames(SLOTS as usize * 2, 100);
    wire.lock().unwrap().waiting = frames.clone().into();
    assert_eq!(received(&mut ring), frames[..FRAMES_MAX]);
    let left = wire.lock().unwrap().waiting.len();
    ring.receive().unwrap();
    let bytes = |frame: Slotted| ring.memory()[frame.offset..][..frame.bytes as usize].to_vec();
    let lent: Vec<_> = ring.frames().map(bytes).collect();
    assert_eq!(lent, frames[FRAMES_MAX..2 * FRAMES_MAX]);
    assert!(wire.lock().unwrap().waiting.len() + FRAMES_MAX < left, "others came in their slots");
}

/// What each name of a port has the kernel asked for.
#[test]
fn each_name_takes_its_rings() {
    for (name, port_name, ring) in [
        ("netmap:eth1^", "eth1", RingChoice::Host(0)),
        ("netmap:eth1-2", "eth1", RingChoice::Card(2)),
        ("netmap:eth1{1", "eth1{1", RingChoice::Card(0)),
        ("netmap:eth1}1", "eth1}1", RingChoice::Card(0)),
        ("netmap:vale0:1", "vale0:1", RingChoice::Card(0)),
    ] {
        let named = Port::named(name);
        let first = named.ring(0);
        for way in [Way::Receive, Way::Transmit] {
            let (control, wire) = port(0);
            match way {
                Way::Receive => drop(ReceiveRing::take(control, &named.name, first).unwrap()),
                Way::Transmit => {
                    drop(TransmitRing::take(control, &named.name, first, false).unwrap());
                }
            }
            let asked = wire.lock().unwrap().asked.clone().unwrap();
            assert_eq!((&asked.port[..], asked.ring, asked.way), (port_name, ring, way), "{name}");
        }
    }
}
