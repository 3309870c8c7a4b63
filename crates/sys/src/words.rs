//! Arrays of atomic words that one writer changes while others read: in memory of our own, or in
//! the values of a BPF array, which a program in the kernel reads.
//!
//! Under loom nothing is mapped: models have words of loom's own, each of which remembers what
//! may still be read of it.

#[cfg(not(feature = "loom"))]
mod mapped;
#[cfg(feature = "loom")]
mod modelled;

#[cfg(feature = "loom")]
pub use loom::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(not(feature = "loom"))]
pub use mapped::Words;
#[cfg(feature = "loom")]
pub use modelled::Words;
#[cfg(not(feature = "loom"))]
pub use std::sync::atomic::{AtomicU32, AtomicU64};

/// Words that lie in a [`Words`]: any bytes are a value of theirs, and shared access is atomic.
pub trait Word: sealed::Word + Default {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

mod sealed {
    pub trait Word {}
    impl Word for super::AtomicU32 {}
    impl Word for super::AtomicU64 {}
}

/// Words of 32 bits.
pub type Words32 = Words<AtomicU32>;
/// Words of 64 bits.
pub type Words64 = Words<AtomicU64>;

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn clones_are_the_same_words_and_outlive_each_other() {
        let words = Words64::zeroed(1000).unwrap();
        let other = words.clone();
        assert!(other.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[999].store(7, Ordering::Relaxed);
        drop(words);
        assert_eq!((other.len(), other[999].load(Ordering::Relaxed)), (1000, 7));
        assert!(Words32::zeroed(0).unwrap().is_empty());
    }
}
