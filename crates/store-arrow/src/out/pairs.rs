//! Pairs, one a row.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use duramen_store::kv::{Key, Prefix};
use duramen_store::value::ValueRef;
use duramen_store::{Scope, Space, StoreError};

use super::error::OutError;
use super::options::{Limits, Misfits, PairKeys, PairOptions, COLUMNS_MAX};
use crate::column::{leaves, nullable, Column, Misfit};
use crate::datum::Datum;
use crate::json_text::json_text;
use crate::shape::Shape;

enum Keys {
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// Where the table of pairs is.
pub(crate) struct Pairs {
    schema: SchemaRef,
    prefix: Vec<u8>,
    misfits: Misfits,
    limits: Limits,
    keys: Keys,
    values: Column,
    rest: StringBuilder,
    /// How many columns the values have, those in structs and lists counted singly.
    leaves: usize,
    after: Option<Key>,
    is_over: bool,
}

impl Pairs {
    pub(crate) fn new<S: Scope>(space: &Space<'_, S>, options: &PairOptions) -> Result<Pairs, OutError> {
        let needs_sample = options.value.is_none() || options.keys == PairKeys::AsSampled;
        let (shape, are_text) = match needs_sample {
            true => sampled(space, options)?,
            false => (Shape::default(), true),
        };
        let are_text = match options.keys {
            PairKeys::AsSampled => are_text,
            keys => keys == PairKeys::Text,
        };
        let most = COLUMNS_MAX - 1 - usize::from(options.misfits.column().is_some());
        let count = |field: &Field| leaves(field.data_type());
        let value = match &options.value {
            Some(field) => nullable(field).with_name("value"),
            None => Some(shape.field("value"))
                .filter(|field| count(field) <= most)
                .unwrap_or_else(|| json_text("value")),
        };
        let leaves = count(&value);
        if leaves > most {
            return Err(OutError::TooManyColumns { found: leaves, max: COLUMNS_MAX });
        }
        let unknown = |found| OutError::UnknownType { column: "value".to_owned(), found };
        let values = Column::new(&value).map_err(unknown)?;
        let (keys, key_type) = match are_text {
            true => (Keys::Text(StringBuilder::new()), DataType::Utf8),
            false => (Keys::Bytes(BinaryBuilder::new()), DataType::Binary),
        };
        let mut fields = vec![Field::new("key", key_type, false), value];
        if let Some(name) = options.misfits.column() {
            if ["key", "value"].contains(&name) {
                return Err(OutError::TwoColumns { name: name.to_owned() });
            }
            fields.push(json_text(name));
        }
        Ok(Pairs {
            schema: Arc::new(Schema::new(fields)),
            prefix: options.prefix.clone(),
            misfits: options.misfits.clone(),
            limits: options.limits,
            keys,
            values,
            rest: StringBuilder::new(),
            leaves,
            after: None,
            is_over: false,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn next_batch<S: Scope>(
        &mut self,
        space: &Space<'_, S>,
    ) -> Result<Option<RecordBatch>, OutError> {
        if self.is_over {
            return Ok(None);
        }
        let (mut rows, mut bytes, mut failed, mut last) = (0, 0, None, None);
        let leaves = self.leaves;
        let (prefix, after) = (std::mem::take(&mut self.prefix), self.after.take());
        let mut row = |key: &[u8], value: ValueRef<'_>| {
            let pushed = self.push(key, &value);
            let size = match pushed {
                Ok(size) => size,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            rows += 1;
            // A null takes room, too.
            bytes += key.len() + size + 8 * leaves;
            if self.limits.is_full(rows, bytes) {
                last = Some(Key::new(key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let scanned = match &after {
            None => space.kv().scan(Prefix(&prefix), &mut row),
            Some(after) => {
                let end = behind(&prefix);
                let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                space.kv().scan((Bound::Excluded(&**after), end), &mut row)
            }
        };
        self.prefix = prefix;
        self.is_over = last.is_none();
        self.after = last;
        scanned?;
        if let Some(error) = failed {
            return Err(error);
        }
        if rows == 0 {
            return Ok(None);
        }
        let keys: ArrayRef = match &mut self.keys {
            Keys::Text(keys) => Arc::new(keys.finish()),
            Keys::Bytes(keys) => Arc::new(keys.finish()),
        };
        let mut arrays = vec![keys, self.values.finish()];
        if self.misfits.column().is_some() {
            arrays.push(Arc::new(self.rest.finish()));
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?))
    }

    /// Takes a pair; how many bytes its value has about.
    fn push(&mut self, key: &[u8], value: &ValueRef<'_>) -> Result<usize, OutError> {
        match &mut self.keys {
            Keys::Text(keys) => match std::str::from_utf8(key) {
                Ok(key) => keys.append_value(key),
                Err(_) => return Err(OutError::KeyIsNotText { key: Key::new(key).to_string() }),
            },
            Keys::Bytes(keys) => keys.append_value(key),
        }
        let is_json = matches!(self.values, Column::Json(_));
        let datum = match Datum::of_pair(value) {
            Ok(Datum::Bytes(_)) if is_json => None,
            Ok(datum) => Some(datum),
            // A float in it may be one that JSON does not have.
            Err(error) => return Err(not_json(key, value, error)),
        };
        let misfit = match &datum {
            None => {
                self.values.push_text(&text_of(key, value)?);
                None
            }
            Some(datum) => match self.values.fits(datum) {
                Ok(()) => {
                    self.values.push(datum);
                    None
                }
                Err(misfit) => Some(misfit),
            },
        };
        match misfit {
            None if self.misfits == Misfits::Refuse => {}
            None => self.rest.append_null(),
            Some(misfit) if self.misfits == Misfits::Refuse => {
                let Misfit { path, found, wanted } = misfit;
                let field =
                    if path.is_empty() { "the value".to_owned() } else { format!("{path:?} in the value") };
                let row = format!("key {:?}", Key::new(key));
                return Err(OutError::Misfit { row, field, found, wanted });
            }
            Some(_) => {
                self.values.push_null();
                self.rest.append_value(text_of(key, value)?);
            }
        }
        Ok(match value {
            ValueRef::Str(text) => text.len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            ValueRef::Array(_) | ValueRef::Object(_) => datum.map_or(0, |datum| size_of(&datum)),
            _ => 8,
        })
    }
}

/// About how many bytes a list or an object has in a column.
fn size_of(datum: &Datum<'_>) -> usize {
    fn of(json: &serde_json::Value) -> usize {
        match json {
            serde_json::Value::String(text) => text.len() + 4,
            serde_json::Value::Array(elements) => elements.iter().map(of).sum::<usize>() + 4,
            serde_json::Value::Object(members) => members.values().map(of).sum::<usize>() + 4,
            _ => 8,
        }
    }
    match datum {
        Datum::Json(json) => of(json),
        _ => 8,
    }
}

fn text_of(key: &[u8], value: &ValueRef<'_>) -> Result<String, OutError> {
    let json = value.to_value().and_then(|value| value.to_json());
    Ok(json.map_err(|error| not_json(key, value, error))?.to_string())
}

fn not_json(key: &[u8], value: &ValueRef<'_>, error: duramen_store::value::ValueError) -> OutError {
    match error {
        duramen_store::value::ValueError::NotFinite { .. } => OutError::Misfit {
            row: format!("key {:?}", Key::new(key)),
            field: "the value".to_owned(),
            found: match value {
                ValueRef::Float(_) => "a float",
                _ => "a value with a NaN or an infinity in it",
            },
            wanted: "JSON, which has no NaN and no infinity",
        },
        error => StoreError::from(error).into(),
    }
}

/// The first key behind those that begin so, if there can be one.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = prefix[..=end].to_vec();
    key[end] += 1;
    Some(key)
}

/// What the first values are like, and whether all of their keys are text.
fn sampled<S: Scope>(space: &Space<'_, S>, options: &PairOptions) -> Result<(Shape, bool), OutError> {
    let (mut shape, mut are_text, mut rows, mut failed) = (Shape::default(), true, 0, None);
    if options.sample_rows > 0 {
        space.kv().scan(Prefix(&options.prefix), |key, value| {
            are_text &= std::str::from_utf8(key).is_ok();
            match Datum::of_pair(&value) {
                Ok(datum) => shape.see(&datum, 0),
                Err(error) => {
                    failed = Some(not_json(key, &value, error));
                    return ControlFlow::Break(());
                }
            }
            rows += 1;
            match rows < options.sample_rows {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
    }
    failed.map_or(Ok((shape, are_text)), Err)
}
