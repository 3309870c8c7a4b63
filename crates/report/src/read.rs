//! What was read of stored packets.

use ringside_core::Shown;
use ringside_store::Tally;
use ringside_terminal::{say, units};
use std::path::Path;

/// What was read so far, and how much of it matches.
pub fn so_far(read: u64, matched: u64) -> String {
    let (read, matched) = (units::grouped(read), units::grouped(matched));
    format!("{read} packets read, {matched} of them match")
}

/// Says what was read for a range of time.
pub fn range(packets: u64, tally: &Tally, json: bool) {
    let Tally { bytes_read, frames_outside, blocks_passed, .. } = *tally;
    if json {
        let read = serde_json::json!({
            "packets": packets,
            "packets_outside": frames_outside,
            "bytes_read": bytes_read,
            "ring_blocks_passed": blocks_passed,
        });
        return say::message(serde_json::json!({ "read": read }));
    }
    let (packets, outside) = (units::counted(packets, "packet"), units::grouped(frames_outside));
    let bytes = units::counted(bytes_read, "byte");
    let blocks = units::counted(blocks_passed, "ring block");
    say::message(format_args!(
        "{packets} of the range, {outside} outside; {bytes} read, {blocks} passed by"
    ));
}

/// What a copy holds that an error ended.
pub fn held(path: &Path, packets: u64) -> String {
    let packets = units::counted(packets, "packet");
    format!("{} holds the {packets} before this error", path.shown())
}
