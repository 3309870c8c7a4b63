//! The thread that writes records.

use super::queue::{DigestQueue, DigestReader, DigestSums};
use super::{DigestMiss, DigestOutput, Record};
use crate::control::Control;
use crate::stream::StreamWriter;
use ringside_core::{Cause, Shown, SourceInterface};
use ringside_store::StoreError;
use ringside_store::writer::create_file;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Records that are written at once: less than the queue holds, so that it empties meanwhile.
const BATCH_RECORDS: usize = 1_024;

/// Writes records until no sender is left.
pub(crate) struct DigestWriter {
    receiver: Receiver<Record>,
    stream: StreamWriter,
    /// Where to, for messages.
    place: String,
    /// By id.
    interfaces: Vec<String>,
    reader: DigestReader,
    control: Arc<Control>,
    /// Why nothing can be written any more.
    failed: Option<DigestMiss>,
    text: String,
    /// Where each record of the text ends, and what it counts.
    ends: Vec<(usize, DigestSums)>,
}

impl DigestWriter {
    /// Opens the output. Records of `interfaces` come by the queue.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn open(
        output: DigestOutput,
        interfaces: &[SourceInterface],
        reader: &DigestReader,
        control: Arc<Control>,
    ) -> Result<(DigestWriter, DigestQueue), StoreError> {
        let (fd, place) = match output {
            DigestOutput::Stream(fd) => (fd, "standard output".to_owned()),
            DigestOutput::File(path) => {
                let place = path.shown().to_string();
                let context = || format!("cannot make {place}, the file of digests");
                let file = create_file(&path).map_err(|error| match error {
                    StoreError::Io { source, .. } => StoreError::Io { context: context(), source },
                    other => other,
                })?;
                (file.into(), place)
            }
        };
        let (queue, receiver) = reader.queue();
        let writer = DigestWriter {
            receiver,
            stream: StreamWriter::new(fd, control.clone()),
            place,
            interfaces: interfaces.iter().map(|interface| interface.name.clone()).collect(),
            reader: reader.clone(),
            control,
            failed: None,
            text: String::new(),
            ends: Vec::with_capacity(BATCH_RECORDS),
        };
        Ok((writer, queue))
    }

    /// Runs until all ends of the queue are gone.
    pub(crate) fn run(mut self) {
        while let Ok(record) = self.receiver.recv() {
            self.add(&record);
            while self.ends.len() < BATCH_RECORDS
                && let Ok(record) = self.receiver.try_recv()
            {
                self.add(&record);
            }
            self.write();
        }
    }

    fn add(&mut self, record: &Record) {
        if self.failed.is_none() {
            let interface = self.interfaces.get(record.key.interface.0 as usize);
            self.text += &line(record, interface.map_or("", String::as_str)).to_string();
            self.text.push('\n');
        }
        self.ends.push((self.text.len(), DigestSums::of(&record.sum)));
    }

    /// Writes what was added; each record is then written or missed.
    fn write(&mut self) {
        let mut written = 0;
        while self.failed.is_none() && written < self.text.len() {
            match self.stream.write(&self.text.as_bytes()[written..]) {
                Ok(0) => self.fail(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(error),
            }
        }
        let tally = self.reader.tally();
        for (end, sums) in self.ends.drain(..) {
            match self.failed.filter(|_| end > written || self.text.is_empty()) {
                None => tally.write(&sums),
                Some(why) => tally.miss(why, &sums),
            }
        }
        self.text.clear();
    }

    /// The run ends: what was asked for cannot be done.
    fn fail(&mut self, source: io::Error) {
        let error =
            StoreError::Io { context: format!("writing digests to {}", self.place), source };
        self.failed = Some(match crate::control::cause_of(&error) {
            Cause::DiskFull => DigestMiss::DiskFull,
            Cause::PipeClosed => DigestMiss::PipeClosed,
            Cause::PipeStalled => DigestMiss::PipeStalled,
            _ => DigestMiss::WriteFailed,
        });
        self.control.fail(error.to_string());
    }
}

/// A record as docs/formats/digests.md has it.
fn line(record: &Record, interface: &str) -> serde_json::Value {
    let Record { key, sum, end } = record;
    let tuple = key.tuple;
    let ports = tuple.and_then(|tuple| tuple.ports);
    serde_json::json!({
        "rule": key.rule.0,
        "interface": interface,
        "vlan": key.vlan,
        "src": tuple.map(|tuple| tuple.source.to_string()),
        "dst": tuple.map(|tuple| tuple.destination.to_string()),
        "protocol": tuple.map(|tuple| tuple.protocol.0),
        "src_port": ports.map(|(from, _)| from.0),
        "dst_port": ports.map(|(_, to)| to.0),
        "frames": sum.frames,
        "bytes": sum.bytes,
        "first_ns": sum.first_ns,
        "last_ns": sum.last_ns,
        "tcp_flags": sum.tcp_flags,
        "end": end.name(),
    })
}
