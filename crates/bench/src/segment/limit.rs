//! The limit of chains: frames of a header and a piece of payload, the header never written, the
//! payload the same for all, no checksum asked for, nothing summed up. What is left are two
//! descriptors for each frame, and what the kernel does with them.

use super::MSS_BYTES;
use anyhow::ensure;
use ringside_core::Sink;
use ringside_terminal::signals::StopSignal;
use ringside_transmit::sink::{SinkConfig, XdpSink};
use std::time::{Duration, Instant};

/// Ethernet, IPv4 and TCP, as the streams have them.
const HEADER_BYTES: usize = 54;
/// Frames between two looks at the clock.
const FRAMES: usize = 64;
/// How long what is in flight at the end may take.
const DRAIN: Duration = Duration::from_secs(2);

/// Sends until the time is over; returns what per cent of the frames was refused.
pub(super) fn send(interface: &str, duration: Duration, stop: &StopSignal) -> anyhow::Result<f64> {
    let config = SinkConfig { payload_bytes: MSS_BYTES, ..SinkConfig::new(interface) };
    let mut sink = XdpSink::open(&config, &mut Vec::new())?;
    ensure!(sink.features().chains.is_some(), "the kernel takes no chains");
    let piece = 0..MSS_BYTES;
    sink.write_payload(piece.clone(), |part| part.fill(7))?;
    let start = Instant::now();
    while start.elapsed() < duration && !stop.is_set() {
        for _ in 0..FRAMES {
            while !sink.put_chain(HEADER_BYTES, None, |_| (), std::slice::from_ref(&piece))? {
                sink.flush()?;
                if start.elapsed() > duration || stop.is_set() {
                    break;
                }
            }
        }
    }
    let (counters, failure) = sink.drain(DRAIN);
    failure.map_or(Ok(()), Err)?;
    Ok(100.0 * counters.refused_total() as f64 / counters.offered.max(1) as f64)
}
