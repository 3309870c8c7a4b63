//! Columns on their way to other libraries, by Arrow's C interface: what it calls the PyCapsule
//! interface, which pyarrow, polars, pandas and DuckDB read.

use crate::columns::{self, PacketColumns};
use crate::error;
use crate::frames::Step;
use crate::interpreter::{self, Turn};
use crate::reading::Reading;
use crate::records::{self, Kind, Records};
use anyhow::anyhow;
use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::Value;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Rows of a batch: some MB, which stays in a processor's cache.
const ROWS_MAX: usize = 16_384;

/// Bytes of packets in a batch, if they are asked for: far below the 2 GiB of a column.
const DATA_BYTES_MAX: usize = 64 << 20;

/// So long a batch of a capture that runs waits for more.
const WAIT_MAX: Duration = Duration::from_millis(500);

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// What rows are made of.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// Packets, perhaps with their bytes.
    Packets {
        /// With them.
        has_data: bool,
    },
    /// Records of a kind.
    Records(Kind),
}

impl Rows {
    fn schema(self) -> SchemaRef {
        match self {
            Rows::Packets { has_data } => columns::schema(has_data),
            Rows::Records(kind) => records::schema(kind),
        }
    }
}

/// Account of the last reading that ended.
type LastLedger = Arc<Mutex<Option<Value>>>;

/// What makes rows of packets.
enum Maker {
    Packets(Box<PacketColumns>),
    Records(Records),
}

impl Maker {
    fn is_full(&self) -> bool {
        match self {
            Maker::Packets(columns) => {
                columns.len() >= ROWS_MAX || columns.data_bytes() >= DATA_BYTES_MAX
            }
            Maker::Records(records) => records.len() >= ROWS_MAX,
        }
    }

    fn len(&self) -> usize {
        match self {
            Maker::Packets(columns) => columns.len(),
            Maker::Records(records) => records.len(),
        }
    }

    fn finish(&mut self) -> anyhow::Result<RecordBatch> {
        match self {
            Maker::Packets(columns) => Ok(columns.finish()?),
            Maker::Records(records) => records.finish(),
        }
    }
}

/// A reading whose packets become batches.
struct Supply {
    reading: Reading,
    maker: Maker,
    is_over: bool,
    /// When the batch that is being made began to wait.
    since: Instant,
    last: LastLedger,
}

impl Supply {
    fn new(reading: Reading, rows: Rows, last: LastLedger) -> anyhow::Result<Supply> {
        let maker = match rows {
            Rows::Packets { has_data } => {
                Maker::Packets(Box::new(PacketColumns::new(has_data, ROWS_MAX)))
            }
            Rows::Records(kind) => Maker::Records(Records::new(kind)?),
        };
        Ok(Supply { reading, maker, is_over: false, since: Instant::now(), last })
    }

    /// Reads on; done if a batch is ready, or nothing will come.
    fn step(&mut self) -> anyhow::Result<Turn> {
        if self.is_over {
            return Ok(Turn::Done);
        }
        let Supply { reading, maker, .. } = self;
        let step = reading.show(&mut |frame, interfaces| match maker {
            // Text in memory is never refused.
            Maker::Packets(columns) => columns.put(frame, interfaces).unwrap_or_default(),
            Maker::Records(records) => records.show(frame, interfaces),
        });
        if !matches!(step, Ok(Step::Some | Step::Idle)) {
            self.end();
        }
        let is_old = step? != Step::Some && self.since.elapsed() >= WAIT_MAX;
        let is_ready = self.is_over || self.maker.is_full() || (is_old && self.maker.len() > 0);
        Ok(if is_ready { Turn::Done } else { Turn::More })
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Maker::Records(records) = &mut self.maker {
            records.end();
        }
        self.note();
    }

    /// Notes the account, for who asks.
    fn note(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.ledger());
    }

    fn ledger(&self) -> Value {
        let mut ledger = self.reading.ledger();
        if let Maker::Records(records) = &self.maker {
            ledger["records"] = records.ledger();
        }
        ledger
    }

    /// The batch that [`step`](Supply::step) has made; none at the end.
    fn take(&mut self) -> anyhow::Result<Option<RecordBatch>> {
        self.since = Instant::now();
        if self.maker.len() == 0 {
            return Ok(None);
        }
        self.maker.finish().map(Some)
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        if !self.is_over {
            self.note();
        }
    }
}

/// A supply, as another library reads it through C.
struct Stream {
    supply: Supply,
    schema: SchemaRef,
    /// Of the thread that runs Python: signals are looked at there, and warnings said. On another
    /// one that might wait for a thread that waits for this one.
    python: ThreadId,
    is_done: bool,
}

impl Stream {
    fn read(&mut self) -> anyhow::Result<Option<RecordBatch>> {
        let is_python = thread::current().id() == self.python;
        let external = |error: PyErr| anyhow!("{error}");
        let turn = |py: Python<'_>| interpreter::run(py, || self.supply.step()).map_err(external);
        match is_python.then(|| Python::try_attach(turn)).flatten() {
            Some(done) => done?,
            None => while self.supply.step()? == Turn::More {},
        }
        let batch = self.supply.take()?;
        if self.supply.is_over && is_python {
            let missing = self.supply.reading.missing();
            let say = |py: Python<'_>| interpreter::warn_all(py, &missing).map_err(external);
            Python::try_attach(say).transpose()?;
        }
        Ok(batch)
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let batch = self.read();
        self.is_done = self.supply.is_over || batch.is_err();
        batch.map_err(|error| ArrowError::ExternalError(format!("{error:#}").into())).transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Columns of packets or records, read whenever another library asks for them:
/// `polars.DataFrame(batches)`, `pyarrow.table(batches)`, `duckdb.sql("FROM batches")`. `for` loops
/// over them batch by batch.
#[pyclass(frozen, module = "ringside")]
pub struct Batches {
    open: Open,
    rows: Rows,
    last: LastLedger,
}

/// Begins to read the packets that are meant.
pub type Open = Box<dyn Fn(Python<'_>) -> PyResult<Reading> + Send + Sync>;

impl Batches {
    /// Of the packets that `open` reads.
    pub fn new(open: Open, rows: Rows) -> Batches {
        Batches { open, rows, last: Arc::default() }
    }

    fn supply(&self, py: Python<'_>) -> PyResult<Supply> {
        let reading = (self.open)(py)?;
        let supply = Supply::new(reading, self.rows, Arc::clone(&self.last));
        supply.map_err(|error| error::to_python(&error))
    }
}

#[pymethods]
impl Batches {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.rows.schema())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer keep to its own types.
        let _ = requested_schema;
        let (supply, python) = (self.supply(py)?, thread::current().id());
        let stream = Stream { supply, schema: self.rows.schema(), python, is_done: false };
        stream_capsule(py, Box::new(stream))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<BatchIterator> {
        Ok(BatchIterator(Mutex::new(self.supply(py)?)))
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.rows.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Where every packet and record is of the last reading that ended; None before.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let last = interpreter::lock(py, &self.last).clone();
        last.map(|ledger| interpreter::to_python(py, &ledger)).transpose()
    }
}

/// Batches one by one.
#[pyclass(frozen, module = "ringside")]
pub struct BatchIterator(Mutex<Supply>);

#[pymethods]
impl BatchIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let supply = &mut *interpreter::lock(py, &self.0);
        let was_over = supply.is_over;
        interpreter::run(py, || supply.step())?;
        if supply.is_over && !was_over {
            interpreter::warn_all(py, &supply.reading.missing())?;
        }
        let batch = supply.take().map_err(|error| error::to_python(&error))?;
        Ok(batch.map(Batch))
    }

    /// Where every packet and record is that was read so far.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ledger = interpreter::lock(py, &self.0).ledger();
        interpreter::to_python(py, &ledger)
    }
}

/// Some rows, as columns.
#[pyclass(frozen, module = "ringside")]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.0.schema_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let rows = StructArray::from(self.0.clone());
        let (array, _) = to_ffi(&rows.to_data()).map_err(|error| of_arrow(&error))?;
        let schema = schema_capsule(py, self.0.schema_ref())?;
        Ok((schema, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let one = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        stream_capsule(py, Box::new(one))
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(&**schema).map_err(|error| of_arrow(&error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

fn of_arrow(error: &ArrowError) -> PyErr {
    error::RingsideError::new_err(error.to_string())
}
