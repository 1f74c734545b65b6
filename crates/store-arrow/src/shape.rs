//! What values are like, as far as a sample of them shows.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::datum::{is_exact, Datum};
use crate::json_text::json_text;

/// How deep lists and objects are columns of their own; what is deeper is JSON text.
const DEPTH_MAX: usize = 5;
/// The most members that the objects of one field have as columns: objects with more are maps, and JSON text.
const MEMBERS_MAX: usize = 256;

/// What the values of a field are like.
#[derive(Clone, Debug, Default)]
pub(crate) enum Shape {
    /// Nothing but nulls.
    #[default]
    Nothing,
    Bool,
    Int {
        /// Whether each has a float that is the same.
        are_exact: bool,
    },
    Float,
    Text,
    Bytes,
    List(Box<Shape>),
    Object(IndexMap<String, Shape>),
    /// Of several kinds, or of one that no column has.
    Mixed,
}

impl Shape {
    /// Sees one value more.
    pub(crate) fn see(&mut self, datum: &Datum<'_>, depth: usize) {
        match (&mut *self, datum) {
            (_, Datum::Null)
            | (Shape::Mixed, _)
            | (Shape::Bool, Datum::Bool(_))
            | (Shape::Float, Datum::Float(_))
            | (Shape::Text, Datum::Text(_))
            | (Shape::Bytes, Datum::Bytes(_)) => {}
            (Shape::Nothing, Datum::Bool(_)) => *self = Shape::Bool,
            (Shape::Nothing, Datum::Int(integer)) => *self = Shape::Int { are_exact: is_exact(*integer) },
            (Shape::Nothing, Datum::Float(_)) => *self = Shape::Float,
            (Shape::Nothing, Datum::Text(_)) => *self = Shape::Text,
            (Shape::Nothing, Datum::Bytes(_)) => *self = Shape::Bytes,
            (Shape::Int { are_exact }, Datum::Int(integer)) => *are_exact &= is_exact(*integer),
            (Shape::Int { are_exact: true }, Datum::Float(_)) => *self = Shape::Float,
            (Shape::Float, Datum::Int(integer)) if is_exact(*integer) => {}
            (_, Datum::Json(json)) if depth < DEPTH_MAX => self.see_deep(json, depth),
            _ => *self = Shape::Mixed,
        }
    }

    fn see_deep(&mut self, json: &Json, depth: usize) {
        match (&mut *self, json) {
            (Shape::Nothing, Json::Array(_)) => {
                *self = Shape::List(Box::default());
                self.see_deep(json, depth);
            }
            (Shape::Nothing, Json::Object(_)) => {
                *self = Shape::Object(IndexMap::new());
                self.see_deep(json, depth);
            }
            (Shape::List(item), Json::Array(elements)) => {
                elements.iter().for_each(|element| item.see(&Datum::of(element), depth + 1));
            }
            (Shape::Object(members), Json::Object(seen)) => {
                for (name, member) in seen {
                    members.entry(name.clone()).or_default().see(&Datum::of(member), depth + 1);
                }
                if members.len() > MEMBERS_MAX {
                    *self = Shape::Mixed;
                }
            }
            _ => *self = Shape::Mixed,
        }
    }

    /// The column for it. Of what nothing is known, as of empty lists and objects, there is JSON text.
    pub(crate) fn field(&self, name: &str) -> Field {
        match self.data_type() {
            Some(data_type) => Field::new(name, data_type, true),
            None => json_text(name),
        }
    }

    fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Shape::Bool => DataType::Boolean,
            Shape::Int { .. } => DataType::Int64,
            Shape::Float => DataType::Float64,
            Shape::Text => DataType::Utf8,
            Shape::Bytes => DataType::Binary,
            // Of elements that are only null or empty nothing is known, and so not of the list.
            Shape::List(item) if item.is_known() => {
                DataType::List(Arc::new(item.field(Field::LIST_FIELD_DEFAULT_NAME)))
            }
            Shape::Object(members) if !members.is_empty() => {
                DataType::Struct(members.iter().map(|(name, shape)| shape.field(name)).collect())
            }
            Shape::List(_) | Shape::Object(_) | Shape::Nothing | Shape::Mixed => return None,
        })
    }

    fn is_known(&self) -> bool {
        !matches!(self, Shape::Nothing)
    }
}
