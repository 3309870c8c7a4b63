//! Descriptors that no kernel makes: nothing outside of a chunk is believed, and what the caller
//! sees are whole frames.

use super::*;
use crate::xsk::layout::RawDescriptor;
use ringside_testkit::fuzz;
use std::cell::RefCell;
use std::collections::HashSet;

const CONTD: u32 = libc::XDP_PKT_CONTD;

/// The lane's chunks, as the kernel was given them.
fn chunks(kernel: &mut MockKernel) -> Vec<u64> {
    kernel.fill_ring()
}

#[test]
fn a_descriptor_is_believed_if_it_names_a_part_of_one_chunk() {
    let (mut kernel, mut ends, mut claim) = lane();
    let chunks = chunks(&mut kernel);
    let (second, last) = (chunks[1], chunks[63]);
    let at = |chunk, headroom| chunk + headroom;
    for (address, bytes, good) in [
        (at(0, 0), 0, true),
        (at(0, 0), 2048, true),
        (at(0, 256), 1792, true),
        (at(last, 256), 1792, true),
        (at(last, 2047), 1, true),
        (at(0, 0), 2049, false),
        (at(second, 256), 1793, false),
        (at(last, 2047), 2, false),
        (at(0, 256), u32::MAX, false),
        (at(last + second, 0), 1, false),
        (at(last + second, 0), 0, false),
        (u64::MAX, 1, false),
        (u64::MAX - 2047, 0, false),
        (u64::MAX - 2047, 2048, false),
        (1 << 63, 1, false),
    ] {
        kernel.put_raw(address, bytes, 0);
        kernel.flush();
        let claimed = ends.rx.claim(&mut claim);
        let case = format!("{address:#x} {bytes}");
        assert_eq!((claimed == 1, claim.take_damaged() == 0), (good, good), "{case}");
        if good {
            claim.edit(0, |slice, at| assert_eq!(slice.len(), at + bytes as usize, "{case}"));
            ends.fill.give_back(&mut claim);
        }
    }
}

#[test]
fn a_frame_with_a_damaged_part_is_left_out_whole() {
    let (mut kernel, mut ends, mut claim) = lane();
    let chunks = chunks(&mut kernel);
    // Good parts as `a` to `z`, `!` a damaged one; a capital or `!` goes on in the next part.
    for (stream, expected, damaged) in [
        ("a", "a", 0),
        ("Ab c", "Ab c", 0),
        ("!b c", "c", 1),
        ("A!c d", "d", 1),
        ("A. d", "d", 1),
        (".", "", 1),
        (". b . d", "b d", 2),
        ("!!!. e", "e", 1),
        ("AB!D!f g Hi", "g Hi", 1),
    ] {
        for letter in stream.bytes().filter(|letter| *letter != b' ') {
            let good = letter.is_ascii_alphabetic();
            let chunk = chunks[usize::from(letter.to_ascii_lowercase() % 32)];
            let goes_on = letter == b'!' || letter.is_ascii_uppercase();
            let options = if goes_on { CONTD } else { 0 };
            kernel.put_raw(chunk + 256, if good { u32::from(letter) } else { 5000 }, options);
        }
        kernel.flush();
        let count = ends.rx.claim(&mut claim);
        let seen: String = claim.parts().iter().map(|part| part.bytes as u8 as char).collect();
        assert_eq!(seen, expected.replace(' ', ""), "{stream}");
        assert_eq!((count, claim.take_damaged()), (seen.len(), damaged), "{stream}");
        assert!(claim.parts().iter().all(|p| p.continues == (p.bytes < u32::from(b'a'))));
        claim.take_chunks(drop);
        assert!(ends.rx.is_empty(), "{stream}");
    }
}

#[test]
fn a_frame_whose_end_does_not_come_waits_and_is_taken_when_it_does() {
    let (mut kernel, mut ends, mut claim) = lane();
    kernel.receive(b"", b"whole");
    kernel.flush();
    kernel.put_raw(0, 10, CONTD);
    kernel.flush();
    assert_eq!((ends.rx.claim(&mut claim), ends.rx.waiting()), (1, 1));
    ends.fill.give_back(&mut claim);
    assert_eq!(
        (ends.rx.claim(&mut claim), ends.rx.is_empty(), claim.take_damaged()),
        (0, false, 0)
    );
    kernel.put_raw(2048, 20, 0);
    kernel.flush();
    assert_eq!((ends.rx.claim(&mut claim), ends.rx.is_empty(), claim.take_damaged()), (2, true, 0));
}

#[test]
fn a_frame_without_end_is_left_out_and_the_next_one_received() {
    // Rings of fewer entries than a frame may have parts, and of more.
    for rx_entries in [8, 64, 128, 512] {
        let cut = UmemLayout { chunks_per_lane: 1024, ..LAYOUT };
        let umem = umem(cut);
        let (mut kernel, mut ends) = MockKernel::new(&umem, 0, rx_entries).unwrap();
        ends.rx.expect_parts();
        let mut claim = Claim::new(umem);
        let mut put = |count: u32, options| {
            for _ in 0..count {
                kernel.put_raw(256, 10, options);
            }
            kernel.flush();
        };
        put(1, 0);
        put(rx_entries - 1, CONTD);
        let is_longer = rx_entries as usize > PARTS_PER_FRAME_MAX;
        assert_eq!(ends.rx.claim(&mut claim), 1, "{rx_entries}");
        let mut damaged = claim.take_damaged();
        assert_eq!(damaged, u64::from(is_longer), "{rx_entries}");
        claim.take_chunks(drop);
        if !is_longer {
            put(1, CONTD);
            assert_eq!(ends.rx.claim(&mut claim), 0, "the ring is full of it: {rx_entries}");
        }
        while ends.rx.claim(&mut claim) > 0 {}
        damaged += claim.take_damaged();
        assert_eq!((damaged, claim.parts().len()), (1, 0), "{rx_entries}");
        put(1, 0);
        put(1, 0);
        assert_eq!((ends.rx.claim(&mut claim), claim.take_damaged()), (1, 0), "{rx_entries}");
    }
}

#[test]
fn frames_have_as_many_parts_as_the_limit_and_no_more() {
    let cut = UmemLayout { chunks_per_lane: 1024, ..LAYOUT };
    let umem = umem(cut);
    let (mut kernel, mut ends) = MockKernel::new(&umem, 0, 1024).unwrap();
    ends.rx.expect_parts();
    ends.fill.refill();
    let longest = vec![5; PARTS_PER_FRAME_MAX * ROOM];
    let longer = vec![6; PARTS_PER_FRAME_MAX * ROOM + 1];
    for frame in [&longest[..], &longer, b"one", &longest, b"two", &longer, b"three"] {
        assert!(kernel.receive(b"", frame));
    }
    kernel.flush();
    let mut claim = Claim::new(umem);
    let mut seen = Vec::new();
    while ends.rx.claim(&mut claim) > 0 {
        seen.append(&mut frames(&claim));
        ends.fill.give_back(&mut claim);
    }
    let expected = [&longest[..], b"one", &longest, b"two", b"three"];
    assert!(seen.iter().eq(expected), "{} frames", seen.len());
    assert_eq!((claim.take_damaged(), ends.rx.is_empty()), (2, true));
    let kept = kernel.free_chunks() as usize + ends.fill.in_reserve();
    assert_eq!(kept, 1024 - 2 * (PARTS_PER_FRAME_MAX + 1), "the others are out of use");
}

#[test]
fn an_index_from_nowhere_does_no_harm() {
    let (mut kernel, mut ends, mut claim) = lane();
    for _ in 0..65 {
        kernel.put_raw(u64::MAX, u32::MAX, u32::MAX);
    }
    kernel.flush();
    assert_eq!((ends.rx.waiting(), ends.rx.high_water()), (64, 64), "more than there are entries");
    assert_eq!(ends.rx.claim(&mut claim), 0);
    assert!(claim.take_damaged() > 0);
}

/// A lane under fuzzing, kept from input to input.
struct Victim {
    chunks: HashSet<u64>,
    kernel: MockKernel,
    ends: XskEnds,
    claim: Claim,
}

/// More chunks than that in the reserve, all of them named twice and more, and claims are dropped.
const RESERVE_MAX: usize = 10_000;

impl Victim {
    fn new() -> Victim {
        let umem = umem(LAYOUT);
        let (mut kernel, mut ends) = MockKernel::new(&umem, 0, 256).unwrap();
        ends.rx.expect_parts();
        ends.fill.refill();
        let chunks = kernel.fill_ring().into_iter().collect();
        Victim { chunks, kernel, ends, claim: Claim::new(umem) }
    }

    /// What should be seen of a descriptor, reckoned in another way than the code does.
    fn part_of(&self, raw: &RawDescriptor) -> Option<(usize, u32)> {
        let address = u128::from(raw.address);
        let (chunk, headroom) = (address / 2048 * 2048, address % 2048);
        let is_chunk = u64::try_from(chunk).is_ok_and(|chunk| self.chunks.contains(&chunk));
        let fits = headroom + u128::from(raw.bytes) <= 2048;
        (is_chunk && fits).then_some(((chunk + headroom) as usize, raw.bytes))
    }

    /// The parts of the whole frames of a stream, and how many frames are damaged.
    fn expected(&self, stream: &[RawDescriptor]) -> (Vec<(usize, u32)>, u64) {
        let (mut parts, mut damaged) = (Vec::new(), 0);
        for frame in stream.split_inclusive(|raw| raw.options % 2 == 0) {
            let frame: Option<Vec<_>> = frame.iter().map(|raw| self.part_of(raw)).collect();
            match frame.filter(|frame| frame.len() <= PARTS_PER_FRAME_MAX) {
                Some(mut frame) => parts.append(&mut frame),
                None => damaged += 1,
            }
        }
        (parts, damaged)
    }

    /// Claims all there is.
    fn drain(&mut self, seen: &mut Vec<(usize, u32)>, damaged: &mut u64) {
        while self.ends.rx.claim(&mut self.claim) > 0 {
            assert!(self.claim.parts().last().is_some_and(|part| !part.continues));
            for index in 0..self.claim.parts().len() {
                let part = self.claim.parts()[index];
                let bytes = &self.claim.memory()[part.offset..][..part.bytes as usize];
                std::hint::black_box(bytes.iter().fold(0u8, |sum, byte| sum ^ byte));
                self.claim.edit(index, |bytes, _| bytes.fill(index as u8));
                seen.push((part.offset, part.bytes));
            }
            if self.ends.fill.in_reserve() < RESERVE_MAX {
                self.ends.fill.give_back(&mut self.claim);
            } else {
                self.claim.take_chunks(drop);
            }
        }
        *damaged += self.claim.take_damaged();
    }

    fn attack(&mut self, input: &[u8]) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let mut stream: Vec<RawDescriptor> = input
            .chunks_exact(16)
            .map(|raw| {
                let (address, low) = (word(&raw[..8]), word(&raw[8..]));
                RawDescriptor { address, bytes: low as u32, options: (low >> 32) as u32 }
            })
            .collect();
        // So that the next input begins between two frames.
        stream.push(RawDescriptor { address: 0, bytes: 1, options: 0 });
        let (mut seen, mut damaged) = (Vec::new(), 0);
        // The ring holds what may wait, a frame of all parts, and what comes at once.
        for some in stream.chunks(100) {
            for raw in some {
                self.kernel.put_raw(raw.address, raw.bytes, raw.options);
            }
            self.kernel.flush();
            self.drain(&mut seen, &mut damaged);
        }
        assert_eq!((seen, damaged), self.expected(&stream));
        assert!(self.ends.rx.is_empty());
        // The kernel believes what was given back.
        if self.kernel.receive(b"stamp", b"frame") {
            self.kernel.flush();
            assert_eq!(self.ends.rx.claim(&mut self.claim), 1);
            assert_eq!(frames(&self.claim), [b"frame"]);
            self.claim.take_chunks(drop);
        }
    }
}

/// Streams of good descriptors, some of frames of several parts.
fn seeds(chunks: &HashSet<u64>) -> Vec<Vec<u8>> {
    let mut chunks: Vec<u64> = chunks.iter().copied().collect();
    chunks.sort_unstable();
    let stream = |parts: usize, frames: usize| {
        let mut bytes = Vec::new();
        for index in 0..parts * frames {
            let ends = (index + 1) % parts == 0;
            let chunk = chunks[index % chunks.len()] + 256;
            bytes.extend_from_slice(&chunk.to_le_bytes());
            bytes.extend_from_slice(&(1 + index as u32 % 1792).to_le_bytes());
            bytes.extend_from_slice(&u32::from(!ends).to_le_bytes());
        }
        bytes
    };
    vec![stream(1, 8), stream(3, 5), stream(128, 2), stream(129, 2), stream(1, 300)]
}

#[test]
fn whatever_the_descriptors_say_only_whole_frames_in_chunks_are_seen() {
    let victim = RefCell::new(Victim::new());
    let seeds = seeds(&victim.borrow().chunks);
    fuzz("xsk-descriptors", 100_000, &seeds, |input| victim.borrow_mut().attack(input));
}
