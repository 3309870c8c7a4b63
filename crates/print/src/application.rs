//! What transports carry, by port: each protocol is a module with one function that makes its text.

mod bgp;
mod dhcp;
mod dhcpv6;
mod dns;
mod lines;
pub(super) mod names;
mod ntp;
mod routing;
mod rpc;
mod small;

use crate::cursor::{Payload, Stop};

pub(super) use dhcp::option as dhcp_option;
pub(super) use dns::ENTRIES_MAX as DNS_ENTRIES_MAX;
pub(super) use dns::{question_fields as dns_question, record_fields as dns_record};

/// Ports of HTTP.
pub(super) const HTTP_PORTS: [u16; 3] = [80, 3128, 8080];

/// Text of a payload under construction.
pub(super) struct Text<'a> {
    pub(super) out: &'a mut String,
    /// As in [`PrintOptions`](crate::PrintOptions).
    pub(super) verbosity: u8,
}

/// Makes the text of one payload.
type Print = fn(&mut Text<'_>, Payload<'_>) -> Result<(), Stop>;

/// A protocol whose text is made.
#[derive(Clone, Copy)]
pub(super) struct Protocol {
    /// As it stands in the mark of a payload that is cut.
    name: &'static str,
    print: Print,
}

impl Protocol {
    pub(super) const fn new(name: &'static str, print: Print) -> Protocol {
        Protocol { name, print }
    }

    /// Its name in marks.
    pub(super) fn name(self) -> &'static str {
        self.name
    }

    /// Appends the text of `payload`, and a mark if it ends too early.
    pub(super) fn print(self, text: &mut Text<'_>, payload: Payload<'_>) {
        if let Err(stop) = (self.print)(text, payload) {
            stop.mark(text.out, self.name);
        }
    }
}

/// The protocol of a datagram, by the lower port first: servers have it. Most ports are of none.
pub(super) fn over_udp(source: u16, destination: u16) -> Option<Protocol> {
    of_ports(source, destination, udp_port)
}

/// The protocol of a segment.
pub(super) fn over_tcp(source: u16, destination: u16) -> Option<Protocol> {
    of_ports(source, destination, tcp_port)
}

fn of_ports(source: u16, destination: u16, of: fn(u16) -> Option<Protocol>) -> Option<Protocol> {
    of(source.min(destination)).or_else(|| of(source.max(destination)))
}

fn udp_port(port: u16) -> Option<Protocol> {
    Some(match port {
        53 => Protocol::new("domain", dns::over_udp),
        67 | 68 => Protocol::new("bootp", dhcp::print),
        69 => Protocol::new("tftp", small::tftp),
        111 => Protocol::new("sunrpc", rpc::portmap),
        123 => Protocol::new("ntp", ntp::print),
        500 => Protocol::new("isakmp", small::ike),
        514 => Protocol::new("syslog", small::syslog),
        520 => Protocol::new("rip", routing::rip),
        521 => Protocol::new("ripng", routing::ripng),
        1645 | 1646 | 1700 | 1812 | 1813 | 3799 => Protocol::new("radius", small::radius),
        1985 => Protocol::new("hsrp", routing::hsrp),
        2049 => Protocol::new("nfs", rpc::nfs),
        4500 => Protocol::new("esp", small::encapsulated),
        546 | 547 => Protocol::new("dhcp6", dhcpv6::print),
        5353 => Protocol::new("domain", dns::multicast),
        5060 => Protocol::new("sip", lines::sip),
        _ => return None,
    })
}

fn tcp_port(port: u16) -> Option<Protocol> {
    Some(match port {
        port if HTTP_PORTS.contains(&port) => Protocol::new("http", lines::http),
        53 => Protocol::new("domain", dns::over_tcp),
        21 => Protocol::new("ftp", lines::ftp),
        111 => Protocol::new("sunrpc", rpc::portmap_over_tcp),
        179 => Protocol::new("bgp", bgp::print),
        22 => Protocol::new("ssh", lines::ssh),
        25 => Protocol::new("smtp", lines::smtp),
        43 => Protocol::new("whois", lines::whois),
        2049 => Protocol::new("nfs", rpc::nfs_over_tcp),
        554 | 8554 => Protocol::new("rtsp", lines::rtsp),
        _ => return None,
    })
}
