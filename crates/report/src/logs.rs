//! The account of what writes a line for each record, for people and programs.

use ringside_logs::LogStatus;
use ringside_streams::{Cause, StreamLedger};
use ringside_terminal::ledger_text::count;
use ringside_terminal::say;
use ringside_terminal::units::{counted, grouped};
use serde_json::{Value, json};
use std::io;

/// What was found, and where everything went.
pub struct Account<'s> {
    /// What one record is called.
    pub of: &'static str,
    /// Frames that were seen.
    pub frames: u64,
    /// As lines.
    pub text: String,
    /// As JSON.
    pub json: Value,
    /// Nothing is missing.
    pub balances: bool,
    /// The logs.
    pub logs: &'s [LogStatus],
}

impl Account<'_> {
    /// Shows it; true if it balances, holds all of `delivered` frames, and every record is in the
    /// log.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn finish(&self, json: bool, delivered: Option<u64>) -> io::Result<bool> {
        let of = self.of;
        say::message(self.text.trim_end());
        let is_whole = delivered.is_none_or(|delivered| delivered == self.frames);
        if !is_whole {
            let delivered = grouped(delivered.unwrap_or_default());
            say::message(format_args!("the run delivered {delivered} frames to the {of}s"));
        }
        let mut is_written = true;
        for log in self.logs.iter().filter(|log| log.counts.write_failed > 0) {
            let (name, lines) = (&log.name, counted(log.counts.write_failed, of));
            let why = log.error.as_deref().unwrap_or("writing failed");
            say::message(format_args!("ringside: {name}: {lines} could not be written ({why})"));
            is_written = false;
        }
        let balances = self.balances && is_whole;
        let verb = if balances { "balances" } else { "does not balance" };
        say::message(format_args!("the account of {of}s {verb}"));
        if json {
            say::data(json!({ "account": self.json }))?;
        }
        Ok(balances && is_written)
    }
}

/// How much was received of streams.
pub fn stream_bytes(out: &mut String, streams: &StreamLedger) {
    let segments = counted(streams.data_segments, "segment");
    let connections = counted(streams.connections, "connection");
    let note = format!("of {segments} of {connections}");
    count(out, "stream bytes", streams.received_bytes, &note);
}

/// What of it was not handed on, and what did not come.
pub fn stream_losses(out: &mut String, streams: &StreamLedger) {
    let parts = [
        ("  repeated", streams.repeated_bytes, "sent again, or behind their gap"),
        ("  cut", streams.cut_bytes, "not captured"),
        ("  out of window", streams.out_of_window_bytes, "that no host takes"),
        ("  after end", streams.after_end_bytes, "of connections that were over"),
    ];
    for (name, bytes, note) in parts.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        count(out, name, bytes, note);
    }
    for cause in Cause::ALL {
        let (gaps, bytes) = (streams.gaps[cause.index()], streams.gap_bytes[cause.index()]);
        if bytes > 0 {
            let note = format!("bytes missing in {}: {}", counted(gaps, "gap"), cause.name());
            count(out, "gaps", bytes, &note);
        }
    }
}

/// What became of the records. `inexpressible` says which of them a format cannot say.
pub fn written(out: &mut String, logs: &[LogStatus], inexpressible: &str) {
    for LogStatus { name, counts, .. } in logs {
        for (what, records) in counts.named() {
            match what {
                "delivered" => count(out, "  written", records, &format!("lines: {name}")),
                _ if records == 0 => {}
                "inexpressible" => count(out, "  inexpressible", records, inexpressible),
                what => count(out, &format!("  {what}"), records, &format!("lines: {name}")),
            }
        }
        if counts.inherited > 0 {
            let note = format!("of these, from an earlier run: {name}");
            count(out, "  inherited", counts.inherited, &note);
        }
    }
}
