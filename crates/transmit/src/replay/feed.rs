//! The reading side: frames of the inputs, selected, rewritten, with the time when each is due.

use crate::Error;
use crate::replay::prepare::Preparer;
use crate::replay::queue::{Chunk, Queue, ReadEnd};
use crate::replay::report::Unsendable;
use crate::replay::schedule::{Odd, Schedule};
use crate::replay::{CutFrames, Filter};
use ringside_core::{Frame, LinkType};
use ringside_store::{Query, StoredSource};
use std::time::Duration;

/// How long one step waits for input; matters for a pipe only.
const READ_WAIT: Duration = Duration::from_millis(100);

/// What a step of the reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    End,
}

/// Reads the inputs, round after round.
pub(crate) struct Feed {
    pub query: Query,
    /// Frames outside the range that the open source has passed and that are counted.
    pub outside_before: u64,
    pub filter: Filter,
    pub preparer: Preparer,
    pub schedule: Schedule,
    pub rounds_left: u64,
    /// Frames that may still be sent.
    pub frames_left: u64,
    /// What cannot be sent is counted and left out; else it ends the reading.
    pub skips: bool,
    /// Where frames are sent, for messages.
    pub interface: String,
    pub source: Option<Box<dyn StoredSource>>,
    pub notices: Vec<String>,
}

impl Feed {
    /// Adds the frames of the next batch to `chunk`.
    ///
    /// # Errors
    /// An input cannot be read, or holds what cannot be sent; what came before is in `chunk`.
    pub fn step(&mut self, chunk: &mut Chunk) -> Result<Step, Error> {
        if self.frames_left == 0 {
            return Ok(Step::End);
        }
        let mut source = match self.source.take() {
            Some(source) => source,
            None if self.rounds_left == 0 => return Ok(Step::End),
            None => {
                self.rounds_left -= 1;
                self.schedule.begin_round();
                self.outside_before = 0;
                self.query.open()?
            }
        };
        let read = self.read(&mut *source, chunk);
        let outside = source.tally().frames_outside;
        let passed = outside - std::mem::replace(&mut self.outside_before, outside);
        chunk.counts.read += passed;
        chunk.counts.outside_range += passed;
        if source.is_finished() || read.is_err() {
            self.notices = source.notices().iter().map(ToString::to_string).collect();
        } else {
            self.source = Some(source);
        }
        read.map(|()| Step::More)
    }

    fn read(&mut self, source: &mut dyn StoredSource, chunk: &mut Chunk) -> Result<(), Error> {
        let Some(batch) = source.next_batch(READ_WAIT)? else { return Ok(()) };
        for frame in batch.iter() {
            if self.frames_left == 0 {
                break;
            }
            let link = batch.interface_of(&frame.meta)?.link_type;
            self.frame(&frame, link, chunk)?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>, link: LinkType, chunk: &mut Chunk) -> Result<(), Error> {
        let counts = &mut chunk.counts;
        counts.read += 1;
        if !(self.filter)(frame, link).map_err(|reason| Error::Filter { reason })? {
            counts.filtered += 1;
            return Ok(());
        }
        let offset = chunk.memory.len();
        let prepared = match self.preparer.append(frame, link, &mut chunk.memory) {
            Ok(prepared) => prepared,
            Err(cause) => {
                counts.skipped.count(cause);
                if self.skips {
                    return Ok(());
                }
                let mut found = Unsendable::default();
                found.count(cause);
                return Err(Error::unsendable(&self.query.inputs, found, &self.interface));
            }
        };
        counts.mapped += u64::from(prepared.changed.mapped);
        let is_padded = self.preparer.cut == CutFrames::Pad;
        counts.cut += u64::from(prepared.was_cut && !is_padded);
        counts.padded += u64::from(prepared.was_cut && is_padded);
        let due = self.schedule.due(frame.meta.timestamp, chunk.memory.len() - offset);
        counts.backwards += u64::from(due.odd == Some(Odd::Backwards));
        counts.without_time += u64::from(due.odd == Some(Odd::NoTime));
        chunk.add(offset, due.ns);
        self.frames_left -= 1;
        Ok(())
    }

    /// Reads to the end, or until the sender wants no more.
    pub fn run(mut self, queue: &Queue) {
        let mut chunk = Chunk::default();
        let failure = loop {
            let step = self.step(&mut chunk);
            if chunk.counts.read > 0 {
                match queue.push(std::mem::take(&mut chunk)) {
                    Some(empty) => chunk = empty,
                    None => break None,
                }
            }
            match step {
                Ok(Step::More) => {}
                Ok(Step::End) => break None,
                Err(error) => break Some(error),
            }
        };
        queue.finish(ReadEnd { failure, notices: self.notices });
    }
}
