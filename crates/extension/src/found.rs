//! A record that an extension made.

use crate::limits::FIELDS_MAX;
use ringside_core::{InterfaceId, Timestamp};
use ringside_logs::Logged;
use ringside_record::{Column, Field, Kind, Names, Record, text_of_time};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt::{self, Write};
use std::sync::Arc;

const TIME: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// What an extension found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What the extension is called.
    pub extension: Arc<str>,
    /// The packet's stamp; at the end that of the last.
    pub time_ns: u64,
    /// The packet's interface; at the end one that nothing has.
    pub interface: InterfaceId,
    /// What it says.
    pub fields: Fields,
}

/// The fields of a record: numbers, texts, booleans and nulls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of at most {FIELDS_MAX} numbers, texts, booleans and nulls")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            let is_plain = !value.is_array() && !value.is_object();
            if !is_plain || fields.len() == FIELDS_MAX || fields.insert(name, value).is_some() {
                return Err(A::Error::custom("no flat record"));
            }
        }
        Ok(Fields(fields))
    }
}

const EXTENSION: Field<Found> = Field::new(Kind::Text, |row| (*row.record.extension).into());
const STAMP: Field<Found> = Field::new(Kind::Time, |row| row.record.time_ns.into());
const INTERFACE: Field<Found> = Field::new(Kind::Text, |row| row.interface());
const FIELDS: Field<Found> = Field::new(Kind::Text, |row| row.record.fields.0.clone().into());

impl Record for Found {
    const LOG: &'static str = "extension";

    fn columns(names: Names) -> &'static [Column<Found>] {
        const OURS: &[Column<Found>] = &[
            STAMP.called("time_ns"),
            INTERFACE.called("interface"),
            EXTENSION.called("extension"),
            FIELDS.called("fields"),
        ];
        const ZEEK: &[Column<Found>] = &[
            STAMP.called("ts"),
            INTERFACE.called("interface"),
            EXTENSION.called("extension"),
            FIELDS.called("fields"),
        ];
        const EVE: &[Column<Found>] = &[
            STAMP.called("timestamp"),
            INTERFACE.called("in_iface"),
            Column::new("event_type", Kind::Text, |_| "extension".into()),
            EXTENSION.called("extension.name"),
            FIELDS.called("extension.fields"),
        ];
        // Labels are where Elastic wants fields that it does not know.
        const ECS: &[Column<Found>] = &[
            STAMP.called("@timestamp"),
            Column::new("event.kind", Kind::Text, |_| "event".into()),
            Column::new("event.dataset", Kind::Text, |_| "ringside.extension".into()),
            EXTENSION.called("event.provider"),
            INTERFACE.called("observer.ingress.interface.name"),
            FIELDS.called("labels"),
        ];
        const OTEL: &[Column<Found>] = &[
            STAMP.called("ringside.extension.time_unix_nano"),
            INTERFACE.called("network.interface.name"),
            EXTENSION.called("ringside.extension.name"),
            FIELDS.called("ringside.extension.fields"),
        ];
        match names {
            Names::Ringside => OURS,
            Names::Zeek => ZEEK,
            Names::Eve => EVE,
            Names::Ecs => ECS,
            Names::Otel => OTEL,
        }
    }
}

impl Logged for Found {
    fn end(&self) -> Timestamp {
        Timestamp(self.time_ns)
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

/// `TIME EXTENSION FIELD=VALUE …`, as people read it: what a terminal would obey is escaped.
pub fn text(found: &Found) -> String {
    let time = text_of_time(found.time_ns, TIME);
    let name = found.extension.escape_debug();
    let mut out = format!("{} {name}", time.as_str().unwrap_or("-"));
    for (name, value) in &found.fields.0 {
        let name = name.escape_debug();
        let _ = match value {
            Value::String(text) => write!(out, " {name}={text:?}"),
            other => write!(out, " {name}={other}"),
        };
    }
    out
}
