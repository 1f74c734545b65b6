//! Errors: one exception for each thing that a program can do about it.

use duramen_store::{Severity, StoreError as Failed};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    duramen_native,
    StoreError,
    PyException,
    "What went wrong in a store, and what to do next."
);
create_exception!(
    duramen_native,
    InvalidRequest,
    StoreError,
    "The request cannot be done as it stands: ask for something else."
);
create_exception!(
    duramen_native,
    Conflict,
    StoreError,
    "Somebody else was faster, or the store is busy: try again."
);
create_exception!(
    duramen_native,
    StoreFailed,
    StoreError,
    "The files or the machine: nothing more is written."
);

pub(crate) fn add(py: Python<'_>, module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("StoreError", py.get_type::<StoreError>())?;
    module.add("InvalidRequest", py.get_type::<InvalidRequest>())?;
    module.add("Conflict", py.get_type::<Conflict>())?;
    module.add("StoreFailed", py.get_type::<StoreFailed>())
}

/// The exception for an error of the store.
pub(crate) fn raised(error: Failed) -> PyErr {
    let text = error.to_string();
    match error.severity() {
        Severity::Retry => Conflict::new_err(text),
        Severity::System => StoreFailed::new_err(text),
        _ => InvalidRequest::new_err(text),
    }
}

pub(crate) fn invalid(error: impl std::fmt::Display) -> PyErr {
    InvalidRequest::new_err(error.to_string())
}
