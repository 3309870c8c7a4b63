//! Cache lines of their own, for what threads write.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with another, so that writing it disturbs no user of its
/// neighbours. Two lines of 64 bytes: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
