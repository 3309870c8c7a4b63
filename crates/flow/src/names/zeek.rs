//! Names of Zeek's conn.log, as its JSON writer has them: dots are part of a name.

use super::{Column, Row};
use crate::Record;
use ringside_core::time::NANOS_PER_SEC;
use ringside_wire::{IpProtocol, Tcp};
use serde_json::Value;

pub(super) const COLUMNS: &[Column] = &[
    ("ts", |row| seconds(row.record.first_ns())),
    ("uid", |row| format!("C{:x}", row.record.flow_id).into()),
    ("id.orig_h", |row| row.record.source.to_string().into()),
    ("id.orig_p", |row| row.record.source_port.into()),
    ("id.resp_h", |row| row.record.destination.to_string().into()),
    ("id.resp_p", |row| row.record.destination_port.into()),
    ("proto", |row| proto(row.record.protocol).into()),
    ("service", |row| match row.record.application.map(|application| application.name()) {
        Some("tls") => "ssl".into(),
        other => other.into(),
    }),
    ("duration", |row| seconds(row.duration_ns())),
    ("conn_state", |row| state(row.record).into()),
    ("orig_pkts", |row| row.record.forward.packets.into()),
    ("orig_ip_bytes", |row| row.record.forward.ip_octets.into()),
    ("resp_pkts", |row| row.record.reverse.packets.into()),
    ("resp_ip_bytes", |row| row.record.reverse.ip_octets.into()),
    ("vlan", |row| row.record.vlan.into()),
    ("community_id", |row| row.community_id()),
];

/// Seconds with six places, as Zeek prints its doubles.
fn seconds(ns: u64) -> Value {
    let micros = (ns % NANOS_PER_SEC / 1_000) as f64;
    ((ns / NANOS_PER_SEC) as f64 + micros / 1e6).into()
}

fn proto(protocol: IpProtocol) -> &'static str {
    match protocol {
        IpProtocol::TCP => "tcp",
        IpProtocol::UDP => "udp",
        IpProtocol::ICMP | IpProtocol::ICMPV6 => "icmp",
        _ => "unknown_transport",
    }
}

/// What Zeek would call the connection's state, by the flags that were seen.
fn state(record: &Record) -> &'static str {
    let (from, to) = (&record.forward, &record.reverse);
    if record.protocol != IpProtocol::TCP {
        return match (from.packets, to.packets) {
            (_, 0) => "S0",
            (0, _) => "SHR",
            _ => "SF",
        };
    }
    let is_open = Row::has(from, Tcp::SYN) && Row::has(to, Tcp::SYN | Tcp::ACK);
    match (Row::has(from, Tcp::RST), Row::has(to, Tcp::RST)) {
        (_, true) if Row::has(from, Tcp::SYN) && !is_open => return "REJ",
        (true, _) if is_open => return "RSTO",
        (_, true) if is_open => return "RSTR",
        (true, _) if Row::has(from, Tcp::SYN) => return "RSTOS0",
        _ => {}
    }
    let ends = (Row::has(from, Tcp::FIN), Row::has(to, Tcp::FIN));
    match (Row::has(from, Tcp::SYN), is_open, ends) {
        (true, false, (true, _)) => "SH",
        (true, false, _) => "S0",
        (true, true, (true, true)) => "SF",
        (true, true, (true, false)) => "S2",
        (true, true, (false, true)) => "S3",
        (true, true, _) => "S1",
        _ => "OTH",
    }
}
