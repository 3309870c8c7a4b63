//! `ringside query`: SQL about stored records, answered by a program of its own.

use anyhow::{Context, bail};
use clap::Args;
use ringside_terminal::units;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The program's file.
const FILE_NAME: &str = "ringside-query";

/// Names another place of it.
const ELSEWHERE: &str = "RINGSIDE_QUERY";

/// Rows that are shown unless asked otherwise: what people read.
const ROWS: u64 = 1_000;

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
  ringside query --store /data/records --csv - < question.sql > answer.csv

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
    #[arg(long, value_name = "SIZE", value_parser = units::file_bytes, default_value = "1GiB")]
    memory: u64,

    /// Give the answer up after this time.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "60s")]
    timeout: Duration,
}

/// Runs the subcommand.
pub fn run(args: QueryArgs) -> anyhow::Result<ExitCode> {
    if args.memory < MEMORY_MIN {
        bail!("--memory: give it at least {MEMORY_MIN} bytes");
    }
    let question = args.question()?;
    let program = program()?;
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(question.as_bytes()) {
            // It ended before, and said why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.context("handing over the question")?,
        }
    }
    let status = child.wait().context("waiting for the answer")?;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(2))),
        None => bail!(
            "no answer: {FILE_NAME} was ended by a signal ({status}): the statement needs more \
             than --memory, or this machine has no more"
        ),
    }
}

impl QueryArgs {
    /// The question, as the program takes it.
    fn question(&self) -> anyhow::Result<String> {
        let format = match (self.json, self.csv) {
            (true, _) => "json",
            (_, true) => "csv",
            _ => "table",
        };
        let rows = if format == "table" { ROWS } else { 0 };
        let store = std::path::absolute(&self.store).context("--store")?;
        let question = json!({
            "store": store.to_str().with_context(|| format!("{} is no text", store.display()))?,
            "sql": self.statement()?,
            "format": format,
            "rows_max": self.limit.unwrap_or(rows),
            "memory_bytes": self.memory,
            "timeout_ms": u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        Ok(question.to_string())
    }

    fn statement(&self) -> anyhow::Result<Option<String>> {
        if self.sql.as_deref() != Some("-") {
            return Ok(self.sql.clone());
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("reading the statement")?;
        Ok(Some(text))
    }
}

/// Where the program is: next to this one, or where packages put it.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(ELSEWHERE) {
        return Ok(path.into());
    }
    let this = std::env::current_exe().context("finding this program")?;
    let folder = this.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(FILE_NAME), folder.join("../lib/ringside").join(FILE_NAME)];
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "{FILE_NAME} is not installed ({} and {} are not there): `make query` builds it; any \
             other engine reads the files too (docs/howto/store.md)",
            places[0].display(),
            places[1].display()
        ),
    }
}
