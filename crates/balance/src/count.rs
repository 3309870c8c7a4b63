//! What a balancer counts of a VIP.

/// What is counted of a VIP. The first [`Count::FATES`] are fates: each frame of a VIP is in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Sent to a real.
    Forwarded = 0,
    /// An echo request that was answered.
    Echo = 1,
    /// Too big for the way to the real, and answered so.
    Answered = 2,
    /// Dropped: no real takes it.
    NoReal = 3,
    /// Dropped: too big, and no answer is allowed.
    TooBig = 4,
    /// Dropped: a fragment whose first one did not come by here, or was forgotten.
    Fragment = 5,
    /// Dropped: the hardware address of the next hop is not known.
    NoNeighbour = 6,
    /// Dropped: the host has no route to the real, or may not forward.
    NoRoute = 7,
    /// Dropped: the driver has no room in front of the frame.
    NoRoom = 8,
    /// Of all: errors of ICMP that were sent to a real.
    Error = 9,
    /// Of all: whose flow was remembered.
    Remembered = 10,
    /// Of all: by the current tables.
    Chosen = 11,
    /// Of all: by the tables before the last change.
    Before = 12,
    /// Of all: by a QUIC connection id.
    ById = 13,
    /// Of all: whose flow was not remembered, since too many came in this second.
    Guarded = 14,
    /// Of all: whose flow another CPU remembered.
    Moved = 15,
}

impl Count {
    /// How many of them are fates.
    pub const FATES: usize = 9;
    /// How many there are.
    pub const ALL: usize = 16;
    /// Each, by its number.
    pub const EACH: [Count; Count::ALL] = [
        Count::Forwarded,
        Count::Echo,
        Count::Answered,
        Count::NoReal,
        Count::TooBig,
        Count::Fragment,
        Count::NoNeighbour,
        Count::NoRoute,
        Count::NoRoom,
        Count::Error,
        Count::Remembered,
        Count::Chosen,
        Count::Before,
        Count::ById,
        Count::Guarded,
        Count::Moved,
    ];

    /// Its name in accounts.
    pub fn name(self) -> &'static str {
        match self {
            Count::Forwarded => "forwarded",
            Count::Echo => "echo_answered",
            Count::Answered => "too_big_answered",
            Count::NoReal => "no_real",
            Count::TooBig => "too_big",
            Count::Fragment => "fragment",
            Count::NoNeighbour => "no_neighbour",
            Count::NoRoute => "no_route",
            Count::NoRoom => "no_room",
            Count::Error => "icmp_errors",
            Count::Remembered => "remembered",
            Count::Chosen => "chosen",
            Count::Before => "before",
            Count::ById => "by_id",
            Count::Guarded => "guarded",
            Count::Moved => "moved",
        }
    }

    /// True if its frames are dropped.
    pub fn is_drop(self) -> bool {
        ((Count::NoReal as usize)..Count::FATES).contains(&(self as usize))
    }
}
