//! What packets meant, as columns: flows, transactions and calls.

use anyhow::{Context, bail};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use ringside_arrow::{Columns, Rows, WrongRecord};
use ringside_calls::CallsObserver;
use ringside_core::{Frame, LaneId, SourceInterface, Timestamp};
use ringside_dns::DnsObserver;
use ringside_flow::{FlowMonitor, FlowTable, SinkCounts};
use ringside_http::HttpObserver;
use ringside_inspect::{Observer, Pump};
use ringside_logs::{LogCounts, Logged, Monitor, RecordSink, Watched};
use ringside_record::{Record, Row};
use ringside_tls::TlsObserver;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flows; one that goes on has a record for each such time.
    Flows(Duration),
    /// HTTP transactions.
    Http,
    /// DNS transactions.
    Dns,
    /// TLS handshakes.
    Tls,
    /// SIP calls.
    Calls,
}

impl Kind {
    /// The columns.
    pub fn columns(self) -> Columns {
        match self {
            Kind::Flows(_) => Columns::of::<ringside_flow::Record>(),
            Kind::Http => Columns::of::<ringside_http::Transaction>(),
            Kind::Dns => Columns::of::<ringside_dns::Transaction>(),
            Kind::Tls => Columns::of::<ringside_tls::Handshake>(),
            Kind::Calls => Columns::of::<ringside_calls::Call>(),
        }
    }
}

/// Packets on their way to records.
pub struct Records {
    pump: Option<Pump<'static>>,
    made: Made,
    ledger: Box<dyn Fn() -> Value + Send>,
}

impl Records {
    /// None yet.
    ///
    /// # Errors
    /// The time of flows is none.
    pub fn new(kind: Kind) -> anyhow::Result<Records> {
        let made = Made::new(kind.columns());
        let (observer, ledger) = observer(kind, &made)?;
        Ok(Records { pump: Some(Pump::new(vec![observer])), made, ledger })
    }

    /// Shows a packet to what makes records.
    pub fn show(&mut self, frame: &Frame<'_>, interfaces: &[SourceInterface]) {
        if let Some(pump) = &mut self.pump {
            pump.show(frame, interfaces, LaneId(0));
        }
    }

    /// No packet will come again: whatever is open ends.
    pub fn end(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.finish();
        }
    }

    /// Records that wait.
    pub fn len(&self) -> usize {
        self.made.lock().rows.len()
    }

    /// A batch of them.
    ///
    /// # Errors
    /// A record was none, which is a mistake of ours.
    pub fn finish(&mut self) -> anyhow::Result<RecordBatch> {
        let mut made = self.made.lock();
        if let Some(wrong) = made.wrong.take() {
            bail!("a record cannot be a row: {wrong}");
        }
        made.rows.finish().context("records as columns")
    }

    /// Where packets and records are.
    pub fn ledger(&self) -> Value {
        let mut ledger = (self.ledger)();
        ledger["records"] = self.made.lock().count.into();
        ledger
    }
}

/// Records as rows; a sink of observers.
#[derive(Clone)]
struct Made(Arc<Mutex<MadeRows>>);

struct MadeRows {
    rows: Rows,
    count: u64,
    wrong: Option<WrongRecord>,
}

impl Made {
    fn new(columns: Columns) -> Made {
        let rows = Rows::new(Arc::new(columns));
        Made(Arc::new(Mutex::new(MadeRows { rows, count: 0, wrong: None })))
    }

    fn lock(&self) -> MutexGuard<'_, MadeRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add<R: Record>(&self, record: &R, interface: &str) {
        let mut made = self.lock();
        if made.wrong.is_some() {
            return;
        }
        match made.rows.put(&Row { record, interface }) {
            Ok(()) => made.count += 1,
            Err(wrong) => made.wrong = Some(wrong),
        }
    }
}

/// Records of logs, with their account.
struct LogRows(Made, LogCounts);

impl<R: Logged> RecordSink<R> for LogRows {
    fn put(&mut self, record: &R, interface: &str) {
        self.0.add(record, interface);
        self.1.delivered += 1;
    }

    fn counts(&self) -> LogCounts {
        self.1
    }
}

/// Records of flows, with theirs.
struct FlowRows(Made, SinkCounts);

impl ringside_flow::RecordSink for FlowRows {
    fn put(&mut self, record: &ringside_flow::Record, interface: &str, _now: Timestamp) {
        self.0.add(record, interface);
        self.1.delivered.add(record);
    }

    fn finish(&mut self, _now: Timestamp) {}

    fn counts(&self) -> SinkCounts {
        self.1
    }
}

/// Says where packets and records are.
type Ledger = Box<dyn Fn() -> Value + Send>;

/// What makes records of a kind, with its account.
fn observer(kind: Kind, made: &Made) -> anyhow::Result<(Box<dyn Observer>, Ledger)> {
    let streams = ringside_streams::Limits::default;
    Ok(match kind {
        Kind::Flows(active) => flows(active, made)?,
        Kind::Http => {
            let http = HttpObserver::new(ringside_http::Options::default(), rows(made));
            watched(http, |status| {
                json!({ "http": status.ledger, "streams": status.streams,
                    "balances": status.balances })
            })
        }
        Kind::Dns => {
            let dns = DnsObserver::new(ringside_dns::Limits::default(), rows(made));
            watched(dns, |status| {
                json!({ "dns": status.ledger, "streams": status.streams,
                    "balances": status.balances })
            })
        }
        Kind::Tls => watched(TlsObserver::new(streams(), rows(made)), |status| {
            json!({ "tls": status.ledger, "streams": status.streams,
                "balances": status.balances })
        }),
        Kind::Calls => {
            let calls = CallsObserver::new(ringside_calls::Options::default(), rows(made));
            watched(calls, |status| {
                json!({ "calls": status.ledger, "streams": status.tcp,
                    "balances": status.balances })
            })
        }
    })
}

fn rows<R: Logged>(made: &Made) -> Vec<(String, Box<dyn RecordSink<R>>)> {
    vec![("rows".to_owned(), Box::new(LogRows(made.clone(), LogCounts::default())))]
}

/// An observer of records, whose status is its account.
fn watched<O: Watched + 'static>(
    observer: O,
    json: fn(&O::Status) -> Value,
) -> (Box<dyn Observer>, Ledger)
where
    O::Status: 'static,
{
    let monitor = Monitor::new(observer);
    let handle = monitor.handle();
    (Box::new(monitor), Box::new(move || json(&handle.status())))
}

fn flows(active: Duration, made: &Made) -> anyhow::Result<(Box<dyn Observer>, Ledger)> {
    let table = FlowTable::new(ringside_flow::Limits { active, ..Default::default() })?;
    let sink = FlowRows(made.clone(), SinkCounts::default());
    let monitor = FlowMonitor::new(table, vec![("rows".to_owned(), Box::new(sink))], None);
    let handle = monitor.handle();
    let ledger = move || {
        let status = handle.status();
        let no_flow = ringside_flow::NoFlow::ALL.map(|cause| (cause.name(), cause as usize));
        let no_flow = no_flow.map(|(name, index)| (name, json!(status.ledger.no_flow[index])));
        json!({
            "received": status.ledger.received,
            "exported": status.ledger.exported,
            "held": status.held,
            "no_flow": ringside_logs::object(no_flow),
            "balances": status.ledger.balances(status.held),
        })
    };
    Ok((Box::new(monitor), Box::new(ledger)))
}

/// The schema of a kind.
pub fn schema(kind: Kind) -> SchemaRef {
    Arc::clone(kind.columns().schema())
}
