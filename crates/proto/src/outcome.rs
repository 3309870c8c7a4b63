//! How sure the fields of one payload are.

/// What a payload said to the parser of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// All that will be found; more bytes would change nothing.
    Fields(T),
    /// The payload ends before the last field. What was found stays; what is absent may follow.
    Incomplete(T),
    /// No message of this protocol, however it went on.
    NotThis,
}

impl<T> Outcome<T> {
    /// What was found, final or not.
    #[inline]
    pub fn found(self) -> Option<T> {
        match self {
            Outcome::Fields(fields) | Outcome::Incomplete(fields) => Some(fields),
            Outcome::NotThis => None,
        }
    }

    /// What a walk over the payload gave that ended with `end` and found `fields`.
    #[inline]
    pub(crate) fn of(end: Result<(), Stop>, fields: T) -> Outcome<T> {
        match end {
            Ok(()) => Outcome::Fields(fields),
            Err(Stop::Cut) => Outcome::Incomplete(fields),
            Err(Stop::Malformed) => Outcome::NotThis,
        }
    }
}

/// Why a walk over a payload ended before its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The bytes ended.
    Cut,
    /// A byte that the grammar does not allow here.
    Malformed,
}
