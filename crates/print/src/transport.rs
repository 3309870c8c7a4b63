//! UDP, SCTP and IGMP.

use super::{Line, put};
use ringside_wire::{Igmp, Sctp, Udp, Verdict};
use std::fmt::Write;

impl Line<'_> {
    pub(super) fn udp(&mut self, index: usize, here: &[u8]) {
        let Ok(udp) = Udp::new(here) else { return };
        self.ends(index, udp.source().0, udp.destination().0);
        match self.verdict(index) {
            Some(Verdict::Correct) => self.out.push_str("[udp sum ok] "),
            Some(Verdict::Absent) => self.out.push_str("[no cksum] "),
            Some(Verdict::Wrong { found, expected }) => {
                put!(self, "[bad udp cksum 0x{found:04x} -> 0x{expected:04x}!] ");
            }
            Some(Verdict::Unknown) | None => {}
        }
        if self.after(index).is_some() {
            return;
        }
        let length = udp.payload_length().unwrap_or_else(|| self.bytes_after(index));
        put!(self, "UDP, length {length}");
    }

    pub(super) fn sctp(&mut self, index: usize, here: &[u8]) {
        let Ok(sctp) = Sctp::new(here) else { return };
        self.ends(index, sctp.source().0, sctp.destination().0);
        self.out.push_str("sctp");
        let payload = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
        let Some((_, rest)) = here.split_at_checked(Sctp::BYTES) else { return };
        // The packet without the link's padding.
        let end = payload.len().min(rest.len());
        let Ok(sctp) = Sctp::new(here.get(..Sctp::BYTES + end).unwrap_or(here)) else { return };
        for (number, chunk) in sctp.chunks().enumerate() {
            put!(self, " ({}) [{}]", number + 1, chunk_name(chunk.kind));
        }
    }

    pub(super) fn igmp(&mut self, here: &[u8]) {
        let Ok(igmp) = Igmp::new(here) else { return };
        let group = igmp.group();
        match igmp.kind() {
            Igmp::QUERY => {
                let payload = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
                let version = match (payload.len(), igmp.max_response()) {
                    (4.., _) => 3,
                    (_, 0) => 1,
                    _ => 2,
                };
                put!(self, "igmp query v{version}");
                if !group.is_unspecified() {
                    put!(self, " [gaddr {group}]");
                }
            }
            Igmp::REPORT_V1 => {
                put!(self, "igmp v1 report {group}");
            }
            Igmp::REPORT_V2 => {
                put!(self, "igmp v2 report {group}");
            }
            Igmp::LEAVE => {
                put!(self, "igmp leave {group}");
            }
            Igmp::REPORT_V3 => {
                put!(self, "igmp v3 report, {} group record(s)", igmp.record_count());
            }
            other => {
                put!(self, "igmp-0x{other:x}");
            }
        }
    }
}

fn chunk_name(kind: u8) -> String {
    const NAMES: [&str; 15] = [
        "DATA",
        "INIT",
        "INIT ACK",
        "SACK",
        "HB REQ",
        "HB ACK",
        "ABORT",
        "SHUTDOWN",
        "SHUTDOWN ACK",
        "OP ERR",
        "COOKIE ECHO",
        "COOKIE ACK",
        "ECN ECHO",
        "CWR",
        "SHUTDOWN COMPLETE",
    ];
    NAMES.get(usize::from(kind)).map_or_else(|| format!("chunk {kind}"), |name| (*name).into())
}
