//! Transactions as lines of a log.

use crate::{Transaction, formats};
use ringside_core::{InterfaceId, Timestamp};
use ringside_logs::{Format, Logged};
use ringside_record::{LineFormat, LineWriter, Names, Row};

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

/// Makes the lines of transactions.
pub struct HttpLines {
    format: LogFormat,
    /// Of formats that have fields with names.
    writer: LineWriter,
    syslog_host: Option<String>,
}

impl HttpLines {
    /// In a format, with these names of fields where it has some.
    pub fn new(format: LogFormat, names: Names) -> HttpLines {
        let lines = match format {
            LogFormat::Csv => LineFormat::Csv,
            LogFormat::Zeek => LineFormat::Zeek,
            _ => LineFormat::Json,
        };
        HttpLines { format, writer: LineWriter::new(lines, names), syslog_host: None }
    }

    /// Squid's lines come as by syslog from this host, if there is one.
    pub fn with_syslog_host(self, syslog_host: Option<String>) -> HttpLines {
        HttpLines { syslog_host, ..self }
    }
}

impl Format<Transaction> for HttpLines {
    fn write(
        &mut self,
        row: &Row<'_, Transaction>,
        is_first: bool,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let transaction = row.record;
        match self.format {
            LogFormat::Combined => formats::combined(transaction, out),
            LogFormat::Squid => formats::squid(transaction, self.syslog_host.as_deref(), out),
            LogFormat::W3c => {
                if is_first {
                    formats::w3c_head(transaction.end_ns, out);
                }
                formats::w3c(transaction, out)
            }
            LogFormat::Zeek | LogFormat::Json | LogFormat::Csv => {
                self.writer.set_begun(!is_first);
                self.writer.write(row, out).ok()
            }
        }
    }
}

impl Logged for Transaction {
    fn end(&self) -> Timestamp {
        Timestamp(self.end_ns)
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

#[cfg(test)]
mod tests;
