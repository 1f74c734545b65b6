//! Blobs: values of up to a gibibyte.

use std::io::{self, Read, Seek, SeekFrom};

use duramen_store::blob::BlobInfo;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::{invalid, raised};
use crate::scope::{within, Place, Scope};

/// Bytes that are asked of a file at a time.
const PART: usize = 1 << 20;

/// The blobs of a space.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Blobs {
    pub(crate) place: Place,
}

/// What an object with `read` gives. It is read with the interpreter's lock, and while nobody waits.
struct File {
    object: Py<PyAny>,
    part: Vec<u8>,
    at: usize,
}

impl Read for File {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let part = Python::attach(|py| self.object.call_method1(py, "read", (PART,))?.extract(py));
            self.part = part.map_err(|error: PyErr| io::Error::other(error.to_string()))?;
            self.at = 0;
        }
        let rest = &self.part[self.at..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

fn info_dict<'py>(py: Python<'py>, info: &BlobInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", info.bytes)?;
    dict.set_item("blake3", info.hash_hex())?;
    Ok(dict)
}

#[pymethods]
impl Blobs {
    /// Puts bytes, or what an open binary file gives, under a key. Returns its length and its hash.
    fn put<'py>(&self, py: Python<'py>, key: &str, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let Scope::Branch(branch) = self.place.scope.get().map_err(raised)? else {
            return Err(invalid("blobs are put into a branch, not a snapshot or a transaction"));
        };
        let put = |py: Python<'_>, reader: &mut (dyn Read + Send)| {
            py.detach(|| duramen_store::Scope::space(branch, &self.place.space)?.blobs().put(key, reader))
        };
        let info = match data.cast::<PyBytes>() {
            Ok(bytes) => put(py, &mut bytes.as_bytes()),
            Err(_) => put(py, &mut File { object: data.clone().unbind(), part: Vec::new(), at: 0 }),
        };
        info_dict(py, &info.map_err(raised)?)
    }

    /// The bytes of a blob, or `length` of them from `start` on.
    #[pyo3(signature = (key, start=0, length=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        start: u64,
        length: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let read = within!(py, self.place, |space| {
            let Some(mut reader) = space.blobs().open(key)? else { return Ok(None) };
            let mut bytes = Vec::new();
            let read = reader
                .seek(SeekFrom::Start(start))
                .and_then(|_| reader.take(length.unwrap_or(u64::MAX)).read_to_end(&mut bytes));
            Ok(Some(read.map(|_| bytes)))
        })?;
        match read {
            Some(bytes) => Ok(PyBytes::new(py, &bytes?)),
            None => Err(PyKeyError::new_err(key.to_owned())),
        }
    }

    /// The length and the hash of a blob; None if it is not there.
    fn info<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let info = within!(py, self.place, |space| space.blobs().info(key))?;
        info.map(|info| info_dict(py, &info)).transpose()
    }

    /// Deletes a blob. Returns whether it was there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.blobs().delete(key))
    }

    /// The keys that begin with a prefix, after the key `after`, at most `limit`.
    #[pyo3(signature = (prefix="", *, after=None, limit=1000))]
    fn list(&self, py: Python<'_>, prefix: &str, after: Option<&str>, limit: usize) -> PyResult<Vec<String>> {
        Ok(within!(py, self.place, |space| space.blobs().list(prefix, after, limit))?.items)
    }
}
