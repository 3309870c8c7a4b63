//! A flow observer that shows meanwhile what it has found: its account, that of each sink, and the
//! largest groups of flows.

use crate::groups::lock;
use crate::{
    Field, FlowError, FlowObserver, FlowStatus, FlowTable, Groups, GroupsSink, Limits, Rank,
    Record, RecordSink,
};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A look at all flows takes at most this part of the time: frames wait meanwhile.
const PART_OF_TIME: u32 = 20;

/// What flows are grouped by, and which groups are shown.
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// The fields that a group has in common.
    pub fields: Vec<Field>,
    /// What the largest are largest in.
    pub rank: Rank,
    /// How many are shown.
    pub count: usize,
}

/// Drives a [`FlowObserver`], and answers a [`MonitorHandle`].
pub struct FlowMonitor {
    observer: FlowObserver<'static>,
    names: Vec<String>,
    top: Option<(Arc<Mutex<Groups>>, TopOptions)>,
    shared: Arc<Shared>,
    /// Not before this a look at all flows is worth its time again.
    not_before: Option<Instant>,
}

struct Shared {
    is_wanted: AtomicBool,
    status: Mutex<FlowStatus>,
    /// Idle and active time-out that were asked for, and are not yet those of the table.
    timeouts: Mutex<Option<(Duration, Duration)>>,
}

/// Asks a monitor, which may be in another thread.
#[derive(Clone)]
pub struct MonitorHandle(Arc<Shared>);

impl FlowMonitor {
    /// Records of `table` go to each of `sinks`, which have names, and are grouped as `top` says.
    pub fn new(
        table: FlowTable,
        sinks: Vec<(String, Box<dyn RecordSink>)>,
        top: Option<TopOptions>,
    ) -> FlowMonitor {
        let (mut names, mut sinks): (Vec<_>, Vec<_>) = sinks.into_iter().unzip();
        let top = top.map(|options| {
            let groups = Arc::new(Mutex::new(Groups::new(options.fields.clone())));
            names.push("groups".into());
            sinks.push(Box::new(GroupsSink::new(groups.clone())));
            (groups, options)
        });
        let (idle, active) = table.timeouts();
        let status =
            FlowStatus { idle, active, flows_max: table.flows_max(), ..FlowStatus::default() };
        let shared = Shared {
            is_wanted: AtomicBool::new(false),
            status: Mutex::new(status),
            timeouts: Mutex::new(None),
        };
        FlowMonitor {
            observer: FlowObserver::new(table, sinks),
            names,
            top,
            shared: Arc::new(shared),
            not_before: None,
        }
    }

    /// A handle for another thread.
    pub fn handle(&self) -> MonitorHandle {
        MonitorHandle(self.shared.clone())
    }

    /// Names the interfaces, by their numbers in keys: for packets that no frame brings.
    pub fn set_interfaces(&mut self, names: Vec<String>) {
        self.observer.set_interfaces(names);
    }

    /// Has `work` add packets that were added up elsewhere, at the time `now` of the packets, and
    /// answers who asked.
    pub fn feed<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&mut FlowTable, &mut dyn FnMut(Record)) -> T,
    ) -> T {
        let done = self.observer.feed(now, work);
        self.answer(now);
        done
    }

    /// After the last [`feed`](FlowMonitor::feed), which has ended all flows: no record will come
    /// again.
    pub fn close(&mut self) {
        self.observer.close();
        self.publish(self.observer.now(), true);
    }

    /// Does what was asked for, if something was and it is time.
    fn answer(&mut self, now: Timestamp) {
        if !self.shared.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        if let Some((idle, active)) = lock(&self.shared.timeouts).take() {
            // They were checked when they were asked for.
            let _ = self.observer.table_mut().set_timeouts(idle, active);
        }
        // The clock on the wall decides only how often others are shown it.
        let start = Instant::now();
        if self.not_before.is_some_and(|at| start < at) {
            return;
        }
        self.shared.is_wanted.store(false, Ordering::Relaxed);
        self.publish(now, false);
        self.not_before = Some(start + start.elapsed().saturating_mul(PART_OF_TIME));
    }

    fn publish(&mut self, now: Timestamp, is_finished: bool) {
        let table = self.observer.table();
        let top = self.top.as_ref().map(|(groups, options)| {
            let mut held = Groups::new(options.fields.clone());
            table.show_held(&mut |record| held.add(record));
            lock(groups).top(Some(&held), options.rank, options.count)
        });
        let (idle, active) = table.timeouts();
        let counts = self.observer.sinks().iter().map(|sink| sink.counts());
        let status = FlowStatus {
            now,
            flows: table.flows(),
            flows_max: table.flows_max(),
            idle,
            active,
            ledger: table.ledger().clone(),
            held: table.held(),
            sinks: self.names.iter().cloned().zip(counts).collect(),
            top,
            interfaces: self.observer.interfaces().to_vec(),
            is_finished,
        };
        *lock(&self.shared.status) = status;
    }
}

impl Observer for FlowMonitor {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.observer.see(frame, received);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.observer.tick(low_water);
        self.answer(low_water);
    }

    fn finish(&mut self) {
        self.observer.finish();
        self.publish(self.observer.now(), true);
    }
}

impl MonitorHandle {
    /// Asks for a new status, which comes with the next tick of the packets' time, or later where
    /// there are very many flows.
    pub fn ask(&self) {
        self.0.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Has flows end by other time-outs, from the next tick of the packets' time on; `None` leaves
    /// one as it is.
    ///
    /// # Errors
    /// One of them is 0 or longer than [`Limits::TIMEOUT_MAX`].
    pub fn set_timeouts(
        &self,
        idle: Option<Duration>,
        active: Option<Duration>,
    ) -> Result<(), FlowError> {
        let mut timeouts = lock(&self.0.timeouts);
        let status = lock(&self.0.status);
        let now = timeouts.unwrap_or((status.idle, status.active));
        let (idle, active) = (idle.unwrap_or(now.0), active.unwrap_or(now.1));
        Limits::check_timeouts(idle, active)?;
        *timeouts = Some((idle, active));
        self.ask();
        Ok(())
    }

    /// The latest status: after the stream's end the last.
    pub fn status(&self) -> FlowStatus {
        lock(&self.0.status).clone()
    }
}

#[cfg(test)]
mod tests;
