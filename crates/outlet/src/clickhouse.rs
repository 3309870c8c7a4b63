//! ClickHouse over HTTP: a batch is one insert, with a token by which the server knows it again.
//!
//! A batch whose acknowledgement was lost is sent again with the same token. A table that keeps a
//! log of tokens (`non_replicated_deduplication_window`, or a replicated table) then takes it once.

use crate::batch::Batch;
use crate::engine::{Engine, Outcome};
use crate::http::{Client, reason};
use ringside_arrow::{NAMES, TIME, time_column};
use ringside_record::{Column, Kind, Record};
use std::time::Duration;

/// Inserts whose tokens a table keeps. Ours are repeated at once, but other sensors may insert
/// meanwhile.
const WINDOW: u32 = 10_000;

/// How records are read, whatever the server's own settings: a table that was made for an older
/// version lacks columns; lists hold objects as their JSON; and a batch of hostile stamps lies in
/// many partitions.
const SETTINGS: [(&str, &str); 9] = [
    ("async_insert", "0"),
    ("insert_deduplicate", "1"),
    ("wait_end_of_query", "1"),
    ("input_format_skip_unknown_fields", "1"),
    ("input_format_null_as_default", "1"),
    ("input_format_json_read_numbers_as_strings", "1"),
    ("input_format_json_read_bools_as_strings", "1"),
    ("input_format_json_read_objects_as_strings", "1"),
    ("throw_on_max_partitions_per_insert_block", "0"),
];

/// A table of a server.
pub(crate) struct ClickHouse {
    client: Client,
    url: String,
    insert: String,
    /// What makes the table, until that is done.
    create: Option<String>,
}

impl ClickHouse {
    /// `origin` is what URLs of the server begin with.
    pub fn new(client: Client, origin: &str, table: &str, create: Option<String>) -> ClickHouse {
        let insert = format!("INSERT INTO {table} FORMAT JSONEachRow");
        ClickHouse { client, url: format!("{origin}/"), insert, create }
    }

    fn run(&self, query: &[(&str, &str)], body: &[u8], time: Duration) -> Option<Outcome> {
        let answer =
            self.client.post(&self.url, query.iter().copied(), "application/x-ndjson", body, time);
        match answer {
            Err(why) => Some(Outcome::Failed(why)),
            // An error that came after the status was sent stands in the body.
            Ok(answer) if answer.failure().is_none() && answer.body.starts_with(b"Code:") => {
                Some(Outcome::Failed(reason(&answer.body)))
            }
            Ok(answer) => answer.failure(),
        }
    }
}

impl Engine for ClickHouse {
    fn deliver(&mut self, batch: &Batch, time: Duration) -> Outcome {
        if let Some(create) = &self.create {
            match self.run(&[("query", create)], &[], time) {
                None => self.create = None,
                // No batch is wrong because a table cannot be made.
                Some(Outcome::Refused(why) | Outcome::Failed(why)) => return Outcome::Failed(why),
                Some(Outcome::Acknowledged { .. }) => {}
            }
        }
        let token = batch.token();
        let mut query = vec![("query", &*self.insert), ("insert_deduplication_token", &*token)];
        query.extend(SETTINGS);
        self.run(&query, &batch.body, time).unwrap_or_else(Outcome::acknowledged)
    }
}

/// The statement that makes the table of a kind of records, unless it is there. Times are numbers
/// as the records have them: a hostile stamp is beyond ClickHouse's own times, and would have it
/// refuse a whole batch. When a record is of is a time of ClickHouse's in addition, for queries.
pub(crate) fn create_table<R: Record>(table: &str) -> String {
    let key = time_column::<R>().map(|column| column.path);
    let time = key.map(|key| {
        format!(
            "    `{TIME}` DateTime64(9, 'UTC') \
             DEFAULT fromUnixTimestamp64Nano(toInt64(`{key}`), 'UTC')"
        )
    });
    let line = |column: &Column<R>| {
        format!("    `{}` {}", column.path, type_of(column, Some(column.path) == key))
    };
    let lines: Vec<_> = time.into_iter().chain(R::columns(NAMES).iter().map(line)).collect();
    let order = match key {
        Some(_) => format!("PARTITION BY toYYYYMM(`{TIME}`)\nORDER BY `{TIME}`"),
        None => "ORDER BY tuple()".to_owned(),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {table}\n(\n{}\n)\nENGINE = MergeTree\n{order}\n\
         SETTINGS non_replicated_deduplication_window = {WINDOW}",
        lines.join(",\n")
    )
}

/// Whatever is unknown is null, but a list that is unknown is empty.
fn type_of<R: 'static>(column: &Column<R>, is_key: bool) -> &'static str {
    match column.field.kind {
        Kind::Time if is_key => "UInt64 COMMENT 'nanoseconds since 1970, UTC'",
        Kind::Time => "Nullable(UInt64) COMMENT 'nanoseconds since 1970, UTC'",
        Kind::Text => "Nullable(String)",
        Kind::Bool => "Nullable(Bool)",
        Kind::Count => "Nullable(UInt64)",
        Kind::Bytes => "Nullable(UInt64) COMMENT 'bytes'",
        Kind::Duration => "Nullable(UInt64) COMMENT 'nanoseconds'",
        Kind::Port => "Nullable(UInt16)",
        Kind::Address => "Nullable(IPv6) COMMENT 'IPv4 as ::ffff:a.b.c.d'",
        Kind::List => "Array(String)",
    }
}

#[cfg(test)]
mod tests;
