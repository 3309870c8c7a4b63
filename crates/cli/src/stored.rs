//! Frames of files, directories and standard input, shown to an observer.

use crate::open_args::OpenArgs;
use crate::range_args::RangeArgs;
use crate::words;
use ringside_core::limits::DRAIN_MAX;
use ringside_core::{Frame, LaneId, SourceInterface};
use ringside_inspect::{DissectedFrame, Observer, Pump};
use ringside_rules::engine::Fate;
use ringside_rules::language::{RuleSet, Verdict};
use ringside_search::FrameFilter;
use ringside_session::FrameJudges;
use ringside_session::filters::frame_filter;
use ringside_store::{Query, StoredSource};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a stream is waited for before the order to stop is looked at.
const WAIT: Duration = Duration::from_millis(50);

/// Inputs that are open, and which of their frames are meant.
pub struct Stored {
    source: Box<dyn StoredSource>,
    filter: FrameFilter,
    judges: Option<FrameJudges>,
    packets_max: u64,
    statistics: Wanted,
    is_ended: bool,
}

impl Stored {
    /// Opens the inputs. A wrong filter is refused before anything is made.
    pub fn open(
        open: &OpenArgs,
        range: &RangeArgs,
        packets_max: Option<u64>,
    ) -> anyhow::Result<Stored> {
        // Before a pipe is opened, which waits for its first bytes: the question would end the
        // process.
        let statistics = Wanted::statistics()?;
        let inputs = open.read.clone();
        let range = range.resolve(&inputs)?.range;
        let source: Box<dyn StoredSource> = Query { inputs, range }.open()?;
        let mut filter = frame_filter(&open.filter(), words::say_note)?;
        for interface in source.interfaces() {
            filter.prepare(interface.link_type)?;
        }
        let packets_max = packets_max.unwrap_or(u64::MAX);
        Ok(Stored { source, filter, judges: None, packets_max, statistics, is_ended: false })
    }

    /// Of the frames that match only those are meant that these rules take.
    pub fn judge_by(&mut self, set: RuleSet) {
        self.judges = Some(FrameJudges::new(set));
    }

    /// Shows the frames to their end, or to the order to stop; how many. `look` is called
    /// meanwhile.
    pub fn show(
        &mut self,
        observer: &mut dyn Observer,
        look: &mut dyn FnMut() -> io::Result<()>,
    ) -> anyhow::Result<u64> {
        let stop = StopSignal::install()?;
        let mut pump = Pump::new(vec![Box::new(observer)]);
        let drained = self.drain(&stop, look, &mut pump);
        let seen = pump.finish();
        self.is_ended = stop.is_set();
        drained.map(|()| seen.frames)
    }

    fn drain(
        &mut self,
        stop: &StopSignal,
        look: &mut dyn FnMut() -> io::Result<()>,
        pump: &mut Pump<'_>,
    ) -> anyhow::Result<()> {
        let Stored { source, filter, judges, packets_max, statistics, .. } = self;
        let mut interfaces: Vec<SourceInterface> = source.interfaces().to_vec();
        let mut stopped_at: Option<Instant> = None;
        while !source.is_finished() && pump.seen().frames < *packets_max {
            if statistics.take() {
                let seen = units::grouped(pump.seen().frames);
                say::message(format_args!("{seen} packets seen so far"));
            }
            look()?;
            if stop.is_set() && stopped_at.get_or_insert_with(Instant::now).elapsed() >= DRAIN_MAX {
                break;
            }
            let Some(batch) = source.next_batch(WAIT)? else {
                // A stream that gives nothing after the order has given what had come.
                if stopped_at.is_some() {
                    break;
                }
                pump.advance(source.low_water());
                continue;
            };
            if batch.interfaces().len() > interfaces.len() {
                interfaces = batch.interfaces().to_vec();
            }
            if *packets_max == u64::MAX && filter.accepts_all() && judges.is_none() {
                pump.show_batch(&batch, &interfaces, LaneId(0));
                continue;
            }
            for frame in batch.iter() {
                let link_type = batch.interface_of(&frame.meta)?.link_type;
                let is_meant = filter.accepts(&frame, link_type)?
                    && match judges {
                        Some(judges) => is_taken(judges, &frame, link_type)?,
                        None => true,
                    };
                if is_meant && pump.seen().frames < *packets_max {
                    pump.show(&frame, &interfaces, LaneId(0));
                }
            }
        }
        Ok(())
    }

    /// Says what is to be said of the inputs.
    pub fn tell_notices(&self) {
        for notice in self.source.notices() {
            say::message(format_args!("ringside: {notice}"));
        }
    }

    /// The status of a command that showed `frames`: 1 if there were none, or something of the
    /// inputs is lost.
    pub fn exit_code(&self, frames: u64) -> ExitCode {
        let is_lossy = self.source.notices().iter().any(|notice| notice.condition.is_loss());
        ExitCode::from(u8::from(!self.is_ended && (frames == 0 || is_lossy)))
    }
}

fn is_taken(
    judges: &mut FrameJudges,
    frame: &Frame<'_>,
    link_type: ringside_core::LinkType,
) -> anyhow::Result<bool> {
    judges.prepare(link_type)?;
    let dissected = DissectedFrame::new(frame.bytes, frame.meta.wire_bytes, link_type);
    Ok(judges.judge(&dissected)?.fate == Fate::Verdict(Verdict::Take))
}
