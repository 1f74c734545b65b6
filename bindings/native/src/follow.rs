//! Reading beside another process, and watching.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_store as ds;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::branch::{part, Branch};
use crate::error::{invalid, raised};
use crate::moment::moment;
use crate::own::Own;
use crate::value::from_json;

/// How long a wait goes on before it is asked whether the program was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// A store that another process writes: `branch` gives a branch as it is now.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Follower {
    follower: Own<Arc<ds::Follower>>,
}

#[pymethods]
impl Follower {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let follower = py.detach(|| ds::Follower::open(&path, ds::Options::default())).map_err(raised)?;
        Ok(Self { follower: Own::new(Arc::new(follower)) })
    }

    /// A branch as it is now. Ask for it each time.
    #[pyo3(signature = (name="main"))]
    fn branch(&self, py: Python<'_>, name: &str) -> PyResult<Branch> {
        let (branch, store) = py
            .detach(|| {
                let store = self.follower.get()?.store()?;
                Ok((store.branch(name)?, store))
            })
            .map_err(raised)?;
        Ok(Branch::new(branch, store))
    }

    /// What changes from now on, or from a state on that is retained: an iterable of (version, changes).
    #[pyo3(signature = (branch="main", *, kind=None, space=None, prefix=None, since=None))]
    fn watch(
        &self,
        py: Python<'_>,
        branch: &str,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Watch> {
        let part = part(kind, space, prefix)?;
        let since = since.map(moment).transpose()?;
        let watch = py.detach(|| self.follower.get()?.watch(branch, part, since.as_ref())).map_err(raised)?;
        Ok(Watch::new(watch))
    }
}

/// What changes in a branch. `for version, changes in watch:` goes on for ever.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Watch {
    watch: Own<Mutex<ds::Watch>>,
}

impl Watch {
    pub(crate) fn new(watch: ds::Watch) -> Self {
        Self { watch: Own::new(Mutex::new(watch)) }
    }

    fn look(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<(u64, Py<PyAny>)>> {
        loop {
            let left = deadline.map_or(LOOK, |end| end.saturating_duration_since(clock::now()).min(LOOK));
            if let Some((version, changes)) =
                py.detach(|| self.watch.get()?.lock().next(left)).map_err(raised)?
            {
                return Ok(Some((version, from_json(py, &serde_json::to_value(changes).map_err(invalid)?)?)));
            }
            py.check_signals()?;
            if deadline.is_some_and(|end| clock::now() >= end) {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl Watch {
    /// Waits until something changed: (version, changes); None when `timeout` seconds are over.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(u64, Py<PyAny>)>> {
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose().map_err(invalid)?;
        self.look(py, timeout.and_then(|timeout| clock::now().checked_add(timeout)))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(u64, Py<PyAny>)>> {
        self.look(py, None)
    }
}
