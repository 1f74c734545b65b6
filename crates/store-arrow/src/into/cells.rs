//! The cells of a column, as JSON or as values of the store.

use std::io::Write as _;

use arrow_array::cast::AsArray as _;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, Field, TimeUnit};
use duramen_store::Value;
use serde_json::value::RawValue;
use serde_json::Value as Json;

use super::error::Refusal;
use super::{times, Nulls};
use crate::json_text::is_json_text;

/// What a column has to be, as it is told.
const WANTED: &str = "of a type that has a counterpart in JSON";

/// What is wrong with a cell.
type Written = Result<(), String>;
/// Appends the JSON of the cell of a row, which is not null.
type Write<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Written + 'a>;

/// A column whose cells are read.
pub(super) struct Cells<'a> {
    name: String,
    data_type: &'a DataType,
    array: &'a dyn Array,
    nulls: Option<Vec<bool>>,
    write: Write<'a>,
    is_json: bool,
}

impl<'a> Cells<'a> {
    /// The cells of a column.
    pub(super) fn new(array: &'a dyn Array, field: &'a Field, nulls: Nulls) -> Result<Cells<'a>, Refusal> {
        let unknown = |(path, found): (String, DataType)| Refusal::Type {
            column: format!("{}{path}", field.name()),
            found: Box::new(found),
            wanted: WANTED,
        };
        let write = write(array, field, nulls).map_err(unknown)?;
        Ok(Cells {
            name: field.name().clone(),
            data_type: field.data_type(),
            array,
            nulls: nulls_of(array),
            write,
            is_json: is_json_text(field),
        })
    }

    pub(super) fn data_type(&self) -> &'a DataType {
        self.data_type
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls[row])
    }

    /// Appends the JSON of a cell.
    pub(super) fn json(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self.is_null(row) {
            true => out.extend_from_slice(b"null"),
            false => (self.write)(row, out)?,
        }
        Ok(())
    }

    /// The text of a cell, of a column of text.
    pub(super) fn text(&self, row: usize) -> Option<&'a str> {
        if self.is_null(row) {
            return None;
        }
        match self.data_type {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(self.array.as_string_view().value(row)),
            _ => None,
        }
    }

    /// The bytes of a cell, of a column of bytes.
    pub(super) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        if self.is_null(row) {
            return None;
        }
        bytes_of(self.array, row)
    }

    /// A cell as a value.
    pub(super) fn value(&self, row: usize) -> Result<Value, String> {
        if self.is_null(row) {
            return Ok(Value::Null);
        }
        let array = self.array;
        if !self.is_json {
            if let Some(text) = self.text(row) {
                return Ok(Value::from(text));
            }
            if let Some(bytes) = self.bytes(row) {
                return Ok(Value::from(bytes));
            }
        }
        match self.data_type {
            DataType::Float16 => Ok(Value::Float(f64::from(array.as_primitive::<Float16Type>().value(row)))),
            DataType::Float32 => Ok(Value::Float(f64::from(array.as_primitive::<Float32Type>().value(row)))),
            DataType::Float64 => Ok(Value::Float(array.as_primitive::<Float64Type>().value(row))),
            DataType::Int64 => Ok(Value::Int(array.as_primitive::<Int64Type>().value(row))),
            _ => {
                let mut text = Vec::new();
                self.json(row, &mut text)?;
                let json: Json =
                    serde_json::from_slice(&text).map_err(|error| format!("is not JSON: {error}"))?;
                Value::from_json(&json).map_err(|error| format!("cannot be stored: {error}"))
            }
        }
    }
}

/// Which rows are null, if any is. Of a dictionary, that may be the value that a key means.
fn nulls_of(array: &dyn Array) -> Option<Vec<bool>> {
    if *array.data_type() == DataType::Null {
        return Some(vec![true; array.len()]);
    }
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some((0..array.len()).map(|row| nulls.is_null(row)).collect())
}

fn bytes_of(array: &dyn Array, row: usize) -> Option<&[u8]> {
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Some(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

/// What is in a column, with its nulls.
struct Inner<'a> {
    nulls: Option<Vec<bool>>,
    write: Write<'a>,
}

impl<'a> Inner<'a> {
    fn new(array: &'a dyn Array, field: &'a Field, nulls: Nulls) -> Result<Inner<'a>, (String, DataType)> {
        Ok(Inner { nulls: nulls_of(array), write: write(array, field, nulls)? })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls[row])
    }

    fn json(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self.is_null(row) {
            true => out.extend_from_slice(b"null"),
            false => (self.write)(row, out)?,
        }
        Ok(())
    }
}

/// Appends what shows itself as it is in JSON.
fn shown(out: &mut Vec<u8>, what: impl std::fmt::Display) -> Written {
    write!(out, "{what}").map_err(|error| error.to_string())
}

fn quoted(out: &mut Vec<u8>, text: &str) -> Written {
    serde_json::to_writer(out, text).map_err(|error| error.to_string())
}

fn integers<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Write<'a>
where
    T::Native: std::fmt::Display,
{
    let array = array.as_primitive::<T>();
    Box::new(move |row, out| shown(out, array.value(row)))
}

fn float(out: &mut Vec<u8>, value: f64) -> Written {
    if !value.is_finite() {
        return Err(format!("is {value}, for which JSON has no number: make it null"));
    }
    // As it is shown for debugging, a whole one has a point or an exponent.
    write!(out, "{value:?}").map_err(|error| error.to_string())
}

fn floats<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Write<'a>
where
    T::Native: Into<f64>,
{
    let array = array.as_primitive::<T>();
    Box::new(move |row, out| float(out, array.value(row).into()))
}

fn decimals<'a, T: DecimalType>(array: &'a dyn Array) -> Write<'a> {
    let array = array.as_primitive::<T>();
    Box::new(move |row, out| quoted(out, &array.value_as_string(row)))
}

/// Text that something becomes; none if it cannot be written.
fn said<T: std::fmt::Display>(out: &mut Vec<u8>, count: i64, what: Option<T>) -> Written {
    match what {
        Some(what) => shown(out, format_args!("\"{what}\"")),
        None => Err(format!("is {count} of its unit, which is no day, time or moment until the year 9999")),
    }
}

fn counts<'a, T: ArrowPrimitiveType, W: std::fmt::Display + 'a>(
    array: &'a dyn Array,
    made: impl Fn(i64) -> Option<W> + 'a,
) -> Write<'a>
where
    T::Native: Into<i64>,
{
    let array = array.as_primitive::<T>();
    Box::new(move |row, out| {
        let count = array.value(row).into();
        said(out, count, made(count))
    })
}

fn timestamps<'a>(array: &'a dyn Array, unit: TimeUnit, has_zone: bool) -> Write<'a> {
    fn with<'a, T: ArrowPrimitiveType<Native = i64>>(
        array: &'a dyn Array,
        unit: TimeUnit,
        has_zone: bool,
    ) -> Write<'a> {
        match has_zone {
            true => counts::<T, _>(array, move |count| times::utc(count, unit)),
            false => counts::<T, _>(array, move |count| times::civil(count, unit)),
        }
    }
    match unit {
        TimeUnit::Second => with::<TimestampSecondType>(array, unit, has_zone),
        TimeUnit::Millisecond => with::<TimestampMillisecondType>(array, unit, has_zone),
        TimeUnit::Microsecond => with::<TimestampMicrosecondType>(array, unit, has_zone),
        TimeUnit::Nanosecond => with::<TimestampNanosecondType>(array, unit, has_zone),
    }
}

fn elements<'a>(inner: Inner<'a>, range: impl Fn(usize) -> std::ops::Range<usize> + 'a) -> Write<'a> {
    Box::new(move |row, out| {
        out.push(b'[');
        for (at, element) in range(row).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            inner.json(element, out)?;
        }
        out.push(b']');
        Ok(())
    })
}

/// How the cells of a column become JSON, or the type that does not, and where in the column it is.
fn write<'a>(array: &'a dyn Array, field: &'a Field, nulls: Nulls) -> Result<Write<'a>, (String, DataType)> {
    let within =
        |place: &'static str| move |(path, found): (String, DataType)| (format!("{place}{path}"), found);
    let texts = |value: Box<dyn Fn(usize) -> &'a str + 'a>| -> Write<'a> {
        match is_json_text(field) {
            false => Box::new(move |row, out| quoted(out, value(row))),
            true => Box::new(move |row, out| {
                // Whole in itself, so that it does not end the object that it stands in.
                let raw: &RawValue =
                    serde_json::from_str(value(row)).map_err(|error| format!("is not JSON: {error}"))?;
                out.extend_from_slice(raw.get().as_bytes());
                Ok(())
            }),
        }
    };
    Ok(match field.data_type() {
        DataType::Null => Box::new(|_, out| shown(out, "null")),
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(move |row, out| shown(out, array.value(row)))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Float16 => floats::<Float16Type>(array),
        DataType::Float32 => floats::<Float32Type>(array),
        DataType::Float64 => floats::<Float64Type>(array),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            texts(Box::new(move |row| array.value(row)))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            texts(Box::new(move |row| array.value(row)))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            texts(Box::new(move |row| array.value(row)))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Box::new(move |row, out| {
                let bytes = Value::from(bytes_of(array, row).unwrap_or_default());
                shown(out, bytes.to_json().map_err(|error| error.to_string())?)
            })
        }
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Date32 => counts::<Date32Type, _>(array, times::date),
        DataType::Date64 => counts::<Date64Type, _>(array, times::date_of_ms),
        DataType::Time32(unit @ TimeUnit::Second) => {
            counts::<Time32SecondType, _>(array, move |count| times::time(count, *unit))
        }
        DataType::Time32(unit) => {
            counts::<Time32MillisecondType, _>(array, move |count| times::time(count, *unit))
        }
        DataType::Time64(unit @ TimeUnit::Microsecond) => {
            counts::<Time64MicrosecondType, _>(array, move |count| times::time(count, *unit))
        }
        DataType::Time64(unit) => {
            counts::<Time64NanosecondType, _>(array, move |count| times::time(count, *unit))
        }
        DataType::Timestamp(unit, zone) => timestamps(array, *unit, zone.is_some()),
        DataType::List(item) => {
            let array = array.as_list::<i32>();
            let inner = Inner::new(array.values(), item, nulls).map_err(within("[]"))?;
            elements(inner, move |row| {
                array.value_offsets()[row] as usize..array.value_offsets()[row + 1] as usize
            })
        }
        DataType::LargeList(item) => {
            let array = array.as_list::<i64>();
            let inner = Inner::new(array.values(), item, nulls).map_err(within("[]"))?;
            elements(inner, move |row| {
                array.value_offsets()[row] as usize..array.value_offsets()[row + 1] as usize
            })
        }
        DataType::FixedSizeList(item, _) => {
            let array = array.as_fixed_size_list();
            let inner = Inner::new(array.values(), item, nulls).map_err(within("[]"))?;
            let length = array.value_length() as usize;
            elements(inner, move |row| row * length..(row + 1) * length)
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let mut members = Vec::new();
            for (field, column) in fields.iter().zip(array.columns()) {
                let inner = Inner::new(column, field, nulls);
                let inner = inner.map_err(|(path, found)| (format!(".{}{path}", field.name()), found))?;
                members.push((Json::from(field.name().as_str()).to_string(), inner));
            }
            Box::new(move |row, out| {
                let mut separator = b'{';
                for (name, inner) in &members {
                    if nulls == Nulls::LeaveOut && inner.is_null(row) {
                        continue;
                    }
                    out.push(std::mem::replace(&mut separator, b','));
                    out.extend_from_slice(name.as_bytes());
                    out.push(b':');
                    inner.json(row, out)?;
                }
                out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
                Ok(())
            })
        }
        DataType::Map(entries, _) => {
            let array = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err((String::new(), field.data_type().clone()));
            };
            let [key, value] = &fields[..] else { return Err((String::new(), field.data_type().clone())) };
            if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                return Err((String::new(), field.data_type().clone()));
            }
            let names = Inner::new(array.keys(), key, nulls)?;
            let values = Inner::new(array.values(), value, nulls).map_err(within("{}"))?;
            Box::new(move |row, out| {
                let mut separator = b'{';
                for entry in array.value_offsets()[row] as usize..array.value_offsets()[row + 1] as usize {
                    if names.is_null(entry) {
                        return Err("has an entry without a name".to_owned());
                    }
                    if nulls == Nulls::LeaveOut && values.is_null(entry) {
                        continue;
                    }
                    out.push(std::mem::replace(&mut separator, b','));
                    names.json(entry, out)?;
                    out.push(b':');
                    values.json(entry, out)?;
                }
                out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
                Ok(())
            })
        }
        DataType::Dictionary(_, _) => return dictionary(array, field),
        other => return Err((String::new(), other.clone())),
    })
}

fn dictionary<'a>(array: &'a dyn Array, field: &'a Field) -> Result<Write<'a>, (String, DataType)> {
    let DataType::Dictionary(_, value) = field.data_type() else {
        return Err((String::new(), field.data_type().clone()));
    };
    let array = array.as_any_dictionary();
    // Values that are text are so without the metadata of the column.
    let keys = array.normalized_keys();
    let cells = Plain::new(array.values(), value).map_err(|found| (String::new(), found))?;
    Ok(Box::new(move |row, out| cells.json(keys[row], out)))
}

/// The values of a dictionary: texts and numbers, each written once.
struct Plain(Vec<Result<Vec<u8>, String>>);

impl Plain {
    fn new(array: &dyn Array, data_type: &DataType) -> Result<Plain, DataType> {
        let field = Field::new("", data_type.clone(), true);
        let inner = Inner::new(array, &field, Nulls::Keep).map_err(|(_, found)| found)?;
        let written = |row| {
            let mut out = Vec::new();
            inner.json(row, &mut out).map(|()| out)
        };
        Ok(Plain((0..array.len()).map(written).collect()))
    }

    fn json(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self.0.get(row) {
            Some(Ok(text)) => out.extend_from_slice(text),
            Some(Err(problem)) => return Err(problem.clone()),
            None => out.extend_from_slice(b"null"),
        }
        Ok(())
    }
}
