//! Pairs, cells, events and documents.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex, PoisonError};

use duramen_store::event::{Direction, Event};
use duramen_store::kv::{Key, Prefix};
use duramen_store::{StoreError, Value};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;
use pyo3::types::{PyDict, PyTuple};

use crate::error::{invalid, raised};
use crate::indexes::to_query;
use crate::own::Own;
use crate::scope::{within, Place, Scope, Written as _};
use crate::store::span;
use crate::value::{from_json, from_key, from_value, to_json, to_value, AnyKey};

/// Pairs that an iterator reads at a time.
const PAGE: usize = 256;

/// Rows by their keys, and the end of the page if there is more.
type FoundPage<K> = (Vec<(K, Py<PyAny>)>, Option<String>);

/// The key-value pairs of a space.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Kv {
    pub(crate) place: Place,
}

/// Keys from and before which, or with which beginning, a range goes.
enum Range {
    Between(End<Key>, End<Key>),
    Prefix(Key),
}

impl Range {
    fn new(start: Option<AnyKey>, end: Option<AnyKey>, prefix: Option<AnyKey>) -> PyResult<Self> {
        match (start, end, prefix) {
            (None, None, Some(prefix)) => Ok(Self::Prefix(prefix.0)),
            (start, end, None) => Ok(Self::Between(
                start.map_or(End::Unbounded, |key| End::Included(key.0)),
                end.map_or(End::Unbounded, |key| End::Excluded(key.0)),
            )),
            _ => Err(PyTypeError::new_err("give a prefix, or a start and an end")),
        }
    }
}

#[pymethods]
impl Kv {
    /// Puts a value under a key, for good or for `ttl` seconds. Returns the version of the commit; None in a transaction.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: AnyKey,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<Option<u64>> {
        let (value, ttl) = (to_value(value)?, ttl.map(span).transpose()?);
        within!(py, self.place, |space| {
            let written = match ttl {
                Some(ttl) => space.kv().put_with_ttl(&*key.0, &value, ttl),
                None => space.kv().put(&*key.0, &value),
            };
            written.map(|written| written.version())
        })
    }

    /// How many seconds a key is still there; None if there is none, or it stays.
    fn ttl(&self, py: Python<'_>, key: AnyKey) -> PyResult<Option<f64>> {
        let left = within!(py, self.place, |space| space.kv().ttl(&*key.0))?;
        Ok(left.map(|left| left.as_secs_f64()))
    }

    /// Gives a key that is there so many seconds to live from now on. Returns whether it is there.
    fn expire(&self, py: Python<'_>, key: AnyKey, ttl: f64) -> PyResult<bool> {
        let ttl = span(ttl)?;
        within!(py, self.place, |space| space.kv().expire(&*key.0, ttl))
    }

    /// Makes a key stay that has a time to live. Returns whether it is there.
    fn persist(&self, py: Python<'_>, key: AnyKey) -> PyResult<bool> {
        within!(py, self.place, |space| space.kv().persist(&*key.0))
    }

    /// Puts the pairs of a dict, or of an iterable of pairs, in one commit.
    fn put_many(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let items = match pairs.cast::<PyDict>() {
            Ok(dict) => dict.items().into_any(),
            Err(_) => pairs.clone(),
        };
        let mut given: Vec<(Key, Value)> = Vec::new();
        for pair in items.try_iter()? {
            let (key, value): (AnyKey, Bound<'_, PyAny>) = pair?.extract()?;
            given.push((key.0, to_value(&value)?));
        }
        let pairs = || given.iter().map(|(key, value)| (&**key, value));
        within!(py, self.place, |space| space.kv().put_many(pairs()).map(|written| written.version()))
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: AnyKey, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        match within!(py, self.place, |space| space.kv().get(&*key.0))? {
            Some(value) => from_value(py, &value),
            None => Ok(default.unwrap_or_else(|| py.None())),
        }
    }

    /// The values of several keys, None for each that is not there.
    fn get_many(&self, py: Python<'_>, keys: Vec<AnyKey>) -> PyResult<Vec<Option<Py<PyAny>>>> {
        let found = within!(py, self.place, |space| space.kv().get_many(keys.iter().map(|key| &*key.0)))?;
        found.iter().map(|value| value.as_ref().map(|value| from_value(py, value)).transpose()).collect()
    }

    /// Adds to the integer under a key, which counts as 0 if it is not there. Returns the sum.
    #[pyo3(signature = (key, by=1))]
    fn add(&self, py: Python<'_>, key: AnyKey, by: i64) -> PyResult<i64> {
        within!(py, self.place, |space| space.kv().add(&*key.0, by))
    }

    /// Deletes a key. Returns whether it was there.
    fn delete(&self, py: Python<'_>, key: AnyKey) -> PyResult<bool> {
        within!(py, self.place, |space| space.kv().delete(&*key.0))
    }

    /// Deletes the keys of a range in one commit. Returns how many there were.
    #[pyo3(signature = (*, start=None, end=None, prefix=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<AnyKey>,
        end: Option<AnyKey>,
        prefix: Option<AnyKey>,
    ) -> PyResult<u64> {
        match Range::new(start, end, prefix)? {
            Range::Prefix(prefix) => {
                within!(py, self.place, |space| space.kv().delete_range(Prefix(&*prefix)))
            }
            Range::Between(from, to) => {
                let bounds = (as_bytes(&from), as_bytes(&to));
                within!(py, self.place, |space| space.kv().delete_range(bounds))
            }
        }
    }

    /// The pairs whose values fulfil a filter, at most `limit`, and the end of the page to go on after, if there is more.
    #[pyo3(signature = (filter=None, *, order=None, backwards=false, prefix=AnyKey::empty(), after=None, limit=1000))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of a function in Python")]
    fn find(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
        order: Option<&Bound<'_, PyAny>>,
        backwards: bool,
        prefix: AnyKey,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<FoundPage<Py<PyAny>>> {
        let query = to_query(filter, order, backwards, prefix.0.into_bytes(), after)?;
        let found = within!(py, self.place, |space| space.kv().find(&query, limit))?;
        let row = |(key, value): &(Key, Value)| Ok((from_key(py, key)?, from_value(py, value)?));
        let rows = found.rows.iter().map(row).collect::<PyResult<_>>()?;
        Ok((rows, found.next.map(|next| next.to_string())))
    }

    /// How many keys begin with a prefix.
    #[pyo3(signature = (prefix=AnyKey::empty()))]
    fn count(&self, py: Python<'_>, prefix: AnyKey) -> PyResult<u64> {
        within!(py, self.place, |space| space.kv().count(&*prefix.0))
    }

    /// The pairs of a range in order, or backwards, as of one moment; of a transaction, with what it writes meanwhile.
    #[pyo3(signature = (*, start=None, end=None, prefix=None, reverse=false))]
    fn scan(
        &self,
        py: Python<'_>,
        start: Option<AnyKey>,
        end: Option<AnyKey>,
        prefix: Option<AnyKey>,
        reverse: bool,
    ) -> PyResult<PairIterator> {
        let mut place = self.place.clone();
        if let Scope::Branch(branch) = self.place.scope.get().map_err(raised)? {
            let snapshot = py.detach(|| branch.snapshot()).map_err(raised)?;
            place.scope = Arc::new(Own::new(Scope::Snapshot(snapshot)));
        }
        let (from, to) = match Range::new(start, end, prefix)? {
            Range::Between(from, to) => (from, to),
            Range::Prefix(prefix) => {
                let end = behind(&prefix);
                (End::Included(prefix), end.map_or(End::Unbounded, End::Excluded))
            }
        };
        let state = Pages { from, to, page: VecDeque::new(), is_over: false };
        Ok(PairIterator { place, reverse, state: Mutex::new(state) })
    }

    fn __contains__(&self, py: Python<'_>, key: AnyKey) -> PyResult<bool> {
        within!(py, self.place, |space| space.kv().exists(&*key.0))
    }

    fn __getitem__(&self, py: Python<'_>, key: AnyKey) -> PyResult<Py<PyAny>> {
        match within!(py, self.place, |space| space.kv().get(&*key.0))? {
            Some(value) => from_value(py, &value),
            None => Err(PyKeyError::new_err(from_key(py, &key.0)?)),
        }
    }

    fn __setitem__(&self, py: Python<'_>, key: AnyKey, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, key, value, None).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: AnyKey) -> PyResult<()> {
        let name = from_key(py, &key.0)?;
        match self.delete(py, key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(name)),
        }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PairIterator> {
        self.scan(py, None, None, None, false)
    }
}

impl AnyKey {
    fn empty() -> Self {
        Self(Key::new(""))
    }
}

fn as_bytes(bound: &End<Key>) -> End<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

/// The first key that does not begin with a prefix and is behind those that do.
fn behind(prefix: &[u8]) -> Option<Key> {
    let end = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = prefix[..=end].to_vec();
    key[end] += 1;
    Some(Key::new(&*key))
}

/// The pairs of a range, one by one: (key, value).
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct PairIterator {
    place: Place,
    reverse: bool,
    state: Mutex<Pages>,
}

struct Pages {
    from: End<Key>,
    to: End<Key>,
    page: VecDeque<(Key, Value)>,
    is_over: bool,
}

impl PairIterator {
    fn next_pair(&self, py: Python<'_>) -> PyResult<Option<(Key, Value)>> {
        // Whoever waits for another thread here lets it have the interpreter.
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if state.page.is_empty() && !state.is_over {
            let (from, to) = (state.from.clone(), state.to.clone());
            let bounds = (as_bytes(&from), as_bytes(&to));
            let page: Vec<(Key, Value)> = within!(py, self.place, |space| {
                let pairs = space.kv().iter(bounds)?;
                match self.reverse {
                    false => pairs.take(PAGE).collect::<Result<_, StoreError>>(),
                    true => pairs.rev().take(PAGE).collect(),
                }
            })?;
            state.is_over = page.len() < PAGE;
            if let Some((last, _)) = page.last() {
                match self.reverse {
                    false => state.from = End::Excluded(last.clone()),
                    true => state.to = End::Excluded(last.clone()),
                }
            }
            state.page = page.into();
        }
        Ok(state.page.pop_front())
    }
}

#[pymethods]
impl PairIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some((key, value)) = self.next_pair(py)? else { return Ok(None) };
        PyTuple::new(py, [from_key(py, &key)?, from_value(py, &value)?]).map(Some)
    }
}

/// State cells: values with versions.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Cells {
    pub(crate) place: Place,
}

#[pymethods]
impl Cells {
    /// Makes a cell that must not be there.
    fn init(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let value = to_value(value)?;
        within!(py, self.place, |space| space.state().init(key, &value).map(|written| written.version()))
    }

    /// Sets a cell, whatever it holds.
    fn set(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let value = to_value(value)?;
        within!(py, self.place, |space| space.state().set(key, &value).map(|written| written.version()))
    }

    /// Sets a cell that is at a version; None for one that must not be there. Raises `Conflict` if it is not.
    fn cas(
        &self,
        py: Python<'_>,
        key: &str,
        expected: Option<u64>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        let value = to_value(value)?;
        within!(py, self.place, |space| space
            .state()
            .cas(key, expected, &value)
            .map(|written| written.version()))
    }

    /// The value and the version of a cell; None if it is not there.
    fn read(&self, py: Python<'_>, key: &str) -> PyResult<Option<(Py<PyAny>, u64)>> {
        let cell = within!(py, self.place, |space| space.state().read(key))?;
        cell.map(|cell| Ok((from_value(py, &cell.value)?, cell.version))).transpose()
    }

    /// Deletes a cell. Returns whether it was there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.state().delete(key))
    }
}

/// The event log of a space.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Events {
    pub(crate) place: Place,
}

fn event_dict<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seq", event.seq)?;
    dict.set_item("type", &event.event_type)?;
    dict.set_item("payload", from_json(py, &event.payload.to_value().map_err(invalid)?)?)?;
    dict.set_item("at_ms", event.at_ms)?;
    Ok(dict)
}

#[pymethods]
impl Events {
    /// Appends an event, whose payload is a dict. Returns its number.
    fn append(&self, py: Python<'_>, event_type: &str, payload: &Bound<'_, PyAny>) -> PyResult<u64> {
        let payload = to_json(payload)?;
        within!(py, self.place, |space| space.events().append(event_type, &payload))
    }

    /// Events by their numbers, at most `limit`, or of a type, or the newest first.
    #[pyo3(signature = (start=0, *, event_type=None, limit=1000, reverse=false))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        event_type: Option<&str>,
        limit: usize,
        reverse: bool,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let direction = if reverse { Direction::Backwards } else { Direction::Forwards };
        let page =
            within!(py, self.place, |space| space.events().range(start.., direction, event_type, limit))?;
        page.events.iter().map(|event| event_dict(py, event)).collect()
    }

    /// Checks the chain of hashes. Returns how many events it has; raises if one of them is not as it was appended.
    fn verify(&self, py: Python<'_>) -> PyResult<u64> {
        within!(py, self.place, |space| {
            let report = space.events().verify()?;
            match report.first_bad {
                Some(bad) => Err(StoreError::Damaged(format!("event {}: {}", bad.seq, bad.reason))),
                None => Ok(report.checked),
            }
        })
    }

    /// The number of the first event that is there: 0 unless the log was trimmed.
    fn first(&self, py: Python<'_>) -> PyResult<u64> {
        within!(py, self.place, |space| space.events().first())
    }

    /// Deletes the events before a number, but for the last one. Returns how many.
    fn trim(&self, py: Python<'_>, before: u64) -> PyResult<u64> {
        within!(py, self.place, |space| space.events().trim(before))
    }

    /// The number of the first event of a time or later, in milliseconds since 1970 (UTC).
    fn since(&self, py: Python<'_>, at_ms: i64) -> PyResult<u64> {
        within!(py, self.place, |space| space.events().since(at_ms))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let len = within!(py, self.place, |space| space.events().len())?;
        usize::try_from(len).map_err(invalid)
    }
}

/// JSON documents.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Documents {
    pub(crate) place: Place,
}

#[pymethods]
impl Documents {
    /// Sets what is at a path of a document: `set("user:1", "$.name", "Ada")`.
    fn set(&self, py: Python<'_>, key: &str, path: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let value = to_json(value)?;
        within!(py, self.place, |space| space.json().set(key, path, &value).map(|written| written.version()))
    }

    /// What is at a path of a document; None if nothing is.
    #[pyo3(signature = (key, path="$"))]
    fn get(&self, py: Python<'_>, key: &str, path: &str) -> PyResult<Option<Py<PyAny>>> {
        let found = within!(py, self.place, |space| space.json().get(key, path))?;
        found.map(|json| from_json(py, &json.to_value().map_err(invalid)?)).transpose()
    }

    /// Deletes what is at a path of a document. Returns whether anything was.
    #[pyo3(signature = (key, path="$"))]
    fn delete(&self, py: Python<'_>, key: &str, path: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.json().delete(key, path))
    }

    /// Patches a document as RFC 7396 says.
    fn merge_patch(&self, py: Python<'_>, key: &str, patch: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let patch = to_json(patch)?;
        within!(py, self.place, |space| space
            .json()
            .merge_patch(key, &patch)
            .map(|written| written.version()))
    }

    /// The keys of documents that begin with a prefix, at most `limit`.
    #[pyo3(signature = (prefix="", *, after=None, limit=1000))]
    fn keys(&self, py: Python<'_>, prefix: &str, after: Option<&str>, limit: usize) -> PyResult<Vec<String>> {
        within!(py, self.place, |space| space.json().list(prefix, after, limit).map(|page| page.items))
    }

    /// The documents that fulfil a filter, at most `limit`, and the end of the page to go on after, if there is more.
    #[pyo3(signature = (filter=None, *, order=None, backwards=false, prefix="", after=None, limit=1000))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of a function in Python")]
    fn find(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
        order: Option<&Bound<'_, PyAny>>,
        backwards: bool,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<FoundPage<String>> {
        let query = to_query(filter, order, backwards, prefix.into(), after)?;
        let found = within!(py, self.place, |space| space.json().find(&query, limit))?;
        let row = |(key, text): &(String, duramen_store::json::Json)| {
            Ok((key.clone(), from_json(py, &text.to_value().map_err(invalid)?)?))
        };
        let rows = found.rows.iter().map(row).collect::<PyResult<_>>()?;
        Ok((rows, found.next.map(|next| next.to_string())))
    }

    /// How `find` would go about it.
    #[pyo3(signature = (filter=None, *, order=None))]
    fn explain(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
        order: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let query = to_query(filter, order, false, Vec::new(), None)?;
        within!(py, self.place, |space| space.json().explain(&query).map(|plan| plan.to_string()))
    }

    fn __contains__(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.json().exists(key))
    }
}
