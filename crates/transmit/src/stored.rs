//! Frames of a capture, held in memory to be sent again and again.

use crate::{Error, FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use ringside_core::{LinkType, OwnedFrame, Shown, SourceInterface};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a capture that are held in memory: what a small machine has to spare. The message of
/// [`Error::CaptureTooLarge`] names it.
const BYTES_MAX: usize = 1 << 30;

/// How long one read of a capture may wait, which matters for pipes only.
const READ_WAIT: Duration = Duration::from_millis(100);

/// What of a capture can be sent as it is.
#[derive(Debug, Default)]
pub struct StoredFrames {
    /// Ethernet frames of a size that can be sent.
    pub frames: Vec<OwnedFrame>,
    /// What is to be said of the capture, and of frames that are cut or left out.
    pub notes: Vec<String>,
}

impl StoredFrames {
    /// Reads a capture to its end.
    ///
    /// # Errors
    /// It cannot be read, or holds more than a gibibyte to send.
    pub fn read(path: &PathBuf) -> Result<StoredFrames, Error> {
        let mut source = ringside_store::open(std::slice::from_ref(path))?;
        let (mut frames, mut bytes, mut cut, mut others) = (Vec::new(), 0usize, 0u64, 0u64);
        while !source.is_finished() {
            let mut batch_frames = Vec::new();
            if let Some(batch) = source.next_batch(READ_WAIT)? {
                batch_frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
            }
            for frame in batch_frames {
                let link = SourceInterface::of(&frame.meta, source.interfaces())?.link_type;
                let sendable = frame.bytes.len() >= usize::from(FRAME_BYTES_MIN)
                    && frame.bytes.len() <= usize::from(FRAME_BYTES_MAX);
                if !sendable || link != LinkType::ETHERNET {
                    others += 1;
                    continue;
                }
                cut += u64::from((frame.bytes.len() as u32) < frame.meta.wire_bytes);
                bytes += frame.bytes.len();
                if bytes > BYTES_MAX {
                    return Err(Error::CaptureTooLarge { path: path.shown().to_string() });
                }
                frames.push(frame);
            }
        }
        let mut notes: Vec<String> = source.notices().iter().map(ToString::to_string).collect();
        if cut > 0 {
            notes.push(format!("{cut} frames were cut when they were captured: sent as they are"));
        }
        if others > 0 {
            notes.push(format!("{others} frames are no Ethernet of 14 to 65,535 bytes: left out"));
        }
        Ok(StoredFrames { frames, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_named_is_the_one_that_holds() {
        let refused = Error::CaptureTooLarge { path: "a.pcap".into() }.to_string();
        let digits: String = refused.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits.parse(), Ok(BYTES_MAX), "{refused}");
    }
}
