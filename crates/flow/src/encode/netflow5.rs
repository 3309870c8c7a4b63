//! NetFlow version 5: a header of 24 octets and up to 29 records of 48.

use super::{BEFORE_NS, MESSAGE_BYTES_MAX, uptime_ms};
use crate::{Record, Side};
use ringside_core::Timestamp;
use ringside_wire::IpProtocol;
use std::net::{IpAddr, Ipv4Addr};

const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 48;
/// Cisco sends up to 30; this keeps to the length of all messages.
const RECORDS_MAX: usize = (MESSAGE_BYTES_MAX - HEADER_BYTES) / RECORD_BYTES;
const VERSION: u16 = 5;

pub(super) struct Netflow5 {
    domain: u32,
    begun_ns: u64,
    /// Flows in messages before this one.
    flows: u32,
    count: u16,
    records: Vec<u8>,
    message: Vec<u8>,
}

impl Netflow5 {
    pub fn new(domain: u32, begun: Timestamp) -> Netflow5 {
        let begun_ns = begun.0.saturating_sub(BEFORE_NS);
        let (records, message) = (Vec::new(), Vec::new());
        Netflow5 { domain, begun_ns, flows: 0, count: 0, records, message }
    }

    pub fn put(&mut self, record: &Record, now: Timestamp, out: &mut dyn FnMut(&[u8])) -> bool {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (record.source, record.destination) else {
            return false;
        };
        // Both in one message: it is delivered or lost as a whole.
        if usize::from(self.count) + 2 > RECORDS_MAX {
            self.flush(now, out);
        }
        let reversed = record.reversed();
        let ways = [(record, from, to, &record.forward), (&reversed, to, from, &record.reverse)];
        for (record, from, to, side) in ways {
            if side.packets > 0 {
                self.put_side(record, (from, to), side, now, out);
            }
        }
        true
    }

    /// One direction. Counters have 32 bits: what does not fit is several records, whose sums are
    /// right.
    fn put_side(
        &mut self,
        record: &Record,
        addresses: (Ipv4Addr, Ipv4Addr),
        side: &Side,
        now: Timestamp,
        out: &mut dyn FnMut(&[u8]),
    ) {
        let most = u64::from(u32::MAX);
        let pieces = side.packets.div_ceil(most).max(side.ip_octets.div_ceil(most)).max(1);
        for piece in 0..pieces {
            // As even as can be; no piece is larger than the rounded quotient.
            let share = |total: u64| (total / pieces + u64::from(piece < total % pieces)) as u32;
            if usize::from(self.count) == RECORDS_MAX {
                self.flush(now, out);
            }
            self.count += 1;
            let counts = (share(side.packets), share(side.ip_octets));
            self.write(record, addresses, side, counts);
        }
    }

    fn write(
        &mut self,
        record: &Record,
        (from, to): (Ipv4Addr, Ipv4Addr),
        side: &Side,
        (packets, octets): (u32, u32),
    ) {
        let begun_ns = self.begun_ns;
        // What it is of ICMP stands in the destination's port.
        let ports = match record.icmp() {
            Some((kind, code)) => (0, u16::from(kind) << 8 | u16::from(code)),
            None => (record.source_port, record.destination_port),
        };
        let interface = (record.interface.0 as u16).saturating_add(1);
        let put = &mut self.records;
        put.extend(from.octets());
        put.extend(to.octets());
        put.extend([0; 4]); // next hop: not seen here
        put.extend(interface.to_be_bytes());
        put.extend([0; 2]); // output interface
        put.extend(packets.to_be_bytes());
        put.extend(octets.to_be_bytes());
        put.extend(uptime_ms(begun_ns, side.first_ns).to_be_bytes());
        put.extend(uptime_ms(begun_ns, side.last_ns).to_be_bytes());
        put.extend(ports.0.to_be_bytes());
        put.extend(ports.1.to_be_bytes());
        let is_tcp = record.protocol == IpProtocol::TCP;
        let flags = if is_tcp { side.tcp_flags as u8 } else { 0 };
        put.extend([0, flags, record.protocol.0, side.tos]);
        put.extend([0; 8]); // systems, masks, padding
    }

    pub fn flush(&mut self, now: Timestamp, out: &mut dyn FnMut(&[u8])) {
        if self.count == 0 {
            return;
        }
        let message = &mut self.message;
        message.clear();
        message.extend(VERSION.to_be_bytes());
        message.extend(self.count.to_be_bytes());
        message.extend(uptime_ms(self.begun_ns, now.0).to_be_bytes());
        message.extend((now.seconds() as u32).to_be_bytes());
        message.extend(now.subsec_nanos().to_be_bytes());
        message.extend(self.flows.to_be_bytes());
        message.extend([(self.domain >> 8) as u8, self.domain as u8]);
        // Sampling: mode 0 and interval 0 are none.
        message.extend([0; 2]);
        message.append(&mut self.records);
        out(message);
        self.flows = self.flows.wrapping_add(self.count.into());
        self.count = 0;
    }
}
