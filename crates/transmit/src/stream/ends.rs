//! Who sends a stream and who gets it: addresses of both layers, and the headers made of them.

use ringside_netdev::{self as netdev, NetDevice, Use};
use ringside_segment::{Template, TemplateError};
use ringside_sys::SysError;
use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port, Tcp, WireError};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use thiserror::Error;

/// How long a neighbour may take to answer.
const NEIGHBOUR_WAIT: Duration = Duration::from_secs(1);
/// First of the dynamic ports (RFC 6335): where streams come from unless another port is given.
const SOURCE_PORT: Port = Port(49_152);
/// Longest headers: Ethernet, a tag, IPv6 and TCP.
const HEADERS_BYTES_MAX: usize = 14 + 4 + 40 + 20;

/// What is given of the ends of a stream; the rest is looked up.
#[derive(Clone, Debug)]
pub struct GivenEnds {
    /// Where it goes: an address or a name, and a port.
    pub destination: (String, u16),
    /// Source address; else that from which the kernel would send there.
    pub source: Option<IpAddr>,
    /// Source MAC address; else that of the interface.
    pub source_mac: Option<MacAddr>,
    /// Destination MAC address; else that of the gateway, or of the destination itself.
    pub destination_mac: Option<MacAddr>,
    /// Tag control information of a VLAN tag; else there is no tag.
    pub vlan: Option<u16>,
}

/// Why a stream has no two ends.
#[derive(Debug, Error)]
pub enum EndsError {
    /// The name is not known.
    #[error("no address is known for {host}; write one")]
    UnknownHost {
        /// The name.
        host: String,
        /// Port of the destination.
        port: u16,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// The name has addresses of the other family alone.
    #[error("{host} has no address of the family of the source address; give one that fits")]
    OtherFamily {
        /// The name.
        host: String,
    },
    /// Addresses that do not go together.
    #[error("{from} and {to} are of different families")]
    Families {
        /// Source address.
        from: IpAddr,
        /// Destination address.
        to: IpAddr,
    },
    /// The interface has no MAC address.
    #[error("{interface} has no MAC address; give one")]
    NoMac {
        /// Sending interface.
        interface: String,
    },
    /// The interface has no address.
    #[error(
        "{interface} has no {family} address to send from: `ip address add ADDRESS/BITS dev \
         {interface}`, or name one"
    )]
    NoAddress {
        /// Sending interface.
        interface: String,
        /// Family of the destination.
        family: &'static str,
    },
    /// The destination is not reached through the interface.
    #[error(
        "no route leads to {to} out of {interface}: `ip route add {to} dev {interface}`, or give \
         both ends"
    )]
    NoRoute {
        /// Destination address.
        to: IpAddr,
        /// Sending interface.
        interface: String,
    },
    /// The destination is this host, or many.
    #[error(
        "{to} is no other host by the routes of {interface} (this host, a broadcast or a group of \
         hosts); give a MAC address"
    )]
    NoOtherHost {
        /// Destination address.
        to: IpAddr,
        /// Sending interface.
        interface: String,
    },
    /// The route has no source address.
    #[error("the kernel names no address to send from to {to}")]
    NoSource {
        /// Destination address.
        to: IpAddr,
    },
    /// The next host is silent.
    #[error(
        "no neighbour {hop} answers on {interface} within {waited:?}; is it up? Else give its MAC \
         address"
    )]
    NoNeighbour {
        /// Gateway, or destination.
        hop: IpAddr,
        /// Sending interface.
        interface: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Headers that cannot be written.
    #[error(transparent)]
    Headers(#[from] WireError),
    /// Headers of which no frames can be made.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The operating system.
    #[error(transparent)]
    Sys(#[from] SysError),
}

/// Both ends of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    macs: [MacAddr; 2],
    /// Tag control information.
    vlan: Option<u16>,
}

impl Ends {
    /// Finds out what was not given, for what leaves through `device` of the calling thread's
    /// network namespace. It waits for the answer of a neighbour that is not known yet, a second
    /// at most.
    ///
    /// # Errors
    /// Something is missing that only the caller can give.
    pub fn find(given: &GivenEnds, device: &NetDevice) -> Result<Ends, EndsError> {
        let destination = destination(given)?;
        let own = || device.hardware_address.as_slice().try_into().ok().map(MacAddr);
        let no_mac = || EndsError::NoMac { interface: device.name.clone() };
        let source_mac = given.source_mac.or_else(own).ok_or_else(no_mac)?;
        let (source, destination_mac) = match (given.source, given.destination_mac) {
            // Everything was given: nothing is looked up.
            (Some(source), Some(mac)) => (source, mac),
            (source, mac) => asked(device, destination.ip(), source, mac)?,
        };
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(EndsError::Families { from: source, to: destination.ip() });
        }
        let source = SocketAddr::new(source, SOURCE_PORT.0);
        Ok(Ends { source, destination, macs: [source_mac, destination_mac], vlan: given.vlan })
    }

    /// The headers of the first frame: TCP that acknowledges nothing new, or UDP with a checksum.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn template(&self, is_udp: bool) -> Result<Template, EndsError> {
        let mut header = [0; HEADERS_BYTES_MAX];
        let bytes = self.write(is_udp, &mut header)?;
        Ok(Template::parse(&header[..bytes])?)
    }

    fn write(&self, is_udp: bool, out: &mut [u8]) -> Result<usize, WireError> {
        let [source_mac, destination_mac] = self.macs;
        let is_v6 = self.destination.is_ipv6();
        let ip_type = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let first_type = if self.vlan.is_some() { EtherType::VLAN } else { ip_type };
        let mut at = build::ethernet(out, destination_mac, source_mac, first_type)?;
        if let Some(tci) = self.vlan {
            at += build::vlan(&mut out[at..], tci, ip_type)?;
        }
        let payload_bytes = if is_udp { 8 } else { 20 };
        let protocol = if is_udp { IpProtocol::UDP } else { IpProtocol::TCP };
        let addresses = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (id, ttl, dont_fragment) = (0, 64, true);
                let fields = Ipv4Fields {
                    source,
                    destination,
                    protocol,
                    id,
                    ttl,
                    dont_fragment,
                    payload_bytes,
                };
                at += build::ipv4(&mut out[at..], &fields)?;
                Addresses::V4 { source, destination }
            }
            (source, destination) => {
                let v6 = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                let (source, destination) = (v6(source), v6(destination));
                let (next_header, flow_label, hop_limit) = (protocol, 0, 64);
                let fields = Ipv6Fields {
                    source,
                    destination,
                    next_header,
                    flow_label,
                    hop_limit,
                    payload_bytes,
                };
                at += build::ipv6(&mut out[at..], &fields)?;
                Addresses::V6 { source, destination }
            }
        };
        let segment = &mut out[at..at + payload_bytes];
        let (source, destination) = (Port(self.source.port()), Port(self.destination.port()));
        at += if is_udp {
            build::udp(segment, addresses, source, destination)?
        } else {
            let (sequence, acknowledgment, flags, window) = (1, 1, Tcp::ACK, u16::MAX);
            let fields = TcpFields { source, destination, sequence, acknowledgment, flags, window };
            build::tcp(segment, addresses, &fields)?
        };
        Ok(at)
    }
}

/// Where the stream goes: of a name's addresses the first, of the family of the source if one is
/// given.
fn destination(given: &GivenEnds) -> Result<SocketAddr, EndsError> {
    let (host, port) = &given.destination;
    let mut found = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|reason| EndsError::UnknownHost { host: host.clone(), port: *port, reason })?;
    let is_v4 = given.source.map(|source| source.is_ipv4());
    let fits = |address: &SocketAddr| is_v4.is_none_or(|is_v4| is_v4 == address.is_ipv4());
    found.find(fits).ok_or_else(|| EndsError::OtherFamily { host: host.clone() })
}

/// What the kernel knows of the way to the address `to`.
fn asked(
    device: &NetDevice,
    to: IpAddr,
    source: Option<IpAddr>,
    mac: Option<MacAddr>,
) -> Result<(IpAddr, MacAddr), EndsError> {
    let interface = || device.name.clone();
    let route = netdev::route(device.ifindex, to)?;
    if source.is_none() && route.is_none_or(|route| route.source.is_none()) {
        let is_of_family = |found: &Use| match found {
            Use::Address { address, .. } => address.is_ipv4() == to.is_ipv4(),
            _ => false,
        };
        if !netdev::uses(&device.name)?.iter().any(is_of_family) {
            let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
            return Err(EndsError::NoAddress { interface: interface(), family });
        }
    }
    let route = route.ok_or_else(|| EndsError::NoRoute { to, interface: interface() })?;
    if !route.is_unicast() && mac.is_none() {
        return Err(EndsError::NoOtherHost { to, interface: interface() });
    }
    let source = source.or(route.source).ok_or(EndsError::NoSource { to })?;
    if let Some(mac) = mac {
        return Ok((source, mac));
    }
    let (hop, waited) = (route.next_hop, NEIGHBOUR_WAIT);
    match netdev::neighbour(device.ifindex, hop, waited)? {
        Some(mac) => Ok((source, MacAddr(mac))),
        None => Err(EndsError::NoNeighbour { hop, interface: interface(), waited }),
    }
}
