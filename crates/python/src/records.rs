//! What packets meant, as columns: flows, transactions and calls.

use anyhow::bail;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use ringside_arrow::{Columns, Rows, WrongRecord};
use ringside_calls::CallsObserver;
use ringside_core::{Frame, LaneId, SourceInterface, Timestamp};
use ringside_dns::DnsObserver;
use ringside_flow::{FlowObserver, FlowTable, NoFlow, SinkCounts};
use ringside_http::HttpObserver;
use ringside_inspect::{Ahead, DissectedFrame, Observer, Pump, Received};
use ringside_logs::{LogCounts, Logged, RecordSink, Watched};
use ringside_record::{Record, Row};
use ringside_tls::TlsObserver;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rows of a batch: some MB, which stays in a processor's cache.
pub const ROWS_MAX: usize = 16_384;

/// Bytes of text in a batch, of names and headers that hosts on the network chose: far below the
/// 2 GiB of a column.
const TEXT_BYTES_MAX: usize = 64 << 20;

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
    ledger: Ledger,
}

impl Records {
    /// None yet.
    ///
    /// # Errors
    /// The table of flows refuses the time.
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

    /// No later packet is older than this: what was due before is over.
    pub fn advance(&mut self, low_water: Timestamp) {
        if let Some(pump) = &mut self.pump {
            pump.advance(low_water);
        }
    }

    /// No packet will come again: whatever is open ends.
    pub fn end(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.finish();
        }
    }

    /// The next batch that is full; if `all`, also one that is not.
    ///
    /// # Errors
    /// A record was none, which is a mistake of ours.
    pub fn take(&mut self, all: bool) -> anyhow::Result<Option<RecordBatch>> {
        let mut made = self.made.lock();
        if let Some(wrong) = made.wrong.take() {
            bail!("a record cannot be a row: {wrong}");
        }
        if made.full.is_empty() && all && !made.rows.is_empty() {
            made.seal()?;
        }
        Ok(made.full.pop_front())
    }

    /// Where packets and records are. Those that wait were made, and not handed on.
    pub fn ledger(&self) -> Value {
        let mut ledger = (self.ledger)();
        let made = self.made.lock();
        let full = made.full.iter().map(RecordBatch::num_rows).sum::<usize>();
        ledger["records"] = made.count.into();
        ledger["waiting"] = (full + made.rows.len()).into();
        ledger
    }
}

/// Records as rows; a sink of observers.
#[derive(Clone)]
struct Made(Arc<Mutex<MadeRows>>);

struct MadeRows {
    /// Batches that are full: what ends at once, as all flows at the end, becomes several.
    full: VecDeque<RecordBatch>,
    rows: Rows,
    count: u64,
    wrong: Option<WrongRecord>,
}

impl Made {
    fn new(columns: Columns) -> Made {
        let (full, rows) = (VecDeque::new(), Rows::new(Arc::new(columns)));
        Made(Arc::new(Mutex::new(MadeRows { full, rows, count: 0, wrong: None })))
    }

    fn lock(&self) -> MutexGuard<'_, MadeRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add<R: Record>(&self, record: &R, interface: &str) {
        let mut made = self.lock();
        if made.wrong.is_some() {
            return;
        }
        made.wrong = made.add(&Row { record, interface }).err();
    }
}

impl MadeRows {
    fn add<R: Record>(&mut self, row: &Row<'_, R>) -> Result<(), WrongRecord> {
        self.rows.put(row)?;
        self.count += 1;
        if self.rows.len() >= ROWS_MAX || self.rows.text_bytes() >= TEXT_BYTES_MAX {
            self.seal()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), WrongRecord> {
        let batch = self.rows.finish()?;
        self.full.push_back(batch);
        Ok(())
    }
}

/// An observer that can be asked meanwhile.
struct Shared<O>(Arc<Mutex<O>>);

impl<O> Shared<O> {
    fn lock(&self) -> MutexGuard<'_, O> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Observer> Observer for Shared<O> {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.lock().see(frame, received);
    }

    fn look_ahead(&mut self, frames: &Ahead<'_>) {
        self.lock().look_ahead(frames);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.lock().tick(low_water);
    }

    fn finish(&mut self) {
        self.lock().finish();
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
) -> (Box<dyn Observer>, Ledger) {
    shared(observer, move |observer| json(&observer.status(true)))
}

/// An observer, and what `json` says of it whenever it is asked.
fn shared<O: Observer + 'static>(
    observer: O,
    json: impl Fn(&O) -> Value + Send + 'static,
) -> (Box<dyn Observer>, Ledger) {
    let observer = Arc::new(Mutex::new(observer));
    let asked = Shared(Arc::clone(&observer));
    (Box::new(Shared(observer)), Box::new(move || json(&asked.lock())))
}

fn flows(active: Duration, made: &Made) -> anyhow::Result<(Box<dyn Observer>, Ledger)> {
    let table = FlowTable::new(ringside_flow::Limits { active, ..Default::default() })?;
    let sink: Box<dyn ringside_flow::RecordSink> =
        Box::new(FlowRows(made.clone(), SinkCounts::default()));
    Ok(shared(FlowObserver::new(table, vec![sink]), |flows: &FlowObserver<'static>| {
        let (ledger, held) = (flows.table().ledger(), flows.table().held());
        let no_flow =
            NoFlow::ALL.map(|cause| (cause.name(), json!(ledger.no_flow[cause as usize])));
        json!({
            "received": ledger.received,
            "exported": ledger.exported,
            "held": held,
            "no_flow": ringside_logs::object(no_flow),
            "balances": ledger.balances(held),
        })
    }))
}

/// The schema of a kind.
pub fn schema(kind: Kind) -> SchemaRef {
    Arc::clone(kind.columns().schema())
}
