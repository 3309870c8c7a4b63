//! Kafka: a record is a message, a batch a transaction.
//!
//! A producer is called like the run whose batches it sends, and each transaction writes down the
//! number of the batch that comes next. So a batch whose acknowledgement got lost is known again,
//! also by another process that finds it in the spool: who reads committed messages alone has each
//! record once.

use crate::batch::Batch;
use crate::engine::{Engine, Outcome};
use crate::trust::UNKNOWN_AUTHORITY;
use ringside_kafka::{Failure, Library, MESSAGE_BYTES_MAX, Producer, Record, Settings};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// A topic of a cluster.
pub(crate) struct Kafka {
    library: Library,
    settings: Settings,
    current: Option<Current>,
}

/// The producer of a run.
struct Current {
    run: u128,
    producer: Producer,
    /// Number of the batch that comes next.
    next: u64,
}

impl Kafka {
    /// For records that go where `settings` say; the producer's name is chosen here.
    pub fn new(library: Library, settings: Settings) -> Kafka {
        Kafka { library, settings, current: None }
    }

    /// The producer of a batch's run.
    fn of_run(&mut self, run: u128, time: Duration) -> Result<Current, Failure> {
        match self.current.take() {
            Some(current) if current.run == run => Ok(current),
            // The one before goes first: two of them would have twice the connections.
            other => {
                drop(other);
                let name = format!("ringside-{run:032x}");
                let settings = Settings { name, ..self.settings.clone() };
                let (producer, next) = Producer::start(self.library, &settings, time)?;
                Ok(Current { run, producer, next })
            }
        }
    }

    fn send(&mut self, batch: &Batch, time: Duration) -> Result<Outcome, Failure> {
        let until = Instant::now() + time;
        let mut current = self.of_run(batch.run, time)?;
        let lines = batch.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let keyed: Vec<_> = lines.map(|line| (key(line), line)).collect();
        let (sent, too_long): (Vec<_>, Vec<_>) = keyed.iter().partition(|(key, line)| {
            key.as_ref().map_or(0, |key| key.len()) + line.len() <= MESSAGE_BYTES_MAX
        });
        if batch.sequence >= current.next {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.current = Some(current);
                let reason = "the brokers took the whole time to let a producer in".to_owned();
                return Err(Failure { reason, is_final: false });
            }
            let records = sent.iter().map(|(key, value)| {
                let key = key.as_deref().map(str::as_bytes);
                Record { key, value }
            });
            current.next = batch.sequence.saturating_add(1);
            current.producer.send(records, current.next, left)?;
        }
        self.current = Some(current);
        let refused = too_long.len() as u64;
        let reason = (refused > 0).then(|| "longer than messages of Kafka".to_owned());
        Ok(Outcome::Acknowledged { refused, reason })
    }
}

impl Engine for Kafka {
    fn deliver(&mut self, batch: &Batch, time: Duration) -> Outcome {
        match self.send(batch, time) {
            Ok(outcome) => outcome,
            Err(failure) if failure.is_final => Outcome::Refused(failure.reason),
            // A topic, a right, a limit: an operator can put it right.
            Err(failure) => Outcome::Failed(said(failure.reason)),
        }
    }
}

/// What librdkafka and OpenSSL say of servers that are not believed, and what to do about it here.
const FIXES: [(&str, &str); 6] = [
    ("self signed certificate", UNKNOWN_AUTHORITY),
    (
        "broker certificate could not be verified",
        "its certificate is of an authority that is not known here (--outlet-ca), has expired, or \
         is for other names",
    ),
    ("Message size too large", "a record is longer than its topic takes: max.message.bytes"),
    (
        "with SASL mechanism SCRAM",
        "it does not let this user in, or librdkafka is older than 2.6.1, which Kafka 4 refuses",
    ),
    ("SASL authentication error", "it does not let this user in"),
    ("SSL handshake failed", "it speaks no TLS at this port"),
];

/// The library's words, with what they mean for who runs this.
fn said(reason: String) -> String {
    let fix = FIXES.iter().find(|(words, _)| reason.contains(words));
    fix.map_or(reason.clone(), |(_, fix)| format!("{fix} ({reason})"))
}

/// What decides about a record's partition: its Community ID, so that what belongs to one
/// connection is in one partition and in order. Without one any partition will do.
fn key(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Keyed<'l> {
        #[serde(borrow)]
        community_id: Option<Cow<'l, str>>,
    }
    serde_json::from_slice::<Keyed<'_>>(line).ok()?.community_id
}

#[cfg(test)]
mod tests;
