//! The sending end with the kernel's side played: what the kernel would take, exact counts, who may
//! write where, completions that no kernel makes.

use super::panics;
use crate::SysError;
use crate::xsk::cursor::{ConsumerCursor, ProducerCursor};
use crate::xsk::layout::RawDescriptor;
use crate::xsk::mock;
use crate::xsk::ring::RingMemory;
use crate::xsk::tx_memory::METADATA_BYTES;
use crate::xsk::{
    COPIED_PARTS_MAX, TX_ENTRIES_MAX, TxLayout, TxMemory, TxProgress, TxRequest, TxRing, TxStamp,
};
use ringside_core::ChecksumRequest;
use ringside_testkit::fuzz;
use std::cell::RefCell;
use std::slice::from_ref;
use std::sync::Arc;

/// 64 slots, and eight chunks of payload.
pub const LAYOUT: TxLayout = TxLayout { entries: 64, chunk_bytes: 2048, payload_chunks: 8 };

/// Bytes of data in a chunk of it.
const ROOM: usize = 2048 - METADATA_BYTES as usize;

/// A frame that the kernel took.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    pub bytes: Vec<u8>,
    /// Flags, and checksum start and offset, of its metadata.
    pub metadata: Option<[u64; 2]>,
    /// Of its descriptors.
    pub addresses: Vec<u64>,
}

/// The kernel's side, by the rules of net/xdp/xsk.c and xsk_queue.h.
pub struct Kernel {
    memory: Arc<TxMemory>,
    tx: RingMemory,
    tx_cursor: ConsumerCursor,
    completions: RingMemory,
    completion_cursor: ProducerCursor,
}

pub fn pair(layout: TxLayout, passed: u32) -> (Kernel, TxRing) {
    let memory = Arc::new(TxMemory::new(layout).unwrap());
    let [tx, tx_kernel] = mock::ring(layout.entries, size_of::<RawDescriptor>()).unwrap();
    let [completions, completions_kernel] = mock::ring(layout.entries, 8).unwrap();
    let mut ring = TxRing::new(memory.clone(), tx, completions);
    ring.set_passed(passed);
    ring.allow_parts(COPIED_PARTS_MAX);
    let kernel = Kernel {
        memory,
        tx: tx_kernel,
        tx_cursor: ConsumerCursor::after(passed, layout.entries),
        completions: completions_kernel,
        completion_cursor: ProducerCursor::after(passed, layout.entries),
    };
    (kernel, ring)
}

impl Kernel {
    /// Takes the next frame out of the ring, if one was shown, and checks each descriptor as the
    /// kernel does (xp_aligned_validate_desc).
    pub fn take(&mut self) -> Option<Sent> {
        let mut sent = Sent { bytes: Vec::new(), metadata: None, addresses: Vec::new() };
        let chunk_bytes = u64::from(self.memory.layout().chunk_bytes);
        loop {
            if self.tx_cursor.ready(self.tx.words(), 1) == 0 {
                assert!(
                    sent.addresses.is_empty(),
                    "the end of a frame is shown with its beginning"
                );
                return None;
            }
            let raw: RawDescriptor = self.tx.read(self.tx_cursor.slot(0));
            self.tx_cursor.release(self.tx.words(), 1);
            let headroom = u64::from(METADATA_BYTES);
            let before = raw.address.checked_sub(headroom).expect("there is room for metadata");
            let inside = before % chunk_bytes + headroom + u64::from(raw.bytes) <= chunk_bytes;
            assert!(raw.bytes > 0 && inside, "{raw:?}");
            assert!(before < self.memory.layout().total_bytes() as u64, "{raw:?}");
            assert_eq!(raw.options & !(libc::XDP_PKT_CONTD | libc::XDP_TX_METADATA), 0);
            if raw.options & libc::XDP_TX_METADATA != 0 {
                assert!(sent.addresses.is_empty(), "metadata stands before the first part");
                let words = self.read(before, 16);
                let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap());
                sent.metadata = Some([word(0), word(8)]);
            }
            sent.bytes.extend(self.read(raw.address, raw.bytes as usize));
            sent.addresses.push(raw.address);
            if !raw.continues() {
                return Some(sent);
            }
        }
    }

    fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        // SAFETY: the place was checked to lie in the memory, and no thread writes to what is in
        // flight; the test has one thread.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(address as usize), bytes).to_vec()
        }
    }

    /// Gives a frame back, as the kernel does: without the lowest bit of its first address.
    pub fn complete(&mut self, sent: &Sent) {
        let first = sent.addresses[0] & !1;
        self.complete_raw(&[&[first], &sent.addresses[1..]].concat());
    }

    /// Gives any addresses back.
    pub fn complete_raw(&mut self, addresses: &[u64]) {
        for (address, ahead) in addresses.iter().zip(0..) {
            self.completions.write(self.completion_cursor.slot(ahead), *address);
        }
        let count = addresses.len() as u32;
        self.completion_cursor.publish(self.completions.words(), count);
    }

    /// Writes when a frame was sent.
    fn stamp(&mut self, sent: &Sent, tai_ns: u64) {
        let at = sent.addresses[0] as usize - METADATA_BYTES as usize + 8;
        // SAFETY: as in `read`: the metadata of a slot in flight are the kernel's.
        unsafe { self.memory.as_ptr().add(at).cast::<u64>().write_volatile(tai_ns) }
    }
}

pub fn put(ring: &mut TxRing, frame: &[u8]) -> bool {
    ring.put(frame.len(), TxRequest::default(), |slot| slot.copy_from_slice(frame)).unwrap()
}

#[test]
fn frames_go_out_in_order_and_slots_come_back() {
    // Indices pass 2^32.
    let (mut kernel, mut ring) = pair(LAYOUT, u32::MAX - 20);
    let frames: Vec<Vec<u8>> =
        [14, 64, ROOM - 1, ROOM, ROOM + 1, 9000].map(|bytes| vec![bytes as u8; bytes]).to_vec();
    for round in 0..100 {
        for frame in &frames {
            assert!(put(&mut ring, frame), "round {round}");
        }
        assert_eq!(kernel.take(), None, "not shown yet");
        ring.publish();
        assert_eq!((ring.out(), ring.free_slots()), (11, 53));
        let sent: Vec<Sent> = std::iter::from_fn(|| kernel.take()).collect();
        assert!(sent.iter().map(|sent| &sent.bytes).eq(&frames), "round {round}");
        let put = (round + 1) * 6;
        let taken = TxProgress { put, completed: put - 6, taken: 6, waiting: 0 };
        assert_eq!(ring.progress(), taken);
        sent.iter().rev().for_each(|sent| kernel.complete(sent));
        assert_eq!((ring.reap(), ring.reap()), (11, 0));
        assert_eq!((ring.out(), ring.free_slots(), ring.put_and_completed()), (0, 64, (put, put)));
    }
    assert_eq!(ring.take_damaged(), 0);
}

#[test]
fn no_more_goes_out_than_the_rings_hold() {
    let (mut kernel, mut ring) = pair(LAYOUT, 7);
    for number in 0..64 {
        assert!(put(&mut ring, &[number; 60]));
    }
    assert!(!put(&mut ring, &[0; 60]));
    ring.publish();
    let first = kernel.take().unwrap();
    assert!(!put(&mut ring, &[0; 60]), "taken is not completed");
    let waiting = TxProgress { put: 64, completed: 0, taken: 1, waiting: 63 };
    assert_eq!(ring.progress(), waiting);
    kernel.complete(&first);
    assert!(!put(&mut ring, &[0; 60]), "not reaped");
    assert_eq!(ring.reap(), 1);
    let two = vec![9; ROOM + 1];
    assert!(!put(&mut ring, &two) && put(&mut ring, &[1; 60]));
    ring.publish();
    let rest: Vec<Sent> = std::iter::from_fn(|| kernel.take()).collect();
    assert_eq!((rest.len(), &rest[63].bytes[..]), (64, &[1; 60][..]));
}

#[test]
fn a_chain_names_payload_that_stays_as_it_is_until_it_comes_back() {
    let (mut kernel, mut ring) = pair(LAYOUT, 0);
    let payload: Vec<u8> = (0..LAYOUT.payload_bytes()).map(|byte| (byte * 7) as u8).collect();
    let mut rest = &payload[..];
    let write = |part: &mut [u8]| {
        rest.split_off(..part.len()).map_or((), |bytes| part.copy_from_slice(bytes))
    };
    assert!(ring.write_payload(0..payload.len(), write).unwrap());
    let pieces = [1..4, 3..3, ROOM - 1..ROOM + 1, 17..17 + 3 * ROOM];
    let header = [5; 54];
    let chain = |ring: &mut TxRing| {
        let write = |slot: &mut [u8]| slot.copy_from_slice(&header);
        ring.put_chain(54, TxRequest::default(), write, &pieces).unwrap()
    };
    assert!(chain(&mut ring));
    ring.publish();
    let sent = kernel.take().unwrap();
    let mut expected = header.to_vec();
    pieces.iter().for_each(|piece| expected.extend_from_slice(&payload[piece.clone()]));
    assert_eq!((sent.bytes == expected, sent.addresses.len()), (true, 8));
    assert_eq!((ring.out(), ring.payload_named(), ring.free_slots()), (8, 7, 63));
    assert!(!ring.write_payload(4 * ROOM - 1..5 * ROOM, |_| panic!("busy")).unwrap());
    assert!(ring.write_payload(4 * ROOM..8 * ROOM, |part| part.fill(1)).unwrap(), "named by none");
    assert!(chain(&mut ring), "two frames name it");
    kernel.complete(&sent);
    assert_eq!((ring.reap(), ring.payload_named()), (8, 7));
    assert!(!ring.write_payload(0..1, |_| panic!("busy")).unwrap());
    ring.publish();
    let second = kernel.take().unwrap();
    kernel.complete(&second);
    ring.reap();
    assert!(ring.write_payload(0..1, |part| part.fill(2)).unwrap());
    assert_eq!((ring.out(), ring.payload_named(), ring.take_damaged()), (0, 0, 0));
}

#[test]
fn requests_stand_before_the_frame_and_stamps_come_back() {
    let (mut kernel, mut ring) = pair(LAYOUT, 0);
    let checksum = Some(ChecksumRequest { start: 34, offset: 6 });
    for request in [
        TxRequest { checksum, stamp: false },
        TxRequest { checksum: None, stamp: true },
        TxRequest { checksum, stamp: true },
    ] {
        assert!(ring.put(60, request, |slot| slot.fill(1)).unwrap());
    }
    assert!(
        ring.put_chain(42, TxRequest { checksum, stamp: true }, |_| (), from_ref(&(0..10)))
            .unwrap()
    );
    ring.publish();
    let sent: Vec<Sent> = std::iter::from_fn(|| kernel.take()).collect();
    let word = u64::from_ne_bytes([34, 0, 6, 0, 0, 0, 0, 0]);
    let metadata: Vec<_> = sent.iter().map(|sent| sent.metadata.unwrap()).collect();
    assert_eq!(metadata, [[2, word], [1, 0], [3, word], [3, word]]);
    for (sent, tai_ns) in sent.iter().zip(100..) {
        kernel.stamp(sent, tai_ns);
        kernel.complete(sent);
    }
    assert_eq!(ring.reap(), 5);
    let stamp = |number| TxStamp { number, tai_ns: 100 + number };
    assert_eq!(ring.take_stamps(), (vec![stamp(1), stamp(2), stamp(3)], 0));
    assert_eq!(ring.take_stamps(), (vec![], 0));
}

fn is_refused(result: Result<bool, SysError>) -> bool {
    matches!(result, Err(SysError::Limit { .. }))
}

#[test]
fn what_the_kernel_would_not_take_is_refused_before() {
    let (_, mut ring) = pair(LAYOUT, 0);
    let nothing = TxRequest::default();
    let at = |start, offset| TxRequest {
        checksum: Some(ChecksumRequest { start, offset }),
        stamp: false,
    };
    assert!(is_refused(ring.put(0, nothing, |_| ())));
    assert!(is_refused(ring.put(18 * ROOM + 1, nothing, |_| ())));
    assert!(is_refused(ring.put(60, at(50, 9), |_| ())));
    assert!(is_refused(ring.put(60, at(u16::MAX, u16::MAX), |_| ())));
    let beyond = (ROOM - 7) as u16;
    assert!(is_refused(ring.put(9000, at(beyond, 6), |_| ())), "not in the first part");
    assert!(is_refused(ring.put_chain(0, nothing, |_| (), from_ref(&(0..10)))));
    assert!(is_refused(ring.put_chain(ROOM + 1, nothing, |_| (), &[])));
    assert!(is_refused(ring.put_chain(41, at(34, 6), |_| (), from_ref(&(0..10)))));
    let end = LAYOUT.payload_bytes();
    for piece in
        [0..end + 1, end..usize::MAX, end + 1..end + 1, std::ops::Range { start: 5, end: 4 }]
    {
        assert!(
            is_refused(ring.put_chain(14, nothing, |_| (), &[0..1, piece.clone()])),
            "{piece:?}"
        );
        assert!(is_refused(ring.write_payload(piece, |_| ())));
    }
    let pieces = |count: usize| (0..count).map(|at| at..at + 1).collect::<Vec<_>>();
    assert!(is_refused(ring.put_chain(14, nothing, |_| (), &pieces(18))));
    assert_eq!((ring.out(), ring.put_and_completed(), ring.free_slots()), (0, (0, 0), 64));
    assert!(ring.put(60, at(50, 8), |_| ()).unwrap());
    assert!(ring.put_chain(14, nothing, |_| (), &pieces(17)).unwrap());
    ring.allow_parts(1);
    assert!(is_refused(ring.put(ROOM + 1, nothing, |_| ())));
    assert!(is_refused(ring.put_chain(14, nothing, |_| (), &[0..1, 0..1])));
}

#[test]
fn layouts_beyond_their_limits_are_refused() {
    for layout in [
        TxLayout { entries: 32, ..LAYOUT },
        TxLayout { entries: 100, ..LAYOUT },
        TxLayout { entries: TX_ENTRIES_MAX * 2, ..LAYOUT },
        TxLayout { chunk_bytes: 3000, ..LAYOUT },
        TxLayout { payload_chunks: u32::MAX, ..LAYOUT },
    ] {
        assert!(matches!(TxMemory::new(layout), Err(SysError::Limit { .. })), "{layout:?}");
    }
    let memory = Arc::new(TxMemory::new(LAYOUT).unwrap());
    let ring = || mock::ring(64, 8).unwrap().into_iter().next().unwrap();
    let rings = || TxRing::new(memory.clone(), ring(), ring());
    drop(rings());
    assert!(panics(|| drop(rings())), "the memory has its rings");
}

#[test]
fn completions_of_what_is_not_out_are_counted_and_change_nothing() {
    let (mut kernel, mut ring) = pair(LAYOUT, 0);
    let total = LAYOUT.total_bytes() as u64;
    kernel.complete_raw(&[0, 24, total - 1, total, 1 << 40, u64::MAX, 64 * 2048 + 24]);
    assert_eq!((ring.reap(), ring.take_damaged(), ring.out()), (7, 7, 0));
    assert!(put(&mut ring, &[1; 60]));
    ring.publish();
    let sent = kernel.take().unwrap();
    kernel.complete_raw(&[sent.addresses[0]; 2]);
    assert_eq!((ring.reap(), ring.take_damaged()), (2, 1), "it comes back once");
    assert_eq!((ring.out(), ring.free_slots(), ring.put_and_completed()), (0, 64, (1, 1)));
}

#[test]
fn any_bytes_in_the_completion_ring_leave_the_memory_whole() {
    let state = RefCell::new(pair(LAYOUT, 0));
    fuzz("xsk completions", 500_000, &[vec![24, 0, 0, 0, 0, 0, 0, 0, 24, 8]], |bytes| {
        let (kernel, ring) = &mut *state.borrow_mut();
        for number in 0..bytes.len().min(20) {
            put(ring, &vec![number as u8; 14 + number * 100]);
            let _ = ring.put_chain(
                14,
                TxRequest::default(),
                |_| (),
                from_ref(&(number..number + 3000)),
            );
        }
        ring.publish();
        while kernel.take().is_some() {}
        let addresses: Vec<u64> = bytes
            .chunks(8)
            .take(64)
            .map(|chunk| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            // Most lie near the memory.
            .map(|address| if address % 4 == 0 { address } else { address % (80 * 2048) })
            .collect();
        kernel.complete_raw(&addresses);
        ring.reap();
        let (put, completed) = ring.put_and_completed();
        assert!(completed <= put && ring.out() <= 64 && ring.free_slots() <= 64);
        let slots_out = 64 - ring.free_slots() as u32;
        assert_eq!(ring.out(), slots_out + ring.payload_named());
        ring.take_damaged();
    });
}
