//! The log that records are written to: its file, and when that is put aside.

use super::LogRun;
use crate::open_args::stdout_stream;
use crate::outlet_args::OutletArgs;
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_logs::{Format, Log, LogFile, Logged, RecordSink, Rotation};
use ringside_record::Names;
use ringside_report::outputs::Outputs;
use ringside_terminal::units;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Duration;

/// Sinks by their names.
pub type Sinks<R> = Vec<(String, Box<dyn RecordSink<R>>)>;

/// Options of a log.
#[derive(Args)]
pub struct LogArgs {
    /// What the fields are called in json and csv.
    #[arg(long, value_name = "SCHEME", default_value = Names::Ringside.name())]
    #[arg(value_parser = names())]
    pub names: Names,

    /// Write the lines to a file, behind what is in it, in place of standard output.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Put the file aside as FILE.1 (that as FILE.2, …) when it has this size.
    #[arg(long, value_name = "SIZE", value_parser = units::file_bytes, requires = "log")]
    log_size: Option<u64>,

    /// The same after this time, at multiples of it, by the packets' stamps in UTC.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, requires = "log")]
    log_time: Option<Duration>,

    /// How many files are kept next to FILE.
    #[arg(long, value_name = "N", default_value_t = Rotation::KEPT, requires = "log")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(Rotation::KEPT_MAX)))]
    log_keep: u32,

    #[command(flatten)]
    pub outlets: OutletArgs,
}

impl LogArgs {
    /// The file that is written, if there is one.
    pub fn files(&self) -> Vec<PathBuf> {
        self.log.iter().cloned().collect()
    }

    /// Refuses what does not go together with the format `name`: `is_json` is that of `--json`, and
    /// `has_names` says that names of its fields can be chosen.
    pub fn check(
        &self,
        json: bool,
        name: &str,
        is_json: bool,
        has_names: bool,
    ) -> anyhow::Result<()> {
        ensure!(
            !json || is_json || self.log.is_some(),
            "--json makes standard output JSON; write --log-format {name} to a file with --log"
        );
        ensure!(
            self.names == Names::Ringside || has_names,
            "--names is for --log-format json and csv: the others have names of their own"
        );
        Ok(())
    }

    /// The log with its name, in a format, and the outlets.
    pub fn sinks<R: Logged>(
        &self,
        format: Box<dyn Format<R>>,
        run: &mut LogRun,
    ) -> anyhow::Result<Sinks<R>> {
        let mut sinks = vec![self.log(format, &run.outputs)?];
        for (name, outlet) in self.outlets.open::<R>(run.kind, run.is_stored, &mut run.outputs)? {
            sinks.push((name, Box::new(outlet)));
        }
        Ok(sinks)
    }

    fn log<R: Logged>(
        &self,
        format: Box<dyn Format<R>>,
        outputs: &Outputs,
    ) -> anyhow::Result<(String, Box<dyn RecordSink<R>>)> {
        let Some(path) = &self.log else {
            let output = BufWriter::new(outputs.writer(stdout_stream()?));
            return Ok(("lines".into(), Box::new(Log::to_stream(output, format))));
        };
        let rotation = Rotation {
            bytes: self.log_size,
            time_ns: self.log_time.map(|time| time.as_nanos() as u64),
            kept: self.log_keep,
        };
        let file = LogFile::open(path, rotation);
        let file = file.with_context(|| format!("--log {}", path.display()))?;
        let log = Log::new(Box::new(file), format);
        Ok((path.display().to_string(), Box::new(log)))
    }
}

fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(Names::ALL.map(Names::name)).try_map(|name| name.parse::<Names>())
}

/// Takes the name of one of `all`.
pub fn possible_names<const N: usize, F: Copy + Send + Sync + 'static>(
    all: [F; N],
    name: fn(F) -> &'static str,
) -> impl TypedValueParser<Value = F> {
    PossibleValuesParser::new(all.map(name)).map(move |text| {
        let found = all.into_iter().find(|&one| name(one) == text);
        found.expect("one of the possible values")
    })
}
