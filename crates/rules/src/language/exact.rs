//! Rules that name one conversation: they can be found by a look into a table.

use super::expression::{Expression, Match};
use super::term::{Addresses, Side, Term};
use ringside_wire::{IpProtocol, Port};
use std::net::IpAddr;

/// A conversation, as an exact rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExactFlow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version.
    pub destination: IpAddr,
    /// TCP, UDP or SCTP.
    pub protocol: IpProtocol,
    /// Source port.
    pub source_port: Port,
    /// Destination port.
    pub destination_port: Port,
}

impl Match {
    /// The conversation, if this match is *exact*: the `and` of one source address, one destination
    /// address, one protocol with ports, one source port and one destination port, in any order,
    /// and of nothing else. With `bidir` the way back is meant too.
    pub fn exact_flow(&self) -> Option<ExactFlow> {
        let Expression::And(parts) = &self.expression else { return None };
        let mut found = Found::default();
        for part in parts {
            match part {
                Expression::Term(term) => found.take(term)?,
                _ => return None,
            }
        }
        let flow = ExactFlow {
            source: found.source?,
            destination: found.destination?,
            protocol: found.protocol?,
            source_port: found.source_port?,
            destination_port: found.destination_port?,
        };
        let has_ports = [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP];
        let is_possible = flow.source.is_ipv4() == flow.destination.is_ipv4()
            && has_ports.contains(&flow.protocol);
        is_possible.then_some(flow)
    }
}

#[derive(Default)]
struct Found {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    protocol: Option<IpProtocol>,
    source_port: Option<Port>,
    destination_port: Option<Port>,
}

impl Found {
    /// Takes one term in; none if it has no place in an exact rule.
    fn take(&mut self, term: &Term) -> Option<()> {
        match term {
            Term::Ip(Side::Source, addresses) => set(&mut self.source, address(addresses)),
            Term::Ip(Side::Destination, addresses) => {
                set(&mut self.destination, address(addresses))
            }
            Term::Protocol(protocols) => set(&mut self.protocol, protocols.only()),
            Term::Port(Side::Source, ports) => set(&mut self.source_port, ports.only()),
            Term::Port(Side::Destination, ports) => set(&mut self.destination_port, ports.only()),
            _ => None,
        }
    }
}

/// Fills an empty place.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    place.is_none().then_some(())?;
    *place = Some(value?);
    Some(())
}

fn address(addresses: &Addresses) -> Option<IpAddr> {
    addresses.files.is_empty().then(|| addresses.listed.only()).flatten()
}
