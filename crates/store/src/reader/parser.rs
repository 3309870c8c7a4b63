//! A parser of whatever format a capture has.

use super::pcap::PcapParser;
use super::pcapng::PcapngParser;
use super::record::{Damage, Step};

/// What reads records.
pub(super) enum Parser {
    Pcap(PcapParser),
    Pcapng(Box<PcapngParser>),
}

impl Parser {
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Step, Damage> {
        match self {
            Parser::Pcap(parser) => parser.step(bytes),
            Parser::Pcapng(parser) => parser.step(bytes),
        }
    }

    pub(super) fn is_inside_record(&self) -> bool {
        matches!(self, Parser::Pcapng(parser) if parser.is_inside_block())
    }

    pub(super) fn may_be_packet(&self, bytes: &[u8]) -> bool {
        match self {
            Parser::Pcap(_) => true,
            Parser::Pcapng(parser) => parser.may_be_packet(bytes),
        }
    }
}
