//! Which state of a branch is meant.

use duramen_store::Moment;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

/// A tag (str), a version (int), or a time (datetime with a time zone).
pub(crate) fn moment(object: &Bound<'_, PyAny>) -> PyResult<Moment> {
    if let Ok(tag) = object.cast::<PyString>() {
        return Ok(Moment::Tag(tag.to_str()?.to_owned()));
    }
    if object.is_instance_of::<PyInt>() {
        return object.extract().map(Moment::Version);
    }
    let datetime = object.py().import("datetime")?.getattr("datetime")?;
    if object.is_instance(&datetime)? {
        if object.getattr("tzinfo")?.is_none() {
            return Err(PyTypeError::new_err("a datetime needs a time zone: datetime.now(timezone.utc)"));
        }
        let seconds: f64 = object.call_method0("timestamp")?.extract()?;
        return Ok(Moment::Time((seconds * 1000.0).floor() as i64));
    }
    Err(PyTypeError::new_err("a state is a tag (str), a version (int) or a time (datetime with a time zone)"))
}
