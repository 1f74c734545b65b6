//! Indexes, and what is found through them.

use duramen_store::filter::Filter;
use duramen_store::index::{Cursor, Index, Query};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::error::{invalid, raised};
use crate::scope::{within, Place};
use crate::value::to_json;

/// A filter: its text, or a list of conditions.
pub(crate) fn to_filter(filter: Option<&Bound<'_, PyAny>>) -> PyResult<Filter> {
    let Some(filter) = filter else { return Ok(Filter::default()) };
    match filter.cast::<PyString>() {
        Ok(text) => text.to_str()?.parse().map_err(invalid),
        Err(_) => serde_json::from_value(to_json(filter)?).map_err(invalid),
    }
}

/// Fields: the name of one, or several names.
pub(crate) fn to_fields(fields: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(fields) = fields else { return Ok(Vec::new()) };
    match fields.cast::<PyString>() {
        Ok(one) => Ok(vec![one.to_str()?.to_owned()]),
        Err(_) => fields.extract(),
    }
}

/// What `find` and `explain` are asked for.
pub(crate) fn to_query(
    filter: Option<&Bound<'_, PyAny>>,
    order: Option<&Bound<'_, PyAny>>,
    backwards: bool,
    prefix: Vec<u8>,
    after: Option<&str>,
) -> PyResult<Query> {
    let mut query = Query::new(to_filter(filter)?).order(to_fields(order)?).prefix(prefix);
    if backwards {
        query = query.backwards();
    }
    if let Some(after) = after {
        query = query.after(after.parse::<Cursor>().map_err(raised)?);
    }
    Ok(query)
}

/// The indexes of a space.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Indexes {
    pub(crate) place: Place,
}

#[pymethods]
impl Indexes {
    /// Declares an index of documents (or of pairs, with `on="kv"`) on fields, and fills it. Returns whether it was made now. `unique`
    /// refuses a second row with the same values; `where` makes it one of the rows that fulfil a filter.
    #[pyo3(signature = (name, fields, *, on="json", unique=false, r#where=None))]
    fn create(
        &self,
        py: Python<'_>,
        name: &str,
        fields: &Bound<'_, PyAny>,
        on: &str,
        unique: bool,
        r#where: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let fields = to_fields(Some(fields))?;
        let index = Index { on: on.parse().map_err(invalid)?, fields, unique, only: to_filter(r#where)? };
        within!(py, self.place, |space| space.indexes().create(name, &index))
    }

    /// Drops an index. Returns whether it was there.
    fn drop(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        within!(py, self.place, |space| space.indexes().drop(name))
    }

    /// The indexes by name, as dicts of on, fields, unique and where.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = within!(py, self.place, |space| space.indexes().list())?;
        let listed = PyDict::new(py);
        for (name, index) in all {
            let told = PyDict::new(py);
            told.set_item("on", index.on.name())?;
            told.set_item("fields", index.fields)?;
            told.set_item("unique", index.unique)?;
            told.set_item("where", index.only.to_string())?;
            listed.set_item(name, told)?;
        }
        Ok(listed)
    }
}
