//! What becomes of transactions: options, and the log that they stand for.

use crate::open_args::stdout_stream;
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringside_http::{
    HttpMonitor, Limits, Log, LogFile, LogFormat, Options, Rotation, TransactionSink,
};
use ringside_record::Names;
use ringside_report::stdout::WatchedStdout;
use ringside_terminal::units;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Duration;

/// What is made of transactions.
#[derive(Args)]
pub struct HttpArgs {
    /// How a transaction is a line [default: combined, or json with --json]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    log_format: Option<LogFormat>,

    /// What the fields are called in json and csv.
    #[arg(long, value_name = "SCHEME", default_value = Names::Ringside.name())]
    #[arg(value_parser = names())]
    names: Names,

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

    /// Put what syslog would before each line of Squid's, as analysers expect it: time and HOST.
    #[arg(long, value_name = "HOST")]
    syslog_prefix: Option<String>,

    /// Show passwords, cookies, and secrets in URLs.
    #[arg(long)]
    credentials: bool,

    /// Take only packets that begin with a request or a status line, by rules (with
    /// --rules-in-driver, in the driver). Bodies, retransmissions and the ends of connections are
    /// not seen.
    #[arg(long, conflicts_with = "paths")]
    headers_only: bool,

    /// Have the driver pass all other packets on to the host; with --backend af-xdp or xdp-ring.
    #[arg(long, requires = "headers_only", conflicts_with_all = ["filter", "read"])]
    rules_in_driver: bool,
}

impl HttpArgs {
    /// True if only packets with heads are taken.
    pub fn headers_only(&self) -> bool {
        self.headers_only
    }

    /// True if the driver decides that.
    pub fn rules_in_driver(&self) -> bool {
        self.rules_in_driver
    }

    /// The file that is written, if there is one.
    pub fn files(&self) -> Vec<PathBuf> {
        self.log.iter().cloned().collect()
    }

    fn format(&self, json: bool) -> LogFormat {
        let usual = if json { LogFormat::Json } else { LogFormat::Combined };
        self.log_format.unwrap_or(usual)
    }

    /// Refuses what does not go together.
    pub fn check(&self, json: bool) -> anyhow::Result<()> {
        let format = self.format(json);
        ensure!(
            !json || format == LogFormat::Json || self.log.is_some(),
            "--json makes standard output JSON; write --log-format {} to a file with --log",
            format.name()
        );
        ensure!(
            self.names == Names::Ringside || format.has_names(),
            "--names is for --log-format json and csv: the others have names of their own"
        );
        ensure!(
            self.syslog_prefix.is_none() || format == LogFormat::Squid,
            "--syslog-prefix is for --log-format squid"
        );
        Ok(())
    }

    /// The monitor with its log; what is wrong with standard output is known to `stdout`.
    pub fn monitor(&self, stdout: &WatchedStdout, json: bool) -> anyhow::Result<HttpMonitor> {
        let format = self.format(json);
        let (name, log) = match &self.log {
            Some(path) => {
                let rotation = Rotation {
                    bytes: self.log_size,
                    time_ns: self.log_time.map(|time| time.as_nanos() as u64),
                    kept: self.log_keep,
                };
                let file = LogFile::open(path, rotation);
                let file = file.with_context(|| format!("--log {}", path.display()))?;
                (path.display().to_string(), Log::new(Box::new(file), format, self.names))
            }
            None => {
                let output = BufWriter::new(stdout.writer(stdout_stream()?));
                ("lines".into(), Log::to_stream(output, format, self.names))
            }
        };
        let log = match &self.syslog_prefix {
            Some(host) => log.with_syslog_host(host.clone()),
            None => log,
        };
        let options = Options {
            limits: Limits::default(),
            shows_credentials: self.credentials,
            headers_only: self.headers_only,
        };
        let sink: Box<dyn TransactionSink> = Box::new(log);
        Ok(HttpMonitor::new(options, vec![(name, sink)]))
    }
}

fn formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::ALL.map(LogFormat::name)).map(|name| {
        let found = LogFormat::ALL.into_iter().find(|format| format.name() == name);
        found.expect("one of the possible values")
    })
}

fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(Names::ALL.map(Names::name)).try_map(|name| name.parse::<Names>())
}
