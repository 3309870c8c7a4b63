//! The account of a stream, while it runs and at its end.

use ringside_core::{Refusal, SinkCounters};
use ringside_terminal::units::{grouped, scaled};
use ringside_transmit::{Ends, Way};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All of the payload was sent.
    Done,
    /// The requested number of frames was sent.
    Count,
    /// The time was over.
    Time,
    /// A signal came.
    Stopped,
    /// An error.
    Failed,
}

/// What was sent, and what became of it.
#[derive(Debug, Serialize)]
pub struct Report {
    source: String,
    destination: String,
    protocol: &'static str,
    way: &'static str,
    /// What was found out about the way.
    notes: Vec<String>,
    mss_bytes: usize,
    payload_bytes: u64,
    /// Frames.
    offered: u64,
    offered_bytes: u64,
    accepted: u64,
    refused: BTreeMap<Refusal, u64>,
    elapsed_ns: u64,
    payload_bits_per_sec: f64,
    ended: Ended,
}

/// The live line.
pub fn line(payload_bytes: u64, elapsed: Duration) -> String {
    let per_sec = 8.0 * payload_bytes as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    format!("{}bit/s of payload  {}B", scaled(per_sec), scaled(payload_bytes as f64))
}

impl Report {
    /// Of a stream by `way` between `ends`, whose frames carry `mss_bytes` each.
    pub fn new(
        (ends, is_udp, way): (&Ends, bool, Way),
        mss_bytes: usize,
        (payload_bytes, counters): (u64, SinkCounters),
        elapsed: Duration,
        ended: Ended,
        notes: Vec<String>,
    ) -> Report {
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        Report {
            source: ends.source.to_string(),
            destination: ends.destination.to_string(),
            protocol: if is_udp { "udp" } else { "tcp" },
            way: way.name(),
            notes,
            mss_bytes,
            payload_bytes,
            offered: counters.offered,
            offered_bytes: counters.offered_bytes,
            accepted: counters.accepted,
            refused: counters.refused,
            elapsed_ns: elapsed.as_nanos() as u64,
            payload_bits_per_sec: 8.0 * payload_bytes as f64 / seconds,
            ended,
        }
    }

    /// Exit status of a process that sent it: 0 if every frame was accepted, 1 if some was not or
    /// there was nothing, 2 after an error.
    pub fn status(&self) -> ExitCode {
        match self.ended {
            Ended::Failed => ExitCode::from(2),
            _ if self.offered == 0 || self.accepted < self.offered => ExitCode::from(1),
            _ => ExitCode::SUCCESS,
        }
    }

    /// The account for people; `interface` sent.
    pub fn text(&self, interface: &str) -> String {
        let ended = match self.ended {
            Ended::Done => "",
            Ended::Count => ", ended by --count",
            Ended::Time => ", ended by --for",
            Ended::Stopped => ", stopped",
            Ended::Failed => ", ended by an error",
        };
        let mut out = format!(
            "payload   {:>16}  bytes in {:.3} s, {}bit/s{ended}\n\
             offered   {:>16}  frames of {} payload bytes, {} to {}, {}B\n\
             accepted  {:>16}  taken by {interface}\n",
            grouped(self.payload_bytes),
            self.elapsed_ns as f64 / 1e9,
            scaled(self.payload_bits_per_sec),
            grouped(self.offered),
            self.mss_bytes,
            self.source,
            self.destination,
            scaled(self.offered_bytes as f64),
            grouped(self.accepted),
        );
        for (cause, frames) in &self.refused {
            let _ = writeln!(out, "refused   {:>16}  {cause}", grouped(*frames));
        }
        let _ = writeln!(out, "way       {:>16}  {}", self.way, self.notes.join("; "));
        out
    }
}
