//! Statistics of RTP streams: without tables, and without anything but the packets of one stream.

mod bursts;
mod jitter_buffer;
mod sequence;
mod statistics;
mod timing;

pub use bursts::{Bursts, GAP_MIN};
pub use jitter_buffer::JitterBuffer;
pub use sequence::{Fate, Order, Sequence};
pub use statistics::Statistics;
pub use timing::{Spread, Timing};

#[cfg(test)]
mod tests;
