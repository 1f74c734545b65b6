//! Values and keys of Python and of the store.

use std::collections::BTreeMap;

use duramen_store::kv::Key;
use duramen_store::Value;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;
use serde_json::Value as Json;

use crate::error::invalid;

/// No value is deeper than that; the store's own limit is lower.
const DEPTH_MAX: usize = 200;

/// None, bool, int, float, str, bytes, and lists and dicts of those.
pub(crate) fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    deep_value(object, 0)
}

fn deep_value(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEPTH_MAX {
        return Err(invalid("the value nests lists and dicts too deep; flatten it"));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if let Ok(number) = object.cast::<PyInt>() {
        let number = number.extract::<i64>();
        return number
            .map(Value::Int)
            .map_err(|_| PyOverflowError::new_err("an int has at most 64 bits, with its sign"));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(list) = object.cast::<PyList>() {
        return list
            .iter()
            .map(|item| deep_value(&item, depth + 1))
            .collect::<PyResult<_>>()
            .map(Value::Array);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple
            .iter()
            .map(|item| deep_value(&item, depth + 1))
            .collect::<PyResult<_>>()
            .map(Value::Array);
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let member = |(name, item): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<(String, Value)> {
            let name = name
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err("the keys of a dict must be texts"))?;
            Ok((name.to_str()?.to_owned(), deep_value(&item, depth + 1)?))
        };
        return dict.iter().map(member).collect::<PyResult<BTreeMap<_, _>>>().map(Value::Object);
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{kind} is not stored: use None, bool, int, float, str, bytes, list or dict"
    )))
}

pub(crate) fn from_value(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Null => Ok(py.None()),
        Value::Bool(value) => value.into_py_any(py),
        Value::Int(value) => value.into_py_any(py),
        Value::Float(value) => value.into_py_any(py),
        Value::String(value) => value.into_py_any(py),
        Value::Bytes(value) => PyBytes::new(py, value).into_py_any(py),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(from_value(py, item)?)?;
            }
            list.into_py_any(py)
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (name, item) in members {
                dict.set_item(name, from_value(py, item)?)?;
            }
            dict.into_py_any(py)
        }
    }
}

/// None, bool, int, float, str, and lists and dicts of those, as JSON has them.
pub(crate) fn to_json(object: &Bound<'_, PyAny>) -> PyResult<Json> {
    json_of(&to_value(object)?)
}

fn json_of(value: &Value) -> PyResult<Json> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => serde_json::Number::from_f64(*value)
            .map(Json::Number)
            .ok_or_else(|| invalid(format!("JSON has no number for {value}; store it as a text")))?,
        Value::String(value) => Json::String(value.clone()),
        Value::Bytes(_) => {
            return Err(PyTypeError::new_err("JSON has no bytes; store them as a pair, or as text"))
        }
        Value::Array(items) => Json::Array(items.iter().map(json_of).collect::<PyResult<_>>()?),
        Value::Object(members) => {
            let member = |(name, item): (&String, &Value)| Ok((name.clone(), json_of(item)?));
            Json::Object(members.iter().map(member).collect::<PyResult<_>>()?)
        }
    })
}

pub(crate) fn from_json(py: Python<'_>, json: &Json) -> PyResult<Py<PyAny>> {
    Ok(pythonize::pythonize(py, json).map_err(invalid)?.unbind())
}

/// A key: text, bytes, or an int of 64 bits without a sign, whose keys lie in the order of the numbers.
pub(crate) struct AnyKey(pub(crate) Key);

impl<'py> FromPyObject<'_, 'py> for AnyKey {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self(Key::new(text.to_str()?)));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(Key::new(bytes.as_bytes())));
        }
        if let Ok(number) = object.extract::<u64>() {
            return Ok(Self(Key::new(number)));
        }
        Err(PyTypeError::new_err("a key is a str, bytes, or an int from 0 to 2**64 - 1"))
    }
}

/// Text where it is text, else bytes.
pub(crate) fn from_key(py: Python<'_>, key: &[u8]) -> PyResult<Py<PyAny>> {
    match std::str::from_utf8(key) {
        Ok(text) if !key.contains(&0) => text.into_py_any(py),
        _ => PyBytes::new(py, key).into_py_any(py),
    }
}
