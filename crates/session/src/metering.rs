//! A run whose packets the kernel adds up by flow: no lanes and no ring, but a flow cache on each
//! interface, which is read into a flow table some times a second.

mod desk;
mod open;
mod report;

pub use open::MeteringOptions;
pub use report::{MeterReport, MeteringReport, finish_for_dead};
pub use ringside_meter::{Hook, Options as CacheOptions};

use crate::Order;
use crate::rates::Meter as RateMeter;
use crate::session::Moment;
use anyhow::bail;
use desk::Desk;
use ringside_control::{ControlSocket, Remaining, serve_while};
use ringside_flow::FlowMonitor;
use ringside_keeper::Link;
use ringside_meter::Meters;
use ringside_sys::packet::Promiscuous;
use std::time::{Duration, Instant};

/// How often caches are read: what is handed up meanwhile has to fit into their rings, which hold
/// 52,000 evicted entries of each CPU unless they are set otherwise.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// How often the caller is asked, and clients are shown what was read.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A run under way. Dropped before [`finish`](Metering::finish), it ends without a ledger.
pub struct Metering<'l> {
    meters: Meters,
    monitor: FlowMonitor,
    desk: Desk,
    control: Option<ControlSocket>,
    duration: Option<Duration>,
    clients: Remaining,
    link: Option<&'l Link>,
    errors: Vec<String>,
    /// Keep the interfaces promiscuous.
    _promiscuous: Vec<Promiscuous>,
}

/// A run that has ended. Who ordered its end by the control socket, and its keeper, wait until this
/// is [closed](MeteringFinished::close) or dropped.
pub struct MeteringFinished<'l> {
    /// What was done.
    pub report: MeteringReport,
    clients: Remaining,
    link: Option<&'l Link>,
}

impl MeteringFinished<'_> {
    /// The report is out: a keeper need not close the ledger any more.
    pub fn close(self) {
        self.link.inspect(|link| link.closed());
        drop(self.clients);
    }
}

impl<'l> Metering<'l> {
    /// Answers at the control socket, reads the caches, and asks `each` what to do, until the time
    /// is over, an order ends it, or something fails.
    ///
    /// # Errors
    /// That of `each`. The run still has to be [finished](Metering::finish).
    pub fn watch(
        &mut self,
        each: &mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>,
    ) -> anyhow::Result<()> {
        let Metering { meters, monitor, desk, control, duration, clients, errors, .. } = self;
        let desk = &*desk;
        let mut body = || {
            let (watched, failed) = wait(meters, monitor, desk, *duration, each);
            errors.extend(failed.map(|error| format!("{error:#}")));
            watched
        };
        let watched;
        (watched, *clients) =
            serve_while(control.take(), |command| desk.answer(command), &mut body);
        watched
    }

    /// Takes the caches off, reads the rest, ends all flows, and closes the ledger.
    pub fn finish(self) -> MeteringFinished<'l> {
        let Metering { mut meters, mut monitor, control, clients, link, mut errors, .. } = self;
        // Without a watch it is still there.
        drop(control);
        link.inspect(|link| link.received());
        let ended = monitor.feed(Meters::now(), |table, out| meters.finish(table, out));
        errors.extend(ended.err().map(|error| error.to_string()));
        monitor.close();
        let caches = report::of(&meters);
        let flows = monitor.handle().status();
        let report = MeteringReport { ledger: report::ledger(&caches), caches, flows, errors };
        MeteringFinished { report, clients, link }
    }
}

/// Until the end: an error of `each`, and one that ended the run.
fn wait(
    meters: &mut Meters,
    monitor: &mut FlowMonitor,
    desk: &Desk,
    duration: Option<Duration>,
    each: &mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>,
) -> (anyhow::Result<()>, Option<anyhow::Error>) {
    let stop_at = duration.map(|duration| Instant::now() + duration);
    let mut rates = RateMeter::default();
    let mut look_at = Instant::now();
    loop {
        if let Err(error) = monitor.feed(Meters::now(), |table, out| meters.poll(table, out)) {
            return (Ok(()), Some(error.into()));
        }
        // The sinks have written it.
        meters.note_exported();
        let now = Instant::now();
        let is_over = desk.is_stopping() || stop_at.is_some_and(|at| now >= at);
        if now >= look_at || is_over {
            look_at = now + LOOK_INTERVAL;
            match look(meters, desk, &mut rates, each) {
                Ok(Ok(Order::GoOn | Order::Rotate)) if !is_over => {}
                Ok(ordered) => return (ordered.map(drop), None),
                Err(failed) => return (Ok(()), Some(failed)),
            }
        }
        let read_at = now + READ_INTERVAL;
        std::thread::sleep(stop_at.map_or(read_at, |at| at.min(read_at)) - now);
    }
}

/// Shows what was read, and does what was asked for meanwhile. An interface that is gone is an
/// error; that of `each` is its own.
fn look(
    meters: &Meters,
    desk: &Desk,
    rates: &mut RateMeter,
    each: &mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>,
) -> anyhow::Result<anyhow::Result<Order>> {
    if let Some(entries) = desk.take_entries_max() {
        meters.iter().for_each(|meter| meter.set_entries_max(entries));
    }
    let caches = report::of(meters);
    let ledger = report::ledger(&caches);
    let is_new_second = rates.update(Instant::now(), &ledger);
    desk.publish(caches, rates.rates);
    if is_new_second {
        all_there(meters)?;
    }
    Ok(each(&Moment::unprofiled(ledger, rates.rates, is_new_second)))
}

/// Refuses to go on without an interface: nothing would come any more, unnoticed.
fn all_there(meters: &Meters) -> anyhow::Result<()> {
    let devices = ringside_netdev::list()?;
    for meter in meters.iter() {
        let name = meter.interface();
        if !devices.iter().any(|device| device.name == name) {
            bail!("interface {name} was removed");
        }
    }
    Ok(())
}
