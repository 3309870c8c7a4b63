//! Names of Zeek's conn.log, as its JSON writer has them: dots are part of a name.

use super::*;

pub(super) const COLUMNS: &[Column<Record>] = &[
    FIRST.called("ts"),
    Column::new("uid", Kind::Text, |row| format!("C{:x}", row.record.flow_id).into()),
    SOURCE.called("id.orig_h"),
    // Zeek has types of ICMP in place of ports.
    Column::new("id.orig_p", Kind::Port, |row| row.record.source_port.into()),
    DESTINATION.called("id.resp_h"),
    Column::new("id.resp_p", Kind::Port, |row| row.record.destination_port.into()),
    Column::new("proto", Kind::Text, |row| proto(row.record.protocol).into()),
    Column::new("service", Kind::Text, |row| {
        match row.record.application.map(|application| application.name()) {
            Some("tls") => "ssl".into(),
            other => other.into(),
        }
    }),
    DURATION.called("duration"),
    Column::new("conn_state", Kind::Text, |row| state(row.record).into()),
    PACKETS.called("orig_pkts"),
    IP_BYTES.called("orig_ip_bytes"),
    REVERSE_PACKETS.called("resp_pkts"),
    REVERSE_IP_BYTES.called("resp_ip_bytes"),
    VLAN.called("vlan"),
    COMMUNITY_ID.called("community_id"),
];

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
    let is_open = has(from, Tcp::SYN) && has(to, Tcp::SYN | Tcp::ACK);
    match (has(from, Tcp::RST), has(to, Tcp::RST)) {
        (_, true) if has(from, Tcp::SYN) && !is_open => return "REJ",
        (true, _) if is_open => return "RSTO",
        (_, true) if is_open => return "RSTR",
        (true, _) if has(from, Tcp::SYN) => return "RSTOS0",
        _ => {}
    }
    let ends = (has(from, Tcp::FIN), has(to, Tcp::FIN));
    match (has(from, Tcp::SYN), is_open, ends) {
        (true, false, (true, _)) => "SH",
        (true, false, _) => "S0",
        (true, true, (true, true)) => "SF",
        (true, true, (true, false)) => "S2",
        (true, true, (false, true)) => "S3",
        (true, true, _) => "S1",
        _ => "OTH",
    }
}
