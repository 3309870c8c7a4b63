//! Packets as text: one or more lines for each frame, by a function of the caller's.

use super::buffer::RecordBuffer;
use super::{FrameWriter, Statistics};
use crate::StoreError;
use ringside_core::{Frame, InterfaceId, SourceInterface};
use std::io::Write;

/// Appends the text of a frame, with its last line feed; called once for each frame, in order.
pub type Describe = Box<dyn FnMut(&mut Vec<u8>, &Frame<'_>, &SourceInterface) + Send>;

/// Writes text, and counts a frame when the output has taken all of its lines.
pub struct TextWriter<W> {
    out: RecordBuffer<W>,
    interfaces: Vec<SourceInterface>,
    describe: Describe,
}

impl<W: Write + Send> TextWriter<W> {
    /// A writer over `out`, with `interfaces` as ids from 0.
    pub fn new(out: W, interfaces: &[SourceInterface], describe: Describe) -> TextWriter<W> {
        TextWriter { out: RecordBuffer::new(out), interfaces: interfaces.to_vec(), describe }
    }
}

impl<W: Write + Send> FrameWriter for TextWriter<W> {
    fn add_interface(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        self.interfaces.push(interface.clone());
        Ok(InterfaceId(self.interfaces.len() as u32 - 1))
    }

    fn write(&mut self, frame: &Frame<'_>) -> Result<(), StoreError> {
        let (interface, known) = (frame.meta.interface.0, self.interfaces.len());
        let found = self.interfaces.get(interface as usize);
        let found = found.ok_or(StoreError::UnknownInterface { interface, known })?;
        self.out.record(true, |out| (self.describe)(out, frame, found))
    }

    /// A line has no place for a comment.
    fn write_commented(&mut self, frame: &Frame<'_>, _: &str) -> Result<(), StoreError> {
        self.write(frame)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.out.flush()
    }

    /// The statistics are no packets.
    fn finish(&mut self, _: &[Statistics<'_>]) -> Result<(), StoreError> {
        self.out.flush()
    }

    fn bytes_added(&self) -> u64 {
        self.out.bytes_added()
    }

    fn bytes_written(&self) -> u64 {
        self.out.bytes_written()
    }

    fn frames_written(&self) -> u64 {
        self.out.frames_written()
    }
}
