//! What is asked, and how the answer should look.

use anyhow::{Context, ensure};
use serde::Deserialize;
use std::io::Read;
use std::num::NonZero;
use std::path::PathBuf;

/// Longest question with all that belongs to it: a statement of a page of text has 4 KiB.
const BYTES_MAX: u64 = 1 << 20;

/// A question, as `ringside query` writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The folder of all kinds of records.
    pub store: PathBuf,
    /// The statement; without one it is asked what there is.
    pub sql: Option<String>,
    /// How rows are written.
    pub format: Format,
    /// Most rows of the answer; 0 is no limit.
    pub rows_max: u64,
    /// Memory of the engine.
    pub memory_bytes: u64,
    /// The answer is given up after this.
    pub timeout_ms: u64,
    /// Threads of the engine.
    #[serde(default = "cpus")]
    pub threads: usize,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// A JSON object a line.
    Json,
    /// Comma-separated values under their names.
    Csv,
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl Question {
    /// # Errors
    /// It is too long, or none that `ringside query` writes.
    pub fn read(from: impl Read) -> anyhow::Result<Question> {
        let mut text = Vec::new();
        from.take(BYTES_MAX + 1).read_to_end(&mut text).context("reading the question")?;
        ensure!(text.len() as u64 <= BYTES_MAX, "the question is longer than {BYTES_MAX} bytes");
        let question: Question = serde_json::from_slice(&text)
            .context("this program is started by `ringside query`, with the question as JSON")?;
        ensure!((1..=1_024).contains(&question.threads), "threads must be from 1 to 1024");
        Ok(question)
    }
}
