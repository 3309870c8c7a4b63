//! Fields of templates: their numbers, lengths, and how they are written.

use super::uptime_ms;
use crate::{Record, Side};
use ringside_core::time::NANOS_PER_SEC;
use ringside_wire::{IpProtocol, TunnelId};
use std::net::IpAddr;

/// What a field is written from.
pub(super) struct Context<'r> {
    pub record: &'r Record,
    /// When the exporter began, for times of NetFlow.
    pub begun_ns: u64,
}

/// One field of a template.
#[derive(Clone, Copy)]
pub(super) struct Element {
    /// Number of the information element.
    pub id: u16,
    /// It is that of the other direction (RFC 5103).
    pub is_reverse: bool,
    /// Length.
    pub bytes: u16,
    /// Writes it, in network order.
    pub put: fn(&Context<'_>, &Side, &mut Vec<u8>),
}

const fn element(id: u16, bytes: u16, put: fn(&Context<'_>, &Side, &mut Vec<u8>)) -> Element {
    Element { id, is_reverse: false, bytes, put }
}

const fn reverse(element: Element) -> Element {
    Element { is_reverse: true, ..element }
}

impl Element {
    /// Writes the field of a record, of the direction that it is of.
    pub fn write(&self, context: &Context<'_>, out: &mut Vec<u8>) {
        let Record { forward, reverse, .. } = context.record;
        let begin = out.len();
        (self.put)(context, if self.is_reverse { reverse } else { forward }, out);
        debug_assert_eq!(out.len() - begin, usize::from(self.bytes), "element {}", self.id);
    }
}

const SOURCE_V4: Element = element(8, 4, |c, _, out| address(c.record.source, out));
const DESTINATION_V4: Element = element(12, 4, |c, _, out| address(c.record.destination, out));
const SOURCE_V6: Element = element(27, 16, |c, _, out| address(c.record.source, out));
const DESTINATION_V6: Element = element(28, 16, |c, _, out| address(c.record.destination, out));
const SOURCE_PORT: Element = element(7, 2, |c, _, out| {
    out.extend(if c.record.icmp().is_some() { [0; 2] } else { c.record.source_port.to_be_bytes() });
});
/// Type and code of ICMP stand here, as collectors of NetFlow expect.
const DESTINATION_PORT: Element = element(11, 2, |c, _, out| {
    out.extend(icmp(c.record).unwrap_or(c.record.destination_port).to_be_bytes());
});
const PROTOCOL: Element = element(4, 1, |c, _, out| out.push(c.record.protocol.0));
/// Of one octet: the eight flags that NetFlow knows.
const TCP_FLAGS_V9: Element = element(6, 1, |c, side, out| out.push(flags(c, side) as u8));
const TCP_FLAGS: Element = element(6, 2, |c, side, out| out.extend(flags(c, side).to_be_bytes()));
const OCTETS: Element = element(1, 8, |_, side, out| out.extend(side.ip_octets.to_be_bytes()));
const PACKETS: Element = element(2, 8, |_, side, out| out.extend(side.packets.to_be_bytes()));
const LAYER2_OCTETS: Element =
    element(352, 8, |_, side, out| out.extend(side.octets.to_be_bytes()));
const TOS: Element = element(5, 1, |_, side, out| out.push(side.tos));
const VLAN: Element =
    element(58, 2, |c, _, out| out.extend(c.record.vlan.unwrap_or(0).to_be_bytes()));
const INGRESS: Element = element(10, 4, |c, _, out| {
    out.extend(c.record.interface.0.saturating_add(1).to_be_bytes());
});
/// Where it left is not seen here.
const EGRESS: Element = element(14, 4, |_, _, out| out.extend([0; 4]));
const ICMP_V4: Element =
    element(32, 2, |c, _, out| out.extend(icmp(c.record).unwrap_or(0).to_be_bytes()));
const ICMP_V6: Element = Element { id: 139, ..ICMP_V4 };
const END_REASON: Element = element(136, 1, |c, _, out| out.push(c.record.end as u8));
const FLOW_ID: Element = element(148, 8, |c, _, out| out.extend(c.record.flow_id.to_be_bytes()));
/// Type of the tunnel above, its number below (RFC 7133); 0 without one, and for kinds that have
/// no number there.
const SEGMENT_ID: Element = element(351, 8, |c, _, out| {
    let id = match c.record.tunnel {
        Some(TunnelId::Vxlan(id)) => 1 << 56 | u64::from(id),
        Some(TunnelId::Nvgre(id)) => 2 << 56 | u64::from(id),
        _ => 0,
    };
    out.extend(id.to_be_bytes());
});
/// Label, and nothing of the other twelve bits of an entry's first three octets but their place.
const MPLS_TOP: Element = element(70, 3, |_, side, out| {
    let entry = side.mpls_label.unwrap_or(0) << 4;
    out.extend(entry.to_be_bytes().get(1..).unwrap_or_default());
});
/// 0 unknown, 1 the initiator is the source, 2 the responder is.
const DIRECTION: Element = element(239, 1, |c, _, out| {
    out.push(if c.record.is_initiator_known { 1 } else { 0 });
});
const DIRECTION_REVERSED: Element = element(239, 1, |c, _, out| {
    out.push(if c.record.is_initiator_known { 2 } else { 0 });
});
const FIRST_MS: Element =
    element(152, 8, |_, side, out| out.extend((side.first_ns / 1_000_000).to_be_bytes()));
const LAST_MS: Element =
    element(153, 8, |_, side, out| out.extend((side.last_ns / 1_000_000).to_be_bytes()));
const FIRST_NS: Element = element(156, 8, |_, side, out| out.extend(ntp(side.first_ns)));
const LAST_NS: Element = element(157, 8, |_, side, out| out.extend(ntp(side.last_ns)));
const FIRST_UPTIME: Element = element(22, 4, |c, side, out| {
    out.extend(uptime_ms(c.begun_ns, side.first_ns).to_be_bytes());
});
const LAST_UPTIME: Element = element(21, 4, |c, side, out| {
    out.extend(uptime_ms(c.begun_ns, side.last_ns).to_be_bytes());
});

/// What a template holds, in addition to addresses and times.
const COMMON: [Element; 5] = [SOURCE_PORT, DESTINATION_PORT, PROTOCOL, OCTETS, PACKETS];

/// Fields of NetFlow v9, of one direction.
pub(super) fn netflow9(is_v6: bool) -> Vec<Element> {
    let mut fields = addresses(is_v6).to_vec();
    fields.extend(COMMON);
    fields.extend([TCP_FLAGS_V9, FIRST_UPTIME, LAST_UPTIME, TOS, VLAN, INGRESS, EGRESS]);
    fields.push(ICMP_V4);
    fields
}

/// Fields of IPFIX: of the directions that the record is of.
pub(super) fn ipfix(is_v6: bool, has_nanoseconds: bool, ways: Ways) -> Vec<Element> {
    let times = if has_nanoseconds { [FIRST_NS, LAST_NS] } else { [FIRST_MS, LAST_MS] };
    let mut fields = addresses(is_v6).to_vec();
    fields.extend(COMMON);
    fields.extend(times);
    fields.extend([TCP_FLAGS, TOS, LAYER2_OCTETS, MPLS_TOP, VLAN, INGRESS, EGRESS]);
    fields.extend([if is_v6 { ICMP_V6 } else { ICMP_V4 }, SEGMENT_ID, END_REASON, FLOW_ID]);
    match ways {
        // It is said of biflows.
        Ways::Each => {}
        Ways::Reversed => fields.push(DIRECTION_REVERSED),
        Ways::Forward | Ways::Both => fields.push(DIRECTION),
    }
    if ways == Ways::Both {
        fields.extend([OCTETS, PACKETS].map(reverse));
        fields.extend(times.map(reverse));
        fields.extend([TCP_FLAGS, TOS, LAYER2_OCTETS, MPLS_TOP].map(reverse));
    }
    fields
}

/// Which directions of a flow a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// From the initiator.
    Forward,
    /// From the responder: written as its source.
    Reversed,
    Both,
    /// Either of them: each is a record.
    Each,
}

fn addresses(is_v6: bool) -> [Element; 2] {
    if is_v6 { [SOURCE_V6, DESTINATION_V6] } else { [SOURCE_V4, DESTINATION_V4] }
}

fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

fn flags(context: &Context<'_>, side: &Side) -> u16 {
    if context.record.protocol == IpProtocol::TCP { side.tcp_flags } else { 0 }
}

fn icmp(record: &Record) -> Option<u16> {
    record.icmp().map(|(kind, code)| u16::from(kind) << 8 | u16::from(code))
}

/// Seconds since 1900 and their fraction in 2^-32: RFC 7011, section 6.1.10. The fraction is
/// rounded up, so that a reader that cuts it to nanoseconds finds the same.
fn ntp(ns: u64) -> [u8; 8] {
    const FROM_1900_TO_1970: u64 = 2_208_988_800;
    let seconds = (ns / NANOS_PER_SEC).wrapping_add(FROM_1900_TO_1970) as u32;
    let fraction = ((ns % NANOS_PER_SEC) << 32).div_ceil(NANOS_PER_SEC);
    (u64::from(seconds) << 32 | fraction).to_be_bytes()
}
