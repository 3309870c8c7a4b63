//! Stored packets as text.

use crate::{PacketText, Style};
use ringside_core::{Frame, SourceInterface};
use ringside_search::Output;
use std::io::Write;
use std::path::PathBuf;

/// Prints lines, or JSON.
pub struct Printer<W> {
    out: W,
    text: PacketText,
    interfaces: Vec<SourceInterface>,
    /// The text of one packet: its memory is used again.
    bytes: Vec<u8>,
}

impl<W: Write> Printer<W> {
    /// To `out`, which should have a buffer.
    pub fn new(out: W, style: Style) -> Printer<W> {
        let (interfaces, bytes) = (Vec::new(), Vec::new());
        Printer { out, text: PacketText::new(style), interfaces, bytes }
    }
}

impl<W: Write> Output for Printer<W> {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.interfaces.push(interface.clone());
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let link_type = SourceInterface::of(&frame.meta, &self.interfaces)?.link_type;
        self.bytes.clear();
        self.text.append(&mut self.bytes, frame, link_type);
        Ok(self.out.write_all(&self.bytes)?)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        // Another error would hide the first.
        let _ = self.out.flush();
        None
    }
}
