//! Which window of a pattern stands for it.

use foldhash::fast::RandomState;
use ringside_sys::window_filter::{WINDOW_BYTES, window};
use std::collections::HashMap;

/// How often pairs of bytes are in the patterns, which are made of what payloads are made of: a
/// window of rare pairs is a rare window.
#[derive(Debug)]
pub(super) struct Choice {
    /// By both bytes, the first in the low half.
    pairs: Box<[u32]>,
    /// Patterns that have a window already.
    taken: HashMap<u32, u32, RandomState>,
}

impl Choice {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]>) -> Choice {
        let mut pairs: Box<[u32]> = (0..=u16::MAX).map(prior).collect();
        for windows in patterns.map(folded_windows) {
            for (_, window) in windows {
                pairs[window as usize & 0xffff] += 1;
            }
        }
        Choice { pairs, taken: HashMap::default() }
    }

    /// The window to look for, as bytes from the pattern's front, and the window itself. The
    /// pattern is at least a window long.
    pub(super) fn best(&mut self, pattern: &[u8]) -> (u16, u32) {
        let (before, window) = folded_windows(pattern)
            .min_by_key(|(_, window)| self.cost(*window))
            .expect("only patterns of a window or more are looked for by one");
        *self.taken.entry(window).or_default() += 1;
        // Bounded by PATTERN_BYTES_MAX.
        (before as u16, window)
    }

    /// How often the window may be met, times how many patterns are compared then.
    fn cost(&self, window: u32) -> u64 {
        let pairs = [0, 8, 16].map(|bits| self.pairs[(window >> bits) as usize & 0xffff]);
        let often = pairs.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        let [first, others @ ..] = window.to_le_bytes();
        // One byte over and over fills whole payloads.
        let runs = if others == [first; 3] { 1 << 20 } else { 1 };
        let taken = self.taken.get(&window).copied().unwrap_or(0);
        often.saturating_mul(runs).saturating_mul(u64::from(taken) + 1)
    }
}

/// What is known before there are patterns: zeros and blanks are in all payloads, then letters and
/// digits.
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
    windows.map(|(at, bytes)| {
        (at, window(bytes.try_into().expect("windows are four bytes long")))
    })
}
