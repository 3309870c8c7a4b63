//! What becomes of transactions: options, and the log that they stand for.

use crate::logging::{LogArgs, LogRun, possible_names};
use anyhow::ensure;
use clap::Args;
use ringside_http::{HttpLines, HttpObserver, Limits, LogFormat, Options};

/// What is made of transactions.
#[derive(Args)]
pub struct HttpArgs {
    /// How a transaction is a line [default: combined, or json with --json]
    #[arg(long, value_name = "FORMAT")]
    #[arg(value_parser = possible_names(LogFormat::ALL, LogFormat::name))]
    log_format: Option<LogFormat>,

    #[command(flatten)]
    pub logs: LogArgs,

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

    fn format(&self, json: bool) -> LogFormat {
        let usual = if json { LogFormat::Json } else { LogFormat::Combined };
        self.log_format.unwrap_or(usual)
    }

    /// Refuses what does not go together.
    pub fn check(&self, json: bool) -> anyhow::Result<()> {
        let format = self.format(json);
        let is_json = format == LogFormat::Json;
        self.logs.check(json, format.name(), is_json, format.has_names())?;
        ensure!(
            self.syslog_prefix.is_none() || format == LogFormat::Squid,
            "--syslog-prefix is for --log-format squid"
        );
        Ok(())
    }

    /// What finds transactions, with its log.
    pub fn observer(&self, run: &mut LogRun) -> anyhow::Result<HttpObserver<'static>> {
        let lines = HttpLines::new(self.format(run.json), self.logs.names);
        let lines = lines.with_syslog_host(self.syslog_prefix.clone());
        let options = Options {
            limits: Limits::default(),
            shows_credentials: self.credentials,
            headers_only: self.headers_only,
        };
        Ok(HttpObserver::new(options, self.logs.sinks(Box::new(lines), run)?))
    }
}
