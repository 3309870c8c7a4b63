//! Answers questions in SQL about stored records (`docs/howto/store.md`): the program that
//! `ringside query` starts, with the question on standard input. It reads the store and nothing
//! else, within limits of memory and time, and cannot write.

mod confine;
mod limits;
mod output;
mod question;
mod session;
mod store;
mod table;

use anyhow::Context;
use question::Question;
use std::io::Write;
use std::process::ExitCode;

/// It could not be answered.
const FAILED: u8 = 2;
/// There was no answer in time.
const LATE: i32 = 3;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Says something on standard error, which may be closed: who asked has heard enough then.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringside: {text}");
}

fn run() -> anyhow::Result<ExitCode> {
    let question = Question::read(std::io::stdin().lock())?;
    limits::set(&question)?;
    confine::to(&question.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(question.threads)
        .build()
        .context("starting threads")?;
    runtime.block_on(session::answer(&question))
}
