//! Branches, and what they were.

use duramen_store as ds;
use duramen_store::{Diff, Durability, MergeReport, Part, Primitive, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{invalid, raised};
use crate::follow::Watch;
use crate::moment::moment;
use crate::own::Own;
use crate::scope::{scope_methods, Place, Scope};
use crate::transaction::Transaction;
use crate::value::{from_json, AnyKey};

/// A branch: each write is a commit of its own.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Branch {
    pub(crate) place: Place,
    branch: Own<ds::Branch>,
    store: Own<ds::Store>,
}

scope_methods!(Branch);

impl Branch {
    pub(crate) fn new(branch: ds::Branch, store: ds::Store) -> Self {
        Self {
            place: Place::of(Scope::Branch(branch.clone())),
            branch: Own::new(branch),
            store: Own::new(store),
        }
    }
}

#[pymethods]
impl Branch {
    #[getter]
    fn name(&self) -> PyResult<&str> {
        self.branch.get().map(ds::Branch::name).map_err(raised)
    }

    /// A new branch that shares everything until either changes it.
    fn fork(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        let made = py.detach(|| self.branch.get()?.fork(name)).map_err(raised)?;
        Ok(Self::new(made, self.store.get().map_err(raised)?.clone()))
    }

    /// The branch as it is now, for reading.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        py.detach(|| self.branch.get()?.snapshot()).map(Snapshot::new).map_err(raised)
    }

    /// The branch as it was: by a tag (str), a version (int), or a time (datetime).
    fn at(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<Snapshot> {
        let moment = moment(state)?;
        py.detach(|| self.branch.get()?.at(&moment)).map(Snapshot::new).map_err(raised)
    }

    /// Makes the branch what it was, in a commit of its own. Returns how many keys that wrote and deleted.
    fn revert_to(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        let moment = moment(state)?;
        let report = py.detach(|| self.branch.get()?.revert_to(&moment)).map_err(raised)?;
        Ok((report.written, report.deleted))
    }

    /// How a key has changed, the present first: dicts of version, time_ms and value.
    #[pyo3(signature = (key, *, kind="kv", space="default", limit=100))]
    fn key_history(
        &self,
        py: Python<'_>,
        key: AnyKey,
        kind: &str,
        space: &str,
        limit: usize,
    ) -> PyResult<Py<PyAny>> {
        let kind: Primitive = kind.parse().map_err(invalid)?;
        let states =
            py.detach(|| self.branch.get()?.key_history(kind, space, &*key.0, limit)).map_err(raised)?;
        from_json(py, &serde_json::to_value(states).map_err(invalid)?)
    }

    /// The states that are retained, the oldest first: dicts of version, time_ms, tags, entries and bytes.
    fn history(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let history = py.detach(|| self.branch.get()?.history()).map_err(raised)?;
        from_json(py, &serde_json::to_value(history.states).map_err(invalid)?)
    }

    /// A transaction: `with main.transaction() as tx:` commits at the end, and rolls back on an exception.
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        py.detach(|| self.branch.get()?.begin()).map(Transaction::new).map_err(raised)
    }

    /// The same branch, whose commits are acknowledged at another level: memory, buffered or strict.
    fn with_durability(&self, level: &str) -> PyResult<Self> {
        let level: Durability = level.parse().map_err(invalid)?;
        let made = self.branch.get().map_err(raised)?.with_durability(level);
        Ok(Self::new(made, self.store.get().map_err(raised)?.clone()))
    }

    /// Loads pairs with rising keys, fast and durable.
    #[pyo3(signature = (pairs, *, space="default"))]
    fn bulk_load(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>, space: &str) -> PyResult<u64> {
        let mut given = Vec::new();
        for pair in pairs.try_iter()? {
            let (key, value): (AnyKey, Bound<'_, PyAny>) = pair?.extract()?;
            given.push((key.0, crate::value::to_value(&value)?));
        }
        let pairs = given.iter().map(|(key, value)| (&**key, value));
        py.detach(|| self.branch.get()?.bulk_load(space, pairs)).map_err(raised)
    }

    /// What changes from now on, or from a state on that is retained: an iterable of (version, changes).
    #[pyo3(signature = (*, kind=None, space=None, prefix=None, since=None))]
    fn watch(
        &self,
        py: Python<'_>,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Watch> {
        let part = part(kind, space, prefix)?;
        let since = since.map(moment).transpose()?;
        let watch = py.detach(|| self.branch.get()?.watch(part, since.as_ref())).map_err(raised)?;
        Ok(Watch::new(watch))
    }

    fn __repr__(&self) -> String {
        format!("Branch({:?})", self.name().unwrap_or_default())
    }
}

/// A branch as it was at one moment, for reading.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Snapshot {
    pub(crate) place: Place,
}

scope_methods!(Snapshot);

impl Snapshot {
    pub(crate) fn new(snapshot: ds::Snapshot) -> Self {
        Self { place: Place::of(Scope::Snapshot(snapshot)) }
    }

    pub(crate) fn inner(&self) -> PyResult<&ds::Snapshot> {
        match self.place.scope.get().map_err(raised)? {
            Scope::Snapshot(snapshot) => Ok(snapshot),
            Scope::Branch(_) | Scope::Transaction(_) => Err(invalid("it is no snapshot")),
        }
    }
}

#[pymethods]
impl Snapshot {
    /// The version of the store at its moment.
    #[getter]
    fn version(&self) -> PyResult<u64> {
        Ok(self.inner()?.version())
    }

    /// What is different in another snapshot: a list of dicts of change, primitive, space, key, left and right.
    #[pyo3(signature = (other, *, kind=None, space=None, prefix=None, limit=1000))]
    fn diff(
        &self,
        py: Python<'_>,
        other: &Self,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        limit: usize,
    ) -> PyResult<Py<PyAny>> {
        let part = part(kind, space, prefix)?;
        let (left, right) = (self.inner()?, other.inner()?);
        let diff = py.detach(|| left.diff(right, &part, limit)).map_err(raised)?;
        entries(py, &diff)
    }
}

pub(crate) fn entries(py: Python<'_>, diff: &Diff) -> PyResult<Py<PyAny>> {
    from_json(py, &serde_json::to_value(&diff.entries).map_err(invalid)?)
}

pub(crate) fn part(kind: Option<&str>, space: Option<String>, prefix: Option<String>) -> PyResult<Part> {
    let primitive = kind.map(str::parse).transpose().map_err(invalid)?;
    Ok(Part { primitive, space, prefix })
}

/// Who wins, by its name.
pub(crate) fn strategy_of(name: &str) -> PyResult<Strategy> {
    match name {
        "fail" => Ok(Strategy::Fail),
        "ours" => Ok(Strategy::Ours),
        "theirs" => Ok(Strategy::Theirs),
        "keep" => Ok(Strategy::Keep),
        other => Err(invalid(format!("{other:?} is no strategy: use fail, ours, theirs or keep"))),
    }
}

pub(crate) fn report_dict<'py>(py: Python<'py>, report: &MergeReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("written", report.written)?;
    dict.set_item("deleted", report.deleted)?;
    dict.set_item("version", report.version)?;
    dict.set_item("kept", report.kept)?;
    dict.set_item("carried", report.carried)?;
    dict.set_item("conflicts", from_json(py, &serde_json::to_value(&report.conflicts).map_err(invalid)?)?)?;
    Ok(dict)
}
