//! Words for models.

use super::Word;
use crate::SysError;
use std::ops::Deref;
use std::sync::Arc;

/// An array of words. Clones are the same memory.
#[derive(Debug)]
pub struct Words<T>(Arc<[T]>);

impl<T: Word> Words<T> {
    /// `count` words, all 0.
    ///
    /// # Errors
    /// There are none; mapped words have some.
    pub fn zeroed(count: usize) -> Result<Words<T>, SysError> {
        Ok(Words((0..count).map(|_| T::default()).collect()))
    }
}

impl<T> Clone for Words<T> {
    fn clone(&self) -> Words<T> {
        Words(self.0.clone())
    }
}

impl<T> Deref for Words<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
