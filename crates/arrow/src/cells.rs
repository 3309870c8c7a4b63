//! A column that is being filled with JSON values.

use arrow_array::ArrayRef;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, ListBuilder, StringBuilder, UInt16Builder, UInt64Builder,
};
use ringside_record::Kind;
use serde_json::Value;

/// A column that is being filled.
#[derive(Debug)]
pub enum Cells {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    Number(UInt64Builder),
    Port(UInt16Builder),
    List(ListBuilder<StringBuilder>),
}

impl Cells {
    /// For values of a kind.
    pub fn new(kind: Kind) -> Cells {
        match kind {
            Kind::Text | Kind::Address => Cells::Text(StringBuilder::new()),
            Kind::Bool => Cells::Bool(BooleanBuilder::new()),
            Kind::Count | Kind::Bytes | Kind::Time | Kind::Duration => {
                Cells::Number(UInt64Builder::new())
            }
            Kind::Port => Cells::Port(UInt16Builder::new()),
            Kind::List => Cells::List(ListBuilder::new(StringBuilder::new())),
        }
    }

    /// Adds a value, or that there is none; `None` if it is of another type.
    pub fn append(&mut self, value: Option<&Value>) -> Option<()> {
        match self {
            Cells::Text(cells) => cells.append_option(known(value, Value::as_str)?),
            Cells::Bool(cells) => cells.append_option(known(value, Value::as_bool)?),
            Cells::Number(cells) => cells.append_option(known(value, Value::as_u64)?),
            Cells::Port(cells) => {
                let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
                cells.append_option(known(value, port)?);
            }
            Cells::List(cells) => {
                let items = known(value, Value::as_array)?;
                for item in items.into_iter().flatten() {
                    match item {
                        Value::String(text) => cells.values().append_value(text),
                        // What is no text is there as its JSON.
                        other => cells.values().append_value(other.to_string()),
                    }
                }
                cells.append(items.is_some());
            }
        }
        Some(())
    }

    /// Bytes of text.
    pub fn text_bytes(&self) -> usize {
        match self {
            Cells::Text(cells) => cells.values_slice().len(),
            Cells::List(cells) => cells.values_ref().values_slice().len(),
            Cells::Bool(_) | Cells::Number(_) | Cells::Port(_) => 0,
        }
    }

    /// What was added, and nothing again.
    pub fn finish(&mut self) -> ArrayRef {
        let builder: &mut dyn ArrayBuilder = match self {
            Cells::Text(cells) => cells,
            Cells::Bool(cells) => cells,
            Cells::Number(cells) => cells,
            Cells::Port(cells) => cells,
            Cells::List(cells) => cells,
        };
        builder.finish()
    }
}

/// What a value is, if there is one; `None` if it is something else.
fn known<'v, T>(
    value: Option<&'v Value>,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(value) => read(value).map(Some),
    }
}
