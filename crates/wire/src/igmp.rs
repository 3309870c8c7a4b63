//! IGMP, versions 1 to 3 (RFC 2236, RFC 9776).

use crate::bytes::{be16, head};
use crate::{LayerKind, WireError};
use std::net::Ipv4Addr;

/// View of the first 8 bytes of an IGMP message.
#[derive(Clone, Copy, Debug)]
pub struct Igmp<'a> {
    header: &'a [u8; Igmp::BYTES],
    payload: &'a [u8],
}

impl<'a> Igmp<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 8;
    /// Membership query.
    pub const QUERY: u8 = 0x11;
    /// Version 1 report.
    pub const REPORT_V1: u8 = 0x12;
    /// Version 2 report.
    pub const REPORT_V2: u8 = 0x16;
    /// Leave.
    pub const LEAVE: u8 = 0x17;
    /// Version 3 report.
    pub const REPORT_V3: u8 = 0x22;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Igmp<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Igmp)?;
        Ok(Igmp { header, payload })
    }

    /// Type.
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Maximum response code of a query.
    pub fn max_response(&self) -> u8 {
        self.header[1]
    }

    /// Checksum as it stands.
    pub fn checksum(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// Group address; in a version 3 report, reserved bits and the number of records.
    pub fn group(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// Number of group records of a version 3 report.
    pub fn record_count(&self) -> u16 {
        be16(self.header[6], self.header[7])
    }

    /// What follows: sources of a version 3 query, or group records.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
