//! A record of tests, with a field of each kind.

use ringside_record::{Column, Kind, Names, Record};
use serde_json::json;

/// Whose number is known or not.
pub(crate) struct Probe(pub Option<u64>);

impl Record for Probe {
    const LOG: &'static str = "probe";

    fn columns(_names: Names) -> &'static [Column<Probe>] {
        const COLUMNS: &[Column<Probe>] = &[
            Column::new("name", Kind::Text, |_| "n\u{1b}".into()),
            Column::new("seen", Kind::Time, |_| 1_700_000_000_123_456_789_u64.into()),
            Column::new("ended", Kind::Time, |row| row.record.0.into()),
            Column::new("took", Kind::Duration, |row| row.record.0.into()),
            Column::new("is_on", Kind::Bool, |_| true.into()),
            Column::new("count", Kind::Count, |row| row.record.0.into()),
            Column::new("bytes", Kind::Bytes, |_| u64::MAX.into()),
            Column::new("port", Kind::Port, |_| 53.into()),
            Column::new("at", Kind::Address, |_| "2001:db8::1".into()),
            Column::new("tags", Kind::List, |_| json!(["x", { "y": 1 }])),
        ];
        COLUMNS
    }
}
