//! Conflicts that merges kept.

use duramen_store as ds;
use duramen_store::conflict::{ConflictId, Settle};
use duramen_store::StoreError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::branch::part;
use crate::error::{invalid, raised};
use crate::scope::{over, Place, Scope};
use crate::value::{from_json, to_json};

/// The conflicts that merges kept in a branch, a snapshot or a transaction, in all spaces.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Conflicts {
    pub(crate) place: Place,
}

/// Does something with the conflicts of whatever is meant, without the interpreter's lock.
macro_rules! of {
    ($py:expr, $place:expr, |$conflicts:ident| $work:expr) => {{
        let place = &$place;
        $py.detach(|| -> Result<_, StoreError> {
            match place.scope.get()? {
                Scope::Branch(scope) => {
                    let $conflicts = ds::Scope::conflicts(scope);
                    $work
                }
                Scope::Snapshot(scope) => {
                    let $conflicts = ds::Scope::conflicts(scope);
                    $work
                }
                Scope::Transaction(scope) => {
                    let guard = scope.lock();
                    let scope = guard.as_deref().ok_or_else(over)?;
                    let $conflicts = ds::Scope::conflicts(scope);
                    $work
                }
            }
        })
        .map_err(raised)
    }};
}

fn id(key: &str, kind: &str, space: &str) -> PyResult<ConflictId> {
    Ok(ConflictId::new(kind.parse().map_err(invalid)?, space, key))
}

/// How a conflict is settled, by its name.
fn settle_of(take: Option<&str>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Settle> {
    match (take, value) {
        (None, Some(value)) => Ok(Settle::Value(to_json(value)?)),
        (Some("ours"), None) => Ok(Settle::Ours),
        (Some("theirs"), None) => Ok(Settle::Theirs),
        (Some("base"), None) => Ok(Settle::Base),
        (Some("now"), None) => Ok(Settle::Now),
        (Some("delete"), None) => Ok(Settle::Delete),
        (Some(other), None) => {
            Err(invalid(format!("{other:?} is nothing to take: use ours, theirs, base, now or delete")))
        }
        (None, None) => Err(invalid("name what the row gets: take= or value=")),
        (Some(_), Some(_)) => Err(invalid("the row gets what is taken or the value: name one of them")),
    }
}

#[pymethods]
impl Conflicts {
    /// The open conflicts: dicts of primitive, space, key, source, version, merged_ms, base, ours, theirs, paths, now, changed and
    /// unreadable. At most `limit`, after the (kind, space, key) `after` if it is given.
    #[pyo3(signature = (*, kind=None, space=None, prefix=None, after=None, limit=1000))]
    fn list(
        &self,
        py: Python<'_>,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        after: Option<(String, String, String)>,
        limit: usize,
    ) -> PyResult<Py<PyAny>> {
        let part = part(kind, space, prefix)?;
        let mut after = after.map(|(kind, space, key)| id(&key, &kind, &space)).transpose()?;
        let mut found = Vec::new();
        while found.len() < limit {
            let left = limit - found.len();
            let page = of!(py, self.place, |conflicts| conflicts.list(&part, after.as_ref(), left))?;
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next.id),
                None => break,
            }
        }
        from_json(py, &serde_json::to_value(found).map_err(invalid)?)
    }

    /// How many are open.
    #[pyo3(signature = (*, kind=None, space=None, prefix=None))]
    fn count(
        &self,
        py: Python<'_>,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
    ) -> PyResult<u64> {
        let part = part(kind, space, prefix)?;
        of!(py, self.place, |conflicts| conflicts.count(&part))
    }

    /// The open conflict of a row, as in `list`; None if it has none.
    #[pyo3(signature = (key, *, kind="kv", space="default"))]
    fn get(&self, py: Python<'_>, key: &str, kind: &str, space: &str) -> PyResult<Option<Py<PyAny>>> {
        let id = id(key, kind, space)?;
        let found = of!(py, self.place, |conflicts| conflicts.get(&id))?;
        found.map(|open| from_json(py, &serde_json::to_value(open).map_err(invalid)?)).transpose()
    }

    /// Settles a conflict: the row gets what is taken (ours, theirs, base, now or delete) or a value, and the record goes, in one
    /// commit. Raises `InvalidRequest` if the row has changed since the merge, unless it keeps what it has `now`, or
    /// `even_if_changed` is set.
    #[pyo3(signature = (key, take=None, *, kind="kv", space="default", value=None, even_if_changed=false))]
    #[expect(clippy::too_many_arguments, reason = "they are options with names in Python")]
    fn resolve(
        &self,
        py: Python<'_>,
        key: &str,
        take: Option<&str>,
        kind: &str,
        space: &str,
        value: Option<&Bound<'_, PyAny>>,
        even_if_changed: bool,
    ) -> PyResult<()> {
        let (id, settle) = (id(key, kind, space)?, settle_of(take, value)?);
        of!(py, self.place, |conflicts| {
            match even_if_changed {
                true => conflicts.resolve_if_changed(&id, settle).map(drop),
                false => conflicts.resolve(&id, settle).map(drop),
            }
        })
    }

    /// Settles all open conflicts the same way, up to 256 in a commit: a dict of settled and open. Those whose rows have changed
    /// stay open, unless they keep what they have `now`, or `even_if_changed` is set.
    #[pyo3(signature = (take, *, kind=None, space=None, prefix=None, even_if_changed=false))]
    fn resolve_all<'py>(
        &self,
        py: Python<'py>,
        take: &str,
        kind: Option<&str>,
        space: Option<String>,
        prefix: Option<String>,
        even_if_changed: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (part, settle) = (part(kind, space, prefix)?, settle_of(Some(take), None)?);
        let done = of!(py, self.place, |conflicts| conflicts.resolve_with(&part, &mut |open| {
            let is_clear = open.unreadable.is_none() && (!open.changed || even_if_changed);
            (is_clear || settle == Settle::Now).then(|| settle.clone())
        }))?;
        let dict = PyDict::new(py);
        dict.set_item("settled", done.settled)?;
        dict.set_item("open", done.open)?;
        Ok(dict)
    }
}
