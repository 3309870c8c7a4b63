//! `import ringside`: packets of recordings and running captures, and what they meant, in Python.
//!
//! The Python side (`python/ringside/`) is names and types alone. Here [`Packets`] says which
//! packets are meant. They are read without Python's lock, and handed on one by one
//! ([`PacketIterator`]), as columns ([`Batches`]), or to the observers that make flows and records
//! of them. Columns go to other libraries by Arrow's C interface, so that none of them is needed,
//! nor copied into.
//!
//! No panic crosses into Python as anything but an exception: PyO3 sees to that, and the stream
//! that C reads does itself.

mod batches;
mod columns;
mod error;
mod filter_child;
mod frames;
mod interpreter;
mod moment;
mod packet;
mod packets;
mod reading;
mod records;

use pyo3::prelude::pymodule;

pub use batches::{Batch, BatchIterator, Batches};
pub use packet::{Packet, PacketIterator};
pub use packets::Packets;

/// The module that Python loads.
#[pymodule]
mod _ringside {
    #[pymodule_export]
    use crate::batches::{Batch, BatchIterator, Batches};
    #[pymodule_export]
    use crate::error::{RingsideError, RingsideWarning};
    #[pymodule_export]
    use crate::filter_child::filter_child;
    #[pymodule_export]
    use crate::packet::{Packet, PacketIterator};
    #[pymodule_export]
    use crate::packets::{Packets, attach, open};
}
