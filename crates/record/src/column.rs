//! Fields, and the columns that they are in a scheme of names.

use crate::{Names, seconds, text_of_time};
use serde_json::{Map, Value};

/// Microseconds and the zone, as Suricata writes it.
const EVE_TIME: &str = "%Y-%m-%dT%H:%M:%S%.6f+0000";
/// Nanoseconds, as Elastic takes them.
const ECS_TIME: &str = "%Y-%m-%dT%H:%M:%S%.9fZ";

/// What is known of something, with the names and types of its fields.
pub trait Record: Sized + 'static {
    /// What Zeek calls the log of such records, as `conn`.
    const LOG: &'static str;

    /// The columns under a scheme, in their order.
    fn columns(names: Names) -> &'static [Column<Self>];
}

/// A record with what its columns need in addition.
#[derive(Debug)]
pub struct Row<'r, R> {
    /// The record.
    pub record: &'r R,
    /// Name of the interface where its packets were received; empty if that is unknown.
    pub interface: &'r str,
}

/// Whatever the record is.
impl<R> Clone for Row<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Row<'_, R> {}

impl<R> Row<'_, R> {
    /// The name of the interface, if it is known.
    pub fn interface(&self) -> Value {
        if self.interface.is_empty() { Value::Null } else { self.interface.into() }
    }
}

/// Type and unit of a field. Whatever is unknown is null, of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// True or false.
    Bool,
    /// A number that counts or names something, without a unit.
    Count,
    /// A number of bytes.
    Bytes,
    /// A port.
    Port,
    /// An IP address, as text.
    Address,
    /// A moment: nanoseconds since 1970, UTC.
    Time,
    /// A span of time in nanoseconds.
    Duration,
    /// A list.
    List,
}

/// What a record says: defined once for all schemes.
#[derive(Debug)]
pub struct Field<R: 'static> {
    /// Type and unit.
    pub kind: Kind,
    /// Where the value comes from, in the unit of its kind; null if it is absent.
    pub value: fn(&Row<'_, R>) -> Value,
}

/// A field under the name that a scheme has for it.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// The name. Its dots are levels in eve and ECS.
    pub path: &'static str,
    /// What stands there.
    pub field: Field<R>,
}

impl<R: 'static> Field<R> {
    /// A field of this kind.
    pub const fn new(kind: Kind, value: fn(&Row<'_, R>) -> Value) -> Field<R> {
        Field { kind, value }
    }

    /// The field under a name.
    pub const fn called(&self, path: &'static str) -> Column<R> {
        Column { path, field: Field { kind: self.kind, value: self.value } }
    }
}

impl<R: 'static> Column<R> {
    /// A field of this scheme alone.
    pub const fn new(path: &'static str, kind: Kind, value: fn(&Row<'_, R>) -> Value) -> Column<R> {
        Column { path, field: Field::new(kind, value) }
    }

    /// What stands there, written as the scheme has it.
    pub fn value(&self, row: &Row<'_, R>, names: Names) -> Value {
        let value = (self.field.value)(row);
        match (self.field.kind, value.as_u64()) {
            (Kind::Time | Kind::Duration, Some(ns)) => names.of_time(self.field.kind, ns),
            _ => value,
        }
    }
}

impl Names {
    /// A time in this scheme's habit.
    fn of_time(self, kind: Kind, ns: u64) -> Value {
        match (self, kind) {
            (Names::Zeek, _) => seconds(ns),
            (Names::Eve, Kind::Time) => text_of_time(ns, EVE_TIME),
            (Names::Ecs, Kind::Time) => text_of_time(ns, ECS_TIME),
            (Names::Otel, Kind::Duration) => seconds(ns),
            _ => ns.into(),
        }
    }

    /// Paths of all columns of a kind of record, in their order.
    pub fn paths<R: Record>(self) -> impl Iterator<Item = &'static str> {
        R::columns(self).iter().map(|column| column.path)
    }
}

/// A record as an object; what is absent is left out.
pub fn object<R: Record>(names: Names, row: &Row<'_, R>) -> Value {
    let mut object = Map::new();
    for column in R::columns(names) {
        let value = column.value(row, names);
        if value.is_null() {
            continue;
        }
        match names.has_levels() {
            true => insert(&mut object, column.path, value),
            false => drop(object.insert(column.path.into(), value)),
        }
    }
    object.into()
}

/// The values of all columns as text; what is absent is empty.
pub fn values<'r, R: Record>(
    names: Names,
    row: Row<'r, R>,
) -> impl Iterator<Item = String> + use<'r, R> {
    R::columns(names).iter().map(move |column| match column.value(&row, names) {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    })
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
