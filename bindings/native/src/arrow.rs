//! Documents, pairs, events and vectors as Apache Arrow, by its interface for Python: an object with `__arrow_c_stream__`, which pyarrow,
//! Polars, DuckDB and others take without a copy; and whatever has it, loaded.

use std::ffi::{c_void, CString};
use std::ptr::NonNull;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use duramen_store as ds;
use duramen_store::Severity;
use duramen_store_arrow::{
    load_documents, load_pairs, load_vectors, Batches, DocumentOptions, DocumentsIn, EventOptions, KeyFrom,
    Limits, LoadError, Loaded, Misfits, Nulls, OutError, PairOptions, PairsIn, Refusal, Table, VectorOptions,
    VectorsIn,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::data::{Documents, Events, Kv};
use crate::error::{invalid, raised};
use crate::own::Own;
use crate::scope::{within, Place, Scope};
use crate::value::AnyKey;
use crate::vectors::Collection;

const STREAM: &str = "arrow_array_stream";
const SCHEMA: &str = "arrow_schema";

fn unread(error: OutError) -> PyErr {
    match error {
        OutError::Store(error) => raised(error),
        other => invalid(other),
    }
}

fn unloaded(error: LoadError) -> PyErr {
    let text = error.to_string();
    match error.refusal {
        Refusal::Store(error) => match error.severity() {
            Severity::Retry => crate::error::Conflict::new_err(text),
            Severity::System => crate::error::StoreFailed::new_err(text),
            _ => invalid(text),
        },
        _ => invalid(text),
    }
}

fn capsule_name(name: &str) -> PyResult<CString> {
    Ok(CString::new(name)?)
}

/// A table as of one moment, for whatever reads Arrow: each reader begins at its first row.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct ArrowTable {
    snapshot: Own<ds::Snapshot>,
    space: String,
    table: Table,
    schema: SchemaRef,
}

/// What a reader has of it.
struct Stream {
    batches: Own<Batches<Box<ds::Snapshot>>>,
    schema: SchemaRef,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.batches.get_mut() {
            Ok(batches) => batches.next(),
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl ArrowTable {
    fn open(py: Python<'_>, place: &Place, table: Table) -> PyResult<Self> {
        let opened = py.detach(|| {
            let snapshot = match place.scope.get()? {
                Scope::Branch(branch) => branch.snapshot()?,
                Scope::Snapshot(snapshot) => snapshot.clone(),
                Scope::Transaction(_) => {
                    let reason = "it is read as Arrow when it is committed; read its branch".to_owned();
                    return Err(ds::StoreError::InvalidInput { what: "a transaction", reason }.into());
                }
            };
            let schema = Batches::open(&snapshot, &place.space, &table)?.schema();
            Ok((snapshot, schema))
        });
        let (snapshot, schema) = opened.map_err(unread)?;
        Ok(Self { snapshot: Own::new(snapshot), space: place.space.clone(), table, schema })
    }
}

#[pymethods]
impl ArrowTable {
    /// The stream of Arrow's interface for Python. The schema that is asked for is not made: readers cast what they get.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = py.detach(|| {
            let snapshot = Box::new(self.snapshot.get()?.clone());
            let batches = Batches::open(snapshot, &self.space, &self.table)?;
            Ok(Stream { batches: Own::new(batches), schema: self.schema.clone() })
        });
        let stream = FFI_ArrowArrayStream::new(Box::new(stream.map_err(unread)?));
        PyCapsule::new(py, stream, Some(capsule_name(STREAM)?))
    }

    /// The schema of Arrow's interface for Python.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(invalid)?;
        PyCapsule::new(py, schema, Some(capsule_name(SCHEMA)?))
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("ArrowTable({})", names.join(", "))
    }
}

/// The stream of an object that has one.
fn stream_of(data: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let no_stream = || {
        let kind = data.get_type().name().map_or_else(|_| "it".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "{kind} has no __arrow_c_stream__: give a table of pyarrow, Polars or DuckDB, or the like"
        ))
    };
    if !data.hasattr("__arrow_c_stream__")? {
        return Err(no_stream());
    }
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| no_stream())?;
    let pointer: NonNull<c_void> = capsule.pointer_checked(Some(&capsule_name(STREAM)?))?;
    // SAFETY: by the interface, a capsule of this name has a stream, which whoever takes it moves out; the capsule is held meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast::<FFI_ArrowArrayStream>().as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(invalid)
}

fn limits(rows: Option<usize>) -> Limits {
    let default = Limits::default();
    Limits { rows_max: rows.unwrap_or(default.rows_max), ..default }
}

fn misfits(rest: Option<String>) -> Misfits {
    rest.map_or(Misfits::Refuse, Misfits::Rest)
}

fn nulls(keep: bool) -> Nulls {
    if keep {
        Nulls::Keep
    } else {
        Nulls::LeaveOut
    }
}

fn rows(loaded: Result<Loaded, LoadError>) -> PyResult<u64> {
    Ok(loaded.map_err(unloaded)?.rows)
}

#[pymethods]
impl Documents {
    /// The documents as a table of Arrow: a column of keys, and one for each field at the top of the first `sample` documents. What does
    /// not fit is an error, or JSON text in the column `rest`.
    #[pyo3(signature = (prefix="", *, key_column="key", sample=1000, rest=None, batch_rows=None))]
    fn to_arrow(
        &self,
        py: Python<'_>,
        prefix: &str,
        key_column: &str,
        sample: usize,
        rest: Option<String>,
        batch_rows: Option<usize>,
    ) -> PyResult<ArrowTable> {
        let options = DocumentOptions {
            prefix: prefix.to_owned(),
            key_column: key_column.to_owned(),
            sample_rows: sample,
            misfits: misfits(rest),
            limits: limits(batch_rows),
            schema: None,
        };
        ArrowTable::open(py, &self.place, Table::Documents(options))
    }

    /// Loads a document of each row of whatever has `__arrow_c_stream__`. The key is in the column `key`, which is part of the document
    /// only with `keep_key`; None numbers them. Returns how many rows.
    #[pyo3(signature = (data, *, key=Some("key"), keep_key=false, prefix="", rest=None, keep_nulls=false))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of a function in Python")]
    fn load_arrow(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: Option<&str>,
        keep_key: bool,
        prefix: &str,
        rest: Option<String>,
        keep_nulls: bool,
    ) -> PyResult<u64> {
        let key = match key {
            None => KeyFrom::Number(0),
            Some(name) if keep_key => KeyFrom::Field(name.to_owned()),
            Some(name) => KeyFrom::Column(name.to_owned()),
        };
        let (prefix, nulls) = (prefix.to_owned(), nulls(keep_nulls));
        let options = DocumentsIn { key, prefix, nulls, rest, ..DocumentsIn::default() };
        let reader = stream_of(data)?;
        rows(within!(py, self.place, |space| Ok(load_documents(&space, reader, &options)))?)
    }
}

#[pymethods]
impl Kv {
    /// The pairs as a table of Arrow: `key`, text if those of the first `sample` pairs are, else bytes, and `value`.
    #[pyo3(signature = (prefix=None, *, sample=1000, rest=None, batch_rows=None))]
    fn to_arrow(
        &self,
        py: Python<'_>,
        prefix: Option<AnyKey>,
        sample: usize,
        rest: Option<String>,
        batch_rows: Option<usize>,
    ) -> PyResult<ArrowTable> {
        let options = PairOptions {
            prefix: prefix.map(|prefix| prefix.0.into_bytes()).unwrap_or_default(),
            sample_rows: sample,
            misfits: misfits(rest),
            limits: limits(batch_rows),
            ..PairOptions::default()
        };
        ArrowTable::open(py, &self.place, Table::Pairs(options))
    }

    /// Loads a pair of each row of whatever has `__arrow_c_stream__`. Returns how many rows.
    #[pyo3(signature = (data, *, key="key", value="value", rest=None, keep_nulls=false))]
    fn load_arrow(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: &str,
        value: &str,
        rest: Option<String>,
        keep_nulls: bool,
    ) -> PyResult<u64> {
        let (key, value, nulls) = (key.to_owned(), value.to_owned(), nulls(keep_nulls));
        let options = PairsIn { key, value, rest, nulls, ..PairsIn::default() };
        let reader = stream_of(data)?;
        rows(within!(py, self.place, |space| Ok(load_pairs(&space, reader, &options)))?)
    }
}

#[pymethods]
impl Events {
    /// The events as a table of Arrow: `seq`, `type`, `at` and `payload`.
    #[pyo3(signature = (start=0, *, event_type=None, batch_rows=None))]
    fn to_arrow(
        &self,
        py: Python<'_>,
        start: u64,
        event_type: Option<String>,
        batch_rows: Option<usize>,
    ) -> PyResult<ArrowTable> {
        let options = EventOptions { from: start, event_type, limits: limits(batch_rows) };
        ArrowTable::open(py, &self.place, Table::Events(options))
    }
}

#[pymethods]
impl Collection {
    /// The vectors as a table of Arrow: `key`, `vector` and `metadata`.
    #[pyo3(signature = (prefix="", *, batch_rows=None))]
    fn to_arrow(&self, py: Python<'_>, prefix: &str, batch_rows: Option<usize>) -> PyResult<ArrowTable> {
        let options = VectorOptions {
            prefix: prefix.to_owned(),
            limits: limits(batch_rows),
            ..VectorOptions::new(self.name.as_str())
        };
        ArrowTable::open(py, &self.place, Table::Vectors(options))
    }

    /// Loads a vector of each row of whatever has `__arrow_c_stream__`: lists of float32. Returns how many rows.
    #[pyo3(signature = (data, *, key="key", vector="vector", metadata=None))]
    fn load_arrow(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: &str,
        vector: &str,
        metadata: Option<String>,
    ) -> PyResult<u64> {
        let (key, vector) = (key.to_owned(), vector.to_owned());
        let options = VectorsIn { key, vector, metadata, ..VectorsIn::new(self.name.as_str()) };
        let reader = stream_of(data)?;
        rows(within!(py, self.place, |space| Ok(load_vectors(&space, reader, &options)))?)
    }
}
