//! How much to write at once: tried on the disk itself, before the first frame.

use super::buffer::PageBuffer;
use ringside_store::dir::Dir;
use ringside_sys::disk;
use std::time::{Duration, Instant};

/// Blocks of one write that are tried. Beyond eight nothing is gained anywhere, and a write holds
/// its blocks until it is over.
const CANDIDATES: [usize; 4] = [1, 2, 4, 8];
/// Blocks of one write where nothing was tried: 4 MiB reach the disk's speed on most.
pub(super) const BLOCKS_DEFAULT: usize = 4;
/// Bytes written for each candidate: a few writes of the largest.
const TRIAL_BYTES: usize = 16 << 20;
/// The whole trial ends here; a disk that is so slow does not care.
const TRIAL_TIME_MAX: Duration = Duration::from_millis(300);
/// A disk with less room is left alone.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Largest share of the best rate that a smaller write may cost.
const TOLERANCE: f64 = 0.05;

/// What the trial found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tuned {
    /// Ring blocks of one write.
    pub(super) blocks: usize,
    /// Its rate.
    pub(super) bytes_per_second: f64,
}

/// Writes about `TRIAL_BYTES` in each of the sizes to a file without a name in `directory`; `None`
/// where there can be no direct writes or little room.
pub(super) fn tune(directory: &Dir, block_bytes: usize) -> Option<Tuned> {
    if directory.free_bytes().ok()? < FREE_BYTES_MIN {
        return None;
    }
    let file = disk::unnamed_direct_file(directory)?;
    let largest = (CANDIDATES[CANDIDATES.len() - 1] * block_bytes).min(TRIAL_BYTES);
    let mut buffer = PageBuffer::new(largest);
    fill(buffer.bytes_mut());
    let deadline = Instant::now() + TRIAL_TIME_MAX;
    let mut rates = Vec::new();
    for blocks in CANDIDATES {
        let Some(write) = buffer.bytes().get(..blocks * block_bytes) else { break };
        let start = Instant::now();
        let mut written = 0;
        while written < TRIAL_BYTES {
            ringside_sys::disk::write_counted(&file, write, written as u64).1.ok()?;
            written += write.len();
            if Instant::now() > deadline {
                break;
            }
        }
        rates.push((blocks, written as f64 / start.elapsed().as_secs_f64()));
        if Instant::now() > deadline {
            break;
        }
        file.set_len(0).ok()?;
    }
    choose(&rates)
}

/// Something that no disk and no file system finds easy to compress: numbers of xorshift64.
fn fill(bytes: &mut [u8]) {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
}

/// The smallest write whose rate is near the best; if there was no time for all, the usual one.
fn choose(rates: &[(usize, f64)]) -> Option<Tuned> {
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if !rates.is_empty() && rates.len() < CANDIDATES.len() {
        return Some(Tuned { blocks: BLOCKS_DEFAULT, bytes_per_second: best });
    }
    let near = rates.iter().find(|(_, rate)| *rate >= best * (1.0 - TOLERANCE));
    near.map(|&(blocks, bytes_per_second)| Tuned { blocks, bytes_per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_size_near_the_best_is_chosen() {
        let chosen = |rates: &[(usize, f64)]| choose(rates).map(|tuned| tuned.blocks);
        assert_eq!(chosen(&[(1, 1.0), (2, 1.7), (4, 1.96), (8, 2.0)]), Some(4));
        assert_eq!(chosen(&[(1, 2.0), (2, 2.0), (4, 2.0), (8, 1.9)]), Some(1));
        assert_eq!(chosen(&[(1, 0.1)]), Some(BLOCKS_DEFAULT), "a slow disk ends the trial early");
        assert_eq!(chosen(&[]), None);
    }
}
