//! A sink that makes messages of records, and where they go.

use super::{Encoder, Format, Templates};
use crate::Record;
use crate::sink::{RecordSink, RecordSums, SinkCounts};
use ringside_core::Timestamp;
use ringside_core::time::NANOS_PER_SEC;
use std::io::{self, Write};

/// How long a record waits for others of its message, in nanoseconds.
const WAIT_NS: u64 = NANOS_PER_SEC;

/// Takes whole messages: a datagram each, or one after the other.
pub trait MessageSink: Send {
    /// Hands a message on, with what its records hold.
    ///
    /// # Errors
    /// It did not get through: its records are lost, and counted.
    fn send(&mut self, message: &[u8], held: RecordSums) -> io::Result<()>;

    /// No message will come again.
    ///
    /// # Errors
    /// What was sent did not get through.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Messages back to back: a file as RFC 5655 has it, or a connection of TCP.
#[derive(Debug)]
pub struct Stream<W: Write + Send>(pub W);

impl<W: Write + Send> MessageSink for Stream<W> {
    fn send(&mut self, message: &[u8], _: RecordSums) -> io::Result<()> {
        self.0.write_all(message)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Messages kept in memory.
impl MessageSink for Vec<Vec<u8>> {
    fn send(&mut self, message: &[u8], _: RecordSums) -> io::Result<()> {
        self.push(message.to_vec());
        Ok(())
    }
}

/// Sends records to a collector, in messages of one format.
pub struct Collector<S: MessageSink> {
    format: Format,
    templates: Templates,
    domain: u32,
    /// From the first record on, whose time says when the exporter began.
    encoder: Option<Encoder>,
    output: S,
    /// When the oldest record that waits came.
    waiting_since: Option<Timestamp>,
    counts: SinkCounts,
    error: Option<io::Error>,
}

impl<S: MessageSink> Collector<S> {
    /// Messages go to `output`, as those of the observation domain `domain`.
    pub fn new(format: Format, domain: u32, output: S) -> Collector<S> {
        Collector {
            format,
            templates: Templates::Repeated,
            domain,
            encoder: None,
            output,
            waiting_since: None,
            counts: SinkCounts::default(),
            error: None,
        }
    }

    /// The same without templates among the messages: `output` sends [`templates`] where a
    /// connection or a file begins.
    ///
    /// [`templates`]: super::templates
    pub fn without_templates(format: Format, domain: u32, output: S) -> Collector<S> {
        Collector { templates: Templates::Apart, ..Collector::new(format, domain, output) }
    }

    /// The next message begins with the templates: for a collector that has just started.
    pub fn templates_now(&mut self) {
        if let Some(encoder) = &mut self.encoder {
            encoder.templates_now();
        }
    }

    /// The latest error of the output.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// The output.
    pub fn output(&self) -> &S {
        &self.output
    }

    /// Has the encoder make messages, and hands them on.
    fn with(&mut self, now: Timestamp, act: impl FnOnce(&mut Encoder, &mut dyn FnMut(&[u8]))) {
        let Collector { format, templates, domain, encoder, output, counts, error, .. } = self;
        let encoder =
            encoder.get_or_insert_with(|| Encoder::new(*format, *templates, *domain, now));
        act(encoder, &mut |message| match output.send(message, counts.waiting) {
            Ok(()) => counts.delivered.take(&mut counts.waiting),
            Err(cause) => {
                counts.write_failed.take(&mut counts.waiting);
                *error = Some(cause);
            }
        });
    }
}

impl<S: MessageSink> RecordSink for Collector<S> {
    fn put(&mut self, record: &Record, _interface: &str, now: Timestamp) {
        let mut is_written = false;
        self.with(now, |encoder, out| is_written = encoder.put(record, now, out));
        if is_written {
            self.counts.waiting.add(record);
            self.waiting_since.get_or_insert(now);
        } else {
            self.counts.inexpressible.add(record);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        if self.encoder.is_some() {
            self.with(now, |encoder, out| encoder.tick(now, out));
        }
        if self.waiting_since.is_some_and(|since| now.0.abs_diff(since.0) >= WAIT_NS) {
            self.with(now, |encoder, out| encoder.flush(now, out));
            self.waiting_since = None;
        }
    }

    fn finish(&mut self, now: Timestamp) {
        self.with(now, |encoder, out| encoder.flush(now, out));
        if let Err(cause) = self.output.finish() {
            // How much of it is there is unknown: all of it may be lost.
            let delivered: &mut RecordSums = &mut self.counts.delivered;
            self.counts.write_failed.take(delivered);
            self.error = Some(cause);
        }
    }

    fn counts(&self) -> SinkCounts {
        self.counts
    }
}
