//! Records as JSON objects that are written as their columns are read. Building the same object
//! first ([`object`](crate::object)) costs four times as much.

use crate::plain::plain;
use crate::{Column, Names, Record, Row};
use serde_json::Value;
use std::io;

/// Where a column stands in the objects of a kind of record.
#[derive(Clone, Debug)]
struct Place {
    /// Its number among the columns.
    column: usize,
    /// Names of the objects around it, outermost first: as JSON, with the colon.
    levels: Vec<String>,
    /// Its own name, the same way.
    name: String,
}

/// The columns of a kind of record in the order of objects: by name, level by level.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<Place>);

impl Places {
    pub(crate) fn of<R: Record>(names: Names) -> Places {
        let mut columns: Vec<_> = R::columns(names).iter().enumerate().collect();
        let path = |column: &Column<R>| segments(names, column.path);
        columns.sort_by_cached_key(|(_, column)| path(column));
        let place = |(column, at): (usize, &Column<R>)| {
            let mut levels = path(at).into_iter().map(quoted).collect::<Vec<_>>();
            let name = levels.pop().unwrap_or_default();
            Place { column, levels, name }
        };
        Places(columns.into_iter().map(place).collect())
    }

    /// Appends the object of a record to `out`; what is absent is left out. Of several columns with
    /// one name the last that is there stands.
    ///
    /// # Errors
    /// A value cannot be written.
    pub(crate) fn write<R: Record>(
        &self,
        names: Names,
        row: &Row<'_, R>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let columns = R::columns(names);
        let (mut open, mut separator): (&[String], &[u8]) = (&[], b"");
        out.push(b'{');
        for same in
            self.0.chunk_by(|one, other| one.levels == other.levels && one.name == other.name)
        {
            let mut values = same.iter().rev().map(|place| columns[place.column].value(row, names));
            let Some(value) = values.find(|value| !value.is_null()) else { continue };
            let Place { levels, name, .. } = &same[0];
            let shared = open.iter().zip(levels).take_while(|(one, other)| one == other).count();
            for _ in shared..open.len() {
                out.push(b'}');
                separator = b",";
            }
            for level in &levels[shared..] {
                out.extend(separator);
                out.extend(level.as_bytes());
                out.push(b'{');
                separator = b"";
            }
            out.extend(separator);
            out.extend(name.as_bytes());
            write_value(&value, out)?;
            (open, separator) = (levels, b",");
        }
        out.extend(open.iter().map(|_| b'}'));
        out.push(b'}');
        Ok(())
    }
}

fn segments(names: Names, path: &'static str) -> Vec<&'static str> {
    if names.has_levels() { path.split('.').collect() } else { vec![path] }
}

fn quoted(name: &str) -> String {
    format!("{}:", Value::from(name))
}

/// JSON escapes the control characters below a blank. A terminal obeys U+007F and the 32 behind it
/// too.
fn write_value(value: &Value, out: &mut Vec<u8>) -> io::Result<()> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value)?;
    if out[start..].iter().any(|byte| *byte >= 0x7f) {
        let text = String::from_utf8_lossy(&out[start..]).into_owned();
        out.truncate(start);
        let escaped = plain(&text, |c| format!("\\u{:04x}", u32::from(c)));
        out.extend(escaped.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, object};
    use ringside_testkit::Random;

    struct Probe([u8; COLUMNS]);

    const COLUMNS: usize = 9;

    fn value(state: u8) -> Value {
        match state {
            0 => Value::Null,
            1 => "te\u{9b}xt\n".into(),
            2 => serde_json::json!(["x\u{7f}", 1]),
            state => state.into(),
        }
    }

    /// The column of a state.
    const fn column<const AT: usize>(path: &'static str) -> Column<Probe> {
        Column::new(path, Kind::Count, |row| value(row.record.0[AT]))
    }

    impl Record for Probe {
        const LOG: &'static str = "probe";

        fn columns(_: Names) -> &'static [Column<Probe>] {
            const ALL: &[Column<Probe>] = &[
                column::<0>("z"),
                column::<1>("b.c.d"),
                column::<2>("a"),
                column::<3>("b.c.a"),
                column::<4>("b-c"),
                column::<5>("b.a"),
                column::<6>("b.c.d"),
                column::<7>("c.a.b"),
                column::<8>("b.c.e.f"),
            ];
            ALL
        }
    }

    #[test]
    fn what_is_written_is_the_object() {
        let mut random = Random::new(7);
        for names in Names::ALL {
            let places = Places::of::<Probe>(names);
            for _ in 0..500 {
                let probe = Probe(std::array::from_fn(|_| random.below(4) as u8));
                let row = Row { record: &probe, interface: "" };
                let mut out = Vec::new();
                places.write(names, &row, &mut out).unwrap();
                let text = String::from_utf8(out).unwrap();
                let expected = object(names, &row).to_string();
                let expected = expected.replace('\u{9b}', "\\u009b").replace('\u{7f}', "\\u007f");
                assert_eq!(text, expected);
            }
        }
    }
}
