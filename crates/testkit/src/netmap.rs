//! netmap's kernel side, played over a file in memory that is laid out as netmap's, again
//! (sys/net/netmap.h of API 14): with its checks of cursors, lengths and buffers, buffers in no
//! order, frames of several slots, and slots that come back one call after they were sent.
//!
//! What breaks a rule panics here, where netmap would reset the ring.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Slots of a ring, and bytes of a buffer, as netmap has them.
pub const SLOTS: u32 = 1024;
/// The same of a buffer.
pub const BUFFER_BYTES: usize = 2048;

/// Where the interface and the ring lie.
const INTERFACE: u64 = 4096;
const RING: u64 = 8192;
const BUFFERS: u64 = 32 << 10;
/// The ring's slots, of 16 bytes: buffer, length, flags, pointer.
const FIRST_SLOT: u64 = RING + 256;
const SLOT_BYTES: u64 = 16;
/// Cursors of the ring.
const HEAD: u64 = RING + 20;
const CURRENT: u64 = RING + 24;
const TAIL: u64 = RING + 28;
/// The list of the buffers that are in no slot.
const EXTRA: u64 = INTERFACE + 32;
/// Buffers 0 and 1 are the kernel's.
const FIRST_BUFFER: u32 = 2;
const MORE_FRAGMENTS: u16 = 0x20;

/// One open handle of `/dev/netmap`.
pub struct Kernel {
    memory: File,
    /// Rings of the port, each way.
    rings: u16,
    extra_buffers: u32,
    is_registered: bool,
    /// The kernel's own cursors: how far slots were used, and how far it gave them out.
    current: u32,
    tail: u32,
}

/// What the kernel answers to a registration.
pub struct Registration {
    /// Where the interface begins.
    pub offset: u64,
    /// Bytes of the memory.
    pub memory_bytes: u64,
    /// Buffers that are in no slot.
    pub extra_buffers: u32,
}

impl Kernel {
    /// A handle on a port with `rings` each way, which lends at most `extra_buffers` in addition.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(rings: u16, extra_buffers: u32) -> Kernel {
        let memory = rustix::fs::memfd_create("netmap", rustix::fs::MemfdFlags::CLOEXEC);
        let memory = File::from(memory.expect("a file in memory"));
        Kernel { memory, rings, extra_buffers, is_registered: false, current: 0, tail: 0 }
    }

    /// What is mapped.
    pub fn memory(&self) -> &File {
        &self.memory
    }

    /// Lays the memory out for one ring: of those that receive, or those that send.
    ///
    /// # Panics
    /// If the memory cannot be written.
    pub fn register(&mut self, sends: bool, ring: u16, extra_wanted: u32) -> Registration {
        self.extra_buffers = self.extra_buffers.min(extra_wanted);
        self.is_registered = true;
        let memory_bytes = BUFFERS + u64::from(self.buffers()) * BUFFER_BYTES as u64;
        self.memory.set_len(memory_bytes).expect("memory");
        let rings = u32::from(self.rings);
        // Transmit and receive rings of the card, and one each of the host.
        for (field, count) in [(24, rings), (28, rings), (36, 1), (40, 1)] {
            self.put(INTERFACE + field, &u32::to_ne_bytes(count));
        }
        let before = if sends { 0 } else { u64::from(self.rings) + 1 };
        let at = INTERFACE + 56 + (before + u64::from(ring)) * 8;
        self.put(at, &(RING - INTERFACE).to_ne_bytes());
        self.put(RING, &(BUFFERS - RING).to_ne_bytes());
        self.put(RING + 8, &SLOTS.to_ne_bytes());
        self.put(RING + 12, &(BUFFER_BYTES as u32).to_ne_bytes());
        for index in 0..SLOTS {
            // In no order: what lies where is said by the slot alone.
            let buffer = FIRST_BUFFER + index * 7 % SLOTS;
            self.put(slot_at(index), &buffer.to_ne_bytes());
        }
        let mut at = EXTRA;
        for buffer in (FIRST_BUFFER + SLOTS..self.buffers()).rev() {
            self.put(at, &buffer.to_ne_bytes());
            at = buffer_at(buffer);
        }
        self.tail = if sends { SLOTS - 1 } else { 0 };
        self.put(TAIL, &self.tail.to_ne_bytes());
        Registration { offset: INTERFACE, memory_bytes, extra_buffers: self.extra_buffers }
    }

    /// Takes back the slots that were used, and fills others with frames until `next` has none.
    ///
    /// # Panics
    /// If a cursor or a buffer is wrong.
    pub fn receive(&mut self, mut next: impl FnMut() -> Option<Vec<u8>>) {
        let head = self.checked_head();
        self.current = head;
        // One slot stays free: head and tail in one place stand for nothing.
        let most = u32::try_from(65_535usize.div_ceil(BUFFER_BYTES)).expect("few");
        while distance(self.tail, (head + SLOTS - 1) % SLOTS) >= most {
            let Some(frame) = next() else { break };
            let pieces: Vec<&[u8]> = frame.chunks(BUFFER_BYTES).collect();
            for (index, piece) in pieces.iter().enumerate() {
                let at = slot_at(self.tail);
                self.put(buffer_at(self.word(at)), piece);
                let flags = if index + 1 < pieces.len() { MORE_FRAGMENTS } else { 0 };
                self.put(at + 4, &(piece.len() as u16).to_ne_bytes());
                self.put(at + 6, &flags.to_ne_bytes());
                self.tail = (self.tail + 1) % SLOTS;
            }
        }
        self.put(TAIL, &self.tail.to_ne_bytes());
    }

    /// Gives each frame that was put to `send`, until it has no room for one: false. What was sent
    /// by the call before comes back.
    ///
    /// # Panics
    /// If a cursor, a length or a buffer is wrong.
    pub fn transmit(&mut self, mut send: impl FnMut(&[u8]) -> bool) {
        let head = self.checked_head();
        self.tail = (self.current + SLOTS - 1) % SLOTS;
        let (mut at, mut frame) = (self.current, Vec::new());
        while at != head {
            let slot = self.word(slot_at(at) + 4);
            let (bytes, flags) = ((slot & 0xffff) as usize, (slot >> 16) as u16);
            assert!((1..=BUFFER_BYTES).contains(&bytes), "{bytes} bytes in slot {at}");
            let (start, begin) = (frame.len(), buffer_at(self.word(slot_at(at))));
            frame.resize(start + bytes, 0);
            self.memory.read_exact_at(&mut frame[start..], begin).expect("memory");
            at = (at + 1) % SLOTS;
            if flags & MORE_FRAGMENTS != 0 {
                assert_ne!(at, head, "a frame without its end");
                continue;
            }
            if !send(&frame) {
                break;
            }
            frame.clear();
            self.current = at;
        }
        self.put(TAIL, &self.tail.to_ne_bytes());
    }

    /// As the kernel judges cursors: in order, from where they were last to what it gave.
    fn checked_head(&self) -> u32 {
        let (head, current) = (self.word(HEAD), self.word(CURRENT));
        let given = distance(self.current, self.tail);
        let (to_head, to_current) = (distance(self.current, head), distance(self.current, current));
        assert!(head < SLOTS && current < SLOTS, "{head} {current}");
        assert!(to_head <= to_current && to_current <= given, "{head} {current} of {given}");
        self.check_buffers(&[]);
        head
    }

    /// No buffer is in two places.
    fn check_buffers(&self, extra: &[u32]) {
        let slots = (0..SLOTS).map(|index| self.word(slot_at(index)));
        let mut all: Vec<u32> = slots.chain(extra.iter().copied()).collect();
        all.sort_unstable();
        assert!(all.iter().all(|buffer| (FIRST_BUFFER..self.buffers()).contains(buffer)));
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "a buffer is in two places");
    }

    fn buffers(&self) -> u32 {
        FIRST_BUFFER + SLOTS + self.extra_buffers
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("memory");
    }

    fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, at).expect("memory");
        u32::from_ne_bytes(bytes)
    }

    /// The list of buffers that are in no slot, as it was left.
    fn extra(&self) -> io::Result<Vec<u32>> {
        let (mut at, mut extra) = (EXTRA, Vec::new());
        loop {
            let buffer = self.word(at);
            if buffer == 0 {
                return Ok(extra);
            }
            if !(FIRST_BUFFER..self.buffers()).contains(&buffer) || extra.contains(&buffer) {
                return Err(io::Error::other(format!("the list goes on with buffer {buffer}")));
            }
            extra.push(buffer);
            at = buffer_at(buffer);
        }
    }
}

/// When a port is let go, every buffer must be in one place.
impl Drop for Kernel {
    fn drop(&mut self) {
        if self.is_registered && !std::thread::panicking() {
            let extra = self.extra().expect("a list of buffers");
            assert_eq!(extra.len(), self.extra_buffers as usize, "buffers were not given back");
            self.check_buffers(&extra);
        }
    }
}

/// The distance from one slot to a later one.
fn distance(from: u32, to: u32) -> u32 {
    (to + SLOTS - from) % SLOTS
}

fn slot_at(index: u32) -> u64 {
    FIRST_SLOT + u64::from(index) * SLOT_BYTES
}

fn buffer_at(index: u32) -> u64 {
    BUFFERS + u64::from(index) * BUFFER_BYTES as u64
}
