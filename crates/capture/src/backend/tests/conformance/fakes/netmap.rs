//! The kernel's side of netmap, played over a file in memory that is laid out as netmap's: with its
//! checks of the cursors, buffers in no order, and frames of several slots. Its port is fed by what
//! takes frames inside the driver.

use crate::backend::opening::OpenRequest;
use crate::backend::{AF_XDP, BackendError};
use ringside_core::Source;
use ringside_sys::SysError;
use ringside_sys::mmap::Mapping;
use ringside_sys::netmap::layout::{interface, ring, slot};
use ringside_sys::netmap::{Control, PortInfo, Register, Registered, RingChoice};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Slots of a ring, and bytes of a buffer, as netmap has them.
const SLOTS: u32 = 1024;
const BUFFER_BYTES: usize = 2048;
/// Where the interface, the ring and its buffers lie.
const INTERFACE: u64 = 4096;
const RING: u64 = 8192;
const BUFFERS: u64 = 32 << 10;
const MEMORY_BYTES: u64 = BUFFERS + (SLOTS as u64 + 2) * BUFFER_BYTES as u64;

/// A port with as many rings as lanes are asked for.
pub(super) struct Port {
    rings: VecDeque<Box<dyn Source>>,
    count: u16,
}

impl Port {
    pub fn of(request: &OpenRequest, device: &str) -> Result<Port, BackendError> {
        let lanes = request.lanes.unwrap_or(1);
        let own = OpenRequest { lanes: Some(lanes), ..OpenRequest::new(device) };
        let mut opened = AF_XDP.open(&own)?;
        let start = |(mut source, _): (Box<dyn Source>, _)| {
            source.start().unwrap();
            source
        };
        Ok(Port { rings: opened.lanes.drain(..).map(start).collect(), count: lanes })
    }

    /// A handle, as of opening /dev/netmap once more.
    pub fn handle(&mut self, is_first: bool) -> Handle {
        let feed = if is_first { None } else { self.rings.pop_front() };
        let memory = rustix::fs::memfd_create("netmap", rustix::fs::MemfdFlags::CLOEXEC);
        let memory = File::from(memory.unwrap());
        memory.set_len(MEMORY_BYTES).unwrap();
        let waiting = VecDeque::new();
        Handle { memory, count: self.count, feed, waiting, current: 0, tail: 0 }
    }
}

pub(super) struct Handle {
    memory: File,
    count: u16,
    feed: Option<Box<dyn Source>>,
    waiting: VecDeque<Vec<u8>>,
    /// The kernel's own copies of the cursors.
    current: u32,
    tail: u32,
}

impl Handle {
    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        u32::from_ne_bytes(bytes)
    }

    fn lay_out(&self, ring_number: u16) {
        let u32_at = |at: u64, value: u32| self.put(at, &value.to_ne_bytes());
        for field in [interface::TX_RINGS, interface::RX_RINGS] {
            u32_at(INTERFACE + field as u64, self.count.into());
        }
        u32_at(INTERFACE + interface::HOST_TX_RINGS as u64, 1);
        u32_at(INTERFACE + interface::HOST_RX_RINGS as u64, 1);
        let index = u64::from(self.count) + 1 + u64::from(ring_number);
        let at = INTERFACE + interface::RING_OFFSETS as u64 + index * 8;
        self.put(at, &(RING as i64 - INTERFACE as i64).to_ne_bytes());
        self.put(RING + ring::BUFFERS as u64, &(BUFFERS as i64 - RING as i64).to_ne_bytes());
        u32_at(RING + ring::SLOTS as u64, SLOTS);
        u32_at(RING + ring::BUFFER_BYTES as u64, BUFFER_BYTES as u32);
        for index in 0..SLOTS {
            // In no order: what lies where is said by the slot alone.
            u32_at(slot_at(index), 2 + index * 7 % SLOTS);
        }
    }

    /// The distance from one slot to a later one.
    fn distance(from: u32, to: u32) -> u32 {
        (to + SLOTS - from) % SLOTS
    }

    /// Puts a frame into slots; false if there are too few.
    fn put_frame(&mut self, frame: &[u8], head: u32) -> bool {
        let pieces: Vec<&[u8]> = frame.chunks(BUFFER_BYTES).collect();
        // One slot stays free: head and tail in one place stand for nothing.
        if Handle::distance(self.tail, head + SLOTS - 1) < pieces.len() as u32 {
            return false;
        }
        for (index, piece) in pieces.iter().enumerate() {
            let at = slot_at(self.tail);
            let buffer = u64::from(self.word(at + slot::BUFFER as u64));
            assert!((2..u64::from(SLOTS) + 2).contains(&buffer), "buffer {buffer}");
            self.put(BUFFERS + buffer * BUFFER_BYTES as u64, piece);
            let goes_on = if index + 1 < pieces.len() { slot::MORE_FRAGMENTS } else { 0 };
            self.put(at + slot::LENGTH as u64, &(piece.len() as u16).to_ne_bytes());
            self.put(at + slot::FLAGS as u64, &goes_on.to_ne_bytes());
            self.tail = (self.tail + 1) % SLOTS;
        }
        true
    }

    /// What the driver has, if anything.
    fn next_frames(&mut self) -> bool {
        // An interface that is gone brings nothing more.
        let Some(feed) = &mut self.feed else { return false };
        let Ok(Some(batch)) = feed.next_batch(Duration::ZERO) else { return false };
        self.waiting.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
        true
    }
}

fn slot_at(index: u32) -> u64 {
    RING + ring::HEADER_BYTES as u64 + u64::from(index) * slot::BYTES as u64
}

impl Control for Handle {
    fn info(&mut self, _port: &str) -> io::Result<PortInfo> {
        Ok(PortInfo { rx_rings: self.count, host_rx_rings: 1 })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let RingChoice::Card(number) = request.ring else { panic!("{request:?}") };
        self.lay_out(number);
        Ok(Registered { offset: INTERFACE, memory_bytes: MEMORY_BYTES })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(&self.memory, bytes)
    }

    fn receive_sync(&mut self) -> io::Result<()> {
        let head = self.word(RING + ring::HEAD as u64);
        let current = self.word(RING + ring::CUR as u64);
        // As the kernel judges them: in order, from where they were last to what it gave.
        let given = Handle::distance(self.current, self.tail);
        let (to_head, to_current) =
            (Handle::distance(self.current, head), Handle::distance(self.current, current));
        assert!(head < SLOTS && current < SLOTS, "{head} {current}");
        assert!(to_head <= to_current && to_current <= given, "{head} {current} of {given}");
        self.current = head;
        loop {
            let Some(frame) = self.waiting.pop_front() else {
                if self.next_frames() {
                    continue;
                }
                break;
            };
            if !self.put_frame(&frame, head) {
                self.waiting.push_front(frame);
                break;
            }
        }
        self.put(RING + ring::TAIL as u64, &self.tail.to_ne_bytes());
        Ok(())
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        std::thread::sleep(time.min(Duration::from_micros(500)));
        Ok(())
    }
}
