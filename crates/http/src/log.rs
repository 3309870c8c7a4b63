//! Transactions as lines of a log.

use crate::observer::TransactionSink;
use crate::{LogCounts, Transaction, formats};
use ringside_core::Timestamp;
use ringside_record::{LineFormat, LineWriter, Names, Row};
use std::io::{self, Write};

/// How a transaction is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's and nginx's Combined format.
    Combined,
    /// Squid's native format.
    Squid,
    /// W3C's extended format, in the order of IIS.
    W3c,
    /// Zeek's http.log.
    Zeek,
    /// A JSON object.
    Json,
    /// Comma-separated values.
    Csv,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [LogFormat; 6] = [
        LogFormat::Combined,
        LogFormat::Squid,
        LogFormat::W3c,
        LogFormat::Zeek,
        LogFormat::Json,
        LogFormat::Csv,
    ];

    /// The name, as `--log-format` takes it.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Combined => "combined",
            LogFormat::Squid => "squid",
            LogFormat::W3c => "w3c",
            LogFormat::Zeek => "zeek",
            LogFormat::Json => "json",
            LogFormat::Csv => "csv",
        }
    }

    /// True if its fields have names that can be chosen.
    pub fn has_names(self) -> bool {
        matches!(self, LogFormat::Json | LogFormat::Csv)
    }
}

/// Where lines go.
pub trait LogOutput: Send {
    /// A line comes, at this time of the packets. True if it is the first of its file.
    ///
    /// # Errors
    /// Another file cannot be begun.
    fn ready(&mut self, now: Timestamp) -> io::Result<bool>;

    /// Writes a line.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;

    /// Hands what was written to the system.
    ///
    /// # Errors
    /// It cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// One stream without end.
struct Stream<W>(W, bool);

impl<W: Write + Send> LogOutput for Stream<W> {
    fn ready(&mut self, _now: Timestamp) -> io::Result<bool> {
        Ok(!std::mem::replace(&mut self.1, true))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a line for each transaction. After an error nothing is written any more: a torn line is
/// not followed by others.
pub struct Log<'o> {
    output: Box<dyn LogOutput + 'o>,
    format: LogFormat,
    /// Of formats that have fields with names.
    writer: LineWriter,
    syslog_host: Option<String>,
    error: Option<io::Error>,
    counts: LogCounts,
    line: Vec<u8>,
}

impl<'o> Log<'o> {
    /// To an output, in a format, with these names of fields where it has some.
    pub fn new(output: Box<dyn LogOutput + 'o>, format: LogFormat, names: Names) -> Log<'o> {
        let lines = match format {
            LogFormat::Csv => LineFormat::Csv,
            LogFormat::Zeek => LineFormat::Zeek,
            _ => LineFormat::Json,
        };
        Log {
            output,
            format,
            writer: LineWriter::new(lines, names),
            syslog_host: None,
            error: None,
            counts: LogCounts::default(),
            line: Vec::new(),
        }
    }

    /// To a stream, which should have a buffer.
    pub fn to_stream(output: impl Write + Send + 'o, format: LogFormat, names: Names) -> Log<'o> {
        Log::new(Box::new(Stream(output, false)), format, names)
    }

    /// Squid's lines come as by syslog from this host.
    pub fn with_syslog_host(self, host: String) -> Log<'o> {
        Log { syslog_host: Some(host), ..self }
    }

    /// Makes the line. None if the format has no way to say it.
    fn make(&mut self, transaction: &Transaction, interface: &str) -> Option<()> {
        let line = &mut self.line;
        match self.format {
            LogFormat::Combined => formats::combined(transaction, line),
            LogFormat::Squid => formats::squid(transaction, self.syslog_host.as_deref(), line),
            LogFormat::W3c => formats::w3c(transaction, line),
            LogFormat::Zeek | LogFormat::Json | LogFormat::Csv => {
                self.writer.write(&Row { record: transaction, interface }, line).ok()
            }
        }
    }

    fn write(&mut self, transaction: &Transaction, interface: &str) -> io::Result<bool> {
        self.line.clear();
        self.writer.set_begun(true);
        if self.make(transaction, interface).is_none() {
            return Ok(false);
        }
        if self.output.ready(Timestamp(transaction.end_ns))? {
            // The names stand above the first line of each file.
            self.line.clear();
            if self.format == LogFormat::W3c {
                formats::w3c_head(transaction.end_ns, &mut self.line);
            }
            self.writer.set_begun(false);
            let _ = self.make(transaction, interface);
        }
        self.output.write(&self.line)?;
        Ok(true)
    }
}

impl TransactionSink for Log<'_> {
    fn put(&mut self, transaction: &Transaction, interface: &str) {
        let outcome = match self.error {
            Some(_) => None,
            None => Some(self.write(transaction, interface)),
        };
        match outcome {
            Some(Ok(true)) => self.counts.waiting += 1,
            Some(Ok(false)) => self.counts.inexpressible += 1,
            Some(Err(error)) => {
                self.error = Some(error);
                self.counts.write_failed += 1;
            }
            None => self.counts.write_failed += 1,
        }
    }

    fn tick(&mut self) {
        if self.counts.waiting == 0 {
            return;
        }
        if self.error.is_none()
            && let Err(error) = self.output.flush()
        {
            self.error = Some(error);
        }
        let waiting = std::mem::take(&mut self.counts.waiting);
        match self.error {
            None => self.counts.delivered += waiting,
            Some(_) => self.counts.write_failed += waiting,
        }
    }

    fn counts(&self) -> LogCounts {
        self.counts
    }

    fn error(&self) -> Option<String> {
        self.error.as_ref().map(ToString::to_string)
    }
}
