//! Fields of a record by which flows can be grouped.

use crate::{FlowError, Record};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The value of a field in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// The flow has no such thing.
    Absent,
    /// A number.
    Number(u64),
    /// A name.
    Name(&'static str),
    /// An address.
    Address(IpAddr),
    /// A network: its first address, and how many bits all of its addresses have in common.
    Network(IpAddr, u8),
    /// An interface, by its number.
    Interface(u32),
}

/// A field by which flows are grouped: its name in our scheme of names, and for addresses how
/// many bits of them count.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: &'static str,
    value: Value,
    prefix_bits: Option<u8>,
}

/// What a record has in a field.
type Value = fn(&Record) -> Cell;

/// All fields. Counts and times are no such: groups are added up of them.
const FIELDS: &[(&str, Value)] = &[
    ("interface", |record| Cell::Interface(record.interface.0)),
    ("vlan", |record| number(record.vlan)),
    ("tunnel", |record| record.tunnel.map_or(Cell::Absent, |tunnel| Cell::Name(tunnel.name()))),
    ("tunnel_id", |record| number(record.tunnel.map(|tunnel| tunnel.number()))),
    ("protocol", |record| {
        record.protocol_name().map_or(Cell::Number(record.protocol.0.into()), Cell::Name)
    }),
    ("src", |record| Cell::Address(record.source)),
    ("dst", |record| Cell::Address(record.destination)),
    ("src_port", |record| port(record, record.source_port)),
    ("dst_port", |record| port(record, record.destination_port)),
    ("icmp_type", |record| number(record.icmp().map(|(kind, _)| kind))),
    ("icmp_code", |record| number(record.icmp().map(|(_, code)| code))),
    ("application", |record| record.application.map_or(Cell::Absent, |one| Cell::Name(one.name()))),
    ("tos", |record| number(Some(record.forward.tos))),
    ("mpls_label", |record| number(record.forward.mpls_label)),
    ("end", |record| Cell::Name(record.end.name())),
    ("flow_id", |record| number(Some(record.flow_id))),
];

impl Field {
    /// The fields of a conversation, which groups have unless asked otherwise.
    pub fn conversation() -> Vec<Field> {
        let names = ["protocol", "src", "src_port", "dst", "dst_port"];
        names.iter().filter_map(|name| Field::of(name)).collect()
    }

    fn of(name: &str) -> Option<Field> {
        let &(name, value) = FIELDS.iter().find(|(known, _)| *known == name)?;
        Some(Field { name, value, prefix_bits: None })
    }

    /// The name in our scheme.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What a record has there.
    pub(super) fn cell(&self, record: &Record) -> Cell {
        match ((self.value)(record), self.prefix_bits) {
            (Cell::Address(address), Some(bits)) => network(address, bits),
            (cell, _) => cell,
        }
    }
}

impl std::str::FromStr for Field {
    type Err = FlowError;

    /// `src`, or `src/24`.
    ///
    /// # Errors
    /// [`FlowError::Unknown`].
    fn from_str(text: &str) -> Result<Field, FlowError> {
        let unknown = || FlowError::Unknown {
            what: "field to group by",
            name: text.into(),
            known: FIELDS.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ")
                + ", and networks as src/24",
        };
        let (name, bits) = match text.split_once('/') {
            Some((name @ ("src" | "dst"), bits)) => (name, Some(bits)),
            Some(_) => return Err(unknown()),
            None => (text, None),
        };
        let bits = bits.map(str::parse::<u8>).transpose().map_err(|_| unknown())?;
        if bits.is_some_and(|bits| u32::from(bits) > Ipv6Addr::BITS) {
            return Err(unknown());
        }
        Ok(Field { prefix_bits: bits, ..Field::of(name).ok_or_else(unknown)? })
    }
}

impl Cell {
    /// As text; `interfaces` are those of the records, by their numbers.
    pub fn text(&self, interfaces: &[String]) -> String {
        match self {
            Cell::Interface(number) => match interfaces.get(*number as usize) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => number.to_string(),
            },
            other => other.to_string(),
        }
    }

    /// As a value of JSON: numbers as such, null for what is absent.
    pub fn json(&self, interfaces: &[String]) -> serde_json::Value {
        match *self {
            Cell::Absent => serde_json::Value::Null,
            Cell::Number(number) => number.into(),
            _ => self.text(interfaces).into(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Absent => Ok(()),
            Cell::Number(number) => write!(f, "{number}"),
            Cell::Name(name) => f.write_str(name),
            Cell::Address(address) => write!(f, "{address}"),
            Cell::Network(address, bits) => write!(f, "{address}/{bits}"),
            Cell::Interface(number) => write!(f, "{number}"),
        }
    }
}

fn number(value: Option<impl Into<u64>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Number(value.into()))
}

fn port(record: &Record, port: u16) -> Cell {
    if record.has_ports() { Cell::Number(port.into()) } else { Cell::Absent }
}

/// The network of an address. More bits than the address has are all of it.
fn network(address: IpAddr, bits: u8) -> Cell {
    match address {
        IpAddr::V4(address) => {
            let bits = bits.min(Ipv4Addr::BITS as u8);
            let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - u32::from(bits)).unwrap_or(0);
            Cell::Network(Ipv4Addr::from_bits(address.to_bits() & mask).into(), bits)
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - u32::from(bits)).unwrap_or(0);
            Cell::Network(Ipv6Addr::from_bits(address.to_bits() & mask).into(), bits)
        }
    }
}
