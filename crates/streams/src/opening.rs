//! What is known of a connection before it has payload.

/// A connection without payload yet: what its SYNs said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    pub sides: [SideStart; 2],
    pub initiator_high: bool,
}

/// The beginning of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideStart {
    /// Sequence number of its first byte.
    pub start: Option<u32>,
    /// By how many bits its windows are scaled.
    pub scale: Option<u8>,
}
