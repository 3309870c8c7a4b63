//! Flows of files, directories and standard input.

use super::FlowsArgs;
use crate::words;
use anyhow::ensure;
use ringside_core::limits::DRAIN_MAX;
use ringside_core::{LaneId, SourceInterface};
use ringside_inspect::{Observer, Pump};
use ringside_report::flows::{self, Outputs};
use ringside_session::filters::FrameFilter;
use ringside_store::{Query, StoredSource};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a stream is waited for before the order to stop is looked at.
const WAIT: Duration = Duration::from_millis(50);

/// Reads the inputs to their end, or to the order to stop.
pub fn run(args: &FlowsArgs) -> anyhow::Result<ExitCode> {
    // Before a pipe is opened, which waits for its first bytes: the question would end the process.
    let statistics = Wanted::statistics()?;
    let inputs = args.open.read.clone();
    let range = args.range.resolve(&inputs)?.range;
    let mut source = Query { inputs, range }.open()?;
    let mut filter = FrameFilter::new(args.open.filter(), words::say_note);
    // A wrong filter is refused before anything is made.
    for interface in source.interfaces() {
        filter.prepare(interface.link_type)?;
    }
    let shown = args.shown();
    let (mut monitor, mut outputs) = args.flows.monitor(shown, true)?;
    let stop = StopSignal::install()?;
    let mut reading = Reading { args, stop: &stop, statistics: &statistics, outputs: &mut outputs };
    let read = reading.drain(&mut *source, &mut filter, &mut monitor);
    let status = monitor.handle().status();
    // What was read before an error is shown all the same.
    let is_whole = flows::finish(&args.flows.top(), shown, &status, read.as_ref().ok().copied())?;
    for notice in source.notices() {
        say::message(format_args!("ringside: {notice}"));
    }
    let read = read?;
    let all_arrived = outputs.finish()?;
    ensure!(is_whole, "the account of flows does not balance");
    ensure!(all_arrived, "a collector did not get all records");
    let is_lossy = source.notices().iter().any(|notice| notice.condition.is_loss());
    let is_ended = stop.is_set();
    Ok(ExitCode::from(u8::from(!is_ended && (read == 0 || is_lossy))))
}

struct Reading<'a> {
    args: &'a FlowsArgs,
    stop: &'a StopSignal,
    statistics: &'a Wanted,
    outputs: &'a mut Outputs,
}

impl Reading<'_> {
    /// Shows the packets that match; returns how many.
    fn drain(
        &mut self,
        source: &mut dyn StoredSource,
        filter: &mut FrameFilter,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<u64> {
        let mut pump = Pump::new(vec![Box::new(observer)]);
        let drained = self.pump(source, filter, &mut pump);
        let seen = pump.finish();
        drained.map(|()| seen.frames)
    }

    fn pump(
        &mut self,
        source: &mut dyn StoredSource,
        filter: &mut FrameFilter,
        pump: &mut Pump<'_>,
    ) -> anyhow::Result<()> {
        let count_max = self.args.run.packets().unwrap_or(u64::MAX);
        let mut interfaces: Vec<SourceInterface> = source.interfaces().to_vec();
        let mut stopped_at: Option<Instant> = None;
        while !source.is_finished() && pump.seen().frames < count_max {
            if self.statistics.take() {
                let seen = units::grouped(pump.seen().frames);
                say::message(format_args!("{seen} packets in flows or counted so far"));
            }
            self.outputs.look()?;
            if self.stop.is_set()
                && stopped_at.get_or_insert_with(Instant::now).elapsed() >= DRAIN_MAX
            {
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
            if count_max == u64::MAX && filter.accepts_all() {
                pump.show_batch(&batch, &interfaces, LaneId(0));
                continue;
            }
            for frame in batch.iter() {
                let link_type = batch.interface_of(&frame.meta)?.link_type;
                if filter.accepts(&frame, link_type)? && pump.seen().frames < count_max {
                    pump.show(&frame, &interfaces, LaneId(0));
                }
            }
        }
        Ok(())
    }
}
