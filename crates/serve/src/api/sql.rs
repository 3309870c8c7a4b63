//! SQL about stored records.

use super::audit;
use super::records::{Cause, Missing};
use crate::extract::Query;
use crate::limits::{
    RECORDS_MAX, RECORDS_USUAL, SQL_MEMORY_BYTES, SQL_THREADS_MAX, SQL_WORDS_BYTES_MAX,
};
use crate::problem::{Error, Problem};
use crate::service::{Caller, Service, blocking};
use anyhow::Context;
use axum::extract::State;
use axum::{Extension, Json};
use ringside_session::{RowFormat, SqlEnd, SqlQuestion};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::io::Read;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// What is asked.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The statement; without one: what there is, and of when.
    pub sql: Option<String>,
    /// Rows of the answer, from 1 to 10,000; 1,000 without it.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<u64>,
}

/// Rows, and whether all are here.
#[derive(Serialize, ToSchema)]
pub struct Rows {
    /// Objects by the names of their columns; what is null is left out.
    #[schema(value_type = Vec<Object>)]
    pub rows: Vec<Box<RawValue>>,
    /// Why something is missing; empty if nothing is.
    pub incomplete: Vec<Missing>,
}

/// SQL about the records of the store (`serve --store`), one table for each kind, as `ringside
/// query` answers it: it reads, within bounded memory and time. Each question is noted in the log.
#[utoipa::path(
    get, path = "/api/v1/sql", tag = "packets", params(Asked),
    responses(
        (status = 200, body = Rows), (status = 400, body = Error), (status = 403, body = Error),
        (status = 404, body = Error), (status = 503, body = Error), (status = 504, body = Error),
    )
)]
pub async fn ask(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Asked>,
) -> Result<Json<Rows>, Problem> {
    let place = service.searches.enter()?;
    let question = question(&service, &asked)?;
    let mut noted = Noted { caller, sql: asked.sql, end: "abandoned", rows: 0, missing: None };
    let bytes_max = service.config.limits.records_bytes_max;
    let child = question.ask(Stdio::piped(), Stdio::piped()).map_err(|e| Problem::absent(&e))?;
    // It ends with the request, also when the client has gone.
    let mut answering = Answering(child);
    let outputs = (answering.0.stdout.take(), answering.0.stderr.take());
    let read = blocking(service.config.limits.search_time_max, move || {
        let _place = place;
        Ok(Outputs::read(outputs, bytes_max))
    });
    let answer = read.await.and_then(|outputs| answering.end(outputs, question.rows_max));
    noted.end = if answer.is_ok() { "answered" } else { "refused" };
    if let Ok(answer) = &answer {
        noted.rows = answer.rows.len();
        noted.missing = answer.incomplete.first().map(|missing| missing.cause);
    }
    answer.map(Json)
}

/// A line in the log for each question, however it ends: an error may quote what is stored, too.
struct Noted {
    caller: Caller,
    sql: Option<String>,
    end: &'static str,
    rows: usize,
    missing: Option<Cause>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let Noted { sql, end, rows, missing, .. } = self;
        let details = json!({ "sql": sql, "end": end, "rows": rows, "incomplete": missing });
        audit::note(&self.caller, "sql", &details);
    }
}

fn question(service: &Service, asked: &Asked) -> Result<SqlQuestion, Problem> {
    let Some(store) = &service.config.store else {
        return Err(Problem::not_found(
            "no store: start this service with --store DIR, where `ringside flows --store DIR` \
             (http, dns, tls, calls) keeps records",
        ));
    };
    let rows_max = asked.limit.unwrap_or(RECORDS_USUAL);
    if !(1..=RECORDS_MAX).contains(&rows_max) {
        let text = format!("limit: {rows_max} rows; an answer has from 1 to {RECORDS_MAX}");
        return Err(Problem::bad(text));
    }
    Ok(SqlQuestion {
        store: store.clone(),
        sql: asked.sql.clone().filter(|sql| !sql.trim().is_empty()),
        format: RowFormat::Json,
        rows_max,
        memory_bytes: SQL_MEMORY_BYTES,
        timeout: service.config.limits.records_time_max,
        threads: Some(SQL_THREADS_MAX),
    })
}

/// The program at work; it ends when this is dropped, whatever becomes of it.
struct Answering(Child);

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the program has said.
struct Outputs {
    rows: String,
    is_all: bool,
    words: String,
}

impl Outputs {
    fn read(
        (rows, words): (Option<ChildStdout>, Option<ChildStderr>),
        bytes_max: usize,
    ) -> Outputs {
        // Next to the rows: a program that says more than a pipe holds would wait for ever.
        let words = std::thread::spawn(move || words_of(words));
        let (rows, is_all) = at_most(rows, bytes_max);
        // It may still want to say more of both; its end follows from the pipes, which are closed.
        let words = if is_all { words.join().unwrap_or_default() } else { String::new() };
        Outputs { rows, is_all, words }
    }
}

impl Answering {
    /// The answer, of what was said and how it ended.
    fn end(&mut self, outputs: Outputs, rows_max: u64) -> Result<Rows, Problem> {
        let Outputs { rows: text, is_all, words } = outputs;
        if !is_all {
            let why = format!("an answer has at most {} bytes of rows: ask for less", text.len());
            return rows(&text, Some((Cause::Size, why)));
        }
        let status = self.0.wait().context("waiting for the answer");
        match SqlEnd::of(status.map_err(|error| Problem::failed(&error))?.code()) {
            SqlEnd::Whole => rows(&text, None),
            SqlEnd::Cut => {
                let why = format!("the first {rows_max} are here; there are more");
                rows(&text, Some((Cause::Limit, why)))
            }
            SqlEnd::Failed => Err(Problem::bad(words.trim().trim_start_matches("ringside: "))),
            SqlEnd::Late => Err(Problem::late()),
            SqlEnd::Killed => Err(Problem::bad("the statement needs more memory than it may have")),
        }
    }
}

/// The first words of a program. The rest is taken too: one that cannot say more would fail.
fn words_of(from: Option<ChildStderr>) -> String {
    let Some(mut from) = from else { return String::new() };
    let (words, _) = at_most(Some(from.by_ref()), SQL_WORDS_BYTES_MAX);
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    words
}

/// What comes from a program, and whether that is all.
fn at_most(from: Option<impl Read>, bytes_max: usize) -> (String, bool) {
    let mut bytes = Vec::new();
    let Some(from) = from else { return (String::new(), true) };
    // A pipe that breaks ends as one that is closed; the program's status says more.
    let _ = from.take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    let is_all = bytes.len() <= bytes_max;
    bytes.truncate(bytes_max);
    (String::from_utf8_lossy(&bytes).into_owned(), is_all)
}

/// The rows of whole lines.
fn rows(text: &str, missing: Option<(Cause, String)>) -> Result<Rows, Problem> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let row = |line: &str| RawValue::from_string(line.to_owned());
    let rows: Result<Vec<_>, _> = whole.lines().map(row).collect();
    let rows = rows.map_err(|error| Problem::failed(&error.into()))?;
    let incomplete = missing.map(|(cause, text)| Missing { cause, text }).into_iter().collect();
    Ok(Rows { rows, incomplete })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_size_of_an_answer_are_left_out_whole() {
        let said = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n";
        for (bytes_max, whole) in [(8, 1), (15, 1), (16, 2), (24, 3), (25, 3)] {
            let (text, is_all) = at_most(Some(said.as_bytes()), bytes_max);
            assert_eq!(is_all, bytes_max >= said.len());
            let missing = (!is_all).then(|| (Cause::Size, String::new()));
            let answer = rows(&text, missing).unwrap();
            assert_eq!(answer.rows.len(), whole, "{bytes_max}");
            let causes: Vec<_> = answer.incomplete.iter().map(|missing| missing.cause).collect();
            assert_eq!(causes, if is_all { vec![] } else { vec![Cause::Size] });
        }
    }
}
