//! How an input begins: its compression, its format and the header of that.

use super::input::{Arrived, Input};
use super::pcap::{self, PcapParser};
use super::pcapng::{self, PcapngParser};
use super::record::Step;
use super::{Parser, packed};
use crate::StoreError;
use ringside_core::Shown;
use std::path::Path;

pub(super) fn unusable(path: &Path, reason: String) -> StoreError {
    StoreError::Unusable { path: path.to_owned(), reason }
}

/// Finds out the format from the first bytes, and reads its header.
pub(super) fn begin(input: &mut Input, path: &Path) -> Result<Parser, StoreError> {
    require(input, 4, path)?;
    if let Some(packing) = packed::packing(input.available()) {
        let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
        input.unpack(packing).map_err(fail)?;
        require(input, 4, path)?;
        if packed::packing(input.available()).is_some() {
            return Err(unusable(path, "is compressed twice; unpack it once".into()));
        }
    }
    let first = input.available();
    if let Some((format, unpacker)) = packed::foreign(first) {
        return Err(StoreError::Compressed { path: path.to_owned(), format, unpacker });
    }
    if pcapng::is_pcapng(first) {
        return begin_pcapng(input, path);
    }
    if !pcap::is_pcap(first) {
        return Err(unusable(path, "is neither pcap nor pcapng".into()));
    }
    require(input, pcap::FILE_HEADER_BYTES, path)?;
    let header = input.available().first_chunk().expect("these bytes were required");
    let parser = PcapParser::new(header).map_err(|reason| unusable(path, reason))?;
    input.consume(pcap::FILE_HEADER_BYTES);
    Ok(Parser::Pcap(parser))
}

fn begin_pcapng(input: &mut Input, path: &Path) -> Result<Parser, StoreError> {
    let mut parser = Box::new(PcapngParser::new());
    loop {
        match parser.step(input.available()).map_err(|reason| unusable(path, reason))? {
            Step::Need(bytes) => require(input, bytes, path)?,
            Step::Skip(bytes) | Step::Room(bytes) => {
                input.consume(bytes); // a section header is held whole
                return Ok(Parser::Pcapng(parser));
            }
            Step::Frame { .. } | Step::RingBlock(_) => {
                return Err(unusable(path, "does not begin with a section header".into()));
            }
        }
    }
}

/// Reads until `bytes` are available, or says that the file is too short.
fn require(input: &mut Input, bytes: usize, path: &Path) -> Result<(), StoreError> {
    while input.available().len() < bytes {
        input.is_readable(None);
        let arrived = input
            .read_towards(bytes)
            .map_err(|error| StoreError::io(format!("cannot read {}", path.shown()), error))?;
        if arrived == Arrived::End {
            let reason = match (input.available().len(), input.packing()) {
                (_, Some((packing, true))) => {
                    format!("ends early: {} has packed no header of a capture", packing.name())
                }
                (0, _) => "is empty".to_owned(),
                (available, _) => format!("ends after {available} bytes, within its header"),
            };
            return Err(unusable(path, reason));
        }
    }
    Ok(())
}
