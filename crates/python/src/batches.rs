//! Columns on their way to other libraries, by Arrow's C interface: what it calls the PyCapsule
//! interface, which pyarrow, polars, pandas and DuckDB read.

use crate::columns::{self, PacketColumns};
use crate::error;
use crate::frames::Step;
use crate::interpreter;
use crate::reading::Reading;
use crate::records::{self, Kind, ROWS_MAX, Records};
use anyhow::anyhow;
use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use ringside_core::limits::BATCH_FRAMES_MAX;
use serde_json::Value;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

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
    /// The next batch that is full; if `all`, also one that is not.
    fn take(&mut self, all: bool) -> anyhow::Result<Option<RecordBatch>> {
        let columns = match self {
            Maker::Records(records) => return records.take(all),
            Maker::Packets(columns) => columns,
        };
        // One step more might not fit into the memory that was taken for the rows.
        let has_room = columns.len() + BATCH_FRAMES_MAX <= ROWS_MAX;
        let is_full = !has_room || columns.data_bytes() >= DATA_BYTES_MAX;
        let is_wanted = is_full || (all && columns.len() > 0);
        Ok(if is_wanted { Some(columns.finish()?) } else { None })
    }
}

/// A reading whose packets become batches.
struct Supply {
    reading: Reading,
    maker: Maker,
    is_over: bool,
    /// Why it is, to be said once what came before was handed on.
    failure: Option<anyhow::Error>,
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
        Ok(Supply { reading, maker, is_over: false, failure: None, since: Instant::now(), last })
    }

    /// Reads on: a batch, the end, or nothing yet.
    fn step(&mut self) -> anyhow::Result<Option<Next>> {
        if !self.is_over {
            self.read();
        }
        let is_old = self.since.elapsed() >= WAIT_MAX && self.reading.is_live();
        if let Some(batch) = self.maker.take(self.is_over || is_old)? {
            self.since = Instant::now();
            return Ok(Some(Next::Batch(batch)));
        }
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(self.is_over.then_some(Next::End)),
        }
    }

    fn read(&mut self) {
        let Supply { reading, maker, .. } = self;
        let step = reading.show(&mut |frame, interfaces| match maker {
            // Text in memory is never refused.
            Maker::Packets(columns) => columns.put(frame, interfaces).unwrap_or_default(),
            Maker::Records(records) => records.show(frame, interfaces),
        });
        if let (Ok(Step::Idle), Maker::Records(records)) = (&step, maker) {
            records.advance(reading.low_water());
        }
        if !matches!(step, Ok(Step::Some | Step::Idle)) {
            self.end();
        }
        self.failure = step.err();
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Maker::Records(records) = &mut self.maker {
            records.end();
        }
    }

    fn ledger(&self) -> Value {
        let mut ledger = self.reading.ledger();
        if let Maker::Records(records) = &self.maker {
            ledger["records"] = records.ledger();
        }
        ledger
    }
}

/// What a step came to.
enum Next {
    Batch(RecordBatch),
    End,
}

/// Notes the account, for the program that asks when the reading is gone.
impl Drop for Supply {
    fn drop(&mut self) {
        self.end();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.ledger());
    }
}

/// A supply, as another library reads it through C.
struct Stream {
    /// None after the end.
    supply: Option<Mutex<Supply>>,
    schema: SchemaRef,
    /// Of the thread that runs Python: signals are looked at there, and warnings said. On another
    /// one that might wait for a thread that waits for this one.
    python: ThreadId,
}

impl Stream {
    fn read(&self) -> anyhow::Result<Option<RecordBatch>> {
        let Some(supply) = &self.supply else { return Ok(None) };
        let external = |error: PyErr| anyhow!("{error}");
        let is_python = thread::current().id() == self.python;
        let turn = |py: Python<'_>| interpreter::run(py, supply, Supply::step).map_err(external);
        let next = match is_python.then(|| Python::try_attach(turn)).flatten() {
            Some(next) => next?,
            None => loop {
                let step = supply.lock().unwrap_or_else(PoisonError::into_inner).step()?;
                if let Some(next) = step {
                    break next;
                }
            },
        };
        if let Next::Batch(batch) = next {
            return Ok(Some(batch));
        }
        let missing = supply.lock().unwrap_or_else(PoisonError::into_inner).reading.missing();
        let say = |py: Python<'_>| interpreter::warn_all(py, &missing).map_err(external);
        is_python.then(|| Python::try_attach(say)).flatten().transpose()?;
        Ok(None)
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // This is called from C, which a panic would end with the whole process.
        let read = catch_unwind(AssertUnwindSafe(|| self.read()));
        let batch = read.unwrap_or_else(|_| Err(anyhow!("reading panicked: this is a fault")));
        if !matches!(batch, Ok(Some(_))) {
            self.supply = None;
        }
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
        let supply = Some(Mutex::new(supply));
        let stream = Stream { supply, schema: self.rows.schema(), python };
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
        let last = interpreter::ask(py, &self.last, |last| last.clone());
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
        match interpreter::run(py, &self.0, Supply::step)? {
            Next::Batch(batch) => Ok(Some(Batch(batch))),
            Next::End => {
                let missing = interpreter::ask(py, &self.0, |supply| supply.reading.missing());
                interpreter::warn_all(py, &missing)?;
                Ok(None)
            }
        }
    }

    /// Where every packet and record is that was read so far.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ledger = interpreter::ask(py, &self.0, |supply| supply.ledger());
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
