//! A question on its way through the engine.

use crate::output::Output;
use crate::question::Question;
use crate::say;
use crate::store::{Tables, register};
use anyhow::{anyhow, bail};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures_util::StreamExt;
use std::process::ExitCode;
use std::sync::Arc;

/// The answer is not all that there is.
const CUT: u8 = 1;

/// Times that a statement is asked again whose files were deleted meanwhile: a store with limits
/// deletes once a minute.
const AGAIN_MAX: usize = 3;

/// Answers on standard output.
///
/// # Errors
/// The store cannot be read, the statement is wrong or asks for more than reading, or memory is
/// exceeded.
pub(crate) async fn answer(question: &Question) -> anyhow::Result<ExitCode> {
    let mut again = 0;
    loop {
        let mut rows_out = 0;
        let error = match answer_once(question, &mut rows_out).await {
            Ok(code) => return Ok(code),
            Err(error) => error,
        };
        let said = format!("{error:#}");
        if again < AGAIN_MAX && rows_out == 0 && said.contains("Object at location") {
            again += 1;
        } else if said.contains("Parquet error") {
            let store = question.store.display();
            bail!(
                "{said}; a file below {store} is damaged, or none that `--store` wrote: remove it"
            );
        } else {
            return Err(error);
        }
    }
}

async fn answer_once(question: &Question, rows_out: &mut usize) -> anyhow::Result<ExitCode> {
    let context = context(question)?;
    let Tables { names: tables, passed_by } = register(&context, &question.store).await?;
    if tables.is_empty() {
        let store = question.store.display();
        bail!("{store} holds no records; `ringside flows -i IF --store {store}` makes some");
    }
    let sql = question.sql.clone().unwrap_or_else(|| what_is_there(&tables));
    // Nothing can be written: neither tables nor settings.
    let options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let rows = context.sql_with_options(&sql, options).await;
    let rows = rows.map_err(|error| anyhow!("{error}; tables here: {}", tables.join(", ")))?;
    let mut stream = rows.execute_stream().await?;
    let mut output = Output::new(question, &stream.schema());
    while let Some(rows) = stream.next().await {
        let rows = rows?;
        *rows_out += rows.num_rows();
        if !output.put(&rows)? {
            break;
        }
    }
    let is_cut = output.finish()?;
    // Behind the answer: who takes that may leave these words.
    for folder in passed_by {
        say(&format!("passed by, as links out of the store are: {folder}"));
    }
    if is_cut {
        say(&format!("more than {} rows; --limit 0 gives all", question.rows_max));
    }
    Ok(if is_cut { ExitCode::from(CUT) } else { ExitCode::SUCCESS })
}

fn context(question: &Question) -> anyhow::Result<SessionContext> {
    let memory = usize::try_from(question.memory_bytes).unwrap_or(usize::MAX);
    // What does not fit into memory is refused: no disk is written.
    let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
        .with_disk_manager_builder(no_disk)
        .build_arc()?;
    let mut config =
        SessionConfig::new().with_information_schema(true).with_target_partitions(question.threads);
    // Rows that a filter leaves out are not decoded.
    config.options_mut().execution.parquet.pushdown_filters = true;
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

/// Asks what there is of each kind.
fn what_is_there(tables: &[String]) -> String {
    let ask = |table: &String| {
        format!(
            "SELECT '{table}' AS \"table\", count(*) AS records, min(time) AS first, \
             max(time) AS last FROM \"{table}\""
        )
    };
    let all: Vec<_> = tables.iter().map(ask).collect();
    format!("{} ORDER BY 1", all.join(" UNION ALL "))
}
