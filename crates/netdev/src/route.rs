//! The way to an address: the route out of an interface, and the neighbour in the link layer
//! (rtnetlink(7): RTM_GETROUTE, RTM_GETNEIGH, RTM_NEWNEIGH; linux/rtnetlink.h, linux/neighbour.h).

use super::uses::ip_address;
use crate::netlink::Connection;
use crate::netlink::message::{Message, Request, attributes, damaged, u16_at, u32_at};
use ringside_sys::SysError;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// `struct rtmsg`: family, two prefix lengths, TOS, table, protocol, scope, type, flags.
const ROUTE_HEADER_BYTES: usize = 12;
/// RTM_F_FIB_MATCH: answer with the entry of the table. Without it Linux takes what has no route
/// over IPv4 for a neighbour, if an interface is named.
const FIB_MATCH: u32 = 0x2000;
/// `struct ndmsg`: family, padding, index, state, flags, type.
pub(super) const NEIGHBOUR_HEADER_BYTES: usize = 12;
/// Attributes of a neighbour.
pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
/// States in which the kernel sends to the address that it has.
pub(super) const VALID: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;
/// How often is looked whether a neighbour has answered.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface's own address that the kernel would send from; `None` if it has none.
    pub source: Option<IpAddr>,
    /// Whose link-layer address frames have: the gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// RTN_ type: unicast, local, broadcast, multicast.
    pub kind: u8,
}

impl Route {
    /// It leads to another host.
    pub fn is_unicast(&self) -> bool {
        self.kind == libc::RTN_UNICAST
    }
}

/// The route to `destination` out of the interface `ifindex`; `None` if there is none.
///
/// # Errors
/// Netlink is not there, or its answer is damaged.
pub fn route(ifindex: u32, destination: IpAddr) -> Result<Option<Route>, SysError> {
    let mut connection = Connection::route()?;
    let looks = if destination.is_ipv4() { &[FIB_MATCH, 0][..] } else { &[0] };
    let mut found = None;
    for &flags in looks {
        let request = route_request(ifindex, destination, flags);
        let read = |message: &Message<'_>| read_route(message, ifindex, destination);
        match connection.ask(request, read) {
            Ok(route) => found = route,
            Err(error) if is_unreachable(&error) => return Ok(None),
            Err(error) => {
                return Err(SysError::io(format!("asking for the route to {destination}"), error));
            }
        }
    }
    Ok(found)
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), HostUnreachable | NetworkUnreachable)
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn route_request(ifindex: u32, destination: IpAddr, flags: u32) -> Request {
    let octets = octets(destination);
    let mut body = [0; ROUTE_HEADER_BYTES];
    (body[0], body[1]) = (family(destination), 8 * octets.len() as u8);
    body[8..].copy_from_slice(&flags.to_ne_bytes());
    Request::new(libc::RTM_GETROUTE, &body)
        .attribute(libc::RTA_DST, &octets)
        .attribute(libc::RTA_OIF, &ifindex.to_ne_bytes())
}

fn read_route(
    message: &Message<'_>,
    ifindex: u32,
    destination: IpAddr,
) -> io::Result<Option<Route>> {
    if message.kind != libc::RTM_NEWROUTE {
        return Ok(None);
    }
    let (header, rest) = message.body.split_at_checked(ROUTE_HEADER_BYTES).ok_or_else(damaged)?;
    let kind = header[7];
    let mut route = Route { source: None, next_hop: destination, kind };
    let mut oif = ifindex;
    for attribute in attributes(rest)? {
        match attribute.kind {
            libc::RTA_OIF => oif = attribute.word(),
            libc::RTA_PREFSRC => route.source = ip_address(attribute.value),
            libc::RTA_GATEWAY => {
                route.next_hop = ip_address(attribute.value).ok_or_else(damaged)?;
            }
            // `struct rtvia`: a family, and an address of it.
            libc::RTA_VIA => {
                let address = attribute.value.get(2..).and_then(ip_address);
                route.next_hop = address.ok_or_else(damaged)?;
            }
            _ => {}
        }
    }
    route.source = route.source.filter(|source| !source.is_unspecified());
    let leads = !matches!(kind, libc::RTN_UNREACHABLE | libc::RTN_BLACKHOLE | libc::RTN_PROHIBIT);
    // What is for this host leads to its loopback interface.
    Ok((leads && (oif == ifindex || kind == libc::RTN_LOCAL)).then_some(route))
}

/// The link-layer address of the neighbour `address` on the interface `ifindex`. One that the
/// kernel does not know it is made to ask for (CAP_NET_ADMIN), and `timeout` is waited at most;
/// `None` without an answer.
///
/// # Errors
/// Netlink is not there, its answer is damaged, or a privilege is missing.
pub fn neighbour(
    ifindex: u32,
    address: IpAddr,
    timeout: Duration,
) -> Result<Option<[u8; 6]>, SysError> {
    let failed = |e: io::Error| {
        let fix = "run as root, or give its MAC address";
        SysError::io(format!("asking for the neighbour {address} ({fix})"), e)
    };
    let mut connection = Connection::route()?;
    let start = Instant::now();
    let mut known = look(&mut connection, ifindex, address).map_err(failed)?;
    if known.is_none() {
        let create = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let request = neighbour_request(libc::RTM_NEWNEIGH, ifindex, address, (0, libc::NTF_USE));
        connection.ask(request.with_flags(create), |_| Ok(None::<()>)).map_err(failed)?;
    }
    while known.is_none() && start.elapsed() < timeout {
        std::thread::sleep(LOOK_INTERVAL);
        known = look(&mut connection, ifindex, address).map_err(failed)?;
    }
    Ok(known)
}

fn look(connection: &mut Connection, ifindex: u32, address: IpAddr) -> io::Result<Option<[u8; 6]>> {
    let request = neighbour_request(libc::RTM_GETNEIGH, ifindex, address, (0, 0));
    match connection.ask(request, read_neighbour) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other,
    }
}

/// About a neighbour, with `struct ndmsg`'s state and flags.
pub(super) fn neighbour_request(
    kind: u16,
    ifindex: u32,
    address: IpAddr,
    (state, flags): (u16, u8),
) -> Request {
    let mut body = [0; NEIGHBOUR_HEADER_BYTES];
    body[0] = family(address);
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    body[8..10].copy_from_slice(&state.to_ne_bytes());
    body[10] = flags;
    Request::new(kind, &body).attribute(NDA_DST, &octets(address))
}

fn read_neighbour(message: &Message<'_>) -> io::Result<Option<[u8; 6]>> {
    if message.kind != libc::RTM_NEWNEIGH {
        return Ok(None);
    }
    // The index comes before the state.
    u32_at(message.body, 4).ok_or_else(damaged)?;
    let state = u16_at(message.body, 8).ok_or_else(damaged)?;
    let rest = message.body.get(NEIGHBOUR_HEADER_BYTES..).ok_or_else(damaged)?;
    let found = attributes(rest)?.into_iter().find(|attribute| attribute.kind == NDA_LLADDR);
    let found = found.and_then(|attribute| attribute.value.try_into().ok());
    Ok(found.filter(|_| state & VALID != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::messages;
    use crate::netlink::message::tests::message;
    use std::net::Ipv4Addr;

    const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

    fn answer(kind: u8, more: &[u8]) -> Vec<u8> {
        let mut body = vec![2, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
        body.extend([8, 0, 4, 0, 7, 0, 0, 0]);
        body.extend(more);
        message(libc::RTM_NEWROUTE, &body)
    }

    fn read(bytes: &[u8]) -> io::Result<Option<Route>> {
        read_route(&messages(bytes).next().unwrap().unwrap(), 7, TO)
    }

    #[test]
    fn a_route_has_a_source_and_a_next_hop() {
        let direct = read(&answer(libc::RTN_UNICAST, &[8, 0, 7, 0, 10, 1, 2, 9])).unwrap().unwrap();
        let source = Some(IpAddr::from([10, 1, 2, 9]));
        assert_eq!(direct, Route { source, next_hop: TO, kind: libc::RTN_UNICAST });
        let gateway =
            read(&answer(libc::RTN_UNICAST, &[8, 0, 5, 0, 10, 9, 9, 1])).unwrap().unwrap();
        assert_eq!((gateway.source, gateway.next_hop), (None, IpAddr::from([10, 9, 9, 1])));
        assert!(gateway.is_unicast());
        assert_eq!(read(&answer(libc::RTN_UNREACHABLE, &[])).unwrap(), None);
        assert_eq!(read(&answer(libc::RTN_UNICAST, &[8, 0, 4, 0, 9, 0, 0, 0])).unwrap(), None);
        assert!(read(&answer(libc::RTN_UNICAST, &[5, 0, 5, 0, 1, 0, 0, 0])).is_err());
    }

    #[test]
    fn a_neighbour_counts_while_its_address_is_used() {
        let told = |state: u16| {
            let mut body = vec![2, 0, 0, 0, 7, 0, 0, 0];
            body.extend(state.to_ne_bytes());
            body.extend([0, 1, 8, 0, 1, 0, 10, 1, 2, 3, 10, 0, 2, 0, 2, 0, 0, 0, 0, 5, 0, 0]);
            let bytes = message(libc::RTM_NEWNEIGH, &body);
            read_neighbour(&messages(&bytes).next().unwrap().unwrap()).unwrap()
        };
        assert_eq!(told(libc::NUD_STALE), Some([2, 0, 0, 0, 0, 5]));
        assert_eq!(told(libc::NUD_FAILED), None);
    }

    #[test]
    fn this_host_is_no_neighbour_and_loopback_leads_nowhere_else() {
        let local = route(1, IpAddr::from([127, 0, 0, 1])).unwrap().unwrap();
        assert!(!local.is_unicast());
        assert_eq!(route(1, IpAddr::from([192, 0, 2, 1])).unwrap(), None);
    }

    #[test]
    fn mutated_answers_end() {
        let route = answer(libc::RTN_UNICAST, &[8, 0, 5, 0, 10, 9, 9, 1, 8, 0, 7, 0, 1, 2, 3, 4]);
        let body = [2, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 1, 10, 0, 2, 0, 2, 0, 0, 0, 0, 5, 0, 0];
        let seeds = [route, message(libc::RTM_NEWNEIGH, &body)];
        ringside_testkit::fuzz("netlink-route", 500_000, &seeds, |input| {
            for message in messages(input).flatten() {
                let _ = (read_route(&message, 7, TO), read_neighbour(&message));
            }
        });
    }
}
