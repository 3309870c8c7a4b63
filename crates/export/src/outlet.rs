//! A sink for one collector.

use crate::address::Address;
use crate::desk::Desk;
use crate::error::ExportError;
use crate::options::Options;
use crate::spool::Spool;
use crate::status::Status;
use crate::tcp::{Dialer, Sender};
use crate::{file, udp};
use ringside_core::Timestamp;
use ringside_core::time::NANOS_PER_SEC;
use ringside_flow::encode::templates;
use ringside_flow::{Collector, Format, MessageSink, Record, RecordSink, RecordSums, SinkCounts};
use ringside_sys::bell::Bell;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Hands records to one collector, as messages of one format. A call never waits for the network or
/// a disk, unless it is asked to ([`Options::waits_for_room`]); [`RecordSink::finish`] waits for
/// delivery, for a bounded time. Dropped without that, it waits for nothing: what is left stays in
/// the spool, or is lost.
pub struct Outlet {
    collector: Collector<ToDesk>,
    desk: Arc<Desk>,
    finish: Duration,
    /// When it was last seen to that templates come before their time.
    templates_looked: Timestamp,
}

/// After a collector refused, templates come before their time, once a second at most: while it is
/// away each would be refused.
const TEMPLATES_NS: u64 = NANOS_PER_SEC;

/// Shows the status of an outlet, also from other threads and after the outlet is gone.
#[derive(Clone)]
pub struct Watch(Arc<Desk>);

impl Watch {
    /// The status now.
    pub fn status(&self) -> Status {
        self.0.status()
    }
}

/// Where the encoder's messages go.
struct ToDesk(Arc<Desk>);

impl MessageSink for ToDesk {
    fn send(&mut self, message: &[u8], held: RecordSums) -> io::Result<()> {
        self.0.put(message, held);
        Ok(())
    }
}

impl Outlet {
    /// An outlet to a collector. A name for UDP is looked up here, once; for TCP with each
    /// connection, of which the first may still be missing: then messages wait, go to the spool or
    /// get lost. A file is emptied.
    ///
    /// # Errors
    /// The format cannot go there; a name has no address, or no way leads there (UDP); the file or
    /// the spool cannot be used, or another process uses it.
    pub fn open(
        address: &Address,
        format: Format,
        options: &Options,
    ) -> Result<Outlet, ExportError> {
        Outlet::check(address, format)?;
        let name = address.to_string();
        let collector = |source| ExportError::Collector { address: name.clone(), source };
        let bell = Bell::new().map_err(|error| collector(io::Error::other(error)))?;
        let status =
            Status { collector: name.clone(), format: format.name().into(), ..Status::default() };
        let desk = Arc::new(Desk::new(bell, status, options.queue_bytes, options.waits_for_room));
        // Dated by the first message that follows.
        let templates: Arc<[u8]> = templates(format, options.domain, Timestamp::default()).into();
        let shared = Arc::clone(&desk);
        let work: Box<dyn FnOnce() + Send> = match address {
            Address::Udp(host) => {
                let socket = udp::open(host, format).map_err(collector)?;
                let per_second = options.datagrams_per_second;
                Box::new(move || udp::run(&shared, &socket, per_second))
            }
            Address::File(path) => {
                let file = file::open(path)?;
                Box::new(move || file::run(&shared, &file, &templates))
            }
            Address::Tcp(host) => {
                let spool = options.spool.as_ref();
                let spool = spool.map(|o| Spool::open(o, Arc::clone(&templates))).transpose()?;
                if let Some(spool) = &spool {
                    desk.change(|status| inherit(status, spool));
                }
                let dialer = Dialer::new(Arc::clone(&shared), host.clone(), format, options);
                Box::new(move || Sender::new(shared, templates, dialer, spool).run())
            }
        };
        start(&desk, &name, work)?;
        let to_desk = ToDesk(Arc::clone(&desk));
        let collector = match address {
            Address::Udp(_) => Collector::new(format, options.domain, to_desk),
            _ => Collector::without_templates(format, options.domain, to_desk),
        };
        let (finish, templates_looked) = (options.finish, Timestamp::default());
        Ok(Outlet { collector, desk, finish, templates_looked })
    }

    /// Refuses a format that does not go there: NetFlow before IPFIX goes in datagrams alone.
    ///
    /// # Errors
    /// [`ExportError::Format`].
    pub fn check(address: &Address, format: Format) -> Result<(), ExportError> {
        let way = match address {
            Address::Udp(_) => return Ok(()),
            Address::Tcp(_) => "TCP",
            Address::File(_) => "a file",
        };
        if format.is_ipfix() {
            return Ok(());
        }
        Err(ExportError::Format { format: format.name(), address: address.to_string(), way })
    }

    /// Shows its status, from any thread.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.desk))
    }

    fn note(&self) {
        let SinkCounts { waiting, inexpressible, .. } = self.collector.counts();
        self.desk.note(waiting, inexpressible);
    }

    fn close(&self, time: Duration) {
        self.desk.close(Instant::now() + time);
        self.desk.wait_done();
    }
}

/// What an earlier run left is on the account of this one.
fn inherit(status: &mut Status, spool: &Spool) {
    status.counts.inherited = spool.held();
    status.counts.spooled = spool.held();
    status.spool_bytes = spool.bytes();
    status.spool_damaged_bytes = spool.damaged_bytes();
}

/// Says that the thread is over, also if it panicked: a meter that waits must not do so for ever.
struct AtEnd(Arc<Desk>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.done();
    }
}

fn start(desk: &Arc<Desk>, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<(), ExportError> {
    let at_end = AtEnd(Arc::clone(desk));
    let run = move || {
        let _at_end = at_end;
        work();
    };
    // It is not joined: its end is waited for at the desk, for a bounded time.
    let started = thread::Builder::new().name("export".into()).spawn(run);
    let failed = |source| ExportError::Thread { address: name.to_owned(), source };
    started.map(drop).map_err(failed)
}

impl RecordSink for Outlet {
    fn put(&mut self, record: &Record, interface: &str, now: Timestamp) {
        self.collector.put(record, interface, now);
    }

    fn tick(&mut self, now: Timestamp) {
        if now.0.abs_diff(self.templates_looked.0) >= TEMPLATES_NS {
            self.templates_looked = now;
            if self.desk.are_templates_wanted() {
                self.collector.templates_now();
            }
        }
        self.collector.tick(now);
        self.note();
    }

    fn finish(&mut self, now: Timestamp) {
        self.collector.finish(now);
        self.note();
        self.close(self.finish);
    }

    fn counts(&self) -> SinkCounts {
        let SinkCounts { waiting, inexpressible, .. } = self.collector.counts();
        let mut counts = self.desk.counts();
        counts.waiting += waiting;
        counts.inexpressible = inexpressible;
        counts
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}
