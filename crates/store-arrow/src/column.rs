//! A column of a batch that is filled, value by value.

use std::any::Any;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    NullBufferBuilder, StringBuilder,
};
use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use serde_json::Value as Json;

use crate::datum::{is_exact, Datum};
use crate::json_text::is_json_text;

/// Why a value does not fit a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Where in the value, from the outside in; empty for the value itself.
    pub(crate) path: String,
    pub(crate) found: &'static str,
    pub(crate) wanted: &'static str,
}

impl Misfit {
    fn within(mut self, outer: &str) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{dot}{}", self.path);
        self
    }
}

/// A column on its way.
#[derive(Debug)]
pub(crate) enum Column {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// The texts of values of any kind.
    Json(StringBuilder),
    List(Box<ListBuilder<Column>>),
    Struct(Box<Members>),
}

#[derive(Debug)]
pub(crate) struct Members {
    fields: Fields,
    columns: Vec<Column>,
    nulls: NullBufferBuilder,
}

/// A field that may be null, and so may all that is in it: documents leave out what they like.
pub(crate) fn nullable(field: &Field) -> Field {
    let inner = match field.data_type() {
        DataType::List(item) => DataType::List(Arc::new(nullable(item))),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| nullable(field)).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(inner).with_nullable(true)
}

/// How many columns a file has for one of this type: those in structs and lists are counted singly.
pub(crate) fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => leaves(item.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        _ => 1,
    }
}

impl Column {
    /// A column of a type; the type if it is none that values are made of.
    pub(crate) fn new(field: &Field) -> Result<Column, DataType> {
        Ok(match field.data_type() {
            DataType::Boolean => Column::Bool(BooleanBuilder::new()),
            DataType::Int64 => Column::Int(Int64Builder::new()),
            DataType::Float64 => Column::Float(Float64Builder::new()),
            DataType::Utf8 if is_json_text(field) => Column::Json(StringBuilder::new()),
            DataType::Utf8 => Column::Text(StringBuilder::new()),
            DataType::Binary => Column::Bytes(BinaryBuilder::new()),
            DataType::List(item) => {
                let items = ListBuilder::new(Column::new(item)?).with_field(FieldRef::clone(item));
                Column::List(Box::new(items))
            }
            DataType::Struct(fields) if !fields.is_empty() => {
                let columns = fields.iter().map(|field| Column::new(field)).collect::<Result<_, _>>()?;
                let nulls = NullBufferBuilder::new(0);
                Column::Struct(Box::new(Members { fields: fields.clone(), columns, nulls }))
            }
            other => return Err(other.clone()),
        })
    }

    /// Whether a value can be pushed. Nothing can be taken back, so this is asked first.
    pub(crate) fn fits(&self, datum: &Datum<'_>) -> Result<(), Misfit> {
        let wanted = match (self, datum) {
            (_, Datum::Null)
            | (Column::Bool(_), Datum::Bool(_))
            | (Column::Int(_), Datum::Int(_))
            | (Column::Float(_), Datum::Float(_))
            | (Column::Text(_), Datum::Text(_))
            | (Column::Bytes(_), Datum::Bytes(_)) => return Ok(()),
            (Column::Json(_), Datum::Float(float)) if !float.is_finite() => "JSON, which has no such number",
            (Column::Json(_), Datum::Bytes(_)) => "JSON",
            (Column::Json(_), _) => return Ok(()),
            (Column::Float(_), Datum::Int(integer)) if is_exact(*integer) => return Ok(()),
            (Column::List(items), Datum::Json(json)) if json.is_array() => {
                let elements = json.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate();
                let item = items.values_ref();
                for (index, element) in elements {
                    item.fits(&Datum::of(element)).map_err(|misfit| misfit.within(&format!("[{index}]")))?;
                }
                return Ok(());
            }
            (Column::Struct(members), Datum::Json(json)) if json.is_object() => {
                for (name, member) in json.as_object().into_iter().flatten() {
                    let Some((index, _)) = members.fields.find(name) else {
                        let found = Datum::of(member).kind();
                        let wanted = "left out, for the schema does not have it";
                        return Err(Misfit { path: name.clone(), found, wanted });
                    };
                    let fits = members.columns[index].fits(&Datum::of(member));
                    fits.map_err(|misfit| misfit.within(name))?;
                }
                return Ok(());
            }
            (Column::Bool(_), _) => "a boolean",
            (Column::Int(_), _) => "an integer of 64 bits",
            (Column::Float(_), _) => "a float",
            (Column::Text(_), _) => "text",
            (Column::Bytes(_), _) => "bytes",
            (Column::List(_), _) => "a list",
            (Column::Struct(_), _) => "an object",
        };
        Err(Misfit { path: String::new(), found: datum.kind(), wanted })
    }

    /// Takes a value that fits.
    pub(crate) fn push(&mut self, datum: &Datum<'_>) {
        match (self, datum) {
            (Column::Bool(to), Datum::Bool(value)) => to.append_value(*value),
            (Column::Int(to), Datum::Int(value)) => to.append_value(*value),
            (Column::Float(to), Datum::Float(value)) => to.append_value(*value),
            (Column::Float(to), Datum::Int(value)) => to.append_value(*value as f64),
            (Column::Text(to), Datum::Text(text)) => to.append_value(text),
            (Column::Bytes(to), Datum::Bytes(bytes)) => to.append_value(bytes),
            (Column::Json(to), datum) if !matches!(datum, Datum::Null) => to.append_value(text_of(datum)),
            (Column::List(to), Datum::Json(json)) if json.is_array() => {
                for element in json.as_array().into_iter().flatten() {
                    to.values().push(&Datum::of(element));
                }
                to.append(true);
            }
            (Column::Struct(to), Datum::Json(json)) if json.is_object() => {
                for (field, column) in to.fields.iter().zip(&mut to.columns) {
                    column.push(&json.get(field.name()).map_or(Datum::Null, Datum::of));
                }
                to.nulls.append_non_null();
            }
            (column, datum) => {
                debug_assert!(matches!(datum, Datum::Null), "a value that was not asked for");
                column.push_null();
            }
        }
    }

    /// Takes JSON as it is written, into a column of such text.
    pub(crate) fn push_text(&mut self, text: &str) {
        match self {
            Column::Json(to) | Column::Text(to) => to.append_value(text),
            other => other.push_null(),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Column::Bool(to) => to.append_null(),
            Column::Int(to) => to.append_null(),
            Column::Float(to) => to.append_null(),
            Column::Text(to) | Column::Json(to) => to.append_null(),
            Column::Bytes(to) => to.append_null(),
            Column::List(to) => to.append(false),
            Column::Struct(to) => {
                to.columns.iter_mut().for_each(Column::push_null);
                to.nulls.append_null();
            }
        }
    }
}

impl Members {
    fn array(&mut self, mut finish: impl FnMut(&mut Column) -> ArrayRef) -> ArrayRef {
        let arrays = self.columns.iter_mut().map(&mut finish).collect();
        let nulls = self.nulls.finish();
        Arc::new(StructArray::new(self.fields.clone(), arrays, nulls))
    }
}

/// A value as JSON.
fn text_of(datum: &Datum<'_>) -> String {
    match datum {
        Datum::Null | Datum::Bytes(_) => Json::Null.to_string(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(value) => value.to_string(),
        Datum::Float(value) => Json::from(*value).to_string(),
        Datum::Text(text) => Json::from(&**text).to_string(),
        Datum::Json(json) => json.to_string(),
    }
}

impl ArrayBuilder for Column {
    fn len(&self) -> usize {
        match self {
            Column::Bool(of) => of.len(),
            Column::Int(of) => of.len(),
            Column::Float(of) => of.len(),
            Column::Text(of) | Column::Json(of) => of.len(),
            Column::Bytes(of) => of.len(),
            Column::List(of) => of.len(),
            Column::Struct(of) => of.nulls.len(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Bool(of) => ArrayBuilder::finish(of),
            Column::Int(of) => ArrayBuilder::finish(of),
            Column::Float(of) => ArrayBuilder::finish(of),
            Column::Text(of) | Column::Json(of) => ArrayBuilder::finish(of),
            Column::Bytes(of) => ArrayBuilder::finish(of),
            Column::List(of) => Arc::new(of.finish()),
            Column::Struct(of) => of.array(ArrayBuilder::finish),
        }
    }

    fn finish_cloned(&self) -> ArrayRef {
        match self {
            Column::Bool(of) => ArrayBuilder::finish_cloned(of),
            Column::Int(of) => ArrayBuilder::finish_cloned(of),
            Column::Float(of) => ArrayBuilder::finish_cloned(of),
            Column::Text(of) | Column::Json(of) => ArrayBuilder::finish_cloned(of),
            Column::Bytes(of) => ArrayBuilder::finish_cloned(of),
            Column::List(of) => Arc::new(of.finish_cloned()),
            Column::Struct(of) => {
                let arrays = of.columns.iter().map(ArrayBuilder::finish_cloned).collect();
                Arc::new(StructArray::new(of.fields.clone(), arrays, of.nulls.finish_cloned()))
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_box_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
