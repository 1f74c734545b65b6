//! Transactions.

use std::sync::Arc;

use duramen_store as ds;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::error::raised;
use crate::scope::{over, scope_methods, Place, Scope};

/// Several writes that are committed together or not at all, on the branch as it was at the beginning.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Transaction {
    pub(crate) place: Place,
}

scope_methods!(Transaction);

impl Transaction {
    pub(crate) fn new(transaction: ds::Transaction) -> Self {
        Self { place: Place::of(Scope::Transaction(Mutex::new(Some(Box::new(transaction))))) }
    }

    fn take(&self) -> Result<ds::Transaction, ds::StoreError> {
        match self.place.scope.get()? {
            Scope::Transaction(transaction) => transaction.lock().take().map(|it| *it).ok_or_else(over),
            Scope::Branch(_) | Scope::Snapshot(_) => Err(over()),
        }
    }
}

#[pymethods]
impl Transaction {
    /// Commits, and returns the version. Raises `Conflict` if another commit changed a key first: then nothing is written.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.take()?.commit()).map_err(raised)
    }

    /// Gives it up.
    fn rollback(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, _error, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        match (kind, py.detach(|| self.take())) {
            // Whoever ended it himself is done.
            (_, Err(_)) => {}
            (Some(_), Ok(transaction)) => py.detach(|| drop(transaction)),
            (None, Ok(transaction)) => {
                py.detach(|| transaction.commit()).map_err(raised)?;
            }
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("Transaction({})", Arc::as_ptr(&self.place.scope) as usize)
    }
}
