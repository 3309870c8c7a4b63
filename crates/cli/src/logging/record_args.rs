//! Options of records that no other program has a format of its own for.

use super::{LogArgs, LogRun, Sinks, possible_names};
use clap::Args;
use ringside_logs::{Logged, RecordFormat, RecordLines};

/// How a record is a line, and where that goes.
#[derive(Args)]
pub struct RecordArgs {
    /// How a record is a line [default: text, or json with --json]
    #[arg(long, value_name = "FORMAT")]
    #[arg(value_parser = possible_names(RecordFormat::ALL, RecordFormat::name))]
    log_format: Option<RecordFormat>,

    #[command(flatten)]
    pub logs: LogArgs,
}

impl RecordArgs {
    fn format(&self, json: bool) -> RecordFormat {
        let usual = if json { RecordFormat::Json } else { RecordFormat::Text };
        self.log_format.unwrap_or(usual)
    }

    /// Refuses what does not go together.
    pub fn check(&self, json: bool) -> anyhow::Result<()> {
        let format = self.format(json);
        let is_json = format == RecordFormat::Json;
        self.logs.check(json, format.name(), is_json, format.has_names())
    }

    /// The log with its name, and the outlets; `text` is what people read of a record.
    pub fn sinks<R: Logged>(
        &self,
        text: fn(&R) -> String,
        run: &mut LogRun,
    ) -> anyhow::Result<Sinks<R>> {
        let lines = RecordLines::new(self.format(run.json), self.logs.names, text);
        self.logs.sinks(Box::new(lines), run)
    }
}
