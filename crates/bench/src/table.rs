//! The table of a measurement: each field of a row is named once, with its head for people and its
//! name for programs. Of these come the lines of a table, the columns of a file, and the keys of
//! JSON.

use super::results::{number, rounded};
use ringside_terminal::columns;
use serde_json::{Map, Value};

/// What stands in a field.
pub(super) struct Entry {
    shown: String,
    kept: Value,
}

impl Entry {
    /// A word or a whole number, the same for people and programs.
    pub(super) fn of(value: impl ToString + Into<Value>) -> Entry {
        Entry { shown: value.to_string(), kept: value.into() }
    }

    /// A number with `[shown, kept]` decimals for people and for programs; empty if it is not
    /// finite.
    pub(super) fn number(value: f64, [shown, kept]: [usize; 2]) -> Entry {
        Entry { shown: number(value, shown), kept: rounded(value, kept) }
    }

    /// What people read in other words than programs.
    pub(super) fn apart(shown: impl Into<String>, kept: impl Into<Value>) -> Entry {
        Entry { shown: shown.into(), kept: kept.into() }
    }

    /// Nothing: the field does not apply.
    pub(super) fn none() -> Entry {
        Entry::apart("", Value::Null)
    }
}

/// A field of rows of one kind.
pub(super) struct Field<R> {
    head: Option<&'static str>,
    name: Option<&'static str>,
    entry: fn(&R) -> Entry,
}

impl<R> Field<R> {
    /// Below `head` for people, and as `name` for programs.
    pub(super) fn new(head: &'static str, name: &'static str, entry: fn(&R) -> Entry) -> Field<R> {
        Field { head: Some(head), name: Some(name), entry }
    }

    /// For people alone.
    pub(super) fn shown(head: &'static str, entry: fn(&R) -> Entry) -> Field<R> {
        Field { head: Some(head), name: None, entry }
    }

    /// For programs alone.
    pub(super) fn kept(name: &'static str, entry: fn(&R) -> Entry) -> Field<R> {
        Field { head: None, name: Some(name), entry }
    }
}

/// The heads, and a line for each row.
pub(super) fn text<R>(fields: &[Field<R>], rows: impl IntoIterator<Item = R>) -> String {
    let heads: Vec<&str> = fields.iter().filter_map(|field| field.head).collect();
    let line = |row: R| -> Vec<String> {
        let shown = fields.iter().filter(|field| field.head.is_some());
        shown.map(|field| (field.entry)(&row).shown).collect()
    };
    columns::text(&heads, &rows.into_iter().map(line).collect::<Vec<_>>())
}

/// The fields of a row by their names.
pub(super) fn record<R>(fields: &[Field<R>], row: &R) -> Map<String, Value> {
    let kept = fields.iter().filter_map(|field| Some((field.name?, (field.entry)(row).kept)));
    kept.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What was measured without a figure, and why; nothing of nothing.
pub(super) fn failures(failures: &[String]) -> String {
    match failures {
        [] => String::new(),
        _ => format!("\nWithout a figure:\n{}\n", failures.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_get_the_fields_that_are_theirs() {
        let fields: [Field<f64>; 4] = [
            Field::new("M/s", "mps", |&rate| Entry::number(rate, [1, 3])),
            Field::shown("of", |_| Entry::apart("all", Value::Null)),
            Field::kept("rounds", |_| Entry::of(5)),
            Field::new("said", "said", |_| Entry::none()),
        ];
        let table = text(&fields, [1.23456, f64::NAN]);
        assert_eq!(table, "M/s  of   said\n---  ---  ----\n1.2  all\n     all\n");
        let kept = record(&fields, &1.23456);
        assert_eq!(Value::Object(kept).to_string(), r#"{"mps":1.235,"rounds":5,"said":null}"#);
        // A table without rows has its heads all the same.
        assert_eq!(text(&fields, []).lines().next(), Some("M/s  of  said"));
        assert_eq!(failures(&[]), "");
        assert_eq!(failures(&["a".into(), "b".into()]), "\nWithout a figure:\na\nb\n");
    }
}
