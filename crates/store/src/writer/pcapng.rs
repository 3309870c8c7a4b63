//! Writing pcapng: section header, interfaces as they come, packets, statistics at the end.

use super::FrameWriter;
use super::buffer::RecordBuffer;
use crate::StoreError;
use crate::block::{self, STATISTICS_BLOCK_BYTES_MAX, Statistics};
use crate::pcapng::{
    BYTE_ORDER_MAGIC, INTERFACE_DESCRIPTION, OPTION_BYTES_MAX, SECTION_HEADER, aligned,
    append_block, append_option, append_text, cut_text, option,
};
use ringside_core::limits::INTERFACES_MAX;
use ringside_core::{Direction, Frame, InterfaceId, SourceInterface};
use std::io::Write;

/// What the section header names as the application.
const USER_APPLICATION: &str = concat!("Ringside ", env!("CARGO_PKG_VERSION"));
/// Value of if_tsresol for nanoseconds: 10^-9 s.
const TSRESOL_NANOSECONDS: u8 = 9;

/// Code and length of an option; all of the option that ends the others.
const OPTION_HEADER_BYTES: usize = 4;
/// The length at the end of a block.
const LENGTH_BYTES: usize = 4;

/// Appends a section header; `comment` may be empty.
pub(crate) fn append_section_header(out: &mut Vec<u8>, comment: &str) {
    append_block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        out.extend_from_slice(&u64::MAX.to_le_bytes()); // section length: not given
        append_text(out, option::COMMENT, comment);
        append_text(out, option::USER_APPLICATION, USER_APPLICATION);
        append_option(out, option::END, &[]);
    });
}

/// Appends an interface description; stamps are nanoseconds.
pub(crate) fn append_interface(out: &mut Vec<u8>, interface: &SourceInterface) {
    append_block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&interface.link_type.0.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&interface.snaplen_bytes.to_le_bytes());
        append_text(out, option::IF_NAME, &interface.name);
        append_text(out, option::IF_DESCRIPTION, &interface.description);
        append_option(out, option::IF_TSRESOL, &[TSRESOL_NANOSECONDS]);
        if !interface.filter.is_empty() {
            // The first byte says what follows: 0 for a pcap-filter expression.
            let filter = ["\0", interface.filter.as_str()].concat();
            append_text(out, option::IF_FILTER, &filter);
        }
        append_option(out, option::END, &[]);
    });
}

/// Bytes that `comment` adds to a packet block.
pub(super) fn comment_bytes(comment: &str, direction: Direction) -> usize {
    // The options of a block that has none otherwise end in an option of their own.
    let end_bytes = OPTION_HEADER_BYTES - options_end_bytes(direction);
    OPTION_HEADER_BYTES + aligned(cut_text(comment, OPTION_BYTES_MAX).len()) + end_bytes
}

/// Bytes of the end of the options of a packet block without a comment.
fn options_end_bytes(direction: Direction) -> usize {
    let bare = block::packet_block_bytes(0, Direction::Unknown);
    if block::packet_block_bytes(0, direction) > bare { OPTION_HEADER_BYTES } else { 0 }
}

/// Appends a packet block with a comment after its other options.
fn append_commented(out: &mut Vec<u8>, frame: &Frame<'_>, comment: &str) {
    let start = out.len();
    append_packet(out, frame);
    // What ends the block comes again after the comment.
    out.truncate(out.len() - LENGTH_BYTES - options_end_bytes(frame.meta.direction));
    append_option(out, option::COMMENT, cut_text(comment, OPTION_BYTES_MAX).as_bytes());
    append_option(out, option::END, &[]);
    let length = ((out.len() - start + LENGTH_BYTES) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend_from_slice(&length);
}

fn append_packet(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let start = out.len();
    let length = block::packet_block_bytes(frame.bytes.len(), frame.meta.direction);
    out.resize(start + length, 0);
    block::write_packet_block(&mut out[start..], frame, 0);
}

/// Writes a pcapng file or stream.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: RecordBuffer<W>,
    interfaces: usize,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a section with `interfaces` as ids from 0. Nothing is handed to `out` before the
    /// first flush or the first full buffer.
    ///
    /// # Errors
    /// Too many interfaces.
    pub fn new(out: W, interfaces: &[SourceInterface]) -> Result<PcapngWriter<W>, StoreError> {
        let mut writer = PcapngWriter { out: RecordBuffer::new(out), interfaces: 0 };
        writer.out.record(false, |out| append_section_header(out, ""))?;
        for interface in interfaces {
            writer.append(interface)?;
        }
        Ok(writer)
    }

    fn append(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        if self.interfaces == INTERFACES_MAX {
            return Err(StoreError::TooManyInterfaces { limit: INTERFACES_MAX });
        }
        self.out.record(false, |out| append_interface(out, interface))?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces as u32 - 1))
    }

    fn check(&self, frame: &Frame<'_>) -> Result<(), StoreError> {
        let interface = frame.meta.interface.0;
        if interface as usize >= self.interfaces {
            return Err(StoreError::UnknownInterface { interface, known: self.interfaces });
        }
        Ok(())
    }
}

impl<W: Write + Send> FrameWriter for PcapngWriter<W> {
    fn add_interface(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        self.append(interface)
    }

    fn write(&mut self, frame: &Frame<'_>) -> Result<(), StoreError> {
        self.check(frame)?;
        self.out.record(true, |out| append_packet(out, frame))
    }

    fn write_commented(&mut self, frame: &Frame<'_>, comment: &str) -> Result<(), StoreError> {
        self.check(frame)?;
        self.out.record(true, |out| append_commented(out, frame, comment))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.out.flush()
    }

    fn finish(&mut self, statistics: &[Statistics<'_>]) -> Result<(), StoreError> {
        for one in statistics {
            self.out.record(false, |out| {
                let start = out.len();
                out.resize(start + STATISTICS_BLOCK_BYTES_MAX, 0);
                let length = block::write_statistics_block(&mut out[start..], one);
                out.truncate(start + length);
            })?;
        }
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
