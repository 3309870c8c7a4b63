//! A process that reads a running capture along.

/// Readers yield to the capture that they read: it must not lose a frame to them.
const NICE: i32 = 10;

/// From here on this process yields to the capture that it reads.
pub fn yield_to_capture() {
    // Best effort: a reader that may not yield reads as well.
    let _ = rustix::process::nice(NICE);
}
