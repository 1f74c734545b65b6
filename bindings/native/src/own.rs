//! What belongs to the process that opened it.
//!
//! A forked process has a copy of everything, which it must neither use nor close: it would write where its parent writes, and let go
//! of its lock.

use std::sync::atomic::{AtomicU64, Ordering};

use duramen_store::StoreError;
use pyo3::prelude::*;

/// How often this process came into being by a fork of one that had the module.
static FORKS: AtomicU64 = AtomicU64::new(0);

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has the interpreter tell of each fork.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let arguments = pyo3::types::PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}

/// Something that is of use only in the process that made it.
pub(crate) struct Own<T> {
    /// None only while it is dropped.
    inner: Option<T>,
    forks: u64,
}

impl<T> Own<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Some(inner), forks: FORKS.load(Ordering::Relaxed) }
    }

    pub(crate) fn get(&self) -> Result<&T, StoreError> {
        self.check()?;
        self.inner.as_ref().ok_or(StoreError::Closed)
    }

    pub(crate) fn get_mut(&mut self) -> Result<&mut T, StoreError> {
        self.check()?;
        self.inner.as_mut().ok_or(StoreError::Closed)
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            let reason = "it was opened before this process was forked; open it again here".to_owned();
            return Err(StoreError::InvalidInput { what: "a store of another process", reason });
        }
        Ok(())
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            std::mem::forget(self.inner.take());
        }
    }
}
