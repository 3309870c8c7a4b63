//! Which window of a pattern stands for it.

use foldhash::fast::RandomState;
use ringside_sys::window_filter::{WINDOW_BYTES, window};
use std::collections::HashMap;

/// How often windows and pairs of bytes are in the patterns, which are made of what payloads are
/// made of.
///
/// Of 10,000 patterns of words, hosts and headers, and real payloads: with the window of the rarest
/// pairs 42 patterns are compared for 1,000 bytes; with the window that is in the fewest patterns,
/// and then of the rarest pairs, six or seven.
#[derive(Debug)]
pub(super) struct Choice {
    windows: HashMap<u32, u32, RandomState>,
    /// By both bytes, the first in the low half.
    pairs: Box<[u32]>,
}

impl Choice {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]>) -> Choice {
        let mut windows: HashMap<u32, u32, RandomState> = HashMap::default();
        let mut pairs: Box<[u32]> = (0..=u16::MAX).map(prior).collect();
        for (_, window) in patterns.flat_map(folded_windows) {
            *windows.entry(window).or_default() += 1;
            pairs[window as usize & 0xffff] += 1;
        }
        Choice { windows, pairs }
    }

    /// The window to look for, as bytes from the pattern's front, and the window itself. The
    /// pattern is at least a window long.
    pub(super) fn best(&self, pattern: &[u8]) -> (u16, u32) {
        let (before, window) = folded_windows(pattern)
            .min_by_key(|(_, window)| self.cost(*window))
            .expect("only patterns of a window or more are looked for by one");
        // Bounded by PATTERN_BYTES_MAX.
        (before as u16, window)
    }

    fn cost(&self, window: u32) -> (bool, u32, u64) {
        let pairs = [0, 8, 16].map(|bits| self.pairs[(window >> bits) as usize & 0xffff]);
        let often = pairs.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        let [first, others @ ..] = window.to_le_bytes();
        // One byte over and over fills whole payloads.
        (others == [first; 3], self.windows.get(&window).copied().unwrap_or(0), often)
    }
}

/// What is known before there are patterns: blanks (and zeros, which are folded to them) are in all
/// payloads, then letters and digits.
fn prior(pair: u16) -> u32 {
    let weight = |byte: u8| match byte {
        b' ' => 6,
        b'a'..=b'z' => 3,
        b'0'..=b'9' => 2,
        _ => 1,
    };
    let [first, second] = pair.to_le_bytes();
    weight(first) * weight(second)
}

fn folded_windows(pattern: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    let windows = pattern.windows(WINDOW_BYTES).enumerate();
    windows.map(|(at, bytes)| (at, window(bytes.try_into().expect("windows are four bytes long"))))
}
