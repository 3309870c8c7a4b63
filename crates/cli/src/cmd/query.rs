//! `ringside query`: SQL about stored records, answered by a program of its own.

use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_session::{RowFormat, SqlEnd, SqlQuestion};
use ringside_terminal::units;
use std::io::Read;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

/// Rows that are shown unless asked otherwise: what people read.
const ROWS: u64 = 1_000;

/// Longest statement from standard input; the program takes no longer one.
const SQL_BYTES_MAX: u64 = 512 << 10;

/// Least memory of the engine: some groups and one file that is read.
const MEMORY_MIN: u64 = 16 << 20;

/// Arguments of `query`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside query --store /data/records                    what there is, and of when
  ringside query --store /data/records 'SELECT src, sum(bytes) AS bytes FROM flows
      GROUP BY src ORDER BY bytes DESC LIMIT 20'          who sent most
  ringside query --store /data/records --json 'SELECT * FROM dns
      WHERE date = ''2026-11-29'' AND rcode = ''NXDOMAIN'''  of one day, as JSON
  ringside query --store /data/records 'DESCRIBE flows'   its columns
  cat question.sql | ringside query --store /data/records --csv - > answer.csv

Each kind of records that is stored (--store of flows, http, calls, dns, tls) is a table. It is the
SQL of DataFusion, much like PostgreSQL's; nothing can be written. `make query` builds the program.

Exit status: 0 if the answer is whole, 1 if it has more rows than --limit, 2 if there is none.")]
pub struct QueryArgs {
    /// Where records are kept, as `--store` of the subcommands that find them.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,

    /// The statement; - reads it from standard input. Without one: what there is.
    #[arg(value_name = "SQL")]
    sql: Option<String>,

    /// Rows as JSON objects.
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Rows as comma-separated values.
    #[arg(long)]
    csv: bool,

    /// Most rows; 0 is all of them. A table has 1000 unless asked otherwise, JSON and CSV all.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Most memory for what the statement holds: groups, sorted rows.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "1GiB")]
    memory: u64,

    /// Give the answer up after this time.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "60s")]
    timeout: Duration,
}

/// Runs the subcommand.
pub fn run(args: QueryArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.memory >= MEMORY_MIN, "--memory: give it at least {MEMORY_MIN} bytes");
    let mut child = args.question()?.ask(Stdio::inherit(), Stdio::inherit())?;
    let status = child.wait().context("waiting for the answer")?;
    match SqlEnd::of(status.code()) {
        SqlEnd::Whole => Ok(ExitCode::SUCCESS),
        SqlEnd::Cut => Ok(ExitCode::from(1)),
        SqlEnd::Failed | SqlEnd::Late => Ok(ExitCode::from(2)),
        SqlEnd::Killed => bail!(
            "no answer: the program was ended by a signal ({status}): the statement needs more \
             than --memory, or this machine has no more"
        ),
    }
}

impl QueryArgs {
    fn question(&self) -> anyhow::Result<SqlQuestion> {
        let format = match (self.json, self.csv) {
            (true, _) => RowFormat::Json,
            (_, true) => RowFormat::Csv,
            _ => RowFormat::Table,
        };
        let rows = if format == RowFormat::Table { ROWS } else { 0 };
        Ok(SqlQuestion {
            store: self.store.clone(),
            sql: self.statement()?,
            format,
            rows_max: self.limit.unwrap_or(rows),
            memory_bytes: self.memory,
            timeout: self.timeout,
            threads: None,
        })
    }

    fn statement(&self) -> anyhow::Result<Option<String>> {
        if self.sql.as_deref() != Some("-") {
            return Ok(self.sql.clone());
        }
        let (mut text, input) = (String::new(), std::io::stdin().lock());
        input.take(SQL_BYTES_MAX + 1).read_to_string(&mut text).context("reading the statement")?;
        let is_short = text.len() as u64 <= SQL_BYTES_MAX;
        ensure!(is_short, "the statement is longer than {SQL_BYTES_MAX} bytes");
        Ok(Some(text))
    }
}
