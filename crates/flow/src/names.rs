//! What the fields of a record are called: five schemes, each a list of columns.

mod ecs;
mod eve;
mod otel;
mod ringside;
mod zeek;

use crate::{EndReason, FlowError, Record, Side, community_id};
use ringside_wire::{IpProtocol, Tcp};
use serde_json::{Map, Value};

/// A scheme of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Ours: everything that a record has.
    #[default]
    Ringside,
    /// Zeek's conn.log.
    Zeek,
    /// Suricata's eve.json, events of type `flow`.
    Eve,
    /// Elastic Common Schema.
    Ecs,
    /// OpenTelemetry's semantic conventions.
    Otel,
}

/// A record with what its columns need in addition.
pub(crate) struct Row<'r> {
    record: &'r Record,
    interface: &'r str,
}

/// One field: where it stands, and what stands there; null is left out.
type Column = (&'static str, fn(&Row<'_>) -> Value);

impl Names {
    /// All schemes.
    pub const ALL: [Names; 5] = [Names::Ringside, Names::Zeek, Names::Eve, Names::Ecs, Names::Otel];

    /// The scheme's name, as `--names` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Names::Ringside => "ringside",
            Names::Zeek => "zeek",
            Names::Eve => "eve",
            Names::Ecs => "ecs",
            Names::Otel => "otel",
        }
    }

    fn columns(self) -> &'static [Column] {
        match self {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => zeek::COLUMNS,
            Names::Eve => eve::COLUMNS,
            Names::Ecs => ecs::COLUMNS,
            Names::Otel => otel::COLUMNS,
        }
    }

    /// Paths of all columns, in their order.
    pub fn paths(self) -> impl Iterator<Item = &'static str> {
        self.columns().iter().map(|&(path, _)| path)
    }

    /// A record as an object. Dots in a path are levels in eve and ECS, and part of the name in
    /// the other schemes, as their own tools write them.
    pub fn object(self, record: &Record, interface: &str) -> Value {
        let row = Row { record, interface };
        let mut object = Map::new();
        for &(path, value) in self.columns() {
            let value = value(&row);
            if value.is_null() {
                continue;
            }
            match self {
                Names::Eve | Names::Ecs => insert(&mut object, path, value),
                _ => drop(object.insert(path.into(), value)),
            }
        }
        object.into()
    }

    /// The values of all columns as text; what is absent is empty.
    pub fn values<'r>(
        self,
        record: &'r Record,
        interface: &'r str,
    ) -> impl Iterator<Item = String> + use<'r> {
        let row = Row { record, interface };
        self.columns().iter().map(move |(_, value)| match value(&row) {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        })
    }
}

impl std::str::FromStr for Names {
    type Err = FlowError;

    /// # Errors
    /// [`FlowError::Unknown`].
    fn from_str(name: &str) -> Result<Names, FlowError> {
        let found = Names::ALL.into_iter().find(|names| names.name() == name);
        found.ok_or_else(|| FlowError::Unknown {
            what: "scheme of names",
            name: name.into(),
            known: Names::ALL.map(Names::name).join(", "),
        })
    }
}

fn insert(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((first, rest)) = path.split_once('.') else {
        object.insert(path.into(), value);
        return;
    };
    let below = object.entry(first).or_insert_with(|| Map::new().into());
    if let Value::Object(below) = below {
        insert(below, rest, value);
    }
}

impl Row<'_> {
    fn community_id(&self) -> Value {
        community_id(self.record, 0).into()
    }

    fn interface(&self) -> Value {
        if self.interface.is_empty() { Value::Null } else { self.interface.into() }
    }

    /// A port of TCP, UDP or SCTP.
    fn port(&self, port: u16) -> Value {
        if self.record.has_ports() { port.into() } else { Value::Null }
    }

    /// The protocol's short name in lower case; its number where it has none here.
    fn transport(&self) -> String {
        let name = self.record.protocol_name().map(String::from);
        name.unwrap_or_else(|| self.record.protocol.0.to_string())
    }

    fn network_type(&self) -> Value {
        if self.record.source.is_ipv6() { "ipv6".into() } else { "ipv4".into() }
    }

    fn application(&self) -> Value {
        self.record.application.map(|application| application.name()).into()
    }

    fn duration_ns(&self) -> u64 {
        self.record.last_ns() - self.record.first_ns()
    }

    /// Flags, of TCP alone.
    fn flags(&self, flags: u16) -> Value {
        if self.record.protocol == IpProtocol::TCP { flags.into() } else { Value::Null }
    }

    /// True if a side had all of these flags in some segments.
    fn has(side: &Side, flags: u16) -> bool {
        side.tcp_flags & flags == flags
    }

    /// True if the end was seen, in whichever record.
    fn is_closed(&self) -> bool {
        let Record { forward, reverse, end, .. } = self.record;
        *end == EndReason::End || Row::has(forward, Tcp::FIN) && Row::has(reverse, Tcp::FIN)
    }
}

/// A time as text, to the microsecond or nanosecond, in UTC with this zone written.
fn time(ns: u64, format: &str) -> Value {
    let instant = jiff::Timestamp::from_nanosecond(ns.into());
    instant.map_or(Value::Null, |instant| instant.strftime(format).to_string().into())
}

#[cfg(test)]
pub(crate) mod tests;
