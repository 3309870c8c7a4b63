//! Questions in SQL about stored records, which a program of its own answers (`query/`): it can
//! read the store and nothing else.

use anyhow::{Context, bail};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The program's file.
const FILE_NAME: &str = "ringside-query";

/// Names another place of it.
const ELSEWHERE: &str = "RINGSIDE_QUERY";

/// A question.
#[derive(Clone, Debug)]
pub struct SqlQuestion {
    /// The folder of all kinds of records.
    pub store: PathBuf,
    /// The statement; without one it is asked what there is.
    pub sql: Option<String>,
    /// How rows are written.
    pub format: RowFormat,
    /// Most rows; 0 is all of them.
    pub rows_max: u64,
    /// Most memory for what the statement holds.
    pub memory_bytes: u64,
    /// The answer is given up after this.
    pub timeout: Duration,
    /// Threads of the engine; as many as there are CPUs, without a number.
    pub threads: Option<usize>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowFormat {
    /// A table for people.
    Table,
    /// A JSON object a line.
    Json,
    /// Comma-separated values under their names.
    Csv,
}

/// How the program ended, after which its rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlEnd {
    /// All rows are there.
    Whole,
    /// There are more.
    Cut,
    /// There is no answer, for what it said.
    Failed,
    /// There is none after that time.
    Late,
    /// The system ended it.
    Killed,
}

impl SqlEnd {
    /// By the program's status.
    pub fn of(code: Option<i32>) -> SqlEnd {
        match code {
            Some(0) => SqlEnd::Whole,
            Some(1) => SqlEnd::Cut,
            Some(3) => SqlEnd::Late,
            Some(_) => SqlEnd::Failed,
            None => SqlEnd::Killed,
        }
    }
}

/// What the program takes.
#[derive(Serialize)]
struct Line<'q> {
    store: &'q str,
    sql: Option<&'q str>,
    format: RowFormat,
    rows_max: u64,
    memory_bytes: u64,
    timeout_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
}

impl SqlQuestion {
    /// Starts the program, with rows and words to where they are wanted.
    ///
    /// # Errors
    /// It is not installed, or cannot be started; the store's path is no text.
    pub fn ask(&self, rows: Stdio, words: Stdio) -> anyhow::Result<Child> {
        let store = std::path::absolute(&self.store).context("the store")?;
        let line = Line {
            store: store.to_str().with_context(|| format!("{} is no text", store.display()))?,
            sql: self.sql.as_deref(),
            format: self.format,
            rows_max: self.rows_max,
            memory_bytes: self.memory_bytes,
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            threads: self.threads,
        };
        let line = serde_json::to_vec(&line)?;
        let program = program()?;
        let mut child = Command::new(&program)
            // What it needs is in the question.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(rows)
            .stderr(words)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        if let Some(mut input) = child.stdin.take() {
            match input.write_all(&line) {
                // It has ended, and says why.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                written => written.context("handing over the question")?,
            }
        }
        Ok(child)
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
