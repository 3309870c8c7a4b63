//! The mark at the end of a lane that was not ended in order: a statistics block with a comment.

use crate::pcapng::{INTERFACE_STATISTICS, append_block, append_option, option};
use ringside_core::{InterfaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longer than every mark.
const MARK_BYTES_MAX: usize = 512;

#[derive(Serialize, Deserialize)]
struct Comment {
    ringside: Body,
}

#[derive(Serialize, Deserialize)]
struct Body {
    end: End,
    unknown_after_ns: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Repaired,
}

/// The mark for a lane of `interface`, of which nothing is known after `unknown_after`.
pub(super) fn mark(interface: InterfaceId, unknown_after: Timestamp) -> Vec<u8> {
    let body = Body { end: End::Repaired, unknown_after_ns: unknown_after };
    let comment = serde_json::to_string(&Comment { ringside: body })
        .expect("a struct of a word and a number is always JSON");
    let mut out = Vec::new();
    append_block(&mut out, INTERFACE_STATISTICS, |out| {
        out.extend_from_slice(&interface.0.to_le_bytes());
        out.extend_from_slice(&unknown_after.0.rotate_left(32).to_le_bytes());
        append_option(out, option::COMMENT, comment.as_bytes());
        out.extend_from_slice(&[0; 4]); // end of options
    });
    out
}

/// What the mark says with which the first `bytes` bytes of `file` end, if they do.
pub(super) fn read_mark(file: &File, bytes: u64) -> Option<Timestamp> {
    let mut end = [0; 4];
    file.read_exact_at(&mut end, bytes.checked_sub(4)?).ok()?;
    let length = u32::from_le_bytes(end) as usize;
    if !(32..=MARK_BYTES_MAX).contains(&length) {
        return None;
    }
    let mut block = vec![0; length];
    file.read_exact_at(&mut block, bytes.checked_sub(length as u64)?).ok()?;
    let word = |at: usize| block.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    if (word(0)?, word(4)?) != (INTERFACE_STATISTICS, length as u32) {
        return None;
    }
    // The comment comes first.
    let head = word(20)?;
    let text = block.get(24..24 + (head >> 16) as usize)?;
    let comment: Comment = serde_json::from_slice(text).ok()?;
    (head as u16 == option::COMMENT).then_some(comment.ringside.unknown_after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::whole_bytes;

    #[test]
    fn a_mark_is_a_whole_block_and_found_again() {
        for stamp in [0, 1_795_239_000_123_456_789, u64::MAX].map(Timestamp) {
            let mark = mark(InterfaceId(3), stamp);
            assert_eq!(whole_bytes(&mark), mark.len());
            assert!(mark.len() <= MARK_BYTES_MAX);
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &[&[7; 100][..], &mark].concat()).unwrap();
            let end = 100 + mark.len() as u64;
            assert_eq!(read_mark(&file, end), Some(stamp));
            for wrong in [0, 3, 100, end - 4, end + 4] {
                assert_eq!(read_mark(&file, wrong), None);
            }
        }
    }
}
