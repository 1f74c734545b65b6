//! A store: opening and closing it, its branches, and bringing them together.

use std::path::PathBuf;
use std::time::Duration;

use duramen_store as ds;
use duramen_store::{Durability, Keep, MergeOptions, Options, Rule};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::branch::{entries, part, report_dict, strategy_of, Branch, Snapshot};
use crate::error::{invalid, raised};
use crate::moment::moment;
use crate::own::Own;
use crate::value::from_json;

/// A store, in a folder or in memory. `with Store(path) as store:` closes it at the end.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Store {
    store: Own<ds::Store>,
}

pub(crate) fn span(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(invalid)
}

#[pymethods]
impl Store {
    /// Opens the store in a folder, and makes one if there is none; without a folder, one in memory.
    #[new]
    #[pyo3(signature = (path=None, *, durability="buffered", read_only=false, memory_bytes=None, wait=0.0))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        durability: &str,
        read_only: bool,
        memory_bytes: Option<usize>,
        wait: f64,
    ) -> PyResult<Self> {
        let Some(path) = path else { return Ok(Self { store: Own::new(ds::Store::memory()) }) };
        let durability: Durability = durability.parse().map_err(invalid)?;
        let mut options = Options { durability, read_only, lock_wait: span(wait)?, ..Options::default() };
        if let Some(bytes) = memory_bytes {
            options.memory_bytes = bytes;
        }
        let store = py.detach(|| ds::Store::open(&path, options)).map_err(raised)?;
        Ok(Self { store: Own::new(store) })
    }

    /// A branch by its name.
    #[pyo3(signature = (name="main"))]
    fn branch(&self, name: &str) -> PyResult<Branch> {
        let branch = self.store.get().and_then(|store| store.branch(name)).map_err(raised)?;
        Ok(Branch::new(branch, self.store.get().map_err(raised)?.clone()))
    }

    /// The names of the branches.
    fn branches(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let infos = py.detach(|| self.store.get()?.branches(false)).map_err(raised)?;
        Ok(infos.into_iter().map(|info| info.name).collect())
    }

    /// A fork of a branch, as it is now or `at` a state that is retained, for `ttl` seconds or until it is deleted.
    #[pyo3(signature = (source, name, *, at=None, ttl=None))]
    fn fork(
        &self,
        py: Python<'_>,
        source: &str,
        name: &str,
        at: Option<&Bound<'_, PyAny>>,
        ttl: Option<f64>,
    ) -> PyResult<Branch> {
        let (at, ttl) = (at.map(moment).transpose()?, ttl.map(span).transpose()?);
        let made = py.detach(|| match (&at, ttl) {
            (None, None) => self.store.get()?.fork(source, name),
            (None, Some(ttl)) => self.store.get()?.fork_for(source, name, ttl),
            (Some(at), None) => self.store.get()?.fork_at(source, at, name),
            (Some(at), Some(ttl)) => self.store.get()?.fork_at_for(source, at, name, ttl),
        });
        Ok(Branch::new(made.map_err(raised)?, self.store.get().map_err(raised)?.clone()))
    }

    /// An empty branch.
    fn create_branch(&self, py: Python<'_>, name: &str) -> PyResult<Branch> {
        let made = py.detach(|| self.store.get()?.create_branch(name)).map_err(raised)?;
        Ok(Branch::new(made, self.store.get().map_err(raised)?.clone()))
    }

    fn delete_branch(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.store.get()?.delete_branch(name)).map_err(raised)
    }

    /// Makes a branch what its parent is now.
    fn reset_branch(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.store.get()?.reset_branch(name)).map_err(raised)
    }

    /// Merges what `source` changed into `target`: a dict of written, deleted, conflicts, kept, carried and version. Raises `InvalidRequest`
    /// on a conflict that nothing decides or keeps (strategy="keep", and then `conflicts` of the target); `rules` are texts like `kv:default:stock/=add`.
    #[pyo3(signature = (source, target, *, strategy="fail", rules=vec![], dry_run=false, resequence_events=false))]
    #[expect(clippy::too_many_arguments, reason = "they are options with names in Python")]
    fn merge<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        target: &str,
        strategy: &str,
        rules: Vec<String>,
        dry_run: bool,
        resequence_events: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let strategy = strategy_of(strategy)?;
        let rules =
            rules.iter().map(|rule| rule.parse()).collect::<Result<Vec<Rule>, _>>().map_err(invalid)?;
        // Options may hold a resolver, so they are made where they are used.
        let report = py.detach(|| {
            let options =
                MergeOptions { strategy, rules, dry_run, resequence_events, ..MergeOptions::default() };
            self.store.get()?.merge(source, target, options)
        });
        report_dict(py, &report.map_err(raised)?)
    }

    /// Does to `target` what made `after` of `before`, two snapshots of this store.
    #[pyo3(signature = (before, after, target, *, strategy="fail"))]
    fn apply_change<'py>(
        &self,
        py: Python<'py>,
        before: &Snapshot,
        after: &Snapshot,
        target: &str,
        strategy: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (before, after) = (before.inner()?, after.inner()?);
        let decided = strategy_of(strategy)?;
        let report = py.detach(|| {
            let options = MergeOptions { strategy: decided, ..MergeOptions::default() };
            self.store.get()?.apply_change(before, after, target, options)
        });
        report_dict(py, &report.map_err(raised)?)
    }

    /// How two branches differ: a list of dicts of change, primitive, space, key, left and right.
    #[pyo3(signature = (left, right, *, kind=None, space=None, prefix=None, limit=1000))]
    #[expect(clippy::too_many_arguments, reason = "they are options with names in Python")]
    fn diff(
        &self,
        py: Python<'_>,
        left: &str,
        right: &str,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        limit: usize,
    ) -> PyResult<Py<PyAny>> {
        let part = part(kind, space, prefix)?;
        let diff = py.detach(|| self.store.get()?.diff(left, right, &part, limit)).map_err(raised)?;
        entries(py, &diff)
    }

    /// Starts keeping the history of a branch: after every commit, or at most once every `every` seconds.
    #[pyo3(signature = (branch="main", *, every=None, versions=None, age=None, size=None))]
    fn keep_history(
        &self,
        py: Python<'_>,
        branch: &str,
        every: Option<f64>,
        versions: Option<u64>,
        age: Option<f64>,
        size: Option<u64>,
    ) -> PyResult<()> {
        let keep = every.map(span).transpose()?.map_or_else(Keep::each_commit, Keep::every);
        let age = age.map(span).transpose()?;
        let keep = age.map_or(keep, |age| keep.age(age));
        let keep = Keep { versions, bytes: size, ..keep };
        py.detach(|| self.store.get()?.keep_history(branch, Some(keep))).map_err(raised)
    }

    /// Retains nothing more, and forgets what has no tag.
    #[pyo3(signature = (branch="main"))]
    fn forget_history(&self, py: Python<'_>, branch: &str) -> PyResult<()> {
        py.detach(|| self.store.get()?.keep_history(branch, None)).map_err(raised)
    }

    /// Names the present state of a branch, which is retained as long as it has the tag. Returns its version.
    fn tag(&self, py: Python<'_>, branch: &str, tag: &str) -> PyResult<u64> {
        py.detach(|| self.store.get()?.tag(branch, tag)).map_err(raised)
    }

    fn delete_tag(&self, py: Python<'_>, branch: &str, tag: &str) -> PyResult<()> {
        py.detach(|| self.store.get()?.delete_tag(branch, tag)).map_err(raised)
    }

    /// What is known of the store: a dict.
    fn info(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let info = py.detach(|| self.store.get().map(ds::Store::info)).map_err(raised)?;
        from_json(py, &serde_json::to_value(info).map_err(invalid)?)
    }

    /// Makes all that was written durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.get()?.sync()).map_err(raised)
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.get()?.checkpoint()).map_err(raised)
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.get()?.compact()).map_err(raised)
    }

    /// Reads all of it, and raises `StoreFailed` if anything is damaged. Returns the number of bytes.
    fn verify(&self, py: Python<'_>) -> PyResult<u64> {
        let verified = py.detach(|| self.store.get()?.verify(&mut |_| ())).map_err(raised)?;
        if !verified.is_whole() {
            return Err(raised(ds::StoreError::Damaged("what is stored is not what was written".to_owned())));
        }
        Ok(verified.bytes)
    }

    /// Copies the store in a folder as it is at one moment, also while it is written: a dict of version, bytes, copied and linked.
    #[staticmethod]
    #[pyo3(signature = (path, to, *, since=None))]
    fn backup(py: Python<'_>, path: PathBuf, to: PathBuf, since: Option<PathBuf>) -> PyResult<Py<PyAny>> {
        let made =
            py.detach(|| ds::Store::backup(&path, &to, since.as_deref(), &mut |_, _| ())).map_err(raised)?;
        from_json(py, &serde_json::to_value(made).map_err(invalid)?)
    }

    /// Makes everything durable, and takes no more writes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.get()?.close()).map_err(raised)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (_kind, _error, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }
}
