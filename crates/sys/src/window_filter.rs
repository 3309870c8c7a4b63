//! Where in a text one of many windows of four bytes may begin: a bit table of hashes that is asked
//! about every place, by vector instructions where the processor has them.
//!
//! It computes, and asks nothing of the system. It stands in this crate because vector loads and
//! gathers are `unsafe`.

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Bytes of a window.
pub const WINDOW_BYTES: usize = 4;

/// Places that one call of [`WindowFilter::find`] tells at most: 1 KiB, for the stack.
pub const PLACES_MAX: usize = 256;

/// Smallest and largest table, as a power of two of its bits: 4 KiB, and 2 MiB, which is what a
/// second-level cache holds.
const BITS_LOG2: std::ops::RangeInclusive<u32> = 15..=24;

/// Places that are judged at a time, and the bytes that are read for them.
const BLOCK: usize = 64;
const BLOCK_BYTES: usize = BLOCK + 8;

/// 2³² divided by the golden ratio: its product spreads the differences of all four bytes over the
/// upper bits.
const MULTIPLIER: u32 = 0x9e37_79b1;

/// Sets bit 5 of each byte: the two cases of an ASCII letter become one (and so do some pairs of
/// other bytes, as this is a filter).
const FOLD: u32 = 0x2020_2020;

/// A set of windows, with false answers of one kind: a window that is not in the set may be taken
/// for one that is. Letters of either case are the same to it.
#[derive(Clone, Debug)]
pub struct WindowFilter {
    /// A power of two of them.
    words: Box<[u32]>,
    /// Of the 32 bits of a hash, those that are not used.
    shift: u32,
    #[cfg(target_arch = "x86_64")]
    has_avx2: bool,
}

/// What [`WindowFilter::find`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many places were handed out.
    pub count: usize,
    /// Where to go on; none if the text was read to its end.
    pub next: Option<usize>,
}

/// Four bytes as the filter sees them: one number, without the case of letters.
#[inline]
pub fn window(bytes: [u8; WINDOW_BYTES]) -> u32 {
    u32::from_le_bytes(bytes) | FOLD
}

/// A hash of a window; its upper bits are the good ones.
#[inline]
pub fn hash(window: u32) -> u32 {
    window.wrapping_mul(MULTIPLIER)
}

impl WindowFilter {
    /// An empty set in a table of 2^`bits_log2` bits, or of the nearest size there is.
    pub fn new(bits_log2: u32) -> WindowFilter {
        let bits_log2 = bits_log2.clamp(*BITS_LOG2.start(), *BITS_LOG2.end());
        WindowFilter {
            words: vec![0; 1 << (bits_log2 - 5)].into(),
            shift: u32::BITS - bits_log2,
            #[cfg(target_arch = "x86_64")]
            has_avx2: avx2::is_there(),
        }
    }

    /// Adds a window, as [`window`] makes it.
    pub fn insert(&mut self, window: u32) {
        let bit = hash(window) >> self.shift;
        self.words[(bit >> 5) as usize] |= 1 << (bit & 31);
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Tells the places of `text` from `from` on where a window of the set may begin, in order,
    /// until `places` is nearly full or the text ends.
    ///
    /// # Panics
    /// If the text is longer than a `u32` counts, which no frame is.
    #[inline]
    pub fn find(&self, text: &[u8], from: usize, places: &mut [u32; PLACES_MAX]) -> Found {
        assert!(u32::try_from(text.len()).is_ok(), "places are told as u32");
        #[cfg(target_arch = "x86_64")]
        if self.has_avx2 {
            return avx2::find(self, text, from, places);
        }
        self.find_portably(text, from, places)
    }

    fn find_portably(&self, text: &[u8], from: usize, places: &mut [u32; PLACES_MAX]) -> Found {
        walk(text, from, places, |block| self.mask(block))
    }

    /// A bit for each place of the block at which a window may begin.
    #[inline]
    fn mask(&self, block: &[u8; BLOCK_BYTES]) -> u64 {
        let mut mask = 0;
        for (place, bytes) in block.windows(WINDOW_BYTES).take(BLOCK).enumerate() {
            let bytes = bytes.try_into().expect("windows are four bytes long");
            let bit = hash(window(bytes)) >> self.shift;
            let word = self.words[(bit >> 5) as usize];
            mask |= u64::from(word >> (bit & 31) & 1) << place;
        }
        mask
    }
}

/// Goes through `text` block by block.
///
/// Always inlined, so that what `judge` needs of the processor may be used around it too.
#[inline(always)]
fn walk(
    text: &[u8],
    from: usize,
    places: &mut [u32; PLACES_MAX],
    judge: impl Fn(&[u8; BLOCK_BYTES]) -> u64,
) -> Found {
    let mut count = 0;
    let mut at = from;
    while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk) {
        if count > PLACES_MAX - BLOCK {
            return Found { count, next: Some(at) };
        }
        count = note(judge(block), at, count, places);
        at += BLOCK;
    }
    // What is left is read from a copy: nothing behind the text is touched.
    while at + WINDOW_BYTES <= text.len() {
        if count > PLACES_MAX - BLOCK {
            return Found { count, next: Some(at) };
        }
        let rest = &text[at..];
        let mut block = [0; BLOCK_BYTES];
        block[..rest.len().min(BLOCK_BYTES)].copy_from_slice(&rest[..rest.len().min(BLOCK_BYTES)]);
        let whole = rest.len() - WINDOW_BYTES + 1;
        let mask = if whole >= BLOCK { u64::MAX } else { (1 << whole) - 1 };
        count = note(judge(&block) & mask, at, count, places);
        at += BLOCK;
    }
    Found { count, next: None }
}

#[inline(always)]
fn note(mut mask: u64, at: usize, mut count: usize, places: &mut [u32; PLACES_MAX]) -> usize {
    while mask != 0 {
        places[count] = at as u32 + mask.trailing_zeros();
        count += 1;
        mask &= mask - 1;
    }
    count
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
