//! Vector collections, of numpy arrays and sequences of numbers.

use duramen_store::vector::{Metric, SearchOptions};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::invalid;
use crate::indexes::to_filter;
use crate::scope::{within, Place, Written as _};
use crate::value::{from_json, to_json};

/// The vector collections of a space.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Vectors {
    pub(crate) place: Place,
}

fn metric(name: &str) -> PyResult<Metric> {
    let known = [Metric::Cosine, Metric::Euclidean, Metric::Dot];
    let found = known.into_iter().find(|metric| metric.as_str() == name);
    let names = known.map(Metric::as_str).join(", ");
    found.ok_or_else(|| invalid(format!("{name:?} is no metric: use one of {names}")))
}

#[pymethods]
impl Vectors {
    /// Makes a collection. Returns whether it is new.
    #[pyo3(signature = (name, dimension, metric="cosine"))]
    fn create(&self, py: Python<'_>, name: &str, dimension: usize, metric: &str) -> PyResult<bool> {
        let metric = self::metric(metric)?;
        within!(py, self.place, |space| space.vectors().create(name, dimension, metric))
    }

    /// The names of the collections.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        within!(py, self.place, |space| space.vectors().list())
    }

    /// A collection by its name.
    fn __getitem__(&self, name: String) -> Collection {
        Collection { place: self.place.clone(), name }
    }
}

/// A collection of vectors.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Collection {
    pub(crate) place: Place,
    pub(crate) name: String,
}

/// A copy of a vector of numpy (float32), or of a sequence of numbers: other threads may write to the array as soon as they have the
/// interpreter.
fn numbers(object: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    match object.extract::<PyReadonlyArray1<'_, f32>>() {
        Ok(array) => Ok(array.as_array().iter().copied().collect()),
        Err(_) => object.extract(),
    }
}

/// A vector and its metadata.
type Stored<'py> = (Bound<'py, PyArray1<f32>>, Py<PyAny>);

#[pymethods]
impl Collection {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Puts a vector under a key, with metadata that searches can filter by.
    #[pyo3(signature = (key, vector, metadata=None))]
    fn upsert(
        &self,
        py: Python<'_>,
        key: &str,
        vector: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<u64>> {
        let vector = &numbers(vector)?;
        let metadata = metadata.map(to_json).transpose()?;
        within!(py, self.place, |space| {
            let collection = space.vectors().collection(&self.name);
            collection.upsert(key, vector, metadata.as_ref()).map(|written| written.version())
        })
    }

    /// Puts the rows of an array (float32, two dimensions) under keys, in one commit.
    fn upsert_many(
        &self,
        py: Python<'_>,
        keys: Vec<String>,
        rows: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Option<u64>> {
        let (count, dimension) = (rows.shape()[0], rows.shape()[1]);
        if count != keys.len() {
            return Err(invalid(format!("{} keys for {count} vectors", keys.len())));
        }
        if !rows.is_c_contiguous() || dimension == 0 {
            return Err(invalid("the rows must lie one after the other: numpy.ascontiguousarray"));
        }
        // A copy: other threads may write to the array as soon as they have the interpreter.
        let numbers = rows.as_slice().map_err(invalid)?.to_vec();
        let rows = || {
            let vectors = numbers.chunks_exact(dimension);
            keys.iter().zip(vectors).map(|(key, vector)| (key, vector, None::<&serde_json::Value>))
        };
        within!(py, self.place, |space| {
            space.vectors().collection(&self.name).upsert_many(rows()).map(|written| written.version())
        })
    }

    /// The vector of a key (numpy, float32) and its metadata; None if it is not there.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Stored<'py>>> {
        let found = within!(py, self.place, |space| space.vectors().collection(&self.name).get(key))?;
        let Some(record) = found else { return Ok(None) };
        let metadata =
            record.metadata.as_ref().map_or_else(|| Ok(py.None()), |value| from_json(py, value))?;
        Ok(Some((PyArray1::from_vec(py, record.vector), metadata)))
    }

    /// Deletes a vector. Returns whether it was there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.vectors().collection(&self.name).delete(key))
    }

    /// The `k` vectors that match best, exactly: dicts of key, score, distance and metadata. `filter` is conditions on the
    /// metadata, as text (`lang = de`) or as a list: `[{"field": "lang", "op": "eq", "value": "de"}]`.
    #[pyo3(signature = (query, k=10, *, filter=None))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: &Bound<'py, PyAny>,
        k: usize,
        filter: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let query = &numbers(query)?;
        let options = SearchOptions { filter: to_filter(filter)? };
        let found = within!(py, self.place, |space| {
            space.vectors().collection(&self.name).search(query, k, &options)
        })?;
        found
            .iter()
            .map(|found| {
                let dict = PyDict::new(py);
                dict.set_item("key", &found.key)?;
                dict.set_item("score", found.score)?;
                dict.set_item("distance", found.distance)?;
                let metadata = found.metadata.as_ref().map(|value| from_json(py, value)).transpose()?;
                dict.set_item("metadata", metadata)?;
                Ok(dict)
            })
            .collect()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count = within!(py, self.place, |space| space.vectors().collection(&self.name).count())?;
        usize::try_from(count).map_err(invalid)
    }
}
