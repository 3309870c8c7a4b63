//! Eight places at a time.
//!
//! Tried on 11 MB of real payload with 10 to 10,000 windows (Zen 5): this makes 2.8 to 1.7 GB/s.
//! The same with sixteen lanes of AVX-512 makes 1.9 to 1.3, as its gather is one load after the
//! other; scalar code with BMI2's shifts 2.2 to 1.3, and for any x86-64 0.9 to 0.8. Shuffles that
//! look at half bytes (Teddy) are faster up to some hundred windows and pass everything from a
//! thousand on.

use super::{BLOCK_BYTES, FOLD, Found, MULTIPLIER, PLACES_MAX, WindowFilter, walk};
use std::arch::x86_64::{
    __m128i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_movemask_ps, _mm256_mullo_epi32,
    _mm256_or_si256, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_srl_epi32, _mm256_srli_epi32, _mm256_srlv_epi32,
};

/// True if the processor has what [`find`] needs.
pub(super) fn is_there() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1")
}

/// As `WindowFilter::find_portably`.
pub(super) fn find(
    filter: &WindowFilter,
    text: &[u8],
    from: usize,
    places: &mut [u32; PLACES_MAX],
) -> Found {
    assert!(filter.has_avx2);
    // SAFETY: the processor has these instructions: `has_avx2` is what `is_there` said.
    unsafe { find_here(filter, text, from, places) }
}

#[target_feature(enable = "avx2,bmi1")]
fn find_here(
    filter: &WindowFilter,
    text: &[u8],
    from: usize,
    places: &mut [u32; PLACES_MAX],
) -> Found {
    walk(text, from, places, |block| mask(filter, block))
}

#[target_feature(enable = "avx2,bmi1")]
#[inline]
fn mask(filter: &WindowFilter, block: &[u8; BLOCK_BYTES]) -> u64 {
    // From eleven bytes in both halves of a register to the eight windows that begin in the first
    // eight of them.
    let windows = _mm256_setr_epi8(
        0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, //
        4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7, 8, 9, 10,
    );
    let fold = _mm256_set1_epi32(FOLD as i32);
    let multiplier = _mm256_set1_epi32(MULTIPLIER as i32);
    let bit_of_word = _mm256_set1_epi32(31);
    let shift = _mm_cvtsi32_si128(filter.shift as i32);
    let words = filter.words.as_ptr().cast::<i32>();
    let mut mask = 0;
    for group in 0..8 {
        // SAFETY: group is at most 7, so the 16 bytes from 8 * group on end at 72, which is
        // BLOCK_BYTES; the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(block.as_ptr().add(8 * group).cast::<__m128i>()) };
        let folded =
            _mm256_or_si256(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), windows), fold);
        let bit = _mm256_srl_epi32(_mm256_mullo_epi32(folded, multiplier), shift);
        // SAFETY: `shift` leaves a number below 2^(32 - shift) in each lane, which is 32 times the
        // number of words (`WindowFilter::new`, and both fields are never changed): a 32nd of it
        // is the index of a word. Scale 4 is the size of a word.
        let word = unsafe { _mm256_i32gather_epi32::<4>(words, _mm256_srli_epi32::<5>(bit)) };
        let first = _mm256_srlv_epi32(word, _mm256_and_si256(bit, bit_of_word));
        let signs = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(first));
        mask |= u64::from(_mm256_movemask_ps(signs) as u32) << (8 * group);
    }
    mask
}
