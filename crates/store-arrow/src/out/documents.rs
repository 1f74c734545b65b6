//! Documents, one a row.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use duramen_store::{Scope, Space, StoreError};
use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::error::OutError;
use super::options::{DocumentOptions, Limits, Misfits, COLUMNS_MAX};
use crate::column::{leaves, nullable, Column, Misfit};
use crate::datum::Datum;
use crate::json_text::json_text;
use crate::members::Members;
use crate::shape::Shape;

fn damaged(key: &str, error: &serde_json::Error) -> OutError {
    StoreError::Damaged(format!("document {key:?} is not JSON: {error}")).into()
}

/// Where the table of documents is.
pub(crate) struct Documents {
    schema: SchemaRef,
    prefix: String,
    misfits: Misfits,
    limits: Limits,
    keys: StringBuilder,
    columns: Vec<Column>,
    places: HashMap<String, usize>,
    rest: StringBuilder,
    /// How many columns the fields have, those in structs and lists counted singly.
    leaves: usize,
    /// The last key of the last batch.
    after: Option<String>,
    is_over: bool,
}

impl Documents {
    pub(crate) fn new<S: Scope>(
        space: &Space<'_, S>,
        options: &DocumentOptions,
    ) -> Result<Documents, OutError> {
        let fields: Vec<Field> = match &options.schema {
            Some(schema) => schema.fields().iter().map(|field| nullable(field)).collect(),
            None => sampled(space, options)?,
        };
        // Beside the keys, and what does not fit.
        let others = 1 + usize::from(options.misfits.column().is_some());
        let leaves = fields.iter().map(|field| leaves(field.data_type())).sum::<usize>();
        if others + leaves > COLUMNS_MAX {
            return Err(OutError::TooManyColumns { found: others + leaves, max: COLUMNS_MAX });
        }
        let (mut columns, mut places) = (Vec::new(), HashMap::new());
        let mut names = vec![options.key_column.as_str()];
        names.extend(options.misfits.column());
        for (place, field) in fields.iter().enumerate() {
            // JSON has no bytes.
            let binary = Some(DataType::Binary).filter(|_| has_bytes(field.data_type()));
            let column = binary.map_or_else(|| Column::new(field), Err);
            let unknown = |found| OutError::UnknownType { column: field.name().clone(), found };
            columns.push(column.map_err(unknown)?);
            if names.contains(&field.name().as_str()) || places.insert(field.name().clone(), place).is_some()
            {
                return Err(OutError::TwoColumns { name: field.name().clone() });
            }
        }
        if names.len() == 2 && names[0] == names[1] {
            return Err(OutError::TwoColumns { name: options.key_column.clone() });
        }
        let mut all = vec![Field::new(&options.key_column, DataType::Utf8, false)];
        all.extend(fields);
        all.extend(options.misfits.column().map(json_text));
        Ok(Documents {
            schema: Arc::new(Schema::new(all)),
            prefix: options.prefix.clone(),
            misfits: options.misfits.clone(),
            limits: options.limits,
            keys: StringBuilder::new(),
            columns,
            places,
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
        let (mut rows, mut bytes, mut failed) = (0, 0, None);
        let (prefix, after) = (std::mem::take(&mut self.prefix), self.after.take());
        let mut last = None;
        let scanned = space.json().scan_after(&prefix, after.as_deref(), |key, text| {
            if let Err(error) = self.push(key, text) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            rows += 1;
            // A null takes room, too.
            bytes += key.len() + text.len() + 8 * self.leaves;
            if self.limits.is_full(rows, bytes) {
                last = Some(key.to_owned());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
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
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.keys.finish())];
        arrays.extend(self.columns.iter_mut().map(Column::finish));
        if self.misfits.column().is_some() {
            arrays.push(Arc::new(self.rest.finish()));
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?))
    }

    fn push(&mut self, key: &str, text: &str) -> Result<(), OutError> {
        let mut rest = String::new();
        let row = self.keys.len();
        if text.starts_with('{') {
            let Members(members) = serde_json::from_str(text).map_err(|error| damaged(key, &error))?;
            for (at, (name, value)) in members.iter().enumerate() {
                let misfit = match self.place(at, name) {
                    Some(place) => push_into(&mut self.columns[place], value.get())
                        .map_err(|error| damaged(key, &error))?,
                    None => Some(Misfit {
                        path: String::new(),
                        found: "there",
                        wanted: "left out, for the schema does not have it",
                    }),
                };
                if let Some(misfit) = misfit {
                    self.left_over(key, Some((name, value)), misfit, &mut rest)?;
                }
            }
        } else {
            let found = Datum::parse(text).map_err(|error| damaged(key, &error))?.kind();
            let misfit =
                Misfit { path: String::new(), found, wanted: "an object, whose members are columns" };
            self.left_over(key, None, misfit, &mut rest)?;
            text.clone_into(&mut rest);
        }
        self.keys.append_value(key);
        for column in &mut self.columns {
            if column.len() == row {
                column.push_null();
            }
        }
        match rest.as_str() {
            _ if self.misfits == Misfits::Refuse => {}
            "" => self.rest.append_null(),
            members if members.starts_with(',') => self.rest.append_value(format!("{{{}}}", &members[1..])),
            whole => self.rest.append_value(whole),
        }
        Ok(())
    }

    /// Where the member of an object goes that is at a place in its text: mostly all objects have the same.
    fn place(&self, at: usize, name: &str) -> Option<usize> {
        let guess =
            self.schema.fields().get(at + 1).filter(|field| at < self.columns.len() && field.name() == name);
        guess.map(|_| at).or_else(|| self.places.get(name).copied())
    }

    /// Keeps what does not fit, or says so.
    fn left_over(
        &self,
        key: &str,
        member: Option<(&str, &RawValue)>,
        misfit: Misfit,
        rest: &mut String,
    ) -> Result<(), OutError> {
        if self.misfits == Misfits::Refuse {
            let Misfit { path, found, wanted } = misfit;
            let field = match member {
                Some((name, _)) => {
                    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
                    format!("field {:?}", format!("{name}{dot}{path}"))
                }
                None => "the whole".to_owned(),
            };
            return Err(OutError::Misfit { row: format!("document {key:?}"), field, found, wanted });
        }
        if let Some((name, value)) = member {
            rest.push(',');
            rest.push_str(&serde_json::Value::from(name).to_string());
            rest.push(':');
            rest.push_str(value.get());
        }
        Ok(())
    }
}

/// Puts a value into its column; says why if it does not fit.
fn push_into(column: &mut Column, text: &str) -> Result<Option<Misfit>, serde_json::Error> {
    if matches!(column, Column::Json(_)) && text != "null" {
        column.push_text(text);
        return Ok(None);
    }
    let datum = Datum::parse(text)?;
    match column.fits(&datum) {
        Ok(()) => column.push(&datum),
        Err(misfit) => return Ok(Some(misfit)),
    }
    Ok(None)
}

fn has_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary => true,
        DataType::List(item) => has_bytes(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_bytes(field.data_type())),
        _ => false,
    }
}

/// The fields that the first documents have, in the order in which they first come.
fn sampled<S: Scope>(space: &Space<'_, S>, options: &DocumentOptions) -> Result<Vec<Field>, OutError> {
    let mut shapes: IndexMap<String, Shape> = IndexMap::new();
    let (mut rows, mut failed) = (0, None);
    if options.sample_rows > 0 {
        space.json().scan(&options.prefix, |key, text| {
            rows += 1;
            match see(&mut shapes, text) {
                Err(error) => failed = Some(damaged(key, &error)),
                Ok(()) if shapes.len() > COLUMNS_MAX => {
                    failed = Some(OutError::TooManyColumns { found: shapes.len(), max: COLUMNS_MAX });
                }
                Ok(()) if rows < options.sample_rows => return ControlFlow::Continue(()),
                Ok(()) => {}
            }
            ControlFlow::Break(())
        })?;
    }
    match failed {
        Some(error) => Err(error),
        None => {
            let most = COLUMNS_MAX - 1 - usize::from(options.misfits.column().is_some());
            Ok(narrowed(shapes.iter().map(|(name, shape)| shape.field(name)).collect(), most))
        }
    }
}

/// The same with so many columns at most, if that can be: the fields that have most are JSON text.
fn narrowed(mut fields: Vec<Field>, most: usize) -> Vec<Field> {
    let counted = |(place, field): (usize, &Field)| (leaves(field.data_type()), place);
    let mut counts: Vec<_> = fields.iter().enumerate().map(counted).collect();
    let mut all = counts.iter().map(|(count, _)| count).sum::<usize>();
    counts.sort_unstable();
    while all > most {
        let Some((count @ 2.., place)) = counts.pop() else { break };
        fields[place] = json_text(fields[place].name());
        all -= count - 1;
    }
    fields
}

fn see(shapes: &mut IndexMap<String, Shape>, text: &str) -> Result<(), serde_json::Error> {
    if !text.starts_with('{') {
        return Ok(());
    }
    let Members(members) = serde_json::from_str(text)?;
    for (name, value) in members {
        let datum = Datum::parse(value.get())?;
        match shapes.get_mut(&*name) {
            Some(shape) => shape.see(&datum, 0),
            None => shapes.entry(name.into_owned()).or_default().see(&datum, 0),
        }
    }
    Ok(())
}
