//! The header of a file of a recording, read by itself from the first bytes of the file.

use super::pcapng::PcapngParser;
use super::record::Step;
use crate::file_header::FileHeader;
use ringside_core::SourceInterface;

/// Walks the first blocks of a file as they become available.
#[derive(Clone, Debug)]
pub(crate) struct HeaderWalk {
    pub(super) parser: PcapngParser,
    at: usize,
}

/// Where a [`HeaderWalk`] stands.
pub(crate) enum HeaderStep {
    /// More bytes of the file are needed.
    More,
    /// The header, and its length in bytes.
    Found(FileHeader, usize),
    /// This is no file of a recording.
    Foreign,
}

impl HeaderWalk {
    pub(crate) fn new() -> HeaderWalk {
        HeaderWalk { parser: PcapngParser::new(), at: 0 }
    }

    /// Goes on over `bytes`, which are the file from its beginning, more than the last time.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> HeaderStep {
        loop {
            let Some(rest) = bytes.get(self.at..) else { return HeaderStep::More };
            match self.parser.step(rest) {
                Ok(Step::Need(_)) => return HeaderStep::More,
                Ok(Step::Skip(bytes) | Step::Room(bytes)) => self.at += bytes,
                Ok(Step::Frame { .. } | Step::RingBlock(_)) | Err(_) => return HeaderStep::Foreign,
            }
            if let Some((header, header_bytes)) = &self.parser.recording {
                return HeaderStep::Found(header.clone(), *header_bytes);
            }
        }
    }

    /// Where the walk stands: behind the header block, once that is found.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The interfaces that were described so far.
    pub(crate) fn interfaces(&self) -> &[SourceInterface] {
        &self.parser.interfaces
    }
}
