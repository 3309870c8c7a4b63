//! Newtypes for integers that could be swapped by accident.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Index of an interface within one run or one file (a pcapng interface id), from 0.
    /// It is not the kernel's ifindex.
    InterfaceId(u32)
}
id! {
    /// A receive queue of an interface, or a member of a packet-socket fanout group, from 0.
    QueueId(u16)
}
id! {
    /// A lane of a run: one receive queue of one interface. Order is kept within a lane.
    LaneId(u16)
}
id! {
    /// Cumulative number of a frame within its lane, from 0, counted over the whole run.
    FrameNumber(u64)
}
